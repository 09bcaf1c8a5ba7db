"""CSV and TSV: polars parses chunks, every column as text; lines that nothing changes pass through as they are."""

from __future__ import annotations

import io
from collections.abc import Sequence
from math import isnan
from typing import Any

import numpy as np

from gradcli.errors import FileError
from gradcli.formats.cells import shorten
from gradcli.formats.headers import Dialect, Header
from gradcli.formats.layout import SPARE, Layout
from gradcli.formats.records import Chunk, quoted
from gradcli.formats.table import Table, Wanted

_BATCH = 1 << 13  # rows that polars formats at a time: a tenth less time than its own 1,024


def parse(chunk: Chunk, header: Header, dialect: Dialect, wanted: Wanted) -> Table:
    """The rows of a chunk. Blank lines count as lines, not as rows (in a single column: as an empty cell)."""
    skip = header.size if chunk.first else 0
    data = chunk.data[skip:] if skip else chunk.data
    if wanted.whole and not chunk.faults:
        table = _fast(data, header, dialect, wanted)
        if table is not None:
            lines_before = header.lines if chunk.first else 0
            table.line_of = lambda record: record + 1 + lines_before
            return table
    lay = Layout(chunk, data, header, dialect)
    if not lay.is_sound() or chunk.faults:
        lay.repair(wanted.drop)
    while True:
        try:
            return lay.table(wanted)
        except UnicodeDecodeError:
            lay.repair(wanted.drop, encoding=True)


def _fast(data: bytes, header: Header, dialect: Dialect, wanted: Wanted) -> Table | None:
    """The rows of a chunk where nothing is unusual, else None: no quotes, no CR, numbers in all needed cells.

    polars reads floats as `read_cells` does (compared over 300,000 random texts), and raises for a text that is none.
    A row with too few fields has a null in its last column, as has an empty line.
    """
    import polars as pl

    if b'"' in data or b"\r" in data or wanted.reading.is_unusual or not data:
        return None
    last = len(header.names) - 1
    needed = frozenset(wanted.needed)
    schema = {f"column_{i}": pl.Float64 if i in needed else pl.String for i in range(len(header.names))}
    columns = sorted({*needed, last})
    try:
        frame = pl.read_csv(
            data, has_header=False, schema=schema, separator=dialect.separator, quote_char=None, columns=columns
        )
        spare = next((b for b in SPARE if b not in data), None)
        if spare is None:
            return None
        lines = pl.read_csv(
            data, has_header=False, infer_schema=False, separator=chr(spare), quote_char=None
        ).to_series(0)
    except pl.exceptions.PolarsError:
        return None
    found = dict(zip(columns, frame.get_columns(), strict=True))
    if found[last].null_count() or len(lines) != frame.height:
        return None
    separators = np.count_nonzero(np.frombuffer(data, np.uint8) == ord(dialect.separator))
    if separators != last * frame.height:  # none is short, so one is long
        return None
    table = Table(frame.height, frame.height, {}, lines=lines)
    for column in wanted.needed:
        table.values[column] = found[column].to_numpy()
        if found[column].null_count():
            if wanted.reading.strict:
                return None
            missing = found[column].is_null().to_numpy()
            table.missing = missing if table.missing is None else table.missing | missing
    return table


def encode(
    columns: Sequence[Any], dialect: Dialect, restore: bytes = b"", lines: bool = False, decimal_comma: bool = False
) -> bytes | memoryview:
    """Rows as text: the first column holds whole lines if `lines`; numbers as the shortest that reads back."""
    import polars as pl

    out = io.BytesIO()
    made = [_spelled(c) for c in columns]
    if decimal_comma:
        quotes = lines and dialect.quoting and dialect.separator == ","
        made = [_with_comma(c, quotes) if n.dtype.is_numeric() else c for n, c in zip(columns, made, strict=True)]
    frame = pl.DataFrame(made)
    plain = lines or not dialect.quoting
    if not dialect.quoting and not lines:
        _refuse_breaks(frame, dialect.separator)
    frame.write_csv(
        out,
        include_header=False,
        separator=dialect.separator,
        quote_style="never" if plain else "necessary",
        batch_size=_BATCH,
    )
    return out.getvalue().replace(restore, b"\n") if restore else out.getbuffer()


def _with_comma(column: Any, quotes: bool) -> Any:
    """Numbers with a decimal comma, as the cells beside them; in quotes where the comma ends a field."""
    import polars as pl

    texts = column.cast(pl.String)
    return texts.str.replace(r"^(.*)\.(.*)$", '"$1,$2"' if quotes else "$1,$2")


def _refuse_breaks(frame: Any, separator: str) -> None:
    import polars as pl

    for column in frame.get_columns():
        if column.dtype == pl.String:
            odd = column.filter(column.str.contains(f"[{separator}\n\r]"))
            if len(odd):
                raise FileError.of(
                    f"column `{column.name}` has a tab or a line break, which TSV cannot hold: `{shorten(odd[0])}`",
                    help="write CSV: `--out-format csv`",
                )


def _spelled(column: Any) -> Any:
    """`nan` as Python spells it, not `NaN`; lists and objects of Parquet as JSON."""
    import polars as pl

    if column.dtype.is_float() and isnan(column.sum() or 0.0) and column.is_nan().any():
        return column.cast(pl.String).replace("NaN", "nan")
    if column.dtype.is_nested():
        return as_json(column)
    return column.dt.to_string() if column.dtype == pl.Duration else column


def as_json(column: Any) -> Any:
    """Values of any type as JSON, one by one; a null stays one."""
    import polars as pl

    made = column.alias("v").to_frame().select(pl.struct("v").struct.json_encode()).to_series()
    return made.str.slice(5).str.head(-1).set(column.is_null(), None).alias(column.name)


def header_line(names: Sequence[str], dialect: Dialect) -> bytes:
    if not dialect.quoting:
        return (dialect.separator.join(names) + "\n").encode()
    return (dialect.separator.join(quoted(n, dialect.separator) for n in names) + "\n").encode()
