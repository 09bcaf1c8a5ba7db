"""Where a nan or an infinity first arose: line, sub-expression, operand values, row, and how many rows."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from gradcli.calculus.adjoint import adjoints
from gradcli.calculus.simplify import simplify
from gradcli.calculus.specialise import specialise
from gradcli.engine import execute
from gradcli.engine.program import schedule
from gradcli.errors import Diagnostic
from gradcli.graph import Graph
from gradcli.primitives import TABLE
from gradcli.results import Number, Result
from gradcli.source import Span

if TYPE_CHECKING:
    from gradcli.api import Program

_ROOM = 30_000_000  # numbers that may be kept to find the origin among rows that a reduction joins


def trouble(program: Program, result: Result, values: Mapping[str, Number]) -> list[Diagnostic]:
    """A note for the value, and one for the gradients where the value is finite, with the first place of each."""
    bad, total = _bad_rows(result.value)
    if bad.size:
        return [_note(program, values, result.output, None, bad, total)]
    for name, gradient in {**result.gradients, **result.retained}.items():
        if gradient is not None:
            bad, total = _bad_rows(gradient)
            if bad.size:
                return [_note(program, values, f"{name}.grad", name, bad, total)]
    return []


def _bad_rows(number: Number) -> tuple[Any, int]:
    array = np.atleast_1d(number)
    return np.flatnonzero(~np.isfinite(array)), len(array)


def _note(
    program: Program, values: Mapping[str, Number], label: str, by: str | None, bad: Any, total: int
) -> Diagnostic:
    row = int(bad[0])
    found = _trace(program, values, by, row)
    rows = f" in {len(bad)} of {total} rows, first in row {row + 1}" if total > 1 else ""
    if found is None:
        return Diagnostic(f"`{label}` is not finite{rows}", severity="note")
    kind, origin, span, operands, at = found
    text = span.text if span else ""
    text = text if len(text) <= 60 else text[:57] + "..."
    what = "it arose" if kind == origin else f"the first {origin} arose"
    slope = "the slope of " if by is not None else ""
    where = f": {what} in {slope}`{text}`" if text else ""
    shown = f" with {operands}" if operands else ""
    shown += f" in row {at + 1}" if at is not None and total == 1 else ""
    number = "is not finite" if total > 1 else f"is {kind}"
    return Diagnostic(f"`{label}` {number}{rows}{where}{shown}", span, severity="note")


def _trace(
    program: Program, values: Mapping[str, Number], by: str | None, row: int
) -> tuple[str, str, Span | None, str, int | None] | None:
    """The first node on the way to the result that is not finite though its operands are: the kind of the result and of
    that node, its place, its operands, and its row where it is a column."""
    resolved = program.model.resolved
    names = resolved.names
    reduces = any(TABLE[op].reduction for op in set(resolved.graph.ops) if op in TABLE)
    point: dict[str, Number] = dict(values)
    if not reduces:
        point = {n: v if isinstance(v, float) else float(v[row]) for n, v in values.items()}
    columns = {n for n, v in point.items() if not isinstance(v, float)}
    rows = max((len(v) for v in point.values() if not isinstance(v, float)), default=1)
    roots = [names[program.output].node, *([names[by].node] if by else [])]
    graph, at = specialise(resolved.graph, columns, roots)
    output = root = at[roots[0]]
    if by is not None:
        root = adjoints(graph, root, (at[roots[1]],))[at[roots[1]]]
    order = [n for n, mark in enumerate(graph.reachable((root, output))) if mark]
    if len(order) * rows > _ROOM:
        return None
    machine, placed = simplify(graph, order)
    numbers = dict(zip(order, execute.run(schedule(machine, placed), point, rows), strict=True))
    row = row if not reduces else _first_bad(numbers[root])
    result = _kind(_at(numbers[root], row))
    node, row = _origin(graph, root, numbers, row)
    start = graph.starts[node]
    span = Span(resolved.source, start, graph.ends[node]) if start >= 0 else None
    arguments = _operands(resolved.graph, at, graph, node)
    operands = ", ".join(
        f"{_spelled(program, graph, a)} = {_at(numbers[a], row)!r}"
        for a in arguments
        if a in numbers and graph.number(a) is None
    )
    column = not isinstance(numbers[node], float)
    return result, _kind(_at(numbers[node], row)), span, operands, row if column else None


def _kind(number: float) -> str:
    return "nan" if number != number else "inf" if number > 0 else "-inf"


def _at(number: Number, row: int) -> float:
    return number if isinstance(number, float) else float(number[min(row, len(number) - 1)])


def _first_bad(number: Number) -> int:
    return int(np.argmin(np.isfinite(np.atleast_1d(number))))


def _origin(graph: Graph, root: int, numbers: Mapping[int, Number], row: int) -> tuple[int, int]:
    """From the result back along operands that are not finite, to a node and its row; what `where` did not select is
    not followed."""
    node = root
    while True:
        arguments = list(graph.arguments(node))
        if graph.ops[node] == "where":
            arguments = [arguments[1] if _at(numbers[arguments[0]], row) else arguments[2]]
        if graph.ops[node] == "_taint":
            arguments = arguments[::-1]
        if TABLE[graph.ops[node]].reduction if graph.ops[node] in TABLE else False:
            row = _first_bad(numbers[arguments[0]])
        worse = [a for a in arguments if graph.number(a) is None and not np.isfinite(_at(numbers[a], row))]
        if not worse:
            return node, row
        node = min(worse)


def _operands(text: Graph, at: array[int], graph: Graph, node: int) -> list[int]:
    """The operands that the text has where a node comes from: a rule, or the formula of a function, has others."""
    place = graph.starts[node], graph.ends[node]
    for own in range(len(text) - 1, -1, -1) if place[0] >= 0 else ():
        if (text.starts[own], text.ends[own]) == place and text.ops[own] not in ("name", "leaf", "constant"):
            return list(dict.fromkeys(at[a] for a in text.arguments(own)))
    return list(dict.fromkeys(graph.arguments(node)))


def _spelled(program: Program, graph: Graph, node: int) -> str:
    if node in graph.labels:
        label = graph.labels[node]
        return "[...]" if label.startswith("\n") else label
    start, end = graph.starts[node], graph.ends[node]
    text = program.model.source.text[start:end] if start >= 0 else "?"
    return text if len(text) <= 40 else text[:37] + "..."
