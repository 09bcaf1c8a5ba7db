"""Where the records of a chunk are, exactly: for quotes, CRLF, blank lines, and rows that are not as they should be."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np

from gradcli.errors import FileError
from gradcli.formats.cells import Fault, read_cells
from gradcli.formats.headers import Dialect, Header, split_line
from gradcli.formats.records import NEWLINE, RETURN, Chunk, Positions, exact, fields_of, inside, quoted, record_ends
from gradcli.formats.table import Table, Wanted

# Bytes that stand for something while a chunk is worked on, if they do not occur in it.
SPARE = (1, 2, 3, 4, 5, 6, 7, 8, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 28, 29, 30, 31)


class Layout:
    """Where the records of a chunk are; repaired where they are not all alike."""

    def __init__(self, chunk: Chunk, data: bytes, header: Header, dialect: Dialect) -> None:
        self.chunk, self.header, self.dialect = chunk, header, dialect
        self.width = len(header.names)
        self.skipped_lines = header.lines if chunk.first else 0
        self.faults: list[Fault] = []
        self.bad: list[int] = []
        self.record_of: list[int] | None = None
        self.line_of: list[int] | None = None
        self.records = 0
        self._place(without_returns(data, dialect.quoting))

    def _place(self, data: bytes) -> None:
        self.data = data
        self.text = np.frombuffer(data, np.uint8)
        self.quotes, self.ends = record_ends(self.text, self.dialect.quoting and b'"' in data)
        if self.record_of is None:
            self.records = len(self.ends)

    def is_sound(self) -> bool:
        """Whether each record has as many fields as the header: the separators of each lie between its ends."""
        separators = self._separators()
        rows, each = len(self.ends), self.width - 1
        if len(separators) != rows * each:
            return False
        if not each:
            return True
        grid = separators.reshape(rows, each)
        return bool((grid[:, -1] < self.ends).all() and (grid[1:, 0] > self.ends[:-1]).all())

    def _separators(self) -> Positions:
        found = np.flatnonzero(self.text == ord(self.dialect.separator))
        return found[~inside(self.quotes, found)] if len(self.quotes) else found

    def repair(self, drop: bool, encoding: bool = False) -> None:
        """Leave blank lines out; records with a fault are left out or made to fit, and listed."""
        header = int(self.chunk.first and self.header.lines > 0)
        broken = {f.record - header: f for f in self.chunk.faults}
        counts = np.diff(np.searchsorted(self._separators(), self.ends), prepend=0) + 1
        starts = [0, *(self.ends[:-1] + 1).tolist()]
        lines = np.searchsorted(np.flatnonzero(self.text == NEWLINE), starts) + 1 + self.skipped_lines
        rows: list[bytes] = []
        earlier_records, earlier_lines = self.record_of, self.line_of
        self.record_of, self.line_of, number, bad = [], [], 0, set(self.bad)
        marks: list[int] = []
        for i, (start, end, count) in enumerate(zip(starts, self.ends.tolist(), counts.tolist(), strict=True)):
            raw = self.data[start:end]
            line = earlier_lines[i] if earlier_lines is not None else int(lines[i])
            fault = broken.get(i) if earlier_records is None else None
            if fault is None and count != self.width and count == 1 and not raw.strip():
                continue
            record = earlier_records[i] if earlier_records is not None else number
            number += 1
            fault = self._fault(fault, record, line, raw, count, encoding)
            if fault is not None and fault.text and earlier_records is None:
                fault = replace(fault, text=self.chunk.written.get(i + header, fault.text))
            if fault is not None:
                self.faults.append(fault)
                if drop:
                    continue
                raw = self._fitted(raw, fault)
            if fault is not None or i in bad:
                marks.append(len(rows))
            rows.append(raw)
            self.record_of.append(record)
            self.line_of.append(line)
        if earlier_records is None:
            self.records = number
        self.bad = marks
        self._place(b"".join(row + b"\n" for row in rows))

    def _fault(
        self, known: Fault | None, record: int, line: int, raw: bytes, count: int, encoding: bool
    ) -> Fault | None:
        if known is not None:
            return replace(known, record=record, line=line, cut=True)
        text = raw.decode("utf-8", "backslashreplace")
        if count != self.width:
            fields = f"{count} field{'s' * (count != 1)}, the header has {self.width}"
            lost = self.header.names[count:]
            more = f": `{lost[0]}` is missing" if lost else ""
            return Fault(
                record,
                line,
                "",
                text,
                fields + more,
                self._remedy(text, count),
                cut=count > self.width,
            )
        if encoding:
            try:
                raw.decode()
            except UnicodeDecodeError as fault:
                cells = split_line(raw[: fault.start].decode(), self.dialect) if not self.dialect.quoting else []
                column = self.header.names[len(cells) - 1] if cells else ""
                return Fault(
                    record,
                    line,
                    column,
                    text,
                    f"byte 0x{raw[fault.start]:02x} is not UTF-8",
                    "`--encoding latin-1` (or another) says what it is",
                    cut=True,
                )
        return None

    def _remedy(self, text: str, count: int) -> str:
        """What to do about a record with too many or too few fields."""
        mark = self.dialect.separator
        if count < self.width:
            return "give each row a field for each column"
        if count == self.width + 1 and text.endswith(mark):
            return "leave the separator at its end out, or end the header with one too"
        if self.dialect.quoting and re.search(rf'(?:^|{re.escape(mark)})"\s+""', text):
            return "take the space before the quote away: a quote opens a cell right behind the separator"
        return "quote a cell that holds the separator"

    def _fitted(self, raw: bytes, fault: Fault) -> bytes:
        """A record with a fault, made to have the fields of the header."""
        mark = self.dialect.separator
        text = raw.decode("utf-8", "replace") + "\n"
        if self.dialect.quoting:
            cells = next((c for c, _, _, _ in fields_of(text, mark)), [""])
        else:
            cells = text[:-1].split(mark)
        cells = (cells + [""] * self.width)[: self.width]
        return mark.join(quoted(c, mark) if self.dialect.quoting else c for c in cells).encode()

    def table(self, wanted: Wanted) -> Table:
        """Raises UnicodeDecodeError."""
        rows = len(self.ends)
        table = Table(rows, self.records, {}, faults=list(self.faults), line_of=self._line_of_record)
        if self.record_of is not None:
            table.record_of = np.array(self.record_of, dtype=np.intp)
        columns = sorted({*wanted.needed, *(() if wanted.whole else wanted.kept)})
        cells = self._cells(columns) if rows else {c: _empty() for c in columns}
        missing, bad = None, set(self.bad)
        for column in wanted.needed:
            found = read_cells(cells[column], wanted.reading)
            table.values[column] = found.values
            if found.missing is not None:
                missing = found.missing if missing is None else missing | found.missing
            for row, text, reason, remedy in found.bad:
                if row not in bad:
                    name = self.header.names[column]
                    table.faults.append(Fault(table.record(row), self._line(row), name, text, reason, remedy))
        table.missing = missing
        if wanted.whole:
            table.lines, table.restore = self._lines()
        else:
            table.frame = _frame({self.header.names[c]: cells[c] for c in wanted.kept}, rows)
        by_record = {f.record for f in table.faults}
        if by_record:
            numbers = table.record_of if table.record_of is not None else np.arange(rows)
            table.mark(np.flatnonzero(np.isin(numbers, list(by_record))).tolist(), wanted.drop)
            table.faults.sort(key=lambda f: f.record)
        return table

    def _line(self, row: int) -> int:
        if self.line_of is not None:
            return self.line_of[row]
        start = int(self.ends[row - 1]) + 1 if row else 0
        return int(np.count_nonzero(self.text[:start] == NEWLINE)) + 1 + self.skipped_lines

    def _line_of_record(self, record: int) -> int:
        return self._line(self.record_of.index(record) if self.record_of is not None else record)

    def _cells(self, columns: Sequence[int]) -> dict[int, Any]:
        if not columns:
            return {}
        frame = read_text(self.data, self.dialect.separator, self.dialect.quoting, columns)
        if frame.height != len(self.ends):  # polars and we disagree: read exactly
            whole = exact(self.data, self.dialect.separator)[0].decode()
            rows = [cells for cells, _, _, _ in fields_of(whole, self.dialect.separator)]
            return {c: _texts([row[c] for row in rows]) for c in columns}
        return dict(zip(columns, frame.get_columns(), strict=True))

    def _lines(self) -> tuple[Any, bytes]:
        """Each record as one text; a line break within it is replaced by a byte that does not occur."""
        if not len(self.ends):
            return _empty(), b""
        unused = list(islice((b for b in SPARE if b not in self.data), 2))
        if len(unused) < 2:
            raise FileError.of("the data hold every control character", help="`--keep` with names of columns")
        data, restore = self.data, b""
        newlines = np.flatnonzero(self.text == NEWLINE) if len(self.quotes) else self.ends
        if len(newlines) != len(self.ends):
            text = self.text.copy()
            text[newlines[inside(self.quotes, newlines)]] = unused[1]
            data, restore = text.tobytes(), bytes((unused[1],))
        return read_text(data, chr(unused[0]), False, [0]).to_series(0), restore


def without_returns(data: bytes, quoting: bool) -> bytes:
    """CRLF record ends become LF; a CR within quotes stays."""
    if b"\r" not in data:
        return data
    text = np.frombuffer(data, np.uint8)
    _, ends = record_ends(text, quoting)
    before = ends[ends > 0] - 1
    mask = np.ones(len(text), dtype=bool)
    mask[before[text[before] == RETURN]] = False
    return text[mask].tobytes()


def read_text(data: bytes, separator: str, quoting: bool, columns: Sequence[int]) -> Any:
    """Raises UnicodeDecodeError where polars finds that the data are not UTF-8."""
    import polars as pl

    try:
        return pl.read_csv(
            data,
            has_header=False,
            infer_schema=False,
            separator=separator,
            quote_char='"' if quoting else None,
            columns=list(columns),
        )
    except pl.exceptions.ComputeError:
        data.decode()
        raise


def _texts(cells: list[str]) -> Any:
    import polars as pl

    return pl.Series(cells, dtype=pl.String)


def _empty() -> Any:
    return _texts([])


def _frame(columns: dict[str, Any], rows: int) -> Any:
    import polars as pl

    return pl.DataFrame({name: series.alias(name) for name, series in columns.items()}) if columns else None
