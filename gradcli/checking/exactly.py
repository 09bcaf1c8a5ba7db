"""Fifty-digit values at a point, and the comparisons that need no tolerance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from gradcli.calculus.exact import Numbers, evaluate
from gradcli.checking.points import Point
from gradcli.graph import Graph
from gradcli.language.lower import Resolved

DIGITS = 50  # what is evaluated
AGREE = 40  # what must agree
MORE = 110  # on doubt
MOST = 420  # in the far tails


def leaves(resolved: Resolved, point: Point, own: bool) -> dict[str, Any]:
    """The exact numbers of a point: at the file's own point the decimals as written, elsewhere the doubles."""
    found: dict[str, Any] = dict(point)
    graph = resolved.graph
    if own:
        for name in resolved.names.values():
            number = graph.numbers.get(name.default) if name.default is not None else None
            if number is not None and name.label in found:
                found[name.label] = number[1]
    for node, items in graph.lists.items():
        found[graph.labels[node]] = [graph.numbers[i][1] if i in graph.numbers else 0.0 for i in items]
    return found


def rows_of(value: Any) -> list[Any]:
    """The mpf of each row; a scalar has one."""
    return list(value) if isinstance(value, list) else [value]


def exact(graph: Graph, nodes: Sequence[int], values: Mapping[str, Any], digits: int = DIGITS) -> list[list[Any]]:
    return [rows_of(v) for v in evaluate(graph, nodes, values, digits)]


def is_nan(number: Any) -> bool:
    return bool(number != number)


def near(a: Any, b: Any, scale: Any, digits: int = AGREE) -> bool:
    """Whether two exact numbers agree to that many digits of the larger, or of a scale."""
    if a == b:
        return True
    if is_nan(a) or is_nan(b) or abs(a) == _INF or abs(b) == _INF:
        return bool(is_nan(a) and is_nan(b))
    return bool(abs(a - b) <= max(abs(a), abs(b), scale) * _power(digits))


_INF = float("inf")


def _power(digits: int) -> Any:
    import mpmath

    return mpmath.mpf(10) ** -digits


def spell(number: Any, digits: int = 17) -> str:
    """An exact number for a person: shortest where a double says it, else seventeen digits."""
    import mpmath

    if is_nan(number):
        return "nan"
    value = float(number)
    if value == number:
        return repr(value)
    return str(mpmath.nstr(number, digits))


def number_text(value: float | list[float] | str) -> str:
    return value if isinstance(value, str) else repr(value)


def real_numbers(values: Sequence[Any], digits: int) -> tuple[Numbers, list[Any]]:
    """Raw mpf values as the `Real` of a context, for the witness."""
    m = Numbers(digits)
    return m, [None if v is None else [m.num(x) for x in v] if isinstance(v, list) else m.num(v) for v in values]


__all__ = ["AGREE", "DIGITS", "MORE", "MOST", "Fraction", "exact", "is_nan", "leaves", "near", "number_text", "real_numbers", "rows_of",
           "spell"]  # fmt: skip
