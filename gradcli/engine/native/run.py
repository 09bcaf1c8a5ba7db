"""Run a compiled program: threads over ranges of rows, the last rows padded to a vector, sums in the one order."""

from __future__ import annotations

import ctypes
import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import count

import numpy as np

from gradcli.engine import execute
from gradcli.engine.execute import TILE, Column, Values
from gradcli.engine.native import host
from gradcli.engine.native.machine_code import Compiled, programs
from gradcli.engine.program import Phase, Program

CHUNK = 16384  # rows that a thread takes at once: at two cores and 1e6 rows neither waits long for the other
_TILES = 8  # how many tiles of a reduced column are computed before they are summed


def available() -> str | None:
    """Why this machine cannot run native code, in a phrase; None if it can."""
    return host.refusal()


def refusal(program: Program) -> str | None:
    """Why this program cannot run as native code, in a phrase; None if it can (and it is compiled then)."""
    reason = host.refusal()
    if reason is None:
        found = programs().get(program)
        reason = found if isinstance(found, str) else None
    return reason


def run(
    program: Program,
    values: Values,
    rows: int,
    threads: int | None = None,
    block: int | None = None,
    out: Sequence[Column] | None = None,
) -> list[float | Column]:
    """What `execute.run` does, the columns by machine code. Raises ValueError where `refusal` gives a reason."""
    compiled = programs().get(program)
    if isinstance(compiled, str):
        raise ValueError(compiled)
    inputs: list[Column] = [values[label] for label in program.column_inputs]  # type: ignore[misc]
    outputs = list(out) if out is not None else [np.empty(rows) for _ in range(program.output_count)]
    scalars: list[float] = [math.nan] * program.scalar_count
    for register, number in program.constants:
        scalars[register] = number
    for register, label in program.scalar_inputs:
        scalars[register] = values[label]  # type: ignore[assignment]
    if program.rows_register >= 0:
        scalars[program.rows_register] = float(rows)
    workers = threads or os.cpu_count() or 1
    with np.errstate(all="ignore"):
        for k, phase in enumerate(program.phases):
            execute._run_scalars(phase, scalars)
            if k in compiled.rows:
                _Pass(compiled, k, phase, scalars, inputs, outputs, rows, workers, block).run(scalars)
        results: list[float | Column] = [outputs[n] if column else scalars[n] for column, n in program.roots]
        return execute._tainted(compiled.rest, results) if compiled.rest else results


class _Pass:
    """One phase over all rows."""

    def __init__(
        self,
        compiled: Compiled,
        number: int,
        phase: Phase,
        scalars: Sequence[float],
        inputs: Sequence[Column],
        outputs: Sequence[Column],
        rows: int,
        workers: int,
        block: int | None,
    ) -> None:
        self.width, self.rows = compiled.width, rows
        self.whole = rows - rows % self.width  # what fills vectors
        self.code, self.share = compiled.rows[number], compiled.share[number]
        self.phase, self.columns, self.workers = phase, [*inputs, *outputs], workers
        self.outputs = slice(len(inputs), len(inputs) + len(outputs))
        self.scalars = np.array([float(s) for s in scalars])
        self.block = -(-block // TILE) * TILE if block else 0

    def run(self, scalars: list[float]) -> None:
        if self.phase.reductions:
            self._reduced(scalars)
        else:
            self._mapped()

    def _mapped(self) -> None:
        if self.whole:
            addresses = _addresses(self.columns)
            counter, chunk = ctypes.c_int64(0), self.block or CHUNK
            place, scalars = ctypes.addressof(counter), self.scalars.ctypes.data

            def work(_: int) -> None:
                self.share(ctypes.addressof(addresses), scalars, place, self.whole, chunk)

            _in_threads(work, min(self.workers, -(-self.whole // chunk)))
        if self.whole < self.rows:
            self._padded([])

    def _padded(self, sources: Sequence[Column]) -> None:
        """The last rows, which do not fill a vector, by the same code in columns that do."""
        left = self.rows - self.whole
        columns = [*self.columns, *sources]
        rest = np.zeros((len(columns), self.width))
        for own, column in zip(rest, self.columns, strict=False):
            own[:left] = column[self.whole :]
        addresses = _addresses(rest)
        self.code(ctypes.addressof(addresses), self.scalars.ctypes.data, 0, self.width)
        for own, column in zip(rest[self.outputs], columns[self.outputs], strict=True):
            column[self.whole :] = own[:left]
        for own, source in zip(rest[self.outputs.stop :], sources, strict=True):
            source[:left] = own[:left]

    def _reduced(self, scalars: list[float]) -> None:
        tiles = -(-self.rows // TILE)
        reductions = self.phase.reductions
        partials = [np.empty(tiles) for _ in reductions]
        step = self.block or _TILES * TILE
        taken = count(0, step)

        def work(_: int) -> None:
            buffers = np.empty((len(reductions), min(step, self.rows) + self.width))
            with np.errstate(all="ignore"):  # of this thread: numpy keeps it per context
                while (low := next(taken)) < self.rows:
                    self._block(low, min(low + step, self.rows), buffers, partials)

        _in_threads(work, min(self.workers, -(-self.rows // step)))
        for (name, _, target), own in zip(reductions, partials, strict=True):
            scalars[target] = execute.combine(name, own)

    def _block(self, low: int, high: int, buffers: Column, partials: Sequence[Column]) -> None:
        """Rows low to high: the reduced columns into buffers, and these tile by tile as the ufunc sums."""
        full = min(high, self.whole)
        if low < full:
            addresses = _addresses([*self.columns, *buffers], {len(self.columns) + i: low for i in range(len(buffers))})
            self.code(ctypes.addressof(addresses), self.scalars.ctypes.data, low, full)
        if high > full:
            self._padded([b[full - low :] for b in buffers])
        for (name, _, _), column, tiles in zip(self.phase.reductions, buffers, partials, strict=True):
            reduce = execute.ufunc(name).reduce
            for start in range(low, high, TILE):
                tiles[start // TILE] = reduce(column[start - low : min(start + TILE, high) - low])


def _addresses(columns: Sequence[Column] | Column, shifted: dict[int, int] | None = None) -> ctypes.Array[ctypes.c_void_p]:
    """Where the columns begin, some of them as if their first row were another than 0."""
    shifts = shifted or {}
    places = [c.ctypes.data - 8 * shifts.get(i, 0) for i, c in enumerate(columns)]
    return (ctypes.c_void_p * len(places))(*places)


@cache
def _pool() -> ThreadPoolExecutor:
    """Threads that stay: starting one takes as long as 50,000 rows."""
    return ThreadPoolExecutor(max(1, (os.cpu_count() or 1) - 1), "gradcli")


def _in_threads(work: Callable[[int], None], workers: int) -> None:
    """`work` in this thread and in others. The others may be busy; the work is shared by taking, not by dividing."""
    others = [_pool().submit(work, i) for i in range(1, workers)]
    work(0)
    for other in others:
        if not other.cancel():
            other.result()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)
