"""Points past the turns of what repeats or folds: sin under asin, `%`, the root of a square, on both sides of a shift.

An identity such as asin(sin(x)) = x holds on one stretch of the line and nowhere else. Each stretch of an argument is a
cell; the cells in which no point lay yet are aimed at by secants, one leaf at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from gradcli.checking.points import Floats, Point, Sampler
from gradcli.graph import Graph
from gradcli.language.lower import Resolved
from gradcli.primitives import OVER_ROWS, TABLE

Array: TypeAlias = "np.ndarray[Any, Any]"
Row: TypeAlias = "Mapping[str, float]"
Cell: TypeAlias = "tuple[float, float, float]"  # from, to, and where to aim

_INF = math.inf
_SIGNS: tuple[Cell, ...] = ((-_INF, -1, -2.3), (1, _INF, 2.3), (-1, 0, -0.4), (0, 1, 0.4))
_UNIT: tuple[Cell, ...] = ((-1, -0.75, -0.9), (0.75, 1, 0.9), (-0.75, 0, -0.4), (0, 0.75, 0.4))
_WHOLE: tuple[Cell, ...] = ((1, 2, 1.43), (-1, 0, -0.41), (2, _INF, 2.6), (0, 1, 0.37), (-_INF, -1, -2.7))
_QUARTERS: tuple[Cell, ...] = ((1, 2, 1.37), (-2, -1, -1.41), (2, 3, 2.36), (-3, -2, -2.43), (4, 5, 4.39))
_HALVES: tuple[Cell, ...] = (
    (0.5, 1, 0.7), (-0.5, 0, -0.3), (1, 1.5, 1.2), (-1, -0.5, -0.7), (0, 0.5, 0.3), (1.5, _INF, 2.7), (-_INF, -1, -2.3),
)  # fmt: skip
_TURN = 2 / math.pi


class _Kind(NamedTuple):
    """What is measured of the arguments of an operation (of the result of a sum), and the cells of that."""

    measure: Callable[..., Array]
    cells: tuple[Cell, ...]


_KINDS: dict[str, _Kind] = {
    **dict.fromkeys(("sin", "cos", "tan", "sec", "csc", "cot"), _Kind(lambda x: x * _TURN, _QUARTERS)),
    **dict.fromkeys(("sinpi", "cospi"), _Kind(lambda x: x * 2, _QUARTERS)),
    **dict.fromkeys(("mod", "fmod", "floordiv"), _Kind(lambda a, b: a / b, _WHOLE)),
    **dict.fromkeys(("floor", "ceil", "round", "trunc"), _Kind(lambda x: x, _HALVES)),
    **dict.fromkeys(("asin", "acos"), _Kind(lambda x: x, _UNIT)),
    **dict.fromkeys(("atan", "acot", "asec", "acsc", "acoth", "acsch"), _Kind(lambda x: x, _SIGNS)),
    **dict.fromkeys(("sign", "step", "add", "sub"), _Kind(lambda x: x, _SIGNS)),
    "copysign": _Kind(lambda x, s: s, _SIGNS),
}
_SUMS = frozenset(("add", "sub"))
_FOLDS = frozenset((  # with one of these in a text the sign of a sum counts
    "sqrt", "cbrt", "abs", "log", "log2", "log10", "log1p", "hypot", "asin", "acos", "atan", "atan2", "acot", "asec",
    "acsc", "acosh", "acoth", "asech", "acsch", "lgamma",
))  # fmt: skip

_SPOTS = 16  # operations that are looked at
_CELLS = 20  # that are aimed at
_LEAVES = 6  # that are moved
_BASES = 3  # points from which they are moved, and points in a cell
_SECANTS = 8


class _Spot(NamedTuple):
    kind: _Kind
    nodes: tuple[int, ...]


class _Try(NamedTuple):
    """A leaf to be moved from a point until a spot is in a cell."""

    spot: int
    cell: Cell
    base: Row
    label: str


class Turns:
    """The cells of everything that repeats or folds in the text of some nodes."""

    def __init__(self, resolved: Resolved, roots: Sequence[int]) -> None:
        graph = resolved.graph
        inside = [n for n, mark in enumerate(graph.reachable(roots)) if mark]
        over_rows = any(_over_rows(graph, n) for n in inside)  # then a row is no point of its own
        self.spots = [] if over_rows else _spots(graph, inside)
        self._floats = Floats(resolved, [n for spot in self.spots for n in spot.nodes])

    def aims(self, sampler: Sampler, agreed: Sequence[Point], holds: Callable[[Point], bool]) -> Iterator[list[Point]]:
        """For each cell in which none of the points lies at which a claim held: a few points that do."""
        bases = [row for point in agreed for row in _rows(point)] if self.spots else []
        labels = [n.label for n in sampler.free][:_LEAVES]
        if not bases or not labels:
            return
        at = self._measure({n: np.array([b[n] for b in bases]) for n in bases[0]})
        cells = [
            (i, cell) for i, spot in enumerate(self.spots) for cell in spot.kind.cells
            if not np.any((cell[0] < at[i]) & (at[i] < cell[1]))
        ]  # fmt: skip
        tries = [_Try(i, cell, b, n) for i, cell in cells[:_CELLS] for b in bases[:_BASES] for n in labels]
        found: dict[tuple[int, Cell], list[Point]] = {}
        for one, value in self._solve(tries, sampler):
            mine = found.setdefault((one.spot, one.cell), [])
            point = _moved(agreed[0], {**one.base, one.label: sampler.short(one.label, value)})
            if len(mine) < _BASES and sampler.allowed(point) and holds(point):
                mine.append(point)
        yield from found.values()

    def _measure(self, columns: Mapping[str, Array]) -> list[Array]:
        """What is measured at each spot, in every row; nan where a name has no value."""
        rows = len(next(iter(columns.values())))
        found = self._floats({n: c.tolist() for n, c in columns.items()})
        if found is None:
            return [np.full(rows, np.nan)] * len(self.spots)
        values = iter([np.broadcast_to(np.array(v), rows) for v in found])
        with np.errstate(all="ignore"):
            return [spot.kind.measure(*(next(values) for _ in spot.nodes)) for spot in self.spots]

    def _solve(self, tries: Sequence[_Try], sampler: Sampler) -> Iterator[tuple[_Try, float]]:
        """The tries that succeed, with the value of the leaf, by secants in all of them at once."""
        if not tries:
            return
        columns = {n: np.array([t.base[n] for t in tries]) for n in tries[0].base}
        moved = {n: np.array([t.label == n for t in tries]) for n in columns}
        places = np.array([t.spot for t in tries]), np.arange(len(tries))
        low, high, aim = np.array([t.cell for t in tries]).T
        least, most = np.array([sampler.domain.bounds.get(t.label, (-_INF, _INF)) for t in tries]).T

        def measured(values: Array) -> Array:
            at = self._measure({n: np.where(moved[n], values, c) for n, c in columns.items()})
            return np.asarray(np.array(at)[places])

        first = np.array([t.base[t.label] for t in tries])
        second = first + 0.1 * np.maximum(abs(first), 1)
        was, found = measured(first), np.full(len(tries), np.nan)
        with np.errstate(all="ignore"):
            for _ in range(_SECANTS):
                now = measured(second)
                found = np.where(np.isnan(found) & (low < now) & (now < high), second, found)
                step = (aim - now) * (second - first) / (now - was)
                step = np.where(np.isfinite(step) & (step != 0), step, -0.7 * second - 0.1)
                beyond = np.clip(second + step, least, most)
                inside = (least < beyond) & (beyond < most)
                first, was, second = second, now, np.where(inside, beyond, 0.1 * second + 0.9 * beyond)
        yield from ((t, float(v)) for t, v in zip(tries, found, strict=True) if np.isfinite(v))


def _spots(graph: Graph, inside: Sequence[int]) -> list[_Spot]:
    """What repeats comes first, sums last; each is measured once."""
    folds = any(graph.ops[n] in _FOLDS or _is_root(graph, n) for n in inside)
    found: dict[_Spot, None] = {}
    for sums in (False, True) if folds else (False,):
        for node in inside:
            op = graph.ops[node]
            if op in _KINDS and (op in _SUMS) == sums:
                found[_Spot(_KINDS[op], (node,) if sums else tuple(graph.arguments(node)))] = None
    return list(found)[:_SPOTS]


def _is_root(graph: Graph, node: int) -> bool:
    """Whether a node is a power whose exponent is not a whole number as it stands."""
    if graph.ops[node] != "pow":
        return False
    number = graph.number(graph.arguments(node)[1])
    return number is None or not number.is_integer()


def _over_rows(graph: Graph, node: int) -> bool:
    op = graph.ops[node]
    return node in graph.lists or bool(
        op in TABLE and (TABLE[op].reduction or (op in OVER_ROWS and len(graph.arguments(node)) == 1))
    )


def _rows(point: Point) -> list[dict[str, float]]:
    """The rows of a point with columns, each a point of scalars."""
    count = max((len(v) for v in point.values() if isinstance(v, list)), default=1)
    return [{n: v[row] if isinstance(v, list) else v for n, v in point.items()} for row in range(count)]


def _moved(point: Point, row: Row) -> Point:
    """A point with another (first) row."""
    return {n: [row[n], *v[1:]] if isinstance(v, list) else row[n] for n, v in point.items()}
