"""Registers of a long scalar code, from whole arrays: the same that are handed out one instruction at a time."""

from __future__ import annotations

from array import array
from typing import Any


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
        self.nodes = nodes
        self.operands = np.frombuffer(flat, np.intc)[places]
        self.last = np.frombuffer(marks, np.bool_)[places]

    def assign(self, at: array[int], given: int, free: list[int], count: int) -> int:
        """Give each node a register, in `at`, and return how many there are then.

        The register freed last is taken first: mostly that of an operand, which is seen beforehand.
        """
        import numpy as np

        register = np.frombuffer(at, np.intc)
        freed = np.flatnonzero(self.last & ((register < 0) | (register >= given))[self.operands])
        owner = np.searchsorted(self.ends, freed, "right")
        taken = np.append(owner[1:] != owner[:-1], True)[: len(owner)]  # by the instruction itself
        operands = self.operands[freed]
        heirs = np.full(len(self.nodes), -1, np.intc)
        heirs[owner[taken]] = operands[taken]
        spare = np.bincount(owner[~taken], minlength=len(self.nodes))
        others = iter(operands[~taken].tolist())
        found = at.tolist()
        for node, heir, more in zip(self.nodes, heirs.tolist(), spare.tolist(), strict=True):
            if more:
                free.extend([found[next(others)] for _ in range(more)])
            if heir >= 0:
                found[node] = found[heir]
            elif free:
                found[node] = free.pop()
            else:
                found[node] = count
                count += 1
        register[:] = found
        return count

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
