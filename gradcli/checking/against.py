"""Other programs' gradients: every row of a table against the exact gradient at its inputs."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gradcli.api import Model
from gradcli.checking.exactly import DIGITS, is_nan, leaves, slope_text, spell_both
from gradcli.checking.names import call, placed, point_text, sampled_names
from gradcli.checking.points import Point
from gradcli.checking.rounding import UNITS, bound
from gradcli.checking.shapes import Shape, raw, shape_of
from gradcli.checking.slopes import meet, one_sided
from gradcli.checking.table import Table
from gradcli.errors import BindingError, did_you_mean, shown
from gradcli.verdicts import Check

_INF = math.inf


@dataclass(frozen=True)
class Tolerance:
    """What a number is held to: relative or absolute, or else half a unit in its last digit or rounding itself."""

    rtol: float | None = None
    atol: float | None = None
    precision: str = "float64"
    columns: Mapping[str, str] = field(default_factory=dict)

    @property
    def given(self) -> bool:
        return self.rtol is not None or self.atol is not None

    def text(self, short: bool) -> str:
        """The bound in force, for a report."""
        if self.given:
            return f"rtol {self.rtol or 0.0:g}, atol {self.atol or 0.0:g}"
        rounding = f"the running error bound of {self.precision}"
        return f"half a unit in the last digit and {rounding}" if short else rounding


@dataclass
class _Judged:
    """One column so far: of the value (`by` is None) or of the gradient by a name."""

    by: str | None
    given: list[float]
    halves: list[float]
    wrong: int = 0
    first: dict[str, Any] | None = None
    kink: str | None = None


def check_table(model: Model, output: str, table: Table, how: Tolerance) -> list[Check]:
    """One check a column of the output's value or gradients. Raises BindingError and FileError."""
    names = model.resolved.names
    node = names[output].node
    needed = sampled_names(model, [node])
    grads = gradient_columns(model, output, table, how)
    inputs = {n.label: table.numbers(n.label) for n in needed if n.label in table.columns}
    missing = [n for n in needed if n.label not in inputs and n.label not in model.point]
    if missing:
        label = missing[0].label
        fact = f"{table.name} has no column {shown(label)}, and {shown(label)} has no value"
        remedy = did_you_mean(label, table.columns) or f"add the column, or give a value: `{label}=VALUE`"
        raise BindingError.of(fact, missing[0].span, remedy)
    judged = [_Judged(by, table.numbers(c), table.halves(c)) for by, c in grads.items()]
    if output in table.columns and output not in inputs:
        judged.append(_Judged(None, table.numbers(output), table.halves(output)))
    base = {n.label: model.point[n.label] for n in needed if n.label not in inputs}
    fixed: Point = {n: v if isinstance(v, float) else [float(x) for x in v] for n, v in base.items()}
    points = [fixed | {n: rounded_to(v[row], how.precision) for n, v in inputs.items()} for row in range(table.rows)]
    judge(model, output, judged, points, how)
    return [_check(model, output, j, table.rows, how, table.name) for j in judged]


def gradient_columns(model: Model, output: str, table: Table, how: Tolerance) -> dict[str, str]:
    """The column of each gradient: as `--column` says, or `do_dx`. Raises BindingError."""
    known = [n for n in model.leaves if n != output]
    found = {n: f"d{output}_d{n}" for n in known if f"d{output}_d{n}" in table.columns}
    for name, column in how.columns.items():
        label = model.find(name).label
        if column not in table.columns:
            raise BindingError.of(f"{table.name} has no column {shown(column)}",
                                  help=did_you_mean(column, table.columns) or _has(table))  # fmt: skip
        found[label] = column
    if not found and table.columns:
        wanted = ", ".join(shown(f"d{output}_d{n}") for n in known[:6])
        raise BindingError.of(f"{table.name} has no gradient column: {wanted or 'none is known'} would be",
                              help=f"say which with `--column NAME=COLUMN`; {_has(table)}")  # fmt: skip
    return found


def _has(table: Table) -> str:
    return f"it has {', '.join(shown(c) for c in list(table.columns)[:8]) or 'none'}"


def rounded_to(value: float, precision: str) -> float:
    with np.errstate(all="ignore"):
        return float(np.float32(value)) if precision == "float32" else value


