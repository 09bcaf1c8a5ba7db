"""Which sides of what selects (`where`, `max`, `abs`, `clip` …) have been taken, and points that take the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from gradcli.checking.points import Floats, Point, Sampler
from gradcli.graph import Graph
from gradcli.language.lower import Resolved

Rows = Sequence[float]

# How many sides each has; max and min have one for each argument.
_SIDES = {
    "where": 2,
    "abs": 2,
    "relu": 2,
    "leaky_relu": 2,
    "elu": 2,
    "selu": 2,
    "relu6": 3,
    "clip": 3,
    "max": 0,
    "min": 0,
}


class Branches:
    """The sides of everything that selects in the text of some nodes."""

    def __init__(self, resolved: Resolved, roots: Sequence[int]) -> None:
        self.resolved = resolved
        graph = resolved.graph
        self.sides: dict[int, int] = {}
        if not _SIDES.keys().isdisjoint(graph.ops):
            for node, mark in enumerate(graph.reachable(roots)):
                if mark and graph.ops[node] in _SIDES:
                    self.sides[node] = _SIDES[graph.ops[node]] or len(graph.arguments(node))
        self.seen: set[tuple[int, int]] = set()
        choices = [n for n in self.sides if graph.ops[n] == "where"]
        self.compared = sorted({c for node in choices for c in _conditions(graph, node)})
        self.watched = sorted({a for node in (*self.sides, *self.compared) for a in graph.arguments(node)})
        self._floats = Floats(resolved, self.watched) if self.sides else None

    def taken(self, rows: Callable[[int], Rows]) -> set[tuple[int, int]]:
        """The sides that operands lead to; `rows` has their numbers, by node of the text."""
        graph, found = self.resolved.graph, set()
        for node in self.sides:
            columns = [rows(a) for a in graph.arguments(node)]
            for row in range(max(map(len, columns))):
                values = [c[row] if len(c) > 1 else c[0] for c in columns]
                if all(v == v for v in values):
                    found.add((node, _side(graph.ops[node], values)))
        return found

    def tied(self, rows: Callable[[int], Rows]) -> bool:
        """Whether a point lies where two sides meet: there may be a kink."""
        graph = self.resolved.graph
        for node in (*self.sides, *self.compared):
            columns = [rows(a) for a in graph.arguments(node)]
            for row in range(max(map(len, columns))):
                if _meets(graph.ops[node], [c[row] if len(c) > 1 else c[0] for c in columns]):
                    return True
        return False

    def at(self, point: Point) -> set[tuple[int, int]]:
        """The sides taken at a point, by float64."""
        found = self._floats(point) if self._floats else None
        if found is None:
            return set()
        return self.taken(dict(zip(self.watched, found, strict=True)).__getitem__)

    def unseen(self, sampler: Sampler) -> Iterator[Point]:
        """Points that take a side which has not been taken; those that the domain rules out do not come up."""
        if not self.sides:
            return
        graph = self.resolved.graph
        constants = [
            graph.numbers[n][0] for n, m in enumerate(graph.reachable(self.watched)) if m and n in graph.numbers
        ]
        signed = [c for c in (0.0, *constants) for c in (c, -c)]
        for point in sampler.aimed([c for c in signed if abs(c) < 1e300]):
            if self.at(point) - self.seen:
                yield point
            if len(self.seen) >= sum(self.sides.values()):
                return

    @property
    def count(self) -> tuple[int, int] | None:
        total = sum(self.sides.values())
        return (len(self.seen), total) if total else None

    def untaken(self) -> str | None:
        """A sentence about the first side that no point took."""
        graph = self.resolved.graph
        for node, count in self.sides.items():
            for side in range(count):
                if (node, side) not in self.seen:
                    span = self.resolved.node_span(node)
                    text = f"`{span.text[:60]}`" if span else f"`{graph.ops[node]}`"
                    return f"no point took {side_name(graph.ops[node], side)} of {text}"
        return None


def _conditions(graph: Graph, node: int) -> list[int]:
    """The comparisons that the condition of a `where` is made of."""
    found, todo = [], [graph.arguments(node)[0]]
    while todo:
        n = todo.pop()
        if graph.ops[n] in ("lt", "le", "gt", "ge"):
            found.append(n)
        elif graph.ops[n] in ("and", "or", "not"):
            todo += graph.arguments(n)
    return found


def _meets(op: str, values: Rows) -> bool:
    if op == "where":
        return False
    if op in ("max", "min"):
        best = max(values) if op == "max" else min(values)
        return list(values).count(best) > 1
    if op == "clip":
        return values[0] in values[1:]
    if op in ("lt", "le", "gt", "ge"):
        return values[0] == values[1]
    return values[0] in (0.0, 6.0 if op == "relu6" else 0.0)


def side_name(op: str, side: int) -> str:
    """One side of an operation, for a message."""
    if op == "where":
        return ("the first branch", "the else branch")[side]
    if op in ("max", "min"):
        return f"argument {side + 1}"
    if op in ("clip", "relu6"):
        return ("the part below", "the middle", "the part above")[side]
    return ("the positive side", "the negative side")[side]


def _side(op: str, values: Rows) -> int:
    if op == "where":
        return 0 if values[0] else 1
    if op in ("max", "min"):
        best = max(values) if op == "max" else min(values)
        return list(values).index(best)
    if op in ("clip", "relu6"):
        x, low, high = values if op == "clip" else (values[0], 0.0, 6.0)
        return 0 if x < low else 2 if x > high else 1
    return 0 if values[0] > 0 else 1
