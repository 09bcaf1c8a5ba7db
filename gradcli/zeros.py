"""Why a gradient is exactly zero: a step, a branch that is not selected, a corner, a factor that is 0, a cancellation.

From the name towards the output, each operation's own slopes are evaluated at the point; the first that are zero on
every way are the cause.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from gradcli.calculus.adjoint import depends, pull
from gradcli.calculus.simplify import simplify
from gradcli.calculus.specialise import specialise
from gradcli.cotangent import Cotangent
from gradcli.engine import execute
from gradcli.engine.program import schedule
from gradcli.graph import Graph
from gradcli.language.resolved import Name
from gradcli.results import Number
from gradcli.source import Source, Span

if TYPE_CHECKING:
    from gradcli.api import Program

Reason: TypeAlias = tuple[str, str | None, Span | None]
"""One sentence, a remedy where there is one, and the place that is the cause."""

_STEPS = frozenset(("floor", "ceil", "round", "trunc", "sign", "step", "floordiv"))
_EXTREMES = frozenset(("max", "min", "max_rows", "min_rows"))
_CORNERS = frozenset(("abs", "relu", "relu6"))
_MOST_SLOPES = 20_000  # edges whose slopes are evaluated; in larger models the cause is looked for by name alone
_LONGEST = 40


def why_zero(program: Program, name: Name, values: Mapping[str, Number]) -> Reason:
    """The cause of a gradient that is zero in every row."""
    resolved = program.model.resolved
    columns = {label for label, value in values.items() if not isinstance(value, float)}
    output = resolved.names[program.output].node
    graph, at = specialise(resolved.graph, columns, [output, name.node])
    edges = _edges(graph, at[name.node], at[output])
    if not columns and len(edges) <= _MOST_SLOPES:
        found = _first_flat(graph, edges, at[name.node], at[output], values)
    else:
        found = next(((node, a) for node, a in edges if graph.ops[node] in _STEPS), None)
    if found is None:
        return _cancelled(program, graph, edges)
    return _Cause(program, graph, values).describe(*found)


def _edges(graph: Graph, source: int, target: int) -> list[tuple[int, int]]:
    """`(node, argument)` wherever the gradient of `source` passes on its way to `target`."""
    flows, reach = depends(graph, (source,), target), graph.reachable((target,))
    return [
        (node, a)
        for node in range(source + 1, target + 1)
        if flows[node] and reach[node]
        for a in dict.fromkeys(graph.arguments(node))
        if flows[a]
    ]


def _first_flat(
    graph: Graph, edges: list[tuple[int, int]], source: int, target: int, values: Mapping[str, Number]
) -> tuple[int, int] | None:
    """The first edge with slope zero at the point; None when the gradient reaches the output and cancels there."""
    slopes = [_slope(graph, node, a) for node, a in edges]
    numbers = _evaluated(graph, [s for s in slopes if s is not None], values)
    alive, first = {source}, None
    for (node, a), slope in zip(edges, slopes, strict=True):
        if a in alive:
            if slope is not None and numbers[slope] != 0:
                alive.add(node)
            else:
                first = first or (node, a)
    return None if target in alive else first


def _slope(graph: Graph, node: int, argument: int) -> int | None:
    """The derivative of one operation by one of its operands, as a node; None where it is zero everywhere."""
    arguments = list(graph.arguments(node))
    pulled = zip(arguments, pull(graph, node, Cotangent.seed(graph), arguments), strict=True)
    parts = [part for a, part in pulled if a == argument and part is not None]
    if not parts:
        return None
    total = Cotangent.total(parts)
    return None if total.is_zero else total.node()


def _evaluated(graph: Graph, nodes: list[int], values: Mapping[str, Number]) -> dict[int, float]:
    machine, placed = simplify(graph, nodes)
    numbers = execute.run(schedule(machine, placed), values, 1)
    return {n: float(np.ravel(x)[0]) for n, x in zip(nodes, numbers, strict=True)}


def _cancelled(program: Program, graph: Graph, edges: list[tuple[int, int]]) -> Reason:
    """No single operation is flat: what reaches the output adds up to zero."""
    source = program.model.source
    tied = next((node for node, _ in edges if graph.ops[node] in _EXTREMES | {"abs"}), None)
    if tied is not None and (span := _span(source, graph, tied)):
        fact = f"zero: {_text(span)} is at a tie or corner here, and the slopes on its sides cancel"
        return fact, "move the point to one side of it", span
    return f"zero: what it adds to `{program.output}` on several ways cancels at this point", None, None


class _Cause:
    """Words for the operation that is flat at the point."""

    def __init__(self, program: Program, graph: Graph, values: Mapping[str, Number]) -> None:
        self.source, self.graph, self.values = program.model.source, graph, values

    def describe(self, node: int, argument: int) -> Reason:
        graph, op = self.graph, self.graph.ops[node]
        span = _span(self.source, graph, node)
        what = f"{_text(span)} on line {span.line}" if span else f"`{op}`"
        if op in _STEPS:
            return f"zero: {what} is a step, flat on both sides", "use a smooth function where a slope is wanted", span
        place = list(graph.arguments(node)).index(argument)
        if op == "where":
            return (
                f"zero: {what} does not select it at this point",
                "move the point to where its condition says so",
                span,
            )
        if op in _EXTREMES:
            return f"zero: {what} does not select it at this point", "move the point to where it is the one taken", span
        if op in _CORNERS:
            return self._corner(op, what, node, span)
        if op in ("mul", "div"):
            factor = self._factor(op, node, place)
            return (
                f"zero: in {what} it is multiplied by {factor}, which is 0 here",
                "move the point to where it is not",
                span,
            )
        return f"zero: the slope of {what} is 0 at this point", "move the point to see a slope", span

    def _corner(self, op: str, what: str, node: int, span: Span | None) -> Reason:
        inner = self.graph.arguments(node)[0]
        at = _evaluated(self.graph, [inner], self.values)[inner]
        if at == 0 or (op == "relu6" and at == 6):
            return (
                f"zero: {what} is at its corner, where its slope is taken to be 0",
                "move the point to one side",
                span,
            )
        return f"zero: {what} is flat at this point", "move the point to where it rises", span

    def _factor(self, op: str, node: int, place: int) -> str:
        """What multiplies the gradient: the other factor, or the quotient."""
        if op == "div":
            return "the quotient" if place else "1 over the divisor"
        other = self.graph.arguments(node)[1 - place]
        if other in self.graph.labels:
            return f"`{self.graph.labels[other]}`"
        span = _span(self.source, self.graph, other)
        return _text(span) if span else "the other factor"


def _span(source: Source, graph: Graph, node: int) -> Span | None:
    start = graph.starts[node]
    return Span(source, start, graph.ends[node]) if start >= 0 else None


def _text(span: Span) -> str:
    text = " ".join(span.text.split())
    return f"`{text if len(text) <= _LONGEST else text[: _LONGEST - 3] + '...'}`"
