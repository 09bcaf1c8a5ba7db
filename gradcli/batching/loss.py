"""A scalar over all rows of a table, with its gradient: `grad --data`.

Rows stream through the reductions of the program. What needs them once reads them once, so that a pipe works and memory
is flat: sums, means, products, norms. For a second pass the numbers are kept in a temporary file, which is read faster
than text.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradcli.api import Program
from gradcli.batching.bind import Bound
from gradcli.batching.run import DataError
from gradcli.engine import stream
from gradcli.errors import BindingError
from gradcli.formats.cells import Fault, Reading, shorten
from gradcli.formats.reader import Reader
from gradcli.formats.table import Table, Wanted
from gradcli.results import Result
from gradcli.runners import local

Columns = list[NDArray[np.float64]]


@dataclass(frozen=True)
class Question:
    """One output and what is asked about it."""

    output: str
    wrt: Sequence[str] | None = None
    retained: Sequence[str] = ()
    off: Sequence[str] = ()


@dataclass
class Answered:
    """A result, the program that it is of, the numbers that its scalar leaves had.

    `odd`: its columns that have numbers that are not finite, in how many rows, and where the first of them is.
    """

    program: Program
    result: Result
    values: dict[str, float]
    odd: dict[str, tuple[int, str]]


def answer(
    bound: Bound, questions: Sequence[Question], reader: Reader, skip_missing: bool, reading: Reading, jobs: int
) -> list[Answered]:
    """Raises BindingError for an output or a gradient that is a column, DataError for a row that cannot be used."""
    programs = [_compiled(bound, q) for q in questions]
    needed = {n: i for p in programs for n in p.needed if (i := bound.columns.get(n)) is not None}
    if not needed:
        raise BindingError.of(
            f"no column of the data gives `{questions[0].output}` a value", help="name a column as the model does"
        )
    source = _Rows(reader, list(needed.values()), skip_missing, reading, jobs)
    machines = [p.machine(frozenset(n for n in p.needed if n in needed)) for p in programs]
    order = {n: k for k, n in enumerate(needed)}
    wanted = sum(stream.passes(m) for m in machines)
    rows = 0
    if wanted > 1 or any(stream.counts_first(m) for m in machines):
        rows = source.spool()
    found = []
    for program, machine in zip(programs, machines, strict=True):
        scalars = _scalars(program, needed)
        picked = [order[n] for n in machine.column_inputs]
        numbers = stream.run(machine, scalars, rows, partial(source.pieces, picked))
        odd = {n: source.odd[k] for n, k in order.items() if n in program.needed and k in source.odd}
        found.append(Answered(program, program._result(numbers, source.count), scalars, odd))
    if not source.count:
        raise DataError.of("the data have no rows", help="a loss over nothing has no value")
    return found


def _compiled(bound: Bound, question: Question) -> Program:
    model = bound.model
    by = _scalar_leaves(bound, question)
    show = [n for n in question.retained if not _has_rows(bound, n)]
    program = model.compile(question.output, by, show, no_grad=question.off, show=show, engine="pointwise")
    machine = program.machine(frozenset(n for n in program.needed if n in bound.columns))
    if machine.roots[0][0]:
        span = model.resolved.names[program.output].span
        raise BindingError.of(
            f"`{program.output}` has a number for each row, --data wants one for all rows",
            span,
            "end with `sum(...)` or another reduction, or use `gradcli batch`",
        )
    if machine.output_count:
        raise BindingError.of("a gradient that was asked for has a number for each row", help="ask by scalars only")
    return program


def _scalar_leaves(bound: Bound, question: Question) -> list[str]:
    model = bound.model
    if question.wrt is None:
        return [n for n in model.leaves if n not in bound.columns and n not in question.off]
    labels = [model.find(n).label for n in question.wrt]
    columns = [n for n in labels if _has_rows(bound, n)]
    if columns:
        raise BindingError.of(
            f"the gradient by `{columns[0]}` has a number for each row", help="ask by scalars only: `--wrt`"
        )
    return labels


def _has_rows(bound: Bound, label: str) -> bool:
    """Whether a name is a column once the data are bound: it depends on one, and not through reductions alone."""
    from gradcli.calculus.specialise import specialise

    resolved = bound.model.resolved
    node = resolved.names[label].node
    graph, at = specialise(resolved.graph, frozenset(bound.columns), [node])
    return bool(graph.columns[at[node]])


def _scalars(program: Program, needed: dict[str, int]) -> dict[str, float]:
    """The values of all leaves that are no columns."""
    values, _, lists = program.values({n: 0.0 for n in program.needed if n in needed})
    odd = [n for n in lists if n in program.needed]
    if odd or lists:
        label = odd[0] if odd else "a list"
        raise BindingError.of(
            f"`{label}` is a list, here the rows come from the data", help="put its numbers into a column"
        )
    return {n: float(v) for n, v in values.items() if n not in needed and isinstance(v, float)}


class _Rows:
    """The numbers of the needed columns, read once from the data, or as often as wanted from a temporary file."""

    def __init__(self, reader: Reader, columns: Sequence[int], skip_missing: bool, reading: Reading, jobs: int) -> None:
        self.reader, self.columns, self.skip_missing, self.jobs = reader, columns, skip_missing, jobs
        self.wanted = Wanted(tuple(columns), (), False, False, reading)
        self.count = self.missing = 0
        self.odd: dict[int, tuple[int, str]] = {}
        self.file: Any = None
        self.sizes: list[int] = []

    def spool(self) -> int:
        """Read all rows into a temporary file; how many there are."""
        self.file = tempfile.TemporaryFile()  # noqa: SIM115  closed with the object
        for arrays in self._read():
            for array in arrays:
                self.file.write(np.ascontiguousarray(array).data)
            self.sizes.append(len(arrays[0]))
        return self.count

    def pieces(self, picked: Sequence[int]) -> Iterator[Columns]:
        """The picked columns, piece by piece."""
        if self.file is None:
            for arrays in self._read():
                yield [arrays[k] for k in picked]
            return
        self.file.seek(0)
        for rows in self.sizes:
            arrays = [np.frombuffer(self.file.read(8 * rows)) for _ in self.columns]
            yield [arrays[k] for k in picked]

    def _read(self) -> Iterator[Columns]:
        base, number = 0, 0
        for chunk, table in local.run(self._parse, self.reader.chunks(), self.jobs):
            if chunk.number != number:
                number, base = chunk.number, 0
            for fault in table.faults:
                raise self._stop(chunk, base, fault)
            arrays = [table.values[i] for i in self.columns] if table.rows else [np.empty(0) for _ in self.columns]
            if table.missing is not None:
                if not self.skip_missing:
                    row = int(np.flatnonzero(table.missing)[0])
                    record = table.record(row)
                    odd = next(i for i in self.columns if np.isnan(table.values[i][row]))
                    name, remedy = self.reader.header.names[odd], "`--data-missing skip` leaves such rows out"
                    fault = Fault(record, table.line_of(record), name, "", "the value is missing", remedy)
                    raise self._stop(chunk, base, fault)
                self.missing += int(np.count_nonzero(table.missing))
                arrays = [a[~table.missing] for a in arrays]
            self._look(chunk.source, base, table, arrays)
            base += table.records
            self.count += len(arrays[0])
            if len(arrays[0]):
                yield arrays

    def _look(self, source: str, base: int, table: Table, arrays: Columns) -> None:
        """Count numbers that are not finite."""
        for k, array in enumerate(arrays):
            if np.isfinite(array).all():
                continue
            rows = np.flatnonzero(~np.isfinite(array))
            kept = np.arange(table.rows) if table.missing is None else np.flatnonzero(~table.missing)
            count, place = self.odd.get(k, (0, f"data row {base + table.record(int(kept[rows[0]])) + 1} of {source}"))
            self.odd[k] = count + len(rows), place

    def _parse(self, chunk: Any) -> tuple[Any, Table]:
        return chunk, self.reader.parse(chunk, self.wanted)

    def _stop(self, chunk: Any, base: int, fault: Fault) -> DataError:
        column = f", column `{fault.column}`" if fault.column else ""
        place = f"{chunk.source}:{chunk.line + fault.line}" if fault.line else chunk.source
        shown = "" if fault.column or not fault.text else f": `{shorten(fault.text)}`"
        return DataError.of(
            f"{place}: data row {base + fault.record + 1}{column}: {fault.reason}{shown}", help=fault.help
        )
