"""CSV and TSV: chunks are parsed by polars, every column as text; lines that nothing changes pass through as they are."""

from __future__ import annotations

import io
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradcli.errors import FileError, did_you_mean
from gradcli.formats.cells import Fault, parse_number, read_cells, shorten
from gradcli.formats.records import NEWLINE, QUOTE, RETURN, Chunk, Positions, exact, fields_of, inside, quoted, record_ends
from gradcli.formats.table import Table, Wanted

_SPARE = (1, 2, 3, 4, 5, 6, 7, 8, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 28, 29, 30, 31)


@dataclass(frozen=True)
class Dialect:
    """How fields are told apart; nothing is quoted in TSV."""

    separator: str = ","
    quoting: bool = True

    @property
    def cut_at(self) -> int | None:
        return ord(self.separator) if self.quoting else None


@dataclass(frozen=True)
class Header:
    """The names of the columns as written, and how many bytes and physical lines of a file they take."""

    names: tuple[str, ...]
    size: int = 0
    lines: int = 0


def read_header(chunk: Chunk, dialect: Dialect, given: Sequence[str] | None = None) -> Header:
    """The header of a file. Raises FileError: none, twice the same name, numbers only, or not UTF-8."""
    data = chunk.data
    mark = 3 if data.startswith(b"\xef\xbb\xbf") else 0
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise FileError.of(f"{chunk.source} is UTF-16", help="`--encoding utf-16` reads it")
    if given is not None:
        return _checked(Header(tuple(given), mark, 0), chunk)
    text = np.frombuffer(data, np.uint8)
    ends = record_ends(text, dialect.quoting)[1]
    end = int(ends[0])
    line = data[mark:end].removesuffix(b"\r")
    try:
        names = split_line(line.decode(), dialect)
    except UnicodeDecodeError as fault:
        byte = f"0x{fault.object[fault.start]:02x}"
        raise FileError.of(f"{chunk.source}:1: the header is not UTF-8: byte {byte}",
                           help="`--encoding latin-1` (or another) says what it is") from None  # fmt: skip
    if not line.strip():
        raise FileError.of(f"{chunk.source}: the first line is empty, there is no header", help="begin with the names of columns")
    if any("\r" in n for n in names) and len(ends) == 1:
        raise FileError.of(f"{chunk.source} ends its lines with CR alone", help="`tr '\\r' '\\n'` makes lines of them")
    return _checked(Header(tuple(names), end + 1, data[: end + 1].count(b"\n")), chunk)


def split_line(line: str, dialect: Dialect) -> list[str]:
    if not dialect.quoting:
        return line.split(dialect.separator)
    for cells, _, sound, _ in fields_of(line + "\n", dialect.separator):
        if sound:
            return cells
    raise FileError.of(f"the header has a quote that does not close: `{shorten(line)}`", help="double a quote that is text")


def _checked(header: Header, chunk: Chunk) -> Header:
    seen: dict[str, int] = {}
    for number, name in enumerate(header.names, 1):
        if name in seen:
            what = f"column `{shorten(name)}` appears twice" if name.strip() else "two columns have no name"
            raise FileError.of(f"{chunk.source}:1: {what}: columns {seen[name]} and {number}",
                               help="give one of them another name")  # fmt: skip
        seen[name] = number
    if chunk.first and header.lines and all(parse_number(n.strip()) is not None for n in header.names):
        raise FileError.of(f"{chunk.source}:1: there is no header: the first line is `{shorten(','.join(header.names))}`",
                           help="`--header x,y` names the columns of data without a header")  # fmt: skip
    return header


def check_same(header: Header, first: Header, source: str, name: str) -> None:
    """Files of one stream have one header."""
    if header.names != first.names:
        odd = next((n for n in header.names if n not in first.names), None)
        lost = next((n for n in first.names if n not in header.names), None)
        fact = f"it has `{odd}`" if odd is not None else f"it lacks `{lost}`" if lost is not None else "the order differs"
        near = did_you_mean(odd, first.names) if odd is not None else None
        raise FileError.of(f"{source}:1: the header is not that of {name}: {fact}", help=near or "run the files one by one")


def parse(chunk: Chunk, header: Header, dialect: Dialect, wanted: Wanted) -> Table:
    """The rows of a chunk. Blank lines count as lines, not as rows (in a single column: as an empty cell)."""
    skip = header.size if chunk.first else 0
    lay = _Layout(chunk, chunk.data[skip:] if skip else chunk.data, header, dialect)
    if not lay.is_sound() or chunk.faults:
        lay.repair(wanted.drop)
    while True:
        try:
            return lay.table(wanted)
        except UnicodeDecodeError:
            lay.repair(wanted.drop, encoding=True)


