"""What is printed is read back, evaluated at a few points, and compared with the engine before anybody sees it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from gradcli.api import Model
from gradcli.calculus.simplify import simplify
from gradcli.calculus.specialise import specialise
from gradcli.engine import execute
from gradcli.engine.program import schedule
from gradcli.graph import Graph
from gradcli.language.lower import lower
from gradcli.primitives import TABLE
from gradcli.reports.formula import render
from gradcli.reports.sheet import Sheet
from gradcli.source import Source
from gradcli.values import literal_columns

if TYPE_CHECKING:
    from gradcli.derivation import Derivation

Move: TypeAlias = Callable[[Any, int], Any]  # the value of the leaf of this number -> another

_CLOSE = 1e-9  # of the larger of the result and its largest term
_ROWS = 6  # of a column leaf that has no values
_ORIGINS = 8  # leaves that are set to 0 one at a time
_TERMS = 30  # of a sum that are looked at for the size of its largest
_SHAKE = 1e-12  # by how much points are moved to see what rounding does
_AMPLE = 100.0  # times that change
_STEP = 1e-9  # away from a point where the engine has no number
_DIRECTIONS = 4
_SMALL = 1e-3  # what such a step may change
_SIDE = 1e-7  # for a difference quotient
_NOTHING = 1e-30  # what is left of terms that cancel, evaluated to 60 digits
_EXACT_NODES = 2_000  # of a graph that may be evaluated to many digits
_EXACT_POINTS = 3
_MANY = 6  # points where they must be run one by one


class Witness:
    """The engine's own numbers for a derivation, at seeded points: the model's, around it, wide, and special ones."""

    def __init__(self, found: Derivation) -> None:
        found = found.engine or found
        self.found = found
        self.graph = found.graph
        self.leaves = [label for node, label in self.graph.labels.items()
                       if self.graph.ops[node] == "leaf" and label not in found.lists]  # fmt: skip
        self.wide = not found.columns and not any(op in TABLE and TABLE[op].reduction for op in set(self.graph.ops))
        self.points = self._points()
        self.outputs = [found.values[line.output] for line in found.lines]
        self.roots = [line.node for line in found.lines]
        terms = [_terms(self.graph, root) for root in self.roots]
        flat = [t for ts in terms for t in ts]
        numbers = self._run(_Text(self.graph, [*self.outputs, *self.roots, *flat], found.lists, {}))
        count = len(self.roots)
        self.primal, self.expected = numbers[:count], numbers[count : 2 * count]
        self.scales: list[Any] = []
        self.shaken: list[Any] | None = None
        at = 2 * count
        for ts in terms:
            sizes = [np.abs(n) for n in numbers[at : at + len(ts)]]
            self.scales.append(np.max(np.broadcast_arrays(*sizes), axis=0) if sizes else 0.0)
            at += len(ts)

    # ---- points ----

    def _points(self) -> list[dict[str, Any]] | dict[str, Any]:
        """Numbers by leaf: an array with one point a row, or a list of points where rows mean something else."""
        random = np.random.default_rng(20)
        own = {n: self.found.model.point.get(n) for n in self.leaves}
        if self.wide:
            return {n: self._spread(random, own[n], i) for i, n in enumerate(self.leaves)}
        rows = next((len(v) for v in own.values() if v is not None and not isinstance(v, float)), None)
        rows = rows or next((len(v) for v in self.found.lists.values()), _ROWS)
        points = []
        for k in range(_MANY):
            low, high = ((0.5, 2.0), (0.0, 1.0), (-3.0, 3.0), (1.0, 8.0))[k % 4]
            point: dict[str, Any] = {}
            for n in self.leaves:
                size = rows if n in self.found.columns else None
                drawn, value = random.uniform(low, high, size), own[n]
                point[n] = drawn if value is None or k > 1 else np.asarray(value) * (1 + 0.1 * k * drawn)
            points.append({n: v if np.ndim(v) else float(v) for n, v in point.items()})
        return points

    def _spread(self, random: Any, own: Any, index: int) -> Any:
        """The values of one leaf at all points: the model's own and around it, near, wide, large; at the origin of all,
        of one leaf at a time, and where all are equal."""
        middle = random.uniform(0.5, 2.0) if own is None else own
        around = middle * (1 + 0.1 * random.uniform(-1, 1, 3))
        draws = [
            random.uniform(0, 1, 4),
            random.uniform(-3, 3, 6),
            random.uniform(1, 9, 3),
            random.uniform(0.9, 1.4, 2),
        ]
        count = min(len(self.leaves), _ORIGINS)
        single = np.where(np.arange(count) == index, 0.0, random.uniform(0.5, 2.0, count))
        return np.concatenate([[middle], around, *draws, [0.0, 1.0, 2.0, -1.0], single]).astype(np.float64)

    def _run(self, text: _Text, move: Move = lambda value, _: value) -> list[Any]:
        """The roots at all points, an array each; `move` takes every leaf elsewhere."""
        literals = {label: np.asarray(items, dtype=np.float64) for label, items in text.lists.items()}
        if self.wide:
            points, count = self.points, self._count()
            assert isinstance(points, dict)
            values = {n: move(v, i) for i, (n, v) in enumerate(points.items())}
            values |= {n: np.full(count, v) for n, v in text.constants.items()}
            flat = copy.copy(text.graph)
            flat.columns = bytearray(b"\1") * len(flat)
            return [np.asarray(n) for n in _evaluate(flat, text.roots, values, count)]
        found = []
        assert isinstance(self.points, list)
        for point in self.points:
            values = {n: move(v, i) for i, (n, v) in enumerate(point.items())} | literals | dict(text.constants)
            rows = next((len(v) for v in values.values() if np.ndim(v)), 1)
            found.append([np.broadcast_to(n, (rows,)) for n in _evaluate(text.graph, text.roots, values, rows)])
        return [np.concatenate(parts) for parts in zip(*found, strict=True)]

    def _count(self) -> int:
        assert isinstance(self.points, dict)
        return len(next(iter(self.points.values()))) if self.points else 1

    # ---- the comparison ----

    def objection(self, sheet: Sheet, last: bool) -> str | None:
        """The label of the first result that reads back as something else, or None.

        `last`: this is the engine's own form, which may differ in noise, and in what is not a number at special points.
        """
        text = self._read(sheet)
        got = self._run(text)
        for i, line in enumerate(sheet.results):
            bad = _differ(self.primal[i], self.expected[i], got[i], self.scales[i], last)
            bad = bad[~self._noise(i, got[i])[bad]] if bad.size else bad
            if last and 4 * bad.size <= np.size(self.expected[i]):
                continue
            bad = bad[~self._fills_gaps(text, i, got[i])[bad]] if bad.size else bad
            if bad.size and not self._agree_exactly(text, i, got[i], bad):
                return line.label
        return None

    def _read(self, sheet: Sheet) -> _Text:
        """What the printed page means as a model."""
        model = Model(lower(Source.of(render(sheet), "formula")))
        resolved = model.resolved
        single = len(sheet.results) == 1
        labels = [model.outputs[-1]] if single else [model.find(line.label).label for line in sheet.results]
        nodes = [resolved.names[label].node for label in labels]
        lists = literal_columns(resolved)
        graph, at = specialise(resolved.graph, set(self.found.columns) | set(lists), nodes)
        constants = {n: v for n, v in model.point.items() if n not in self.leaves}
        return _Text(graph, [at[n] for n in nodes], lists, constants)

    def _noise(self, i: int, got: Any) -> Any:
        """Where two numbers differ no more than a result does when the leaves change in their last digits."""
        if self.shaken is None:
            own = _Text(self.graph, self.roots, self.found.lists, {})
            self.shaken = self._run(own, lambda value, _: value * (1 + _SHAKE))
        with np.errstate(all="ignore"):
            return np.abs(got - self.expected[i]) <= _AMPLE * np.abs(self.shaken[i] - self.expected[i])

    def _fills_gaps(self, text: _Text, i: int, got: Any) -> Any:
        """Where the engine has no number and the formula has the right one, at a point other than the model's own.

        A first derivative is right where it is the slope that differences show. A higher one where the output and the
        formula are continuous.
        """
        gap = np.isfinite(self.primal[i]) & np.isfinite(got) & ~np.isfinite(self.expected[i])
        gap[:1] &= not self.found.model.point
        if not self.wide or not gap.any():
            return np.zeros_like(gap)
        by = self.found.lines[i].by
        first = len(by) == 1 and by[0] in self.leaves
        seen = np.zeros_like(gap)
        for step in self._steps(self.leaves.index(by[0]) if first else -1):
            move = _shifted(step)
            there = self._run(_Text(self.graph, [self.outputs[i]], {}, {}), move)[0]
            with np.errstate(all="ignore"):
                slope = (there - self.primal[i]) / step.sum() if first else self._run(text, move)[i]
            valid = np.isfinite(there) & np.isfinite(slope)
            gap &= ~valid | (_close(slope, got) & (first | _close(there, self.primal[i])))
            seen |= valid
        return gap & seen

    def _steps(self, leaf: int) -> list[Any]:
        """Small steps, one number a leaf: to both sides of one leaf, or in several directions."""
        if leaf >= 0:
            unit = np.eye(1, len(self.leaves), leaf)[0]
            return [_SIDE * unit, -_SIDE * unit]
        random = np.random.default_rng(21)
        return [_STEP * random.choice([-1.0, 1.0], len(self.leaves)) for _ in range(_DIRECTIONS)]

    def _agree_exactly(self, text: _Text, i: int, got: Any, rows: Any) -> bool:
        """Whether both are the same number to many digits, where floats are too short to tell."""
        if not self.wide or len(text.graph) > _EXACT_NODES or len(self.graph) > _EXACT_NODES:
            return False
        from gradcli.calculus.exact import evaluate

        assert isinstance(self.points, dict)
        if not (np.isfinite(self.expected[i][rows]) & np.isfinite(got[rows])).all():
            return False
        for row in rows[:_EXACT_POINTS]:
            values = {n: float(v[row]) for n, v in self.points.items()}
            (want,) = evaluate(self.graph, [self.roots[i]], values, 60)
            (have,) = evaluate(text.graph, [text.roots[i]], {**values, **text.constants}, 60)
            scale = max(abs(want), abs(have), float(np.broadcast_to(self.scales[i], self.expected[i].shape)[row]))
            if not (abs(want) < inf and abs(have) < inf):
                continue  # a pole that floats step over
            if abs(want - have) > max(_CLOSE * scale if scale < inf else 0.0, _NOTHING):
                return False
        return True


@dataclass(frozen=True)
class _Text:
    """A graph to evaluate: its roots, the columns written in it, and the values of its constants."""

    graph: Graph
    roots: Sequence[int]
    lists: Mapping[str, Any]
    constants: Mapping[str, Any]


def _shifted(steps: Any) -> Move:
    return lambda value, leaf: value + steps[leaf]


def _close(a: Any, b: Any) -> Any:
    """Whether two arrays differ by no more than a small step explains."""
    with np.errstate(all="ignore"):
        return np.abs(a - b) <= _SMALL * (1 + np.abs(b))


def _evaluate(graph: Graph, roots: Sequence[int], values: Mapping[str, Any], rows: int) -> list[Any]:
    machine, placed = simplify(graph, roots)
    return execute.run(schedule(machine, placed), values, rows)


def _terms(graph: Graph, root: int) -> list[int]:
    """The terms of a sum, as far as it is one."""
    found: list[int] = []
    stack = [root]
    while stack and len(found) < _TERMS:
        node = stack.pop()
        if graph.ops[node] in ("add", "sub", "neg", "_taint", "spread"):
            stack.extend(graph.arguments(node)[:2] if graph.ops[node] in ("add", "sub") else graph.arguments(node)[:1])
        else:
            found.append(node)
    return found


def _differ(primal: Any, want: Any, have: Any, scale: Any, last: bool) -> Any:
    """The points where two arrays do not agree. Where the output is not finite, either need not be; where both
    are not, infinite and nan are the same."""
    primal, want, have, scale = np.broadcast_arrays(primal, want, have, scale)
    with np.errstate(all="ignore"):
        scale = np.maximum(np.where(np.isfinite(scale), scale, 0.0), np.maximum(np.abs(want), np.abs(have)))
        same = (
            (want == have)
            | (np.isnan(want) & np.isnan(have))
            | (np.abs(want - have) <= _CLOSE * scale) & np.isfinite(scale)
        )
        moot = ~np.isfinite(primal) & ~(np.isfinite(want) & np.isfinite(have)) | ~np.isfinite(want) & ~np.isfinite(have)
        if last:
            moot |= ~(np.isfinite(want) & np.isfinite(have))
    return np.flatnonzero(~(same | moot))
