"""Run a program: scalars as Python floats, columns over blocks of rows that fit the cache, on all cores.

The same bits for any block size and number of threads: every operation is elementwise, and sums have one order. Tile k
is rows 4096k to 4096k + 4095 of the whole input, reduced by the ufunc's own `reduce` on contiguous float64; tiles
combine in a binary tree that is fixed by k.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from gradcli.engine.program import Instruction, Phase, Program
from gradcli.primitives import TABLE
from gradcli.results import Column, Number

Values = Mapping[str, Number]
Call = tuple[Callable[..., Any], int, tuple[int, ...]]  # what is called, the register it writes, those it reads

TILE = 4096
# Rows of a block. Measured over 50 Feynman equations at 1e6 rows on two cores, ns a row: 65536 rows 4.58, 81920 4.52,
# 98304 4.55, 131072 4.73; 16384 rows 7. One core alone does best with 16384 rows, whose registers stay in the nearest
# caches. But of few long calls two rarely want the interpreter lock at once: the one that waits is woken by the system,
# which takes as long as 50,000 rows.
BLOCK = 20 * TILE
_LEAST = 4 * TILE  # rows below which a block is not cut for the sake of another thread
_CACHE_BYTES = 1 << 24  # of the registers of one worker


def _where(c: Any, a: Any, b: Any, out: Any) -> None:
    """By the bits of the numbers: what branches waits for each condition that it did not foresee. Measured, ns a row
    where half of the rows hold at random: 2.0, against +0.0 1.1; np.where 4.3, a masked copy 6.1."""
    if not c.ndim:
        np.copyto(out, a if c else b)
        return
    x, y, bits = a.view(np.int64), b.view(np.int64), out.view(np.int64)
    if not b.ndim and not y:
        np.bitwise_and(x, _mask(c), bits)
    elif not a.ndim and not x:
        np.bitwise_and(y, _mask(np.logical_not(c)), bits)
    else:
        mask = _mask(c)
        mask &= np.bitwise_xor(x, y, None if out is b else bits)
        np.bitwise_xor(y, mask, bits)


def _mask(c: Any) -> Any:
    """All bits of a number where a condition holds, none where it does not."""
    truths = c if c.dtype == bool else np.not_equal(c, 0)
    return np.negative(truths.view(np.int8)).astype(np.int64)


def _taint(x: Any, y: Any, out: Any) -> None:
    bad = np.isnan(y)  # before `out` is written: it may be the register of y
    np.copyto(out, x)
    if bad.any():
        np.copyto(out, np.nan, where=bad)


def _number(c: Any, out: Any) -> None:
    np.copyto(out, c)


def _maximum(a: Any, b: Any, out: Any = None) -> Any:
    return np.maximum(a, b, out=out)  # `out` by position is deprecated for these two


def _minimum(a: Any, b: Any, out: Any = None) -> Any:
    return np.minimum(a, b, out=out)


_KERNELS: dict[str, Callable[..., Any]] = {
    "where": _where,
    "_taint": _taint,
    "_number": _number,
    "_maximum": _maximum,
    "_minimum": _minimum,
}


@cache
def ufunc(name: str) -> Any:
    """A numpy ufunc, or a `special.` one of scipy, imported when it is first needed."""
    if name.startswith("special."):
        return getattr(import_module("scipy.special"), name.removeprefix("special."))
    return getattr(np, name)


@cache
def kernel(op: str) -> Callable[..., Any]:
    """What computes an operation on columns: called with its arguments and then the array to write into."""
    if op in _KERNELS:
        return _KERNELS[op]
    name = TABLE[op].ufunc
    assert name is not None, op
    function: Callable[..., Any] = ufunc(name)
    return function


def _divide(a: float, b: float) -> float:
    return a / b if b else float(np.divide(a, b))


def _root(a: float) -> float:
    return math.sqrt(a) if a >= 0 else math.nan


# Operations that Python's floats do with the same bits as the ufunc, without its call overhead.
_PYTHON: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "neg": operator.neg,
    "div": _divide,
    "sqrt": _root,
    "abs": abs,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "eq": operator.eq,
    "ne": operator.ne,
    "_number": float,
    "and": lambda a, b: bool(a and b),
    "or": lambda a, b: bool(a or b),
    "not": operator.not_,
    "where": lambda c, a, b: a if c else b,
    "_taint": lambda x, y: x if y == y else math.nan,
}


@cache
def scalar_kernel(op: str) -> Callable[..., Any]:
    """The same operation on Python floats."""
    if op in _PYTHON:
        return _PYTHON[op]
    function = kernel(op)
    return lambda *arguments: float(function(*arguments))


class Worker:
    """The registers of one thread: scalars, views of the inputs and outputs, buffers of its own.

    `watched`: outputs in which a nan matters to others; `nans`: those of them that were seen to hold one. `spare`: how
    many registers follow those of the program.
    """

    def __init__(
        self,
        program: Program,
        scalars: Sequence[Any],
        inputs: Sequence[Column],
        outputs: Sequence[Column],
        block: int,
        watched: Sequence[int] = (),
        spare: int = 0,
    ) -> None:
        from gradcli.engine.memory import buffers  # not for one point

        self.program, self.inputs, self.outputs = program, inputs, outputs
        self.watched, self.nans = watched, set[int]()
        floats, conditions = buffers(block, program.float_count + spare, program.condition_count)
        own = program.float_count
        self.buffers = [*floats[:own], *conditions, *floats[own:]]
        self.registers: list[Any] = [*scalars, *inputs, *outputs, *self.buffers]
        self.block = block

    def run(self, phase: Phase, code: Sequence[Any], low: int, high: int, partials: Sequence[Column]) -> None:
        """One block of rows through the code of one phase."""
        r, first = self.registers, self.program.scalar_count
        r[first : first + len(self.inputs)] = [a[low:high] for a in self.inputs]
        first += len(self.inputs)
        r[first : first + len(self.outputs)] = [a[low:high] for a in self.outputs]
        first += len(self.outputs)
        rows = high - low
        r[first:] = self.buffers if rows == self.block else [b[:rows] for b in self.buffers]
        for count, function, a, b, others, out in code:
            if count == 2:
                function(r[a], r[b], r[out])
            elif count == 1:
                function(r[a], r[out])
            else:
                function(*[r[i] for i in others], r[out])
        for source, number in phase.stores:
            np.copyto(self.outputs[number][low:high], r[source])
        for (name, source, _), tiles in zip(phase.reductions, partials, strict=True):
            reduce, column = ufunc(name).reduce, r[source]
            for start in range(0, rows, TILE):
                tiles[(low + start) // TILE] = reduce(column[start : start + TILE])
        for number in self.watched:  # while the block is near: a pass of its own would cost as much as an operation
            if np.isnan(np.minimum.reduce(self.outputs[number][low:high])):
                self.nans.add(number)


def calls(code: Iterable[Instruction]) -> Iterator[Call]:
    """What computes each instruction on columns."""
    return ((kernel(op), out, arguments) for op, out, arguments in code)


def bound(calls: Iterable[Call]) -> list[tuple[int, Any, int, int, tuple[int, ...], int]]:
    """Calls as `Worker.run` takes them."""
    return [(len(a), function, a[0] if a else 0, a[1] if len(a) > 1 else 0, a, out) for function, out, a in calls]


def combine(name: str, tiles: Column) -> float:
    """Tiles in a binary tree fixed by their number: neighbours first, an odd last one goes up as it is."""
    function = ufunc(name)
    if not len(tiles):
        return float(function.identity) if function.identity is not None else math.nan
    while len(tiles) > 1:
        odd = tiles[-1:] if len(tiles) % 2 else tiles[:0]
        tiles = np.concatenate([function(tiles[: len(tiles) - len(odd) : 2], tiles[1::2]), odd])
    return float(tiles[0])


def block_rows(program: Program, rows: int, workers: int) -> int:
    """Rows of a block: whole tiles whose registers fit the cache, as many blocks for each worker."""
    registers = program.float_count + program.output_count + len(program.column_inputs) + 1
    most = min(BLOCK, max(TILE, _CACHE_BYTES // (8 * registers) // TILE * TILE))
    count = max(1, -(-rows // most))
    if rows >= workers * _LEAST:
        count = -(-count // workers) * workers
    return max(1, -(-rows // (count * TILE))) * TILE


def _shares(program: Program, rows: int, threads: int | None, block: int | None) -> tuple[list[tuple[int, int]], int]:
    """Blocks of rows, and how many workers take them."""
    from gradcli.engine.threads import cores  # not for one point

    threads = threads or cores()
    step = -(-block // TILE) * TILE if block else block_rows(program, rows, threads)
    blocks = [(low, min(low + step, rows)) for low in range(0, rows, step)]
    return blocks, max(1, min(threads, len(blocks)))


def run(
    program: Program,
    values: Values,
    rows: int,
    threads: int | None = None,
    block: int | None = None,
    out: Sequence[Column] | None = None,
    large: bool = False,
) -> list[float | Column]:
    """The roots of the program at the given values: floats, or (rows,) float64 arrays (those of `out` where given).

    `values` has a float or a contiguous float64 array for every input of the program. `large`: sines and cosines by way
    of tangents where that pays, with other last bits than those of a single point.
    """
    inputs: list[Any] = [values[label] for label in program.column_inputs]
    outputs = list(out) if out is not None else _new_columns(program.output_count, rows)
    blocks, workers = _shares(program, rows, threads, block) if program.output_count or inputs else ([], 1)
    scalars = given_scalars(program, values, rows)
    nans: set[int] = set()
    with np.errstate(all="ignore"):
        for phase in program.phases:
            run_scalars(phase, scalars)
            if phase.columns or phase.stores or phase.reductions:
                nans |= _run_columns(program, phase, scalars, inputs, outputs, blocks, workers, large)
        results: list[float | Column] = [outputs[n] if column else scalars[n] for column, n in program.roots]
        return tainted(program, results, lambda output: output in nans)


def _new_columns(count: int, rows: int) -> list[Column]:
    if not count:
        return []
    from gradcli.engine.memory import shared  # not for one point

    return shared().columns(count, rows)


def given_scalars(program: Program, values: Values, rows: int) -> list[Any]:
    """The scalar registers with what is known before the first phase: constants, scalar leaves, the number of rows."""
    scalars: list[Any] = [math.nan] * program.scalar_count
    for register, number in program.constants:
        scalars[register] = number
    for register, label in program.scalar_inputs:
        scalars[register] = values[label]
    if program.rows_register >= 0:
        scalars[program.rows_register] = float(rows)
    return scalars


def run_scalars(phase: Phase, scalars: list[Any]) -> None:
    if not phase.scalars:
        return
    ops, targets, operands, ends = phase.scalars.layout()
    kernels = {op: scalar_kernel(op) for op in set(ops)}
    low = 0
    for op, out, high in zip(ops, targets, ends, strict=True):
        if high - low == 2:
            scalars[out] = kernels[op](scalars[operands[low]], scalars[operands[low + 1]])
        elif high - low == 1:
            scalars[out] = kernels[op](scalars[operands[low]])
        else:
            scalars[out] = kernels[op](*[scalars[a] for a in operands[low:high]])
        low = high


def _run_columns(
    program: Program,
    phase: Phase,
    scalars: list[Any],
    inputs: list[Column],
    outputs: list[Column],
    blocks: Sequence[tuple[int, int]],
    workers: int,
    large: bool,
) -> set[int]:
    """One phase over the rows; the outputs that hold a nan, of those where it matters."""
    rows = blocks[-1][1] if blocks else 0
    partials = [np.empty((rows + TILE - 1) // TILE) for _ in phase.reductions]
    spare, found = _calls(program, phase, large)
    code, watched = bound(found), _watched(program, phase)
    operands = [np.asarray(s, dtype=np.float64) for s in scalars]  # a call takes half the time that it does with floats
    taken = iter(blocks)
    nans: set[int] = set()

    def work(_: int) -> None:
        with np.errstate(all="ignore"):  # of this thread: numpy keeps it per context
            worker = Worker(program, operands, inputs, outputs, blocks[0][1] if blocks else 0, watched, spare)
            for low, high in taken:  # by whoever is ready for the next
                worker.run(phase, code, low, high, partials)
            nans.update(worker.nans)

    if workers == 1:
        work(0)
    else:
        from gradcli.engine.threads import in_threads

        in_threads(work, workers)
    for (name, _, target), tiles in zip(phase.reductions, partials, strict=True):
        scalars[target] = combine(name, tiles)
    return nans


def _calls(program: Program, phase: Phase, large: bool) -> tuple[int, Iterable[Call]]:
    """What computes the columns of a phase, and how many registers it needs beside those of the program."""
    if large and any(op in ("sin", "cos") for op, _, _ in phase.columns):
        from gradcli.engine import tangents  # not for few rows

        if tangents.pay():
            own = program.slots + len(program.column_inputs) + program.output_count
            return tangents.SPARE, tangents.calls(phase.columns, kernel, own)
    return 0, calls(phase.columns)


def _watched(program: Program, phase: Phase) -> list[int]:
    """The outputs of this phase whose nan others share."""
    first = program.scalar_count + len(program.column_inputs)
    written = {out - first for _, out, _ in phase.columns} | {number for _, number in phase.stores}
    sources = [program.roots[source] for source in set(program.taints) if source >= 0]
    return [number for column, number in sources if column and number in written]


def tainted(
    program: Program, results: list[float | Column], has_nan: Callable[[int], bool] | None = None
) -> list[float | Column]:
    """Where an output is nan, its gradients are nan: applied last, and only where there is a nan at all.

    `has_nan`: whether the output column of a number has one, where that is known.
    """
    bad: dict[int, Any] = {}
    for number, source in enumerate(program.taints):
        if source < 0:
            continue
        if source not in bad:
            value = results[source]
            if isinstance(value, float):
                bad[source] = value != value
            else:
                known = has_nan(program.roots[source][1]) if has_nan else len(value) and np.isnan(value.min())
                bad[source] = np.isnan(value) if known else False
        where = bad[source]
        if where is False:
            continue
        gradient = results[number]
        if isinstance(gradient, float):
            results[number] = math.nan
        else:
            np.copyto(gradient, math.nan, where=where)
    return results