class _Layout:
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
        self._place(_without_returns(data, dialect.quoting))

    def _place(self, data: bytes) -> None:
        self.data = data
        self.text = np.frombuffer(data, np.uint8)
        self.quotes, self.ends = record_ends(self.text, self.dialect.quoting)
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
        broken = {f.record - (self.chunk.first and self.header.lines > 0): f for f in self.chunk.faults}
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

    def _fault(self, known: Fault | None, record: int, line: int, raw: bytes, count: int, encoding: bool) -> Fault | None:
        if known is not None:
            return Fault(record, line, known.column, known.text, known.reason, known.help)
        text = raw.decode("utf-8", "backslashreplace")
        if count != self.width:
            fields = f"{count} field{'s' * (count != 1)}, the header has {self.width}"
            lost = self.header.names[count:]
            more = f": `{lost[0]}` is missing" if lost else ""
            return Fault(record, line, "", text, fields + more, "quote a cell that holds the separator"
                         if count > self.width else "give each row a field for each column")  # fmt: skip
        if encoding:
            try:
                raw.decode()
            except UnicodeDecodeError as fault:
                cells = split_line(raw[: fault.start].decode(), self.dialect) if not self.dialect.quoting else []
                column = self.header.names[len(cells) - 1] if cells else ""
                return Fault(record, line, column, text, f"byte 0x{raw[fault.start]:02x} is not UTF-8",
                             "`--encoding latin-1` (or another) says what it is")  # fmt: skip
        return None

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
        table = Table(rows, self.records, {}, faults=self.faults)
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

    def _cells(self, columns: Sequence[int]) -> dict[int, Any]:
        if not columns:
            return {}
        frame = _read(self.data, self.dialect.separator, self.dialect.quoting, columns)
        if frame.height != len(self.ends):  # polars and we disagree: read exactly
            whole = exact(self.data, self.dialect.separator)[0].decode()
            rows = [cells for cells, _, _, _ in fields_of(whole, self.dialect.separator)]
            return {c: _texts([row[c] for row in rows]) for c in columns}
        return dict(zip(columns, frame.get_columns(), strict=True))

    def _lines(self) -> tuple[Any, bytes]:
        """Each record as one text; a line break within it is replaced by a byte that does not occur."""
        if not len(self.ends):
            return _empty(), b""
        unused = [b for b in _SPARE if b not in self.data] if len(self.quotes) else _SPARE[:2]
        unused = unused if len(self.quotes) else [b for b in unused if bytes((b,)) not in self.data]
        data, restore = self.data, b""
        newlines = np.flatnonzero(self.text == NEWLINE) if len(self.quotes) else self.ends
        if len(newlines) != len(self.ends):
            text = self.text.copy()
            text[newlines[inside(self.quotes, newlines)]] = unused[1]
            data, restore = text.tobytes(), bytes((unused[1],))
        return _read(data, chr(unused[0]), False, [0]).to_series(0), restore


def _without_returns(data: bytes, quoting: bool) -> bytes:
    """CRLF record ends become LF; a CR within quotes stays."""
    if b"\r" not in data:
        return data
    text = np.frombuffer(data, np.uint8)
    _, ends = record_ends(text, quoting)
    before = ends[ends > 0] - 1
    mask = np.ones(len(text), dtype=bool)
    mask[before[text[before] == RETURN]] = False
    return text[mask].tobytes()


def _read(data: bytes, separator: str, quoting: bool, columns: Sequence[int]) -> Any:
    """Raises UnicodeDecodeError where polars finds that the data are not UTF-8."""
    import polars as pl

    try:
        return pl.read_csv(io.BytesIO(data), has_header=False, infer_schema=False, separator=separator,
                           quote_char='"' if quoting else None, columns=list(columns))  # fmt: skip
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


def match_key(name: str) -> str:
    """How a header is compared with the names of a model: trimmed, in NFC."""
    return unicodedata.normalize("NFC", name.strip())


def encode(columns: Sequence[Any], dialect: Dialect, restore: bytes = b"", lines: bool = False) -> bytes:
    """Rows as text: the first column holds whole lines if `lines`; numbers as the shortest that reads back."""
    import polars as pl

    out = io.BytesIO()
    frame = pl.DataFrame([_spelled(c) for c in columns])
    plain = lines or not dialect.quoting
    if not dialect.quoting and not lines:
        _refuse_breaks(frame, dialect.separator)
    frame.write_csv(out, include_header=False, separator=dialect.separator, quote_style="never" if plain else "necessary")
    return out.getvalue().replace(restore, b"\n") if restore else out.getvalue()


def _refuse_breaks(frame: Any, separator: str) -> None:
    import polars as pl

    for column in frame.get_columns():
        if column.dtype == pl.String:
            odd = column.filter(column.str.contains(f"[{separator}\n\r]"))
            if len(odd):
                raise FileError.of(f"column `{column.name}` has a tab or a line break, which TSV cannot hold: `{shorten(odd[0])}`",
                                   help="write CSV: `--out-format csv`")  # fmt: skip


def _spelled(column: Any) -> Any:
    """`nan` as Python spells it, not `NaN`."""
    import polars as pl

    if column.dtype == pl.Float64 and column.is_nan().any():
        return column.cast(pl.String).replace("NaN", "nan")
    return column


def header_line(names: Sequence[str], dialect: Dialect) -> bytes:
    if not dialect.quoting:
        return (dialect.separator.join(names) + "\n").encode()
    return (dialect.separator.join(quoted(n, dialect.separator) for n in names) + "\n").encode()


def chunks_of(chunks: Iterator[Chunk]) -> Iterator[Chunk]:
    yield from chunks


assert QUOTE == ord('"')
