"""Large graphs as whole arrays: what loops over their nodes would do one by one. Loaded for these alone."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import repeat
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from gradcli.graph import Graph
    from gradcli.sparse import Sparse

_ROUNDS = 12


def settled(graph: Graph, start: Iterable[int], top: int, down: bool, closed: Iterable[int] = ()) -> bytearray | None:
    """As `Graph.settled`. All nodes are marked at first, and what nothing marks loses its mark, in rounds over whole
    arrays: few where nearly all nodes are marked in the end, as in a large model. None where there would be many."""
    first, operands = _operands(graph, top + 1)
    users = np.repeat(np.arange(top + 1, dtype=np.intc), np.diff(first))
    if closed:
        open_ = np.ones(len(users), bool)
        open_[[i for i in closed if i < len(users)]] = False
        operands, users = operands[open_], users[open_]
    source, target = (users, operands) if down else (operands, users)
    given = np.zeros(len(graph), bool)
    given[list(start)] = True
    marks = np.ones(top + 1, bool)
    for _ in range(_ROUNDS):
        before, marks = marks, given[: top + 1].copy()
        marks[target[before[source]]] = True
        if (marks == before).all():
            given[: top + 1] = marks
            return bytearray(given.tobytes())
    return None


def enter(graph: Graph, begin: int = 0, end: int | None = None) -> None:
    """Enter what is interned into the table, operations and numbers, from one node to another."""
    end = len(graph) if end is None else end
    ops, table = graph.ops, np.frombuffer(graph.table, np.intc)
    first, operands = _operands(graph, end)
    counts = np.diff(first[begin:])
    for apart in (graph.labels.nodes, graph.numbers.nodes):
        nodes = np.frombuffer(apart, np.intc)
        counts[nodes[slice(*np.searchsorted(nodes, (begin, end)))] - begin] = -1
    numbers = slice(*np.searchsorted(nodes, (begin, end)))
    put(table, nodes[numbers], hashes(graph.numbers.texts[numbers]))
    for count in np.unique(counts[counts >= 0]).tolist():
        alike = begin + np.flatnonzero(counts == count)
        names = map(ops.__getitem__, alike.tolist())
        put(table, alike, of_operations(names, [operands[first[alike] + i] for i in range(count)]))


def hashes(keys: Iterable[Any]) -> Any:
    return np.fromiter(map(hash, keys), np.int64)


def of_operations(names: Iterable[str], operands: list[Any]) -> Any:
    """The hashes of operations, as `Graph.intern` takes them: of their first operands, their second ones, and so on.

    Never a list or a tuple for each node that outlives it: the collector would walk all strings of the graph for them.
    """
    arguments = zip(*[column.tolist() for column in operands], strict=True) if operands else repeat(())
    return hashes(zip(names, arguments, strict=False))


def find(graph: Graph, names: list[str], operands: list[Any]) -> Any:
    """The nodes of operations on their first operands, their second ones, and so on: as `Graph.find`, all at once."""
    table = np.frombuffer(graph.table, np.intc)
    first, flat = _operands(graph, len(graph))
    found, left = np.full(len(names), -1), np.arange(len(names))
    slots = of_operations(names, operands) & len(table) - 1
    while len(left):
        nodes = table[slots]
        taken = nodes >= 0
        slots, left, nodes = slots[taken], left[taken], nodes[taken]
        same = first[nodes + 1] - first[nodes] == len(operands)
        for i, column in enumerate(operands):
            same[same] = flat[first[nodes[same]] + i] == column[left[same]]
        at = np.flatnonzero(same)
        pairs = zip(nodes[at].tolist(), left[at].tolist(), strict=True)
        same[at] = [graph.ops[node] == names[i] for node, i in pairs]
        found[left[same]] = nodes[same]
        slots, left = slots[~same] + 1 & len(table) - 1, left[~same]
    return found


def put(table: Any, nodes: Any, hashes: Any) -> None:
    """Put nodes into a table where their hashes say: all at once, those whose slot is taken then try the next one."""
    slots = hashes & len(table) - 1
    while len(nodes):
        free = table[slots] < 0
        table[slots[free]] = nodes[free]
        left = table[slots] != nodes
        nodes, slots = nodes[left], slots[left] + 1 & len(table) - 1


def append(
    graph: Graph, ops: list[str], counts: Any, operands: Any, starts: Any, ends: Any, names: Any, labels: list[str]
) -> None:
    """Append scalars: operations, how many operands each has, those of all one after the other, where the places in the
    text start and end, and which of them are names, with their labels.

    No two of them may be the same operation on the same operands, nor one that is there already.
    """
    before = len(graph)
    _, first, flat = graph.layout()
    graph.reserve(len(ops))
    graph.ops += ops
    first.frombytes((len(flat) + np.cumsum(counts)).astype(np.intc).tobytes())
    flat.frombytes(operands.astype(np.intc).tobytes())
    graph.columns.extend(bytes(len(ops)))
    graph.starts.frombytes(starts.astype(np.intc).tobytes())
    graph.ends.frombytes(ends.astype(np.intc).tobytes())
    told(graph.labels, names, labels)
    enter(graph, before)


def decimals(graph: Graph, texts: list[str], starts: Any, ends: Any) -> Any:
    """The nodes of numbers from their decimals, which stand in these places: as `Graph.constant`, all at once."""
    graph.reserve(len(texts))
    found, base, new = known(graph, texts), len(graph), dict[str, int]()
    missing = np.flatnonzero(found < 0)
    for i in missing.tolist():
        new.setdefault(texts[i], i)
    at, added = list(new.values()), list(new)
    _, first, flat = graph.layout()
    graph.ops += ["constant"] * len(at)
    first.extend([len(flat)] * len(at))
    graph.columns.extend(bytes(len(at)))
    graph.starts.extend(starts[at].tolist())
    graph.ends.extend(ends[at].tolist())
    told(graph.numbers, base + np.arange(len(at)), added)
    graph.numbers.floats.extend(map(float, added))
    enter(graph, base)
    places = dict(zip(added, range(base, len(graph)), strict=True))
    found[missing] = [places[texts[i]] for i in missing.tolist()]
    return found


def known(graph: Graph, texts: list[str]) -> Any:
    """The nodes of numbers as written, -1 where there is none."""
    found = np.frombuffer(graph.table, np.intc)[hashes(texts) & len(graph.table) - 1]
    for i in np.flatnonzero(found >= 0).tolist():  # few, while the table is half empty
        found[i] = graph.find_number(texts[i])
    return found


def told(items: Sparse[Any], nodes: Any, texts: list[str]) -> None:
    """Add the texts of nodes, which are in order and behind all that have one."""
    if len(nodes):
        places = np.full(nodes[-1] + 1 - len(items.places), -1, np.intc)
        places[nodes - len(items.places)] = len(items.nodes) + np.arange(len(nodes))
        items.places.frombytes(places.tobytes())
        items.nodes.frombytes(nodes.astype(np.intc).tobytes())
        items.texts += texts


def _operands(graph: Graph, count: int) -> tuple[Any, Any]:
    """Where the operands of so many nodes start, and these."""
    _, first, flat = graph.layout()
    starts = np.frombuffer(first, np.intc)[: count + 1]
    return starts, np.frombuffer(flat, np.intc)[: starts[-1]]
