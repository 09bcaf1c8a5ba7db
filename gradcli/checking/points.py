"""Where to look: seeded points in the domain, half near the file's own point, half wide, and each side of every branch.

Points have short decimals, so that a counterexample can be typed. Constants and bound values stay as they are; columns
keep their rows.
"""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from gradcli.calculus.simplify import simplify
from gradcli.calculus.specialise import specialise
from gradcli.engine import execute
from gradcli.engine.program import Program, schedule
from gradcli.graph import Graph
from gradcli.language.lower import Name, Resolved
from gradcli.results import Number

Value: TypeAlias = "float | list[float]"
Point: TypeAlias = dict[str, Value]

_TRIES = 40  # candidates a point before the domain counts as too narrow
_DIGITS = 5  # significant digits of a sampled number
_SPREAD = 0.15  # how far a near point goes, relative
_FAR = (-3.0, 2.0)  # decimal exponents of a wide point


def seed_of(text: str, seed: int) -> int:
    """A seed from a canonical text: a comment or a blank does not move the points."""
    return int.from_bytes(hashlib.sha256(f"{seed}:{text}".encode()).digest()[:4], "big")


@dataclass
class Domain:
    """The `domain` lines of a model: simple bounds by leaf, and the conditions that a point must meet."""

    bounds: dict[str, tuple[float, float]] = field(default_factory=dict)
    conditions: list[int] = field(default_factory=list)


def domain_of(resolved: Resolved) -> Domain:
    """Bounds such as `0 < x <= 5` steer the sampling; everything is checked at each candidate."""
    domain = Domain()
    graph = resolved.graph
    for line in resolved.domains:
        domain.conditions.append(line.node)
        todo = [line.node]
        while todo:
            node = todo.pop()
            arguments = list(graph.arguments(node))
            if graph.ops[node] == "and":
                todo += arguments
            elif graph.ops[node] in ("lt", "le", "gt", "ge"):
                _bound(graph, domain.bounds, graph.ops[node], *arguments)
    return domain


def _bound(graph: Graph, bounds: dict[str, tuple[float, float]], op: str, a: int, b: int) -> None:
    if graph.ops[b] == "leaf":
        a, b, op = b, a, {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}[op]
    number = _plain(graph, b)
    if graph.ops[a] != "leaf" or number is None:
        return
    low, high = bounds.get(graph.labels[a], (-math.inf, math.inf))
    bounds[graph.labels[a]] = (low, min(high, number)) if op in ("lt", "le") else (max(low, number), high)


def _plain(graph: Graph, node: int) -> float | None:
    number = graph.number(node)
    if number is None and graph.ops[node] == "neg":
        inner = graph.number(graph.arguments(node)[0])
        return None if inner is None else -inner
    return number


class Sampler:
    """Points for one check of a model."""

    def __init__(self, resolved: Resolved, base: Mapping[str, Number], names: Sequence[Name], seed: int) -> None:
        self.resolved = resolved
        self.random = random.Random(seed)
        self.domain = domain_of(resolved)
        self.names = list(names)
        self.base: Point = {n: _listed(v) for n, v in base.items()}
        self.free = [n for n in self.names if not n.bound and n.kind != "const"]
        self._judge = _Judge(resolved, self.domain.conditions) if self.domain.conditions else None

    @property
    def own(self) -> Point | None:
        """The file's own point, where it has a value for every name and lies in the domain."""
        if any(n.label not in self.base for n in self.names):
            return None
        point = {n.label: self.base[n.label] for n in self.names}
        return point if self.allowed(point) else None

    def allowed(self, point: Point) -> bool:
        return self._judge is None or self._judge(point)

    def stream(self) -> Iterator[Point]:
        """Candidates without end: near and wide in turn, those outside the domain left out.

        Ends when the domain rejects too many in a row.
        """
        near, refused = True, 0
        while refused < _TRIES * 5:
            point = self._near() if near else self._wide()
            if self.allowed(point):
                near, refused = not near, 0
                yield point
            else:
                refused += 1
                near = near if refused % 2 else not near

    def _near(self) -> Point:
        """Around the file's point, with the order of the scalar leaves kept."""
        point = self._fixed()
        scalars = [n.label for n in self.free if not isinstance(self.base.get(n.label), list)]
        moved = {label: self._step(self._centre(label), label) for label in scalars}
        ranked = sorted(scalars, key=self._centre)
        inside = [label for label in ranked if label not in self.domain.bounds]
        for label, value in zip(inside, sorted(moved[label] for label in inside), strict=True):
            moved[label] = value
        for name in self.free:
            value = self.base.get(name.label)
            if isinstance(value, list):
                point[name.label] = [self._step(v, name.label) for v in value]
            else:
                point[name.label] = moved[name.label]
        return point

    def _wide(self) -> Point:
        point = self._fixed()
        for name in self.free:
            value = self.base.get(name.label)
            many = isinstance(value, list)
            numbers = [self._anywhere(name.label) for _ in range(len(value) if isinstance(value, list) else 1)]
            point[name.label] = numbers if many else numbers[0]
        return point

    def _fixed(self) -> Point:
        return {n.label: self.base[n.label] for n in self.names if n not in self.free and n.label in self.base}

    def _centre(self, label: str) -> float:
        value = self.base.get(label)
        if isinstance(value, float) and math.isfinite(value):
            return value
        low, high = self.domain.bounds.get(label, (-math.inf, math.inf))
        if math.isfinite(low) and math.isfinite(high):
            return (low + high) / 2
        return low + 1.0 if math.isfinite(low) else high - 1.0 if math.isfinite(high) else 1.0

    def _step(self, centre: float, label: str) -> float:
        value = centre + self.random.uniform(-_SPREAD, _SPREAD) * (abs(centre) or 1.0)
        low, high = self.domain.bounds.get(label, (-math.inf, math.inf))
        if not low <= value <= high:
            value = self._anywhere(label)
        return self._short(value, low, high)

    def _anywhere(self, label: str) -> float:
        low, high = self.domain.bounds.get(label, (-math.inf, math.inf))
        if math.isfinite(low) and math.isfinite(high):
            return self._short(self.random.uniform(low, high), low, high)
        size = 10 ** self.random.uniform(*_FAR)
        if math.isfinite(low):
            return self._short(low + size, low, high)
        if math.isfinite(high):
            return self._short(high - size, low, high)
        return self._short(size if self.random.random() < 0.5 else -size, low, high)

    def _short(self, value: float, low: float, high: float) -> float:
        """Few digits, as long as the bounds leave room for them."""
        for digits in (_DIGITS, 9, 13, 17):
            short = float(f"{value:.{digits}g}")
            if low < short < high:
                return short
        return value


