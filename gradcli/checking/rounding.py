"""The running error bound: how far rounding can move a number that is computed with one rounding an operation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from gradcli.calculus.exact import numbers
from gradcli.checking.shapes import raw
from gradcli.checking.witness import partial
from gradcli.graph import Graph
from gradcli.primitives import BOOLEAN

UNITS = {"float64": 2.0**-53, "float32": 2.0**-24}
_SAFETY = 4.0  # another program may add in another order, or call a function that is a few units off
_FUNCTION = 4.0  # units in the last place of a library function
_ARITHMETIC = frozenset(("add", "sub", "mul", "div", "neg", "abs", "where", "sqrt"))
_ROWS = frozenset(("gather", "softmax", "var", "std", "norm", "logsumexp_rows", "prod_rows"))
_COPIES = frozenset(("name", "detach", "spread", "_taint"))

Bounds = list[float]


def bound(graph: Graph, values: Sequence[Any], node: int, unit: float) -> Bounds:
    """An absolute bound for each row of a node (Higham, Accuracy and Stability, section 3.3), inputs rounded once."""
    found: dict[int, Bounds] = {}
    for n, mark in enumerate(graph.reachable([node])):
        if mark:
            found[n] = _step(graph, values, n, found, unit)
    return [_SAFETY * e for e in found[node]]


def _step(graph: Graph, values: Sequence[Any], node: int, found: dict[int, Bounds], unit: float) -> Bounds:
    op, arguments = graph.ops[node], list(graph.arguments(node))
    sizes = [_size(v) for v in raw(values[node])]
    if op in ("leaf", "constant"):
        return [unit * s for s in sizes]
    if op in BOOLEAN or op == "rows":
        return [0.0] * len(sizes)
    if op in _COPIES:
        own = found[arguments[0]]
        return own if len(own) == len(sizes) else own * len(sizes)
    if op in _ROWS:
        everything = sum(e for a in arguments for e in found[a])
        terms = sum(_size(v) for a in arguments for v in raw(values[a]))
        return [everything + unit * (_FUNCTION * s + terms) for s in sizes]
    if op in ("min_rows", "max_rows"):
        return [max(found[arguments[0]])]
    each = unit * (1.0 if op in _ARITHMETIC else _FUNCTION)
    return [each * s + _moved(op, arguments, values, found, row) for row, s in enumerate(sizes)]


def _moved(op: str, arguments: Sequence[int], values: Sequence[Any], found: dict[int, Bounds], row: int) -> float:
    """How far the errors of the arguments move the result in a row."""
    at = [_row(values[a], row) for a in arguments]
    errors = [found[a][row if len(found[a]) > 1 else 0] for a in arguments]
    if op == "where":
        return errors[1 if at[0].value else 2]
    total = 0.0
    for index, error in enumerate(errors):
        if error:
            total += error * _slope(op, index, at)
    return total


def _slope(op: str, index: int, at: Sequence[Any]) -> float:
    if op in ("add", "sub", "neg", "abs"):
        return 1.0
    if op == "mul":
        return _size(at[1 - index].value)
    m = numbers(20)
    evaluator = partial(op, index, len(at))
    slope = evaluator(m, [m.num(v.value) for v in at]) if evaluator else None
    return 1.0 if slope is None or slope.value != slope.value else _size(slope.value)


def _row(value: Any, row: int) -> Any:
    return value[row if len(value) > 1 else 0] if isinstance(value, list) else value


def _size(number: Any) -> float:
    size = abs(float(number))
    return size if math.isfinite(size) else 0.0
