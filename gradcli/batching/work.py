"""One chunk: parse, compute, format. Runs in a worker; everything it shares is read only."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradcli.batching.causes import Cause, Causes
from gradcli.batching.plan import Plan
from gradcli.formats import delimited, ndjson, parquet, zstd
from gradcli.formats.cells import Fault, Reading
from gradcli.formats.headers import Dialect
from gradcli.formats.reader import Reader
from gradcli.formats.table import Table, Wanted


@dataclass(frozen=True)
class Shape:
    """How results are written."""

    format: str
    dialect: Dialect
    packing: str = ""
    words: bool = False


@dataclass
class Piece:
    """What one chunk came to. `data` is bytes, or a frame for Parquet; faults count from the start of the chunk."""

    source: str
    number: int
    line: int
    data: Any
    records: int
    rows: int
    missing: int
    faults: list[Fault]
    causes: dict[Cause, tuple[int, int]] = field(default_factory=dict)
    nonfinite: int = 0
    seen: set[str] = field(default_factory=set)


class Work:
    """Called with a chunk, gives its piece."""

    def __init__(self, reader: Reader, plan: Plan, shape: Shape, drop: bool, reading: Reading) -> None:
        self.reader, self.plan, self.shape = reader, plan, shape
        whole = plan.whole and self._lines_pass()
        raw = shape.format == reader.format == "ndjson"
        taken = tuple(plan.result_names)
        self.wanted = Wanted(tuple(plan.needed), tuple(plan.kept), whole, drop, reading, raw, taken, not plan.whole)
        self.columns = {n: i for n, i in plan.bound.columns.items() if i in plan.needed}
        self.causes = Causes(plan.programs)
        if shape.format != "parquet":
            parquet.refuse_bytes(reader.types, plan.kept_names, shape.format)

    def _lines_pass(self) -> bool:
        """Whether the lines of the input are good as they are in the output."""
        if self.shape.format != self.reader.format:
            return False
        return self.shape.format == "ndjson" or (
            self.reader.dialect is not None and self.reader.dialect == self.shape.dialect
        )

    def header(self) -> bytes:
        names = [*self.plan.kept_names, *self.plan.result_names]
        return delimited.header_line(names, self.shape.dialect) if self.shape.format in ("csv", "tsv") else b""

    def __call__(self, chunk: Any) -> Piece:
        table = self.reader.parse(chunk, self.wanted)
        if self.plan.domains and table.rows:
            self.enforce(table)
        piece = Piece(chunk.source, chunk.number, chunk.line, b"", table.records, table.rows, 0, table.faults)
        if not table.rows:
            return piece
        missing = table.missing
        if missing is not None:
            piece.missing = int(np.count_nonzero(missing if table.bad is None else missing & ~table.bad))
        piece.seen = {n for n in self.plan.bound.absent if self._occurs(table, n)}
        arrays = self.compute(table)
        self._look_for_nonfinite(table, arrays, piece)
        if self.shape.format == self.reader.format == "parquet" and table.frame is not None:
            parquet.refuse_other(chunk.source, table.frame, self.reader.types)
        piece.data = self._encode(table, self._series(arrays, table.empty))
        return piece

    def _occurs(self, table: Table, label: str) -> bool:
        """Whether any row has a value in a column that the first row lacks."""
        index = self.plan.bound.columns[label]
        found = table.values.get(index)
        return found is None or not np.isnan(found).all()

    def _inputs(self, table: Table, needed: Any) -> dict[str, NDArray[np.float64]]:
        return {n: table.values[i] for n, i in self.columns.items() if n in needed}

    def compute(self, table: Table) -> list[NDArray[np.float64]]:
        """The numbers of each result column."""
        results = [p.run(self._inputs(table, p.needed), threads=1) for p in self.plan.programs]
        arrays = []
        for column in self.plan.results:
            result = results[column.program]
            if column.kind == "value":
                number: Any = result.value
            elif column.kind == "shown":
                number = result.values[column.label]
            else:
                number = result.gradients.get(column.label)
                number = result.retained[column.label] if number is None else number
            arrays.append(np.full(table.rows, number) if isinstance(number, float) else number)
        return arrays

    def _look_for_nonfinite(self, table: Table, arrays: list[NDArray[np.float64]], piece: Piece) -> None:
        odd: NDArray[np.bool_] | None = None
        for array in arrays:
            finite = np.isfinite(array)
            if not finite.all():
                odd = ~finite if odd is None else odd | ~finite
        if odd is None:
            return
        if table.empty is not None:
            odd &= ~table.empty
        rows = np.flatnonzero(odd)
        piece.nonfinite = len(rows)
        if not len(rows):
            return
        for number, program in enumerate(self.plan.programs):
            own = {
                c.label if c.kind != "value" else "": a[rows]
                for c, a in zip(self.plan.results, arrays, strict=True)
                if c.program == number and c.kind != "shown"
            }
            inputs = {n: v[rows] for n, v in self._inputs(table, program.needed).items()}
            for cause, (count, first) in self.causes.find(number, inputs, own).items():
                earlier = piece.causes.get(cause, (0, table.records))
                piece.causes[cause] = earlier[0] + count, min(earlier[1], table.record(int(rows[first])))

    def enforce(self, table: Table) -> None:
        """Rows outside a domain are faults; missing values decide nothing."""
        outside: dict[int, str] = {}
        for program, text in zip(self.plan.domains, self.plan.domain_texts, strict=True):
            inputs = self._inputs(table, program.needed)
            value = program.run(inputs, threads=1).value
            bad = np.flatnonzero((np.full(table.rows, value) if isinstance(value, float) else value) == 0)
            for row in bad.tolist():
                if (table.empty is None or not table.empty[row]) and row not in outside:
                    outside[row] = text
                    shown = ", ".join(f"{n} = {float(v[row])!r}" for n, v in inputs.items())
                    record = table.record(row)
                    reason = f"outside the domain `{text}`: {shown}"
                    table.faults.append(
                        Fault(
                            record,
                            table.line_of(record),
                            "",
                            shown,
                            reason,
                            "`--on-error null` or `skip`, or leave `--domain` out",
                        )
                    )
        table.faults.sort(key=lambda f: f.record)
        table.mark(list(outside), self.wanted.drop)

    def _series(self, arrays: list[NDArray[np.float64]], empty: Any) -> list[Any]:
        import polars as pl

        made = [pl.Series(c.name, a) for c, a in zip(self.plan.results, arrays, strict=True)]
        if empty is not None and empty.any():
            mask = pl.Series(empty)
            made = [s.set(mask, None) for s in made]
        return made

    def _encode(self, table: Table, results: list[Any]) -> Any:
        shape = self.shape
        if shape.format == "parquet":
            numbers = self._as_floats(table) if self.reader.format != "parquet" else {}
            return parquet.frame_of(table.frame, results, numbers)
        if shape.format == "ndjson":
            data: bytes | memoryview = ndjson.encode(
                table.lines if self.wanted.whole else table.frame, results, shape.words, self.wanted.raw
            )
        else:
            kept = (
                [table.lines]
                if self.wanted.whole
                else list(table.frame.get_columns())
                if table.frame is not None
                else []
            )
            comma = self.wanted.reading.decimal_comma
            data = delimited.encode([*kept, *results], shape.dialect, table.restore, self.wanted.whole, comma)
        return pack(data, shape.packing)

    def _as_floats(self, table: Table) -> dict[str, Any]:
        """Texts that were read as numbers; a missing or malformed one is null, nan stays nan."""
        import polars as pl

        header, found = self.plan.bound.header, {}
        for index, values in table.values.items():
            if table.frame is not None and header[index] in table.frame.columns:
                if self.wanted.reading.decimal_comma:
                    found[header[index]] = pl.Series(header[index], values).fill_nan(None)
                else:
                    found[header[index]] = table.frame[header[index]].str.strip_chars().cast(pl.Float64, strict=False)
        return found

    def empty_frame(self) -> Any:
        """The columns and types of Parquet output, without a row."""
        import polars as pl

        typed = self.reader.types
        kept = [
            pl.Series(n, [], dtype=typed.get(n, pl.Float64 if i in self.columns.values() else pl.String))
            for n, i in zip(self.plan.kept_names, self.plan.kept, strict=True)
        ]
        return pl.DataFrame(kept + [pl.Series(n, [], dtype=pl.Float64) for n in self.plan.result_names])


def pack(data: bytes | memoryview, packing: str) -> bytes | memoryview:
    """A gzip member or a zstd frame of its own: one after the other they are one file."""
    if not packing or not len(data):
        return data
    if packing == "zstd":
        return zstd.compressed(bytes(data))
    packer = zlib.compressobj(5, wbits=31)
    return packer.compress(data) + packer.flush()
