"""Registers of a long scalar code, from whole arrays: the same that are handed out one instruction at a time."""

from __future__ import annotations

from array import array
from typing import Any

from gradcli.graph import Graph


def split(
    graph: Graph, needed: bytearray, levels: array[int], reductions: list[int]
) -> tuple[array[int], list[array[int]]]:
    """Needed nodes that are scalars, in order: what is given, and what is computed in each level."""
    import numpy as np  # not for small graphs

    scalars = np.frombuffer(needed, np.uint8) > np.frombuffer(graph.columns, np.uint8)
    scalars[reductions] = False
    nodes = np.flatnonzero(scalars).astype(np.intc)
    given = (np.diff(np.frombuffer(graph.layout()[1], np.intc)) == 0)[nodes]  # no operands
    nodes, given = nodes[~given], nodes[given]
    level = np.frombuffer(levels, np.intc)[nodes]
    last = max([levels[n] for n in reductions], default=0)
    parts = np.split(nodes[np.argsort(level, kind="stable")], np.cumsum(np.bincount(level, minlength=last + 1))[:last])
    return array("i", given.tobytes()), [array("i", part.tobytes()) for part in parts]


def last_places(first: array[int], flat: array[int], nodes: array[int], seen: bytearray, marks: bytearray) -> None:
    """Mark where the operands of the nodes are used for the last time, unless seen already; then they are seen."""
    import numpy as np  # not for small graphs

    places = _places(first, nodes)[0]
    operands = np.frombuffer(flat, np.intc)[places]
    last = np.full(len(seen), -1, np.intc)
    order = np.arange(len(operands), dtype=np.intc)
    last[operands] = order  # the last one stays
    known = np.frombuffer(seen, np.uint8)
    np.frombuffer(marks, np.uint8)[places] = (last[operands] == order) & (known[operands] == 0)
    known[operands] = 1


class LongCode:
    """The instructions of many nodes. `marks`: the places of operands that are used for the last time."""

    def __init__(self, first: array[int], flat: array[int], nodes: array[int], marks: bytearray) -> None:
        import numpy as np

        places, self.ends = _places(first, nodes)
        self.nodes = np.frombuffer(nodes, np.intc)
        self.operands = np.frombuffer(flat, np.intc)[places]
        self.last = np.frombuffer(marks, np.bool_)[places]

    def assign(self, at: array[int], given: int, free: list[int], count: int) -> int:
        """Give each node a register, in `at`, and return how many there are then.

        The register freed last is taken first: mostly that of an operand, which is seen beforehand. Such a register
        goes from heir to heir; only the first of them, its head, takes it from those that are free.
        """
        import numpy as np

        head, heads, freed = self._heads(at, given)
        for node, is_free in zip(heads, freed, strict=True):
            if is_free:
                free.append(at[node])
            elif free:
                at[node] = free.pop()
            else:
                at[node] = count
                count += 1
        register = np.frombuffer(at, np.intc)
        register[self.nodes] = register[head[self.nodes]]
        return count

    def _heads(self, at: array[int], given: int) -> tuple[Any, array[int], bytes]:
        """The head of every node; and in order those that take a register, or free it, and which of the two."""
        import numpy as np

        register = np.frombuffer(at, np.intc)
        freed = np.flatnonzero(self.last & ((register < 0) | (register >= given))[self.operands]).astype(np.intc)
        owner = np.searchsorted(self.ends, freed, "right").astype(np.intc)
        taken = np.append(owner[1:] != owner[:-1], True)[: len(owner)]  # by the instruction itself
        operands = self.operands[freed]
        head = np.arange(len(at), dtype=np.intc)
        head[self.nodes[owner[taken]]] = operands[taken]
        takes = np.delete(np.arange(len(self.nodes), dtype=np.intc), owner[taken])
        while ((further := head[head]) != head).any():
            head = further
        order = np.argsort(np.concatenate((takes, owner[~taken])), kind="stable").astype(np.intc)
        heads = np.concatenate((self.nodes[takes], head[operands[~taken]]))[order]
        return head, array("i", heads.tobytes()), (order >= len(takes)).tobytes()

    def registers(self, at: array[int]) -> tuple[bytes, bytes, bytes]:
        """Those of the targets, where the operands of each instruction end, and those of the operands."""
        import numpy as np

        register = np.frombuffer(at, np.intc)
        return register[self.nodes].tobytes(), self.ends.tobytes(), register[self.operands].tobytes()


def _places(first: array[int], nodes: array[int]) -> tuple[Any, Any]:
    """Where the operands of the nodes are, one after the other, and how many there are up to each node."""
    import numpy as np

    starts = np.frombuffer(first, np.intc)
    low, high = starts[nodes], starts[1:][nodes]
    ends = np.cumsum(high - low, dtype=np.intc)
    shift = low.copy()
    shift[1:] -= ends[:-1]
    return np.arange(ends[-1], dtype=np.intc) + np.repeat(shift, high - low), ends
