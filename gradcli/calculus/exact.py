"""The exact counterpart: the `exact` column of the table over mpmath (`Numbers`) and over sympy (`Symbols`).

A row says what it means once, as an expression over a namespace `m`; `numbers` and `symbols` are the two namespaces.
Both libraries are imported when a namespace is made. Here a graph is evaluated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from threading import get_ident
from typing import Any, TypeAlias

from gradcli.calculus.known import KNOWN
from gradcli.calculus.numbers import Numbers
from gradcli.calculus.symbols import Symbols
from gradcli.graph import Graph
from gradcli.primitives import TABLE

__all__ = ["KNOWN", "Numbers", "Symbols", "evaluate", "evaluate_all", "numbers"]

Exact: TypeAlias = "str | float | Fraction | Any"  # what a number may be given as: decimal text, float, fraction, mpf
Given: TypeAlias = "Exact | Sequence[Exact]"


def _is_column(value: Any) -> bool:
    return isinstance(value, list)


def _apply(m: Numbers, op: str, arguments: list[Any]) -> Any:
    """One row of the table at numbers or columns of them."""
    exact = TABLE[op].exact
    count = next((len(a) for a in arguments if _is_column(a)), 0)
    if op == "spread":
        x, like = arguments
        return [x] * len(like) if _is_column(like) and not _is_column(x) else x
    if TABLE[op].reduction:
        result = exact(m, *[a if _is_column(a) else [a] * max(count, 1) for a in arguments])
        return result if _is_column(result) else m.num(result)
    if not any(map(_is_column, arguments)):
        return m.num(exact(m, *arguments))
    columns = [a if _is_column(a) else [a] * count for a in arguments]
    return [m.num(exact(m, *row)) for row in zip(*columns, strict=True)]


def numbers(digits: int) -> Numbers:
    """The namespace for so many digits; one a thread, since a context of mpmath changes its precision as it works."""
    return _numbers(digits, get_ident())


@lru_cache(maxsize=32)
def _numbers(digits: int, thread: int) -> Numbers:
    return Numbers(digits)


def evaluate(graph: Graph, nodes: Iterable[int], leaves: Mapping[str, Given], digits: int) -> list[Any]:
    """The nodes of a specialised graph (before `simplify`) to `digits` digits: an mpf each, or a list of them.

    `leaves` has a number for every leaf that is needed, or a sequence of them for a column: decimal texts and fractions
    count exactly, floats as the binary numbers that they are. Nothing raises for what has no value: it is nan.
    """
    nodes = list(nodes)
    values = evaluate_all(graph, nodes, leaves, digits)
    return [[v.value for v in values[n]] if _is_column(values[n]) else values[n].value for n in nodes]


def evaluate_all(graph: Graph, nodes: Iterable[int], leaves: Mapping[str, Given], digits: int) -> list[Any]:
    """As `evaluate`, for every node the given ones need: by node a `Real`, a list of them, or None for the rest."""
    m = numbers(digits)
    needed = graph.reachable(nodes)
    values: list[Any] = [None] * len(graph)
    for node, op in enumerate(graph.ops):
        if not needed[node]:
            continue
        if op == "leaf":
            given = leaves[graph.labels[node]]
            many = isinstance(given, Sequence) and not isinstance(given, str)
            values[node] = [m.num(v) for v in given] if many else m.num(given)  # type: ignore[union-attr]
        elif op == "constant":
            values[node] = m.num(graph.numbers[node][1])
        elif op in ("name", "detach"):
            values[node] = values[graph.arguments(node)[0]]
        else:
            values[node] = _apply(m, op, [values[a] for a in graph.arguments(node)])
    return values