def _listed(value: Number) -> Value:
    return value if isinstance(value, float) else [float(v) for v in value]


class _Judge:
    """Whether a point meets all domain lines (in every row)."""

    def __init__(self, resolved: Resolved, conditions: Sequence[int]) -> None:
        self.resolved, self.conditions = resolved, conditions
        self.programs: dict[frozenset[str], Program] = {}

    def _program(self, columns: frozenset[str]) -> Program:
        if columns not in self.programs:
            graph, at = specialise(self.resolved.graph, columns, self.conditions)
            machine, placed = simplify(graph, [at[c] for c in self.conditions])
            self.programs[columns] = schedule(machine, placed)
        return self.programs[columns]

    def __call__(self, point: Point) -> bool:
        program = self._program(frozenset(n for n, v in point.items() if isinstance(v, list)))
        values: dict[str, Number] = {n: v if isinstance(v, float) else np.array(v) for n, v in point.items()}
        needed = {label for _, label in program.scalar_inputs} | set(program.column_inputs)
        if not needed <= values.keys():
            return False
        rows = max((len(v) for v in point.values() if isinstance(v, list)), default=1)
        return all(bool(np.all(v)) for v in execute.run(program, values, rows, threads=1))


@dataclass
class Branches:
    """Which sides of the selecting operations have been taken."""

    seen: set[tuple[int, int]] = field(default_factory=set)
    sides: dict[int, int] = field(default_factory=dict)

    def watch(self, graph: Graph, output: int, limit: int) -> None:
        """Find what selects among the nodes up to `limit` that the output needs."""
        for node, mark in enumerate(graph.reachable((output,))):
            if mark and node <= limit:
                op = graph.ops[node]
                if op in ("where", "abs", "relu", "leaky_relu"):
                    self.sides[node] = 2
                elif op in ("max", "min"):
                    self.sides[node] = len(graph.arguments(node))

    def record(self, graph: Graph, at: Mapping[int, Sequence[float]]) -> bool:
        """Note the sides taken at a point; whether one was new. `at` has the rows of the watched operands."""
        before = len(self.seen)
        for node in self.sides:
            arguments = list(graph.arguments(node))
            op = graph.ops[node]
            rows = max(len(at[a]) for a in arguments)
            for row in range(rows):
                values = [at[a][row] if len(at[a]) > 1 else at[a][0] for a in arguments]
                self.seen.add((node, _side(op, values)))
        return len(self.seen) > before

    @property
    def complete(self) -> bool:
        return len(self.seen) >= sum(self.sides.values())

    @property
    def count(self) -> tuple[int, int] | None:
        total = sum(self.sides.values())
        return (len(self.seen), total) if total else None


def _side(op: str, values: Sequence[float]) -> int:
    if op == "where":
        return 0 if values[0] else 1
    if op in ("max", "min"):
        best = max(values) if op == "max" else min(values)
        return list(values).index(best) if best in values else 0
    return 0 if values[0] > 0 else 1
