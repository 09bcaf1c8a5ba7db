"""Where results of many rows are written: the memory of results that nobody holds any more serves the next run.

A new array of a million rows costs more in page faults than the arithmetic that fills it. What dropped results took is
kept, of one size, no more of it than one run needs, and up to a limit.
"""

from __future__ import annotations

import ctypes
import threading
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Column = NDArray[np.float64]
ALIGNMENT = 64  # bytes: a cache line, and the widest vector
PAGE = 4096  # bytes
KEPT = 1 << 28  # bytes that are kept at most
DESK = 1 << 24  # bytes of registers that a thread keeps at most
SMALL = 1 << 15  # rows below which the C library keeps the memory at hand


def address(column: Column) -> int:
    """Where it begins. By way of its buffer in a third of the time of `__array_interface__`, a quarter of `ctypes`."""
    try:
        return ctypes.addressof(ctypes.c_char.from_buffer(column))  # type: ignore[arg-type]
    except (TypeError, ValueError):  # it is not to be written, or has no numbers
        place: int = column.__array_interface__["data"][0]
        return place


def aligned(numbers: int) -> Column:
    """Uninitialised numbers that begin at a cache line."""
    block: Column = np.empty(numbers + ALIGNMENT // 8)
    first = -address(block) % ALIGNMENT // 8
    return block[first : first + numbers]


def apart(numbers: int, number: int) -> Column:
    """The same, a good way behind the beginning of a page, and columns of different number not at the same place.

    Columns of the system begin at the beginning of a page, and a processor that has just written there takes the next
    read at the same place of another page for one of what it wrote: it waits, up to three times as long.
    """
    block: Column = np.empty(numbers + 2 * PAGE // 8)
    first = (-address(block) % PAGE + PAGE // 4 + 5 * ALIGNMENT * (number % 9)) // 8
    return block[first : first + numbers]


class _Block:
    """A column to be handed out again and again. What numpy asks about it takes as long as the rest: asked once."""

    __slots__ = ("address", "column", "interface")

    def __init__(self, rows: int, number: int) -> None:
        self.column = apart(rows, number)
        self.interface: dict[str, Any] = self.column.__array_interface__
        self.address: int = self.interface["data"][0]


class _Lease:
    """What an array that is handed out is made of; at its end the memory goes back."""

    __slots__ = ("__array_interface__", "_block", "_memory")

    def __init__(self, memory: Memory, block: _Block) -> None:
        self._memory, self._block, self.__array_interface__ = memory, block, block.interface

    def __del__(self) -> None:
        self._memory.give_back(self._block)


class Memory:
    """Columns of one length, new ones or those that came back."""

    def __init__(self) -> None:
        self._free: list[_Block] = []
        self._rows = self._most = self._made = 0

    def columns(self, count: int, rows: int) -> list[Column]:
        """Uninitialised columns that belong to the caller, each at the beginning of a cache line."""
        return self.placed(count, rows)[0]

    def placed(self, count: int, rows: int) -> tuple[list[Column], list[int]]:
        """The same, and where each begins."""
        if rows < SMALL:
            step = -(-rows * 8 // ALIGNMENT) * ALIGNMENT // 8
            together = aligned(step * count)
            first = address(together)
            columns = [together[i * step : i * step + rows] for i in range(count)]
            return columns, [first + 8 * step * i for i in range(count)]
        if rows != self._rows:
            self._free, self._rows, self._most = [], rows, 0
        self._most = max(self._most, min(count, KEPT // (8 * rows)))
        blocks = [self._take(rows) for _ in range(count)]
        return [np.asarray(_Lease(self, block)) for block in blocks], [block.address for block in blocks]

    def _take(self, rows: int) -> _Block:
        try:
            block = self._free.pop()
            if len(block.column) == rows:
                return block
        except IndexError:
            pass
        self._made += 1
        return _Block(rows, self._made)

    def give_back(self, block: _Block) -> None:
        if len(block.column) == self._rows and len(self._free) < self._most:
            self._free.append(block)


@cache
def shared() -> Memory:
    """The one of this process."""
    return Memory()


class _Desk(threading.local):
    """What a thread computes in, and keeps for its next run: new pages would cost as much as the arithmetic."""

    def __init__(self) -> None:
        self.numbers = aligned(0)


@cache
def _desk() -> _Desk:
    return _Desk()


def buffers(rows: int, floats: int, conditions: int) -> tuple[list[Column], list[NDArray[np.bool_]]]:
    """Registers of this thread, each at the beginning of a cache line. Those of its last run are overwritten."""
    line = ALIGNMENT // 8
    step = -(-rows // line) * line + line  # one line more: registers a power of two apart would share few cache sets
    apart_conditions = -(-rows // ALIGNMENT) * line
    together = step * floats + apart_conditions * conditions
    desk = _desk()
    numbers = desk.numbers if len(desk.numbers) >= together else aligned(together)
    if 8 * together <= DESK:
        desk.numbers = numbers
    truths = numbers[step * floats :].view(np.bool_)
    return (
        [numbers[i * step : i * step + rows] for i in range(floats)],
        [truths[i * 8 * apart_conditions :][:rows] for i in range(conditions)],
    )
