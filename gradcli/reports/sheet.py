"""What a formula report prints: a graph, definitions for what is used again, and the results."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from gradcli.calculus.tidy import tree_sizes
from gradcli.graph import Graph

_SHARED = 5  # operations and leaves of what is worth a definition of its own


@dataclass(frozen=True)
class Line:
    """`label = node`; `output` and `by` of a derivative, () for the value of the output itself."""

    label: str
    node: int
    output: str = ""
    by: tuple[str, ...] = ()


@dataclass(frozen=True)
class Sheet:
    """`definitions` are in an order in which each uses earlier ones only.

    `names`: nodes that are written by a name; `values`: the outputs themselves, for reports that return them too;
    `leaves` in the order of the model, and what each output `needs` of them, also where formulas no longer show it;
    `lists`: columns of constants, by the label of their leaf; `taken`: names that the model uses; `defaults`: values of
    leaves that are called like a constant of the language, and must be defined before they can be used.
    """

    graph: Graph
    definitions: tuple[Line, ...]
    results: tuple[Line, ...]
    values: tuple[Line, ...]
    names: Mapping[int, str]
    leaves: tuple[str, ...]
    needs: Mapping[str, frozenset[str]]
    lists: Mapping[str, str]
    taken: frozenset[str]
    defaults: Mapping[str, str] = field(default_factory=dict)

    def each(self) -> Iterator[Sheet]:
        """One sheet a result, with the definitions that it needs."""
        for line in self.results:
            yield self.only((line,))

    def only(self, lines: tuple[Line, ...], values: tuple[Line, ...] = ()) -> Sheet:
        """The sheet for some of the results."""
        marks = self.graph.reachable(line.node for line in (*lines, *values))
        needed = tuple(d for d in self.definitions if marks[d.node])
        return replace(self, definitions=needed, results=lines, values=values)

    def used(self) -> tuple[str, ...]:
        """The leaves that are used, in the order of the model."""
        graph = self.graph
        marks = graph.reachable(line.node for line in (*self.definitions, *self.results, *self.values))
        found = {graph.labels[n] for n in range(len(graph)) if marks[n] and graph.ops[n] == "leaf"}
        return tuple(label for label in self.leaves if label in found)

    def parameters(self, output: str) -> tuple[str, ...]:
        """The leaves of an output, in the order of the model."""
        return tuple(label for label in self.leaves if label in self.needs[output] and label not in self.lists)


def occurrences(graph: Graph, roots: Iterable[int], most: int = 10**9) -> list[int]:
    """How often each node is written when nothing has a definition."""
    counts = [0] * len(graph)
    for root in roots:
        counts[root] += 1
    for node in range(len(graph) - 1, -1, -1):
        if counts[node]:
            for a in graph.arguments(node):
                counts[a] = min(most, counts[a] + counts[node])
    return counts


def full_sizes(graph: Graph, most: int = 10**9) -> list[int]:
    """Like `tree_sizes`, with what names stand for written out."""
    sizes = [1] * len(graph)
    for node, op in enumerate(graph.ops):
        if op == "name":
            sizes[node] = sizes[graph.arguments(node)[0]]
        elif op not in ("leaf", "constant"):
            sizes[node] = min(most, 1 + sum(sizes[a] for a in graph.arguments(node)))
    return sizes


def worth_a_name(graph: Graph, roots: Collection[int], lists: Mapping[str, int]) -> list[int]:
    """Nodes used more than once, and too large to be written twice. `lists`: the lengths of columns of constants."""
    marks = graph.reachable(roots)
    uses = array("i", (0,)) * len(graph)
    for node in range(len(graph)):
        if marks[node]:
            for a in graph.arguments(node):
                uses[a] += 1
    for root in roots:
        uses[root] += 1
    found = []
    sizes = [1] * len(graph)
    for node, op in enumerate(graph.ops):
        if not marks[node] or op in ("constant", "name"):
            continue
        if op == "leaf":
            sizes[node] = lists.get(graph.labels[node], 1)
        else:
            sizes[node] = 1 + sum(sizes[a] for a in graph.arguments(node))
        if uses[node] > 1 and sizes[node] >= _SHARED:
            found.append(node)
            sizes[node] = 1
    return found


def largest(graph: Graph, roots: Iterable[int]) -> int:
    """The size of the largest root, names counted as one."""
    sizes = tree_sizes(graph)
    return max((sizes[r] for r in roots), default=0)
