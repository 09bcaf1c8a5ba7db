"""The graph of a text becomes one for known shapes: composites are expanded, derivatives asked for with `d` appended.

Shapes are settled when values are bound; a program is specialised for the set of leaves that are columns.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable

from gradcli.calculus.adjoint import derivative
from gradcli.graph import Graph, Node
from gradcli.primitives import TABLE, new_graph


def _stays(text: Graph) -> bool:
    """Whether a text of scalars is a graph as it stands: no composites, no reductions, no derivatives asked for."""
    ops = set(text.ops)
    return "d" not in ops and not any(TABLE[op].composite or TABLE[op].reduction for op in ops if op in TABLE)


def specialise(text: Graph, columns: Collection[str], roots: Iterable[int]) -> tuple[Graph, array[int]]:
    """A new graph of what the roots need, and where each node of the text went (-1: nowhere).

    Raises MixedRows from a `d` that would mix rows.
    """
    if not columns and not text.lists and _stays(text):
        return text.copy(shaped=True), array("i", range(len(text)))
    graph = new_graph()
    at = array("i", (-1,)) * len(text)
    needed = text.reachable(roots)
    for node, op in enumerate(text.ops):
        if not needed[node]:
            continue
        graph.place = (text.starts[node], text.ends[node])
        if op == "leaf":
            at[node] = graph.leaf(text.labels[node], text.labels[node] in columns or node in text.lists)
        elif op == "constant":
            at[node] = graph.constant(*text.numbers[node])
        elif op == "name":
            at[node] = graph.name(at[text.arguments(node)[0]], text.labels[node])
        else:
            at[node] = build(graph, op, [at[a] for a in text.arguments(node)])
    return graph, at


def build(graph: Graph, op: str, arguments: list[int]) -> int:
    """One operation of the text; what is made of other rows is made of them here."""
    if op == "d":
        return derivative(graph, *arguments)
    if TABLE[op].composite:
        return expand(graph, op, arguments)
    return graph.add(op, *arguments)


def expand(graph: Graph, op: str, arguments: Iterable[int]) -> int:
    """The formula of a row, in other rows that have rules of their own."""
    formula = TABLE[op].formula
    if formula is None:
        return graph.add(op, *arguments)
    return formula(*(Node(graph, a) for a in arguments)).index
