"""Run a program natively: threads over ranges of rows, the last rows in a vector of their own, sums in one order."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from itertools import count

import numpy as np

from gradcli.engine import execute
from gradcli.engine.execute import TILE, Values
from gradcli.engine.memory import ALIGNMENT, address, aligned, shared
from gradcli.engine.native import host
from gradcli.engine.native.machine_code import PROGRAMS, Native
from gradcli.engine.native.together import over_rows
from gradcli.engine.program import Phase, Program
from gradcli.engine.threads import cores, in_threads
from gradcli.results import Column

CHUNK = 16384  # rows that a thread takes at once: at two cores and 1e6 rows neither waits long for the other
SHARED = 4 * CHUNK  # rows from which on waking another thread takes less time than it saves
_STAYS = 1 << 25  # bytes of columns whose results stay in the cache, whatever its size
_PIECES = 16  # into which few rows are cut
_TILES = 8  # how many tiles of a reduced column are computed before they are summed


def available() -> str | None:
    """Why this machine cannot run native code, in a phrase; None if it can."""
    return host.refusal()


def refusal(program: Program) -> str | None:
    """Why this program cannot run as native code, in a phrase; None if it can."""
    reason = host.refusal()
    if reason is None:
        found = PROGRAMS.get(program)
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
    inputs: list[Column] = [values[label] for label in program.column_inputs]  # type: ignore[misc]
    streaming = beyond_cache(8 * rows * (len(inputs) + program.output_count))
    streaming = streaming and (out is None or all(address(o) % ALIGNMENT == 0 for o in out))
    native = PROGRAMS.get(program)
    if isinstance(native, str):
        raise ValueError(native)
    if out is None:
        outputs, places = shared().placed(program.output_count, rows)
    else:
        outputs, places = list(out), [address(o) for o in out]
    columns = _Columns(inputs, outputs, [*map(address, inputs), *places], rows, streaming)
    scalars = execute.given_scalars(program, values, rows)
    if native.plain:  # what numpy computes here are no numbers that it may warn of
        _Pass(native, 0, program.phases[0], scalars, columns).run(scalars, threads, block)
        return [outputs[n] if column else scalars[n] for column, n in program.roots]
    with np.errstate(all="ignore"):
        for k, phase in enumerate(program.phases):
            execute.run_scalars(phase, scalars)
            if k in native.phases:
                _Pass(native, k, phase, scalars, columns).run(scalars, threads, block)
        results: list[float | Column] = [outputs[n] if column else scalars[n] for column, n in program.roots]
        return execute.tainted(native.rest, results) if native.rest else results


def beyond_cache(size: int) -> bool:
    """Whether the results of a run with so many bytes of columns go past the cache, where nothing of them would stay.

    Where they would, they are read again from there, and what the last run left of them there need not be driven out:
    measured with 480 MB of cache and other work between two runs, 1e6 rows take 0.75 of the time, 4e6 rows 1.04.
    """
    return size > max(_STAYS, host.last_cache() // 2)


class _Columns:
    """The inputs and then the outputs, and where they begin."""

    def __init__(
        self, inputs: list[Column], outputs: list[Column], addresses: list[int], rows: int, streaming: bool
    ) -> None:
        self.all, self.first_output, self.addresses = inputs + outputs, len(inputs), addresses
        self.rows, self.streaming = rows, streaming


class _Pass:
    """One phase over all rows."""

    def __init__(self, native: Native, number: int, phase: Phase, scalars: Sequence[float], columns: _Columns) -> None:
        self.width, self.rows = native.width, columns.rows
        self.whole = self.rows - self.rows % self.width  # what fills vectors
        code = native.code(columns.streaming)
        self.code, self.place = code.rows[number], code.places[number]
        self.phase, self.columns = phase, columns
        self.numbers = array("d", scalars)
        self.scalars = self.numbers.buffer_info()[0]

    def run(self, scalars: list[float], threads: int | None, block: int | None) -> None:
        step = -(-block // TILE) * TILE if block else 0
        if self.phase.reductions:
            self._reduced(scalars, threads, step or _TILES * TILE)
        else:
            self._mapped(threads, step)

    def _mapped(self, threads: int | None, step: int) -> None:
        table = _table(self.columns.addresses)
        places, chunk = table.buffer_info()[0], step or min(CHUNK, max(TILE, self.rows // _PIECES // TILE * TILE))
        workers = min(threads or cores(), -(-self.whole // chunk))
        if self.whole and (workers == 1 or (threads is None and self.rows < SHARED)):
            self.code(places, self.scalars, 0, self.whole)
        elif self.whole:
            over_rows(self.place, places, self.scalars, self.whole, chunk, workers)
        if self.whole < self.rows:
            self._last(places)

    def _last(self, places: int) -> None:
        """The last rows, which do not fill a vector: with some rows before them again, or in columns that do."""
        if self.rows >= self.width and not self.columns.streaming:
            self.code(places, self.scalars, self.rows - self.width, self.rows)
        else:
            self._padded([])

    def _reduced(self, scalars: list[float], threads: int | None, step: int) -> None:
        reductions, tiles = self.phase.reductions, -(-self.rows // TILE)
        partials = [np.empty(tiles) for _ in reductions]
        taken = count(0, step)

        def work(_: int) -> None:
            buffers = [aligned(step) for _ in reductions]
            with np.errstate(all="ignore"):  # of this thread: numpy keeps it per context
                while (low := next(taken)) < self.rows:
                    self._block(low, min(low + step, self.rows), buffers)
                    self._sum(low, min(low + step, self.rows), buffers, partials)

        in_threads(work, min(threads or cores(), -(-self.rows // step)))
        for (name, _, target), own in zip(reductions, partials, strict=True):
            scalars[target] = execute.combine(name, own)

    def _block(self, low: int, high: int, buffers: Sequence[Column]) -> None:
        """Rows low to high, the columns to be reduced into buffers."""
        full = min(high, self.whole)
        own = [address(b) - 8 * low for b in buffers]
        if low < full:
            table = _table([*self.columns.addresses, *own])
            self.code(table.buffer_info()[0], self.scalars, low, full)
        if full < high:
            self._padded([b[full - low : high - low] for b in buffers])

    def _padded(self, ends: Sequence[Column]) -> None:
        """The last rows in columns of one vector each, by the same code; `ends`: where the reduced ones go."""
        left, given = self.rows - self.whole, self.columns
        columns = [*[c[self.whole :] for c in given.all], *ends]
        vectors = aligned(len(columns) * self.width).reshape(-1, self.width)
        vectors.fill(0.0)
        for own, column in zip(vectors, columns[: len(given.all)], strict=False):
            own[:left] = column
        table = _table(range(address(vectors), address(vectors) + vectors.nbytes, 8 * self.width))
        self.code(table.buffer_info()[0], self.scalars, 0, self.width)
        for own, column in zip(vectors[given.first_output :], columns[given.first_output :], strict=True):
            column[:] = own[:left]

    def _sum(self, low: int, high: int, buffers: Sequence[Column], partials: Sequence[Column]) -> None:
        """Tile by tile as the ufunc sums contiguous numbers."""
        for (name, _, _), column, tiles in zip(self.phase.reductions, buffers, partials, strict=True):
            reduce, full = execute.ufunc(name).reduce, (high - low) // TILE * TILE
            if full:  # each tile is contiguous: the bits are those of one call a tile
                reduce(column[:full].reshape(-1, TILE), axis=1, out=tiles[low // TILE : (low + full) // TILE])
            if low + full < high:
                tiles[-1] = reduce(column[full : high - low])


def _table(addresses: Iterable[int]) -> array[int]:
    return array("q", addresses)
