"""The graphs of one output for one set of columns: forward with the engine's adjoints, and the witness's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gradcli.api import Model, mixed_rows
from gradcli.calculus.adjoint import MixedRows, adjoints
from gradcli.calculus.exact import evaluate_all, numbers
from gradcli.calculus.specialise import expand, specialise
from gradcli.checking.exactly import exact
from gradcli.checking.witness import EXPANDED, Sweep
from gradcli.graph import Graph

Rows = list[Any]


@dataclass
class Shape:
    """`by` and `adjoint`: the node of each leaf and of the engine's gradient by it; `at` places the text's nodes."""

    graph: Graph
    at: Sequence[int]
    output: int
    by: dict[str, int]
    adjoint: dict[str, int]
    witness: Graph
    witness_output: int
    witness_by: dict[str, int]

    def values(self, leaves: Mapping[str, Any], digits: int, also: Sequence[int] = ()) -> list[Any]:
        """The exact value of every node that the output, its adjoints and `also` need."""
        return evaluate_all(self.graph, [self.output, *self.adjoint.values(), *also], leaves, digits)

    def sweep(self, values: list[Any], leaves: Mapping[str, Any], digits: int, sized: bool = True) -> Sweep:
        """The witness's adjoints at the same point."""
        if self.witness is not self.graph:
            values = evaluate_all(self.witness, [self.witness_output], leaves, digits)
        return Sweep(self.witness, self.witness_output, values, numbers(digits), digits, sized)


def raw(value: Any) -> Rows:
    """The mpf of each row."""
    return [v.value for v in value] if isinstance(value, list) else [value.value]


def shape_of(model: Model, output: str, leaves: Sequence[str], columns: frozenset[str]) -> Shape:
    """Raises GradientError where rows would mix."""
    resolved, names = model.resolved, model.resolved.names
    roots = [names[output].node, *(names[n].node for n in leaves)]
    literal = {resolved.graph.labels[n] for n in resolved.graph.lists}
    try:
        graph, at = specialise(resolved.graph, columns | literal, roots)
        top, last = at[roots[0]], len(graph) - 1
        by = {n: at[names[n].node] for n in leaves}
        found = adjoints(graph, top, by.values())
    except MixedRows as fault:
        raise mixed_rows(model, fault) from None
    zero = graph.constant(0.0)
    adjoint = {n: found.get(node, zero) for n, node in by.items()}
    witness, places = graph, list(range(last + 1))
    if EXPANDED & set(graph.ops[: last + 1]):
        witness, places = expanded(graph, last)
    return Shape(graph, at, top, by, adjoint, witness, places[top], {n: places[node] for n, node in by.items()})


def expanded(graph: Graph, last: int) -> tuple[Graph, list[int]]:
    """The same function with reductions such as var and norm written out, for the witness."""
    from gradcli.primitives import new_graph

    plain = new_graph()
    at: list[int] = []
    for node in range(last + 1):
        op = graph.ops[node]
        arguments = [at[a] for a in graph.arguments(node)]
        if op == "leaf":
            at.append(plain.leaf(graph.labels[node], bool(graph.columns[node])))
        elif op == "constant":
            at.append(plain.constant(*graph.numbers[node]))
        elif op == "name":
            at.append(plain.name(arguments[0], graph.labels[node]))
        elif op in EXPANDED:
            at.append(expand(plain, op, arguments))
        else:
            at.append(plain.add(op, *arguments))
    return plain, at


def conditioning(shape: Shape, name: str, row: int, leaves: Mapping[str, Any], most: int = 40) -> float | None:
    """The digits of a gradient that one rounding of each input leaves, whatever the formula; None for many inputs."""
    import mpmath

    places = [(n, i) for n, v in leaves.items() for i in range(len(v) if isinstance(v, list) else 1)]
    if len(places) > most or len(places) * len(shape.graph) > 100_000:
        return None
    node = shape.adjoint[name]
    base = _at(exact(shape.graph, [node], leaves)[0], row)
    total = mpmath.mpf(0)
    for label, index in places:
        given = leaves[label]
        with mpmath.workdps(60):
            number = mpmath.mpf(given[index] if isinstance(given, list) else given) * (1 + mpmath.mpf(10) ** -25)
        moved = [*given[:index], number, *given[index + 1 :]] if isinstance(given, list) else number
        there = _at(exact(shape.graph, [node], {**leaves, label: moved})[0], row)
        if there == there:
            total += abs(there - base) * mpmath.mpf(10) ** 25
    if not total or not base or base != base:
        return None
    return max(0.0, min(15.95, round(float(-mpmath.log10(total / abs(base) * 2.0**-53)), 1)))


def _at(rows: Rows, row: int) -> Any:
    return rows[row] if len(rows) > row else rows[0]
