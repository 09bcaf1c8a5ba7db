"""Run a program whose results are scalars over rows that come in pieces, as often as its phases need them.

The same bits as `execute.run` on whole columns that are not called large: rows are numbered over all pieces, tile k is
rows 4096k to 4096k + 4095, and the tiles combine in the same binary tree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from gradcli.engine.execute import TILE, Worker, bound, calls, combine, given_scalars, run_scalars, tainted
from gradcli.engine.program import Phase, Program
from gradcli.results import Column

_ROWS = 16 * TILE

Pieces = Iterable[Sequence[Column]]


def passes(program: Program) -> int:
    """How often the rows are needed."""
    return sum(bool(phase.reductions) for phase in program.phases)


def counts_first(program: Program) -> bool:
    """Whether the number of rows must be known before the rows have been read once."""
    for phase in program.phases:
        read = {a for _, _, arguments in (*phase.scalars, *phase.columns) for a in arguments}
        if program.rows_register in read:
            return True
        if phase.reductions:
            break
    return False


def run(program: Program, scalars: Mapping[str, float], rows: int, pieces: Callable[[], Pieces]) -> list[float]:
    """The roots, all scalars. `pieces` begins a new pass: arrays in the order of `program.column_inputs`. `rows` is
    asked for by `counts_first` alone: who has read all rows has counted them."""
    registers = given_scalars(program, scalars, rows)
    unknown = program.rows_register >= 0 and not counts_first(program)
    with np.errstate(all="ignore"):
        for phase in program.phases:
            run_scalars(phase, registers)
            if phase.reductions:
                count = _reduce(program, phase, registers, tiled(pieces()))
                if unknown:
                    registers[program.rows_register], unknown = float(count), False
        return [float(x) for x in tainted(program, [registers[n] for _, n in program.roots])]


def _reduce(program: Program, phase: Phase, registers: list[float], blocks: Iterator[list[Column]]) -> int:
    """One pass, into the registers of its reductions; how many rows there were."""
    code, count = bound(calls(phase.columns)), 0
    shared = [np.float64(s) for s in registers]
    found: list[list[Column]] = [[] for _ in phase.reductions]
    for arrays in blocks:
        rows = len(arrays[0])
        count += rows
        partials = [np.empty((rows + TILE - 1) // TILE) for _ in phase.reductions]
        worker = Worker(program, shared, arrays, (), min(rows, _ROWS))
        for low in range(0, rows, _ROWS):
            worker.run(phase, code, low, min(low + _ROWS, rows), partials)
        for tiles, partial in zip(found, partials, strict=True):
            tiles.append(partial)
    for (name, _, target), tiles in zip(phase.reductions, found, strict=True):
        registers[target] = combine(name, np.concatenate(tiles) if tiles else np.empty(0))
    return count


def tiled(pieces: Pieces) -> Iterator[list[Column]]:
    """The same rows in pieces of whole tiles, the last one excepted."""
    held: list[Sequence[Column]] = []
    count = 0
    for arrays in pieces:
        held.append(arrays)
        count += len(arrays[0])
        if count >= _ROWS:
            joined = [np.concatenate(parts) for parts in zip(*held, strict=True)]
            whole = count - count % TILE
            yield [a[:whole] for a in joined]
            held, count = [[a[whole:] for a in joined]], count - whole
    if count:
        yield [np.concatenate(parts) for parts in zip(*held, strict=True)]
