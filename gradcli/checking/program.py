"""Other programs at work: sampled points go in, values and gradients come back."""

from __future__ import annotations

import math
import os
import shlex
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gradcli.api import Model
from gradcli.checking.against import Tolerance, check_table
from gradcli.checking.names import placed, sampled_names
from gradcli.checking.points import Floats, Point, Sampler, seed_of
from gradcli.checking.table import Table, parse_csv
from gradcli.errors import BindingError, FileError, GradcliError, did_you_mean, shown
from gradcli.verdicts import Check


def points_for(model: Model, output: str, count: int, seed: int) -> tuple[list[Point], int]:
    """The file's own point and sampled ones at which the output is finite, and their seed. Raises BindingError."""
    resolved = model.resolved
    node = resolved.names[output].node
    needed = sampled_names(model, [node])
    seed = seed_of(f"against {output} by {' '.join(n.label for n in needed)}", seed)
    sampler = Sampler(resolved, model.point, needed, seed)
    value = Floats(resolved, [node])
    found = [sampler.own] if sampler.own is not None else []
    for tries, point in enumerate(sampler.stream()):
        if len(found) > count or tries > 40 * count:
            break
        rows = value(point)
        if rows is not None and all(map(math.isfinite, rows[0])):
            found.append(point)
    if not found:
        span = resolved.domains[0].span if resolved.domains else resolved.names[output].span
        raise BindingError.of(f"no valid point of `{output}` was found", span, "give a `domain` in which it is defined")
    return found, seed


def check_command(
    model: Model, output: str, program: str, count: int, seed: int, how: Tolerance, limit: float
) -> list[Check]:
    """A program that reads points as CSV with a header and answers with columns for the value and the gradients.

    A crash, a hang, a missing column and a short answer are a check that is wrong. Raises FileError where there is no
    such program.
    """
    points, seed = points_for(model, output, count, seed)
    if any(isinstance(v, list) for v in points[0].values()):
        raise BindingError.of("a program gets one number for each name, and this model has columns",
                              help="give scalar values on the command line")  # fmt: skip
    names = list(points[0])
    text = "\n".join([",".join(map(_cell, names)), *(",".join(repr(p[n]) for n in names) for p in points)]) + "\n"
    try:
        answer, fault = _ask(program, text.encode(), limit)
        table = parse_csv(answer, "the answer") if fault is None else Table("the answer", {})
        fault = fault or _short(table, len(points))
        if fault is not None:
            return [_failed(model, output, program, fault, seed)]
        absent = [f"d{output}_d{n}" for n in sorted(model.compile(output).filled - {output}) if n not in how.columns]
        absent = [c for c in absent if c not in table.columns]
        if absent:
            return [_failed(model, output, program, f"its answer has no column {shown(absent[0])}", seed)]
        merged = {n: [p[n] for p in points] for n in names}
        both = Table("the answer", {**table.columns, **merged}, 2)
        return [_seeded(c, seed) for c in check_table(model, output, both, how)]
    except _NoProgram as missing:
        raise FileError.of(str(missing), help="check the path of the program") from None
    except GradcliError as bad:
        return [_failed(model, output, program, "; ".join(d.message for d in bad.diagnostics), seed)]


class _NoProgram(Exception):
    pass


def _cell(name: str) -> str:
    return f'"{name.replace(chr(34), chr(34) * 2)}"' if set(name) & set(',"\n') else name


def _ask(program: str, text: bytes, limit: float) -> tuple[bytes, str | None]:
    """Standard output of a program, and what went wrong."""
    try:
        words = shlex.split(program)
    except ValueError as fault:
        raise _NoProgram(f"{shown(program)} cannot be split into words: {fault}") from None
    if not words:
        raise _NoProgram(f"{shown(program)} names no program")
    try:
        child = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                 start_new_session=True)  # fmt: skip
    except (OSError, ValueError) as fault:
        reason = (getattr(fault, "strerror", None) or str(fault)).lower()
        raise _NoProgram(f"cannot run {shown(program)}: {reason}") from None
    try:
        out, err = child.communicate(text, timeout=limit)
    except subprocess.TimeoutExpired:
        _end(child)
        return b"", f"no answer within {limit:g} s: the program was ended"
    if child.returncode:
        said = err.decode("utf-8", "replace").strip().splitlines()
        how = f"signal {-child.returncode}" if child.returncode < 0 else f"status {child.returncode}"
        return out, f"it ended with {how}" + (f": {said[-1][:200]}" if said else "")
    return out, None


def _end(child: subprocess.Popen[bytes]) -> None:
    """End a program and what it started."""
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except (OSError, AttributeError):
        child.kill()
    child.communicate()


def _short(table: Table, rows: int) -> str | None:
    if not table.columns:
        return "it answered nothing"
    return None if table.rows == rows else f"it answered {table.rows} rows for {rows} points"


def _failed(model: Model, output: str, program: str, fault: str, seed: int) -> Check:
    span = model.resolved.names[output].span
    return Check(kind="against", name=program[:80], text=output, verdict="wrong", points=0, output=output, seed=seed,
                 hint=fault, **placed(span))  # fmt: skip


def _seeded(check: Check, seed: int) -> Check:
    hint = check.hint.replace("row ", "point ", 1).replace(" rows are", " points are") if check.hint else None
    return replace(check, seed=seed, hint=hint)


def check_callable(
    model: Model, output: str, function: Callable[..., Any], count: int, seed: int, how: Tolerance
) -> list[Check]:
    """A Python function: called with the values by name, it returns the gradients, as a mapping by name or in the order
    of the leaves, or a pair of the value and these. Raises BindingError where the answer has another form."""
    points, seed = points_for(model, output, count, seed)
    leaves = [n for n in model.leaves if n != output]
    columns: dict[str, list[Any]] = {n: [p[n] for p in points] for n in points[0]}
    for point in points:
        value, gradients = _answer(function(**point), leaves)
        for name, number in gradients.items():
            columns.setdefault(f"d{output}_d{name}", []).append(_float(number, name))
        if value is not None:
            columns.setdefault(output, []).append(_float(value, output))
    if len({len(v) for v in columns.values()}) > 1:
        raise BindingError.of(
            "the function gives other gradients at other points", help="return the same names each time"
        )
    name = getattr(function, "__name__", "the function")
    return [_seeded(c, seed) for c in check_table(model, output, Table(name, columns), how)]


def _answer(found: Any, leaves: Sequence[str]) -> tuple[Any, dict[str, Any]]:
    value = None
    if isinstance(found, tuple) and len(found) == 2 and (isinstance(found[1], Mapping) or hasattr(found[1], "__len__")):
        value, found = found
    if isinstance(found, Mapping):
        unknown = [n for n in found if n not in leaves]
        if unknown:
            raise BindingError.of(f"the function gives a gradient by {shown(str(unknown[0]))}, which is no leaf",
                                  help=did_you_mean(str(unknown[0]), leaves))  # fmt: skip
        return value, dict(found)
    numbers = list(found) if hasattr(found, "__len__") else [found]
    if len(numbers) != len(leaves):
        raise BindingError.of(f"the function gives {len(numbers)} gradients for {len(leaves)} leaves",
                              help=f"return one for each of {', '.join(leaves[:8])}, or a mapping by name")  # fmt: skip
    return value, dict(zip(leaves, numbers, strict=True))


def _float(number: Any, name: str) -> float:
    try:
        return float(number)
    except (TypeError, ValueError):
        raise BindingError.of(f"the function gives no number for {shown(name)}") from None
