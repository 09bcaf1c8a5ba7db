"""Run a program: scalars as Python floats, columns over blocks of rows that fit the cache, on all cores.

The same bits for any block size and number of threads: every operation is elementwise, and sums have one order. Tile k
is rows 4096k to 4096k + 4095 of the whole input, reduced by the ufunc's own `reduce` on contiguous float64; tiles
combine in a binary tree that is fixed by k.
"""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from gradcli.engine.program import Phase, Program
from gradcli.primitives import TABLE
from gradcli.results import Column, Number

Values = Mapping[str, Number]

TILE = 4096
# What the registers of one worker may take. Measured over 25 Feynman equations at 1e6 rows on two cores, ns a row:
# 256 KB 17.4, 512 KB 15.7, 1 MB 12.5, 2 MB 10.8, 4 MB 11.1; below that calls queue for the interpreter lock.
_CACHE_BYTES = 1 << 21


def _where(c: Any, a: Any, b: Any, out: Any) -> None:
    out[...] = np.where(c, a, b)


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
    """The registers of one thread: scalars, views of the inputs and outputs, buffers of its own."""

    def __init__(
        self, program: Program, scalars: Sequence[Any], inputs: Sequence[Column], outputs: Sequence[Column], block: int
    ) -> None:
        self.program, self.inputs, self.outputs = program, inputs, outputs
        self.floats = [np.empty(block) for _ in range(program.float_count)]
        self.conditions = [np.empty(block, dtype=bool) for _ in range(program.condition_count)]
        self.registers: list[Any] = [*scalars, *inputs, *outputs, *self.floats, *self.conditions]
        self.block = block

    def run(self, phase: Phase, code: Sequence[Any], low: int, high: int, partials: Sequence[Column]) -> None:
        """One block of rows through the code of one phase."""
        r, first = self.registers, self.program.scalar_count
        r[first : first + len(self.inputs)] = [a[low:high] for a in self.inputs]
        first += len(self.inputs)
        r[first : first + len(self.outputs)] = [a[low:high] for a in self.outputs]
        first += len(self.outputs)
        rows = high - low
        buffers = self.floats + self.conditions
        r[first:] = buffers if rows == self.block else [b[:rows] for b in buffers]
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


def bound(code: Sequence[tuple[str, int, tuple[int, ...]]]) -> list[tuple[int, Any, int, int, tuple[int, ...], int]]:
    return [(len(a), kernel(op), a[0] if a else 0, a[1] if len(a) > 1 else 0, a, out) for op, out, a in code]


def combine(name: str, tiles: Column) -> float:
    """Tiles in a binary tree fixed by their number: neighbours first, an odd last one goes up as it is."""
    function = ufunc(name)
    if not len(tiles):
        return float(function.identity) if function.identity is not None else math.nan
    while len(tiles) > 1:
        odd = tiles[-1:] if len(tiles) % 2 else tiles[:0]
        tiles = np.concatenate([function(tiles[: len(tiles) - len(odd) : 2], tiles[1::2]), odd])
    return float(tiles[0])


def block_rows(program: Program) -> int:
    """Rows of a block: a multiple of the tile whose registers fit the cache, from 4096 to 65536."""
    registers = program.float_count + program.output_count + len(program.column_inputs) + 1
    return min(16, max(1, _CACHE_BYTES // (8 * TILE * registers))) * TILE


def run(
    program: Program,
    values: Values,
    rows: int,
    threads: int | None = None,
    block: int | None = None,
    out: Sequence[Column] | None = None,
) -> list[float | Column]:
    """The roots of the program at the given values: floats, or (rows,) float64 arrays (those of `out` where given).

    `values` has a float or a contiguous float64 array for every input of the program.
    """
    inputs: list[Any] = [values[label] for label in program.column_inputs]
    outputs = list(out) if out is not None else [np.empty(rows) for _ in range(program.output_count)]
    block = -(-block // TILE) * TILE if block else block_rows(program)
    blocks = [(low, min(low + block, rows)) for low in range(0, rows, block)] if program.output_count or inputs else []
    workers = max(1, min(threads or os.cpu_count() or 1, len(blocks)))
    scalars = given_scalars(program, values, rows)
    with np.errstate(all="ignore"):
        for phase in program.phases:
            run_scalars(phase, scalars)
            if phase.columns or phase.stores or phase.reductions:
                _run_columns(program, phase, scalars, inputs, outputs, blocks, workers, block)
        results: list[float | Column] = [outputs[n] if column else scalars[n] for column, n in program.roots]
        return tainted(program, results)


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
    for op, out, arguments in phase.scalars:
        if len(arguments) == 2:
            scalars[out] = scalar_kernel(op)(scalars[arguments[0]], scalars[arguments[1]])
        else:
            scalars[out] = scalar_kernel(op)(*[scalars[a] for a in arguments])


def _run_columns(
    program: Program,
    phase: Phase,
    scalars: list[Any],
    inputs: list[Column],
    outputs: list[Column],
    blocks: Sequence[tuple[int, int]],
    workers: int,
    block: int,
) -> None:
    rows = blocks[-1][1] if blocks else 0
    partials = [np.empty((rows + TILE - 1) // TILE) for _ in phase.reductions]
    code = bound(phase.columns)
    shared = [np.float64(s) for s in scalars]

    def work(number: int) -> None:
        with np.errstate(all="ignore"):  # of this thread: numpy keeps it per context
            worker = Worker(program, shared, inputs, outputs, min(block, rows))
            for low, high in blocks[number::workers]:
                worker.run(phase, code, low, high, partials)

    if workers == 1:
        work(0)
    else:
        from concurrent.futures import ThreadPoolExecutor  # not for one point

        with ThreadPoolExecutor(workers) as pool:
            list(pool.map(work, range(workers)))
    for (name, _, target), tiles in zip(phase.reductions, partials, strict=True):
        scalars[target] = combine(name, tiles)


def tainted(program: Program, results: list[float | Column]) -> list[float | Column]:
    """Where an output is nan, its gradients are nan: applied last, and only where there is a nan at all."""
    bad: dict[int, Any] = {}
    for number, source in enumerate(program.taints):
        if source < 0:
            continue
        if source not in bad:
            value = results[source]
            if isinstance(value, float):
                bad[source] = value != value
            else:
                bad[source] = np.isnan(value) if len(value) and np.isnan(value.min()) else False
        where = bad[source]
        if where is False:
            continue
        gradient = results[number]
        if isinstance(gradient, float):
            results[number] = math.nan
        else:
            np.copyto(gradient, math.nan, where=where)
    return results