def judge(model: Model, output: str, judged: Sequence[_Judged], points: Sequence[Point], how: Tolerance) -> None:
    """Every number of every row."""
    wanted = [j.by for j in judged if j.by is not None]
    shapes: dict[frozenset[str], Shape] = {}
    for row, point in enumerate(points):
        columns = frozenset(n for n, v in point.items() if isinstance(v, list))
        if columns not in shapes:
            shapes[columns] = shape_of(model, output, wanted, columns)
        shape, values = shapes[columns], leaves(model.resolved, point, own=False)
        numbers = shape.values(values, DIGITS)
        undefined = is_nan(raw(numbers[shape.output])[0])
        for j in judged:
            node = shape.output if j.by is None else shape.adjoint[j.by]
            truth = raw(numbers[node])[0] * (math.nan if undefined else 1)
            half, given = j.halves[row], j.given[row]
            if _within(given, truth, half, how) or _bounded(given, truth, half, how, shape, numbers, node):
                continue
            if j.by is not None and not undefined and _at_kink(given, half, shape, j, values, point):
                continue
            j.wrong += 1
            if j.first is None:
                both = spell_both(type(truth)(given), truth)
                j.first = {"point": point, "left": both[0], "right": both[1], "row": row + 1}


def _within(given: float, truth: Any, half: float, how: Tolerance) -> bool:
    """By the cheap bounds; equal infinities are equal, and so are two that are undefined."""
    if is_nan(truth) or given != given:
        return is_nan(truth) and given != given
    if given == truth or abs(truth) == _INF or abs(given) == _INF:
        return bool(given == truth)
    if how.given:
        return bool(abs(given - truth) <= max((how.rtol or 0.0) * abs(truth), how.atol or 0.0))
    return bool(abs(given - truth) <= half + 2 * UNITS[how.precision] * abs(truth))


def _bounded(
    given: float, truth: Any, half: float, how: Tolerance, shape: Shape, numbers: list[Any], node: int
) -> bool:
    if how.given or is_nan(truth) or abs(truth) == _INF or not math.isfinite(given):
        return False
    return bool(abs(given - truth) <= half + bound(shape.graph, numbers, node, UNITS[how.precision])[0])


def _at_kink(given: float, half: float, shape: Shape, j: _Judged, values: dict[str, Any], point: Point) -> bool:
    """Whether a number lies between the one-sided slopes at a kink; the kink is named."""
    if isinstance(point.get(j.by or ""), list):
        return False
    left, right = one_sided(shape, j.by or "", 0, values)
    if not left.known or not right.known or meet(left, right):
        return False
    low, high = sorted((left.value, right.value))
    if low - half <= given <= high + half:
        sides = f"slopes {slope_text(left.value)} and {slope_text(right.value)}"
        j.kink = j.kink or f"a kink at {point_text(point)}: {sides}"
        return True
    return False


def _check(model: Model, output: str, j: _Judged, rows: int, how: Tolerance, source: str) -> Check:
    span = model.resolved.names[output].span
    text = output if j.by is None else call(output, j.by)
    told = how.text(any(j.halves))
    check = Check(
        kind="against", name=f"d({output}, {j.by})" if j.by else output, text=text, **placed(span),
        verdict="wrong" if j.wrong else "agrees", points=rows,
        output=output, by=j.by, bound=told, note=j.kink,
    )  # fmt: skip
    if j.first is None:
        return check
    hint = f"row {j.first['row']} of {source}; {j.wrong} of {rows} rows are wrong; held to {told}"
    return replace(check, counterexample=j.first["point"], left=j.first["left"], right=j.first["right"],
                   row=j.first["row"], hint=hint)  # fmt: skip


def parse_columns(texts: Sequence[str]) -> dict[str, str]:
    """`x=dfdx` each. Raises BindingError."""
    found = {}
    for text in texts:
        name, equals, column = text.partition("=")
        name = re.sub(r"\A`(.*)`\Z", r"\1", name.strip(), flags=re.DOTALL)
        if not equals or not name or not column:
            raise BindingError.of(
                f"{shown(text)} names no column", help="write `--column NAME=COLUMN`, such as `x=dfdx`"
            )
        found[name] = column
    return found
