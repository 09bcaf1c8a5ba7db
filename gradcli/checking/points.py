"""Where to look: seeded points in the domain, half near the file's own point, half wide, and each side of every branch.

Points have short decimals, so that a counterexample can be typed. Constants and bound values stay as they are; columns
keep their rows.
"""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from gradcli.values import literal_columns

Value: TypeAlias = "float | list[float]"
Point: TypeAlias = dict[str, Value]

_AIMED = 12  # leaves and numbers that are aimed at
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

    def steer(self, graph: Graph, condition: int) -> None:
        """Sample within the simple bounds of a condition, such as `0 < x <= 5`."""
        todo = [condition]
        while todo:
            node = todo.pop()
            arguments = list(graph.arguments(node))
            if graph.ops[node] == "and":
                todo += arguments
            elif graph.ops[node] in ("lt", "le", "gt", "ge"):
                _bound(graph, self.bounds, graph.ops[node], *arguments)


def domain_of(resolved: Resolved) -> Domain:
    """Bounds such as `0 < x <= 5` steer the sampling; everything is checked at each candidate."""
    domain = Domain()
    for line in resolved.domains:
        domain.conditions.append(line.node)
        domain.steer(resolved.graph, line.node)
    return domain


def canonical(graph: Graph, roots: Iterable[int]) -> str:
    """A digest of expressions down to the names in them: blanks, comments and the rest of a file do not count."""
    todo = list(roots)
    needed: set[int] = set()
    while todo:
        node = todo.pop()
        if node not in needed:
            needed.add(node)
            todo += () if graph.ops[node] == "name" else graph.arguments(node)
    digests: dict[int, str] = {}
    for node in sorted(needed):
        own = graph.labels.get(node) or graph.numbers.get(node, ("", ""))[1]
        inner = "" if graph.ops[node] == "name" else " ".join(digests[a] for a in graph.arguments(node))
        items = " ".join(map(str, (graph.numbers.get(i, (i,))[0] for i in graph.lists.get(node, ()))))
        digests[node] = hashlib.sha256(f"{graph.ops[node]} {own} {inner} {items}".encode()).hexdigest()[:24]
    return " ".join(digests[root] for root in roots)


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

    def __init__(self, resolved: Resolved, base: Mapping[str, Number], names: Sequence[Name], seed: int,
                 condition: int | None = None) -> None:  # fmt: skip
        self.resolved = resolved
        self.random = random.Random(seed)
        self._signs: dict[str, int] = {}
        self.domain = domain_of(resolved)
        if condition is not None:
            self.domain.steer(resolved.graph, condition)
        self.names = list(names)
        self.base: Point = {n: _listed(v) for n, v in base.items()}
        self.free = [n for n in self.names if not n.bound and n.kind != "const"]
        self._judge = Floats(resolved, self.domain.conditions) if self.domain.conditions else None

    @property
    def own(self) -> Point | None:
        """The file's own point, where it has a value for every name and lies in the domain."""
        if any(n.label not in self.base for n in self.names):
            return None
        point = {n.label: self.base[n.label] for n in self.names}
        return point if self.allowed(point) else None

    def allowed(self, point: Point) -> bool:
        found = self._judge(point) if self._judge else []
        return found is not None and all(all(rows) for rows in found)

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

    def aimed(self, thresholds: Sequence[float]) -> Iterator[Point]:
        """Candidates on both sides of numbers that select something, one leaf at a time, then some far ones."""
        scalars = [n.label for n in self.free if not isinstance(self.base.get(n.label), list)][:_AIMED]
        for number in [*dict.fromkeys(thresholds)][:_AIMED]:
            for label in scalars:
                low, high = self.domain.bounds.get(label, (-math.inf, math.inf))
                for shift in (-0.1, 0.1):
                    value = self._short(number + shift * (abs(number) or 1.0), low, high)
                    if low <= value <= high and self.allowed(point := self._near() | {label: value}):
                        yield point
            for _ in range(4):
                near: Point = {
                    n: self._short(number * self.random.uniform(0.5, 2), -math.inf, math.inf) for n in scalars
                }
                if self.allowed(point := self._near() | near):
                    yield point
        for _, point in zip(range(_TRIES), self.stream(), strict=False):
            yield point

    def _near(self) -> Point:
        """Around the file's point, with the order of the scalar leaves kept."""
        point = self._fixed()
        scalars = [n.label for n in self.free if not isinstance(self.base.get(n.label), list)]
        moved = {label: self._step(self._centre(label), label) for label in scalars}
        ranked = sorted(scalars, key=self._centre)
        inside = [label for label in ranked if label not in self.domain.bounds]
        moved |= dict(zip(inside, sorted(moved[label] for label in inside), strict=True))
        for name in self.free:
            base = self.base.get(name.label)
            if isinstance(base, list):
                point[name.label] = [self._step(v, name.label) for v in base]
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
        other = self._signs.pop(label, None)  # two in a row have both signs
        sign = -other if other else self.random.choice((-1, 1))
        if not other:
            self._signs[label] = sign
        return self._short(sign * size, low, high)

    def short(self, label: str, value: float) -> float:
        """A value of a leaf with few digits, within its bounds where it is."""
        return self._short(value, *self.domain.bounds.get(label, (-math.inf, math.inf)))

    def _short(self, value: float, low: float, high: float) -> float:
        """Few digits, as long as the bounds leave room for them."""
        for digits in (_DIGITS, 9, 13, 17):
            short = float(f"{value:.{digits}g}")
            if low < short < high:
                return short
        return value


def _listed(value: Number) -> Value:
    return value if isinstance(value, float) else [float(v) for v in value]


class Floats:
    """Nodes of a text in float64 at a point; nan for all of them where a name has no value."""

    def __init__(self, resolved: Resolved, nodes: Sequence[int]) -> None:
        self.resolved, self.nodes = resolved, list(nodes)
        self.programs: dict[frozenset[str], Program] = {}
        self.literals = literal_columns(resolved)

    def _program(self, columns: frozenset[str]) -> Program:
        if columns not in self.programs:
            graph, at = specialise(self.resolved.graph, columns | self.literals.keys(), self.nodes)
            machine, placed = simplify(graph, [at[c] for c in self.nodes])
            self.programs[columns] = schedule(machine, placed)
        return self.programs[columns]

    def __call__(self, point: Point) -> list[list[float]] | None:
        """The rows of each node; None where a name has no value, or the columns do not fit."""
        program = self._program(frozenset(n for n, v in point.items() if isinstance(v, list)))
        values: dict[str, Number] = {n: v if isinstance(v, float) else np.array(v) for n, v in point.items()}
        values |= self.literals
        needed = {label for _, label in program.scalar_inputs} | set(program.column_inputs)
        if not needed <= values.keys():
            return None
        sizes = {len(values[n]) for n in program.column_inputs}  # type: ignore[arg-type]
        if len(sizes) > 1:
            return None
        found = execute.run(program, values, next(iter(sizes), 1), threads=1)
        return [[float(x) for x in np.atleast_1d(v)] for v in found]
