"""Large graphs as whole arrays: what loops over their nodes would do one by one. Loaded for these alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from gradcli.graph import Graph

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


def enter(graph: Graph, nodes: Sequence[int]) -> None:
    """Enter nodes into the table of those that are interned, in their order."""
    ops, chosen = graph.ops, np.array(nodes, np.intc)
    first, operands = _operands(graph, len(graph))
    counts = first[chosen + 1] - first[chosen]
    hashes = np.empty(len(chosen), np.int64)
    for count in np.unique(counts).tolist():
        alike = counts == count
        of_these = operands[first[chosen[alike]][:, None] + np.arange(count)].tolist()
        keys = zip([ops[n] for n in chosen[alike].tolist()], map(tuple, of_these), strict=True)
        hashes[alike] = np.fromiter(map(hash, keys), np.int64, len(of_these))
    put(np.frombuffer(graph.table, np.intc), chosen, hashes)


def put(table: Any, nodes: Any, hashes: Any) -> None:
    """Put nodes into a table where their hashes say: all at once, those whose slot is taken then try the next one."""
    slots = hashes & len(table) - 1
    while len(nodes):
        free = table[slots] < 0
        table[slots[free]] = nodes[free]
        left = table[slots] != nodes
        nodes, slots = nodes[left], slots[left] + 1 & len(table) - 1


def append(graph: Graph, ops: list[str], counts: Any, operands: Any, starts: Any, ends: Any,
           named: dict[int, str]) -> None:  # fmt: skip
    """Append scalars: operations, how many operands each has, those of all one after the other, where the places in the
    text start and end, and the labels of those that are names.

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
    graph.labels.update(named)
    enter(graph, [node for node in range(before, len(graph)) if node not in named])


def decimals(graph: Graph, texts: list[str], starts: Any, ends: Any) -> list[int]:
    """The nodes of numbers from their decimals, which stand in these places: as `Graph.constant`, all at once."""
    known, base = graph.constants, len(graph)
    new = {text: i for i, text in reversed(list(enumerate(texts))) if text not in known}  # of two alike the first
    at = sorted(new.values())
    nodes, new_texts = range(base, base + len(at)), [texts[i] for i in at]
    known.update(zip(new_texts, nodes, strict=True))
    graph.numbers.update(zip(nodes, zip(map(float, new_texts), new_texts, strict=True), strict=True))
    _, first, flat = graph.layout()
    graph.ops += ["constant"] * len(at)
    first.extend([len(flat)] * len(at))
    graph.columns.extend(bytes(len(at)))
    graph.starts.extend(starts[at].tolist())
    graph.ends.extend(ends[at].tolist())
    return [known[text] for text in texts]


def _operands(graph: Graph, count: int) -> tuple[Any, Any]:
    """Where the operands of so many nodes start, and these."""
    _, first, flat = graph.layout()
    starts = np.frombuffer(first, np.intc)[: count + 1]
    return starts, np.frombuffer(flat, np.intc)[: starts[-1]]
