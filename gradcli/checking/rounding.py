"""The running error bound: how far rounding can move a number that is computed with one rounding an operation."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
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
_ROWS = frozenset(("gather", "softmax", "var", "std", "norm", "logsumexp_rows", "prod_rows", "_others"))
_COPIES = frozenset(("name", "detach", "spread", "_taint"))

Bounds = list[Any]


def bound(graph: Graph, values: Sequence[Any], node: int, unit: float) -> Bounds:
    """An absolute bound for each row of a node (Higham, Accuracy and Stability, section 3.3), inputs rounded once."""
    return _Running(graph, values, unit, _float_size).of(node)


def noise(graph: Graph, values: Sequence[Any], node: int, digits: int) -> Bounds:
    """The same bound for an exact evaluation with so many digits, however small it is."""
    unit = numbers(20).context.mpf(10) ** -digits
    return _Running(graph, values, unit, _exact_size).of(node)


class _Running:
    """One pass over the nodes; `size` is the absolute value of a number, as a float or as it is."""

    def __init__(self, graph: Graph, values: Sequence[Any], unit: Any, size: Callable[[Any], Any]) -> None:
        self.graph, self.values, self.unit, self.size = graph, values, unit, size
        self.found: dict[int, Bounds] = {}

    def of(self, node: int) -> Bounds:
        for n, mark in enumerate(self.graph.reachable([node])):
            if mark:
                self.found[n] = self._step(n)
        return [_SAFETY * e for e in self.found[node]]

    def _step(self, node: int) -> Bounds:
        found, unit = self.found, self.unit
        op, arguments = self.graph.ops[node], list(self.graph.arguments(node))
        sizes = [self.size(v) for v in raw(self.values[node])]
        if op in ("leaf", "constant"):
            return [unit * s for s in sizes]
        if op in BOOLEAN or op == "rows":
            return [0.0] * len(sizes)
        if op in _COPIES:
            own = found[arguments[0]]
            return own if len(own) == len(sizes) else own * len(sizes)
        if op in _ROWS:
            everything = sum(e for a in arguments for e in found[a])
            terms = sum(self.size(v) for a in arguments for v in raw(self.values[a]))
            return [everything + unit * (_FUNCTION * s + terms) for s in sizes]
        if op in ("min_rows", "max_rows"):
            return [max(found[arguments[0]])]
        each = unit * (1.0 if op in _ARITHMETIC else _FUNCTION)
        return [each * s + self._moved(op, arguments, row) for row, s in enumerate(sizes)]

    def _moved(self, op: str, arguments: Sequence[int], row: int) -> Any:
        """How far the errors of the arguments move the result in a row."""
        at = [_row(self.values[a], row) for a in arguments]
        errors = [self.found[a][row if len(self.found[a]) > 1 else 0] for a in arguments]
        if op == "where":
            return errors[1 if at[0].value else 2]
        return sum(error * self._slope(op, index, at) for index, error in enumerate(errors) if error)

    def _slope(self, op: str, index: int, at: Sequence[Any]) -> Any:
        if op in ("add", "sub", "neg", "abs"):
            return 1.0
        if op == "mul":
            return self.size(at[1 - index].value)
        m = numbers(20)
        evaluator = partial(op, index, len(at))
        slope = evaluator(m, [m.num(v.value) for v in at]) if evaluator else None
        return 1.0 if slope is None or slope.value != slope.value else self.size(slope.value)


def _row(value: Any, row: int) -> Any:
    return value[row if len(value) > 1 else 0] if isinstance(value, list) else value


def _float_size(number: Any) -> float:
    size = abs(float(number))
    return size if math.isfinite(size) else 0.0


def _exact_size(number: Any) -> Any:
    size = abs(number)
    return 0.0 if size != size or size == math.inf else size
