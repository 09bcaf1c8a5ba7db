"""Fifty-digit values at a point, and the comparisons that need no tolerance."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from gradcli.calculus.exact import evaluate
from gradcli.calculus.specialise import specialise
from gradcli.checking.points import Point
from gradcli.graph import Graph
from gradcli.language.lower import Resolved

DIGITS = 50  # what is evaluated
AGREE = 40  # what must agree
MORE = 110  # on doubt
MOST = 420  # in the far tails
_INF = float("inf")
_JUMP = 1e25  # a difference quotient beyond this is a jump of the function
_SHOWN = (17, 25, 40)  # significant digits of two sides, until they look different


def leaves(resolved: Resolved, point: Point, own: bool) -> dict[str, Any]:
    """The exact numbers of a point: decimals as written at the file's `own` point, doubles elsewhere; what is not
    sampled (constants, values given on the command line) is always as written."""
    found: dict[str, Any] = dict(point)
    for name in resolved.names.inputs():
        if name.default is not None and name.label in found and (own or name.bound or name.kind == "const"):
            found[name.label] = written(resolved, name.default)
    for node, items in resolved.graph.lists.items():
        found[resolved.graph.labels[node]] = [written(resolved, i) for i in items]
    return found


def written(resolved: Resolved, node: int) -> Any:
    """A constant of the text as it is written: its decimal, or what it is computed to with all digits."""
    graph = resolved.graph
    if node in graph.numbers:
        return graph.numbers[node][1]
    literal = {graph.labels[n]: [written(resolved, i) for i in items] for n, items in graph.lists.items() if n <= node}
    known, at = specialise(graph, literal.keys(), (node,))
    return evaluate(known, [at[node]], literal, MOST)[0]


def rows_of(value: Any) -> list[Any]:
    """The mpf of each row; a scalar has one."""
    return list(value) if isinstance(value, list) else [value]


def exact(graph: Graph, nodes: Sequence[int], values: Mapping[str, Any], digits: int = DIGITS) -> list[list[Any]]:
    return [rows_of(v) for v in evaluate(graph, nodes, values, digits)]


def is_nan(number: Any) -> bool:
    return bool(number != number)


def is_finite(number: Any) -> bool:
    return not is_nan(number) and abs(number) != _INF


def near(a: Any, b: Any, scale: Any, digits: int = AGREE) -> bool:
    """Whether two exact numbers agree to that many digits of the larger, or of a scale."""
    if a == b:
        return True
    if is_nan(a) or is_nan(b) or abs(a) == _INF or abs(b) == _INF:
        return bool(is_nan(a) and is_nan(b))
    return bool(abs(a - b) <= max(abs(a), abs(b), scale) * _power(digits))


def _power(digits: int) -> Any:
    import mpmath

    return mpmath.mpf(10) ** -digits


def spell(number: Any, digits: int = 17) -> str:
    """An exact number for a person: its double where seventeen digits are enough, else so many digits."""
    value = float(number)
    if is_nan(number) or number in (_INF, -_INF) or (digits == 17 and math.isfinite(value) and (value or not number)):
        return repr(value)
    return _digits(number, digits)


def _digits(number: Any, digits: int) -> str:
    import mpmath

    text = str(mpmath.nstr(number, digits))
    mantissa, e, exponent = text.partition("e")
    mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa and e else mantissa
    return f"{mantissa}e{int(exponent)}" if e else text


def slope_text(number: Any) -> str:
    """A one-sided slope: a difference quotient has errors in its last digits, and jumps are infinite."""
    if is_nan(number) or abs(number) > _JUMP:
        return "none" if is_nan(number) else "infinite" if number > 0 else "-infinite"
    return f"{float(number):.10g}"


def spell_both(left: Any, right: Any) -> tuple[str, str]:
    """Two numbers that differ, with as many digits as it takes to see that."""
    pair = "", ""
    for digits in _SHOWN:
        pair = spell(left, digits), spell(right, digits)
        if pair[0] != pair[1]:
            break
    return pair
