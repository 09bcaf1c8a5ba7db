"""Constants that were written with fifteen or more significant digits are taken as rounded."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from decimal import Context, Decimal
from typing import Any

from gradcli.calculus.exact import evaluate
from gradcli.checking.exactly import MORE, rows_of
from gradcli.graph import Graph

ROUNDED = 15  # significant digits from which a constant counts as rounded
_MOST = 24  # constants whose rounding is followed up
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


def slack(graph: Graph, sides: Sequence[int], values: dict[str, Any], row: int) -> Any:
    """How far the rounding of constants can move the difference of two nodes."""
    total: Any = 0
    constants = rounded(graph, sides)
    if not constants:
        return total
    base = _row(graph, sides, values, row)
    for node, text in constants:
        with nudged(graph, node, text):
            moved = _row(graph, sides, values, row)
        total = total + abs((moved[0] - moved[1]) - (base[0] - base[1]))
    return total * 1.01


def _row(graph: Graph, nodes: Sequence[int], values: dict[str, Any], row: int) -> list[Any]:
    found = map(rows_of, evaluate(graph, nodes, values, MORE))
    return [rows[row if len(rows) > 1 else 0] for rows in found]


@contextmanager
def nudged(graph: Graph, node: int, text: str) -> Iterator[None]:
    """A constant moved by what its rounding may hide, for the time of an evaluation."""
    moved = Context(prec=significant(text) + 40).add(Decimal(text.replace("_", "")), uncertainty(text))
    graph.numbers.spell(node, str(moved))
    try:
        yield
    finally:
        graph.numbers.spell(node, text)
