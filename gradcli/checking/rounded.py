"""Constants that were written with fifteen or more significant digits are taken as rounded."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from decimal import Context, Decimal
from typing import Any

from gradcli.calculus.exact import evaluate
from gradcli.checking.exactly import MORE, is_finite, rows_of
from gradcli.graph import Graph

ROUNDED = 15  # significant digits from which a constant counts as rounded
_MOST = 24  # constants whose rounding is followed up
_MARGIN = 1.01  # for what the parabola leaves out
_LONGEST = 60  # digits beyond which a number is no rounded constant


def significant(text: str) -> int:
    """How many significant digits a decimal was written with; 0 for what is no decimal."""
    mantissa = re.split("[eE]", text)[0].lstrip("+-").replace("_", "").replace(".", "")
    return len(mantissa.lstrip("0")) if mantissa.isdigit() else 0


def uncertainty(text: str) -> Decimal:
    """How far a rounded constant may be off: half a unit in its last digit, or, where the digits are those of a double
    (seventeen at most, or its own longer expansion), one unit of the double."""
    number = Decimal(text.replace("_", ""))
    half = Decimal(5).scaleb(int(number.as_tuple().exponent) - 1)
    digits, double = significant(text), float(number)
    if digits <= 17 or number == Context(prec=digits).create_decimal(Decimal(double)):
        return max(half, Decimal(math.ulp(double)))
    return half


def rounded(graph: Graph, roots: Sequence[int]) -> list[tuple[int, str]]:
    """The constants that nodes need and that count as rounded, with their texts."""
    found = []
    for node, (value, text) in graph.numbers.items():
        if ROUNDED <= significant(text) <= _LONGEST and math.isfinite(value) and abs(value) > 1e-290:
            found.append((node, text))
    marks = graph.reachable(roots) if found else b""
    return [(n, t) for n, t in found if marks[n]][:_MOST]


def explained(graph: Graph, sides: Sequence[int], values: dict[str, Any], row: int, digits: int) -> Any:
    """How far the rounding of constants moves the difference of two nodes, where it may be all of it; else 0.

    The difference is followed over the interval of each constant and of all of them together: where it is bent, as
    that of cos(2*pi) and cos(6.283185307179586), it is 0 inside and nowhere else.
    """
    constants = rounded(graph, sides)
    if not constants:
        return 0

    def gap(signs: Sequence[int]) -> Any:
        with nudged(graph, constants, signs):
            left, right = _row(graph, sides, values, row, digits)
        return left - right

    count = len(constants)
    base = gap([0] * count)
    ranges, together = [], []
    for i in range(count):
        below, above = (gap([sign * (i == j) for j in range(count)]) for sign in (-1, 1))
        ranges.append(_range(base, below, above))
        together.append(1 if (above - below) * base <= 0 else -1)
    along = _range(base, gap([-s for s in together]), gap(together)) if count > 1 else (0, 0)
    for low, high in ((sum(r[0] for r in ranges), sum(r[1] for r in ranges)), along):
        if base + _MARGIN * low <= 0 <= base + _MARGIN * high:
            return _MARGIN * max(-low, high)
    return 0


def unsettled(graph: Graph, sides: Sequence[int], values: dict[str, Any], row: int) -> bool:
    """Whether the rounding of constants decides which of two nodes are defined, as in asin(1.4142135623730951/sqrt(2)),
    so that nobody can say."""
    constants = rounded(graph, sides)
    count = len(constants)
    single = [[sign * (i == j) for j in range(count)] for i in range(count) for sign in (-1, 1)]
    seen = set()
    for signs in ([0] * count, [-1] * count, [1] * count, *single) if count else ():
        with nudged(graph, constants, signs):
            seen.add(tuple(map(is_finite, _row(graph, sides, values, row, MORE))))
    return len(seen) > 1


def _range(base: Any, below: Any, above: Any) -> tuple[Any, Any]:
    """The least and the largest of what a parabola through three values in a row adds to the one in the middle."""
    moves = [end - base for end in (below, above) if is_finite(end)]
    if len(moves) == 2 and (bend := (moves[0] + moves[1]) / 2):
        slope = (moves[1] - moves[0]) / 2
        if abs(slope) < 2 * abs(bend):
            moves.append(-slope * slope / (4 * bend))
    return min([0, *moves]), max([0, *moves])


def _row(graph: Graph, nodes: Sequence[int], values: dict[str, Any], row: int, digits: int) -> list[Any]:
    found = map(rows_of, evaluate(graph, nodes, values, digits))
    return [rows[row if len(rows) > 1 else 0] for rows in found]


@contextmanager
def nudged(graph: Graph, constants: Sequence[tuple[int, str]], signs: Sequence[int]) -> Iterator[None]:
    """Constants moved up, down or not at all by what their rounding may hide, for the time of an evaluation."""
    try:
        for (node, text), sign in zip(constants, signs, strict=True):
            context = Context(prec=significant(text) + 40)
            moved = context.add(Decimal(text.replace("_", "")), sign * uncertainty(text))
            graph.numbers.spell(node, str(moved) if sign else text)
        yield
    finally:
        for node, text in constants:
            graph.numbers.spell(node, text)
