"""NDJSON: one object a line. polars reads the needed numbers; a chunk that it refuses is read line by line, exactly."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradcli.errors import FileError
from gradcli.formats.cells import Fault, parse_number, shorten
from gradcli.formats.delimited import as_json
from gradcli.formats.headers import Header
from gradcli.formats.keys import Keys
from gradcli.formats.objects import HINT, Text, dump, is_text, read_object, remedy, repeated, shown
from gradcli.formats.records import NEWLINE, Bytes, Chunk
from gradcli.formats.table import Table, Wanted

_NUMBER = r"^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?$"

_IS_MINUS_ZERO = re.compile(rb"-0[\s,}]").search
_OPEN, _CLOSE = b"{}"
_HALF = "half of a surrogate pair is no text"


def first_header(chunk: Chunk) -> Header | None:
    """The names in the first object, or None where there is none yet. Raises FileError when it is no object."""
    for number, line in enumerate(chunk.data.split(b"\n"), chunk.line + 1):
        if line.strip():
            found, reason = read_object(line)
            if found is None:
                raise FileError.of(
                    f"{chunk.source}:{number}: {reason}: `{shorten(line.decode('utf-8', 'replace'))}`",
                    help=remedy(line),
                )
            if not all(map(is_text, found)):
                raise FileError.of(f"{chunk.source}:{number}: {_HALF}", help="escapes of such letters come in pairs")
            return Header(tuple(found))
    return None


def parse(chunk: Chunk, header: Header, wanted: Wanted, unbound: Sequence[str] = ()) -> Table:
    """The rows of a chunk. A key that is absent or null is missing; blank lines count as lines, not as rows.

    `unbound` are names of the model that the first object lacks: a chunk that has one of them is refused.
    """
    import polars as pl

    data = chunk.data
    keys = Keys(data)
    _refuse_late(keys, unbound, wanted.taken if wanted.whole else (), chunk)
    lines = _lines(data)
    names = [header.names[i] for i in wanted.needed]
    values = _fast(keys, names) if names else None
    kept = _kept(keys, header, wanted) if values is not None else None
    if (
        values is not None
        and kept is not None
        and all(len(v) == len(lines) and not (wanted.reading.strict and v.null_count()) for v in values)
    ):
        table = Table(len(lines), len(lines), {}, lines=lines, line_of=_line_finder(data))
        table.frame = pl.DataFrame(kept) if kept else None
        for index, column in zip(wanted.needed, values, strict=True):
            table.values[index] = column.to_numpy()
            if column.null_count():
                missing = column.is_null().to_numpy()
                table.missing = missing if table.missing is None else table.missing | missing
        return table
    return _slow(data, header, wanted)


def _refuse_late(keys: Keys, unbound: Sequence[str], taken: Sequence[str], chunk: Chunk) -> None:
    """Raises FileError for keys of later objects that would change what the first one settled."""
    for name in unbound:
        if line := _line_with(keys, name, chunk):
            raise FileError.of(
                f"{chunk.source}:{line}: `{name}` is in a later row, but not in the first",
                help=f"give it in the first row too (null where it is missing), or say `{name}=VALUE`",
            )
    for name in taken:
        if line := _line_with(keys, name, chunk):
            raise FileError.of(
                f"{chunk.source}:{line}: a result is called `{name}`, as is a key of this object",
                help="`--names` spells gradients otherwise; `--keep` chooses what passes through",
            )


def _line_with(keys: Keys, name: str, chunk: Chunk) -> int:
    """The first line with an object that has the key, or 0."""
    if not keys.may_have(name):
        return 0
    lines = enumerate(keys.data.split(b"\n"), chunk.line + 1)
    return next((i for i, line in lines if line.strip() and name in (read_object(line)[0] or ())), 0)


def _lines(data: bytes) -> Any:
    """The texts of the objects, blank lines left out."""
    import polars as pl

    if not data.strip():
        return pl.Series([], dtype=pl.String)
    spare = next((b for b in range(1, 9) if b not in data), 0)
    try:
        lines = pl.read_csv(
            io.BytesIO(data), has_header=False, infer_schema=False, separator=chr(spare), quote_char=None
        ).to_series(0)
    except pl.exceptions.ComputeError:
        return pl.Series(
            [line.decode("utf-8", "replace") for line in data.split(b"\n") if line.strip()], dtype=pl.String
        )
    if _are_bare(np.frombuffer(data, np.uint8)):
        return lines
    trimmed = lines.str.strip_chars()
    odd = trimmed.is_null() | (trimmed == "")
    return trimmed.filter(~odd) if odd.any() else trimmed


def _are_bare(text: Bytes) -> bool:
    """Whether every line begins with `{` and ends with `}`: nothing to strip, and no blank one."""
    ends = np.flatnonzero(text[:-1] == NEWLINE)
    last = text[-2] if text[-1] == NEWLINE else text[-1]
    return bool(
        text[0] == _OPEN and last == _CLOSE and (text[ends + 1] == _OPEN).all() and (text[ends - 1] == _CLOSE).all()
    )


def _fast(keys: Keys, names: Sequence[str]) -> list[Any] | None:
    """Columns of floats with nulls, or None where anything is unusual: polars is strict about types here.

    It reads `-0` as an integer, which has no sign.
    """
    import polars as pl

    if not all(keys.has_once(name) for name in names):
        return None  # polars would take the first
    if b"-0" in keys.data and _IS_MINUS_ZERO(keys.data):
        return None
    try:
        frame = pl.read_ndjson(io.BytesIO(keys.data), schema=dict.fromkeys(names, pl.Float64))
    except pl.exceptions.PolarsError:
        return None
    return list(frame.get_columns())


def _kept(keys: Keys, header: Header, wanted: Wanted) -> list[Any] | None:
    """The columns that pass through on their own, or None where they must be read line by line."""
    import polars as pl

    if wanted.whole or not wanted.kept:
        return []
    values = keys.values()
    if values is None or not set(values) <= set(header.names):
        return None
    found = []
    for name in [header.names[i] for i in wanted.kept]:
        column = values.get(name, pl.repeat("null", len(keys.ends), eager=True)).alias(name)
        if column.str.starts_with("[").any():
            return None
        if not wanted.raw:
            column = column.set(column == "null", None).str.strip_chars('"')
        found.append(column)
    return found


def _line_finder(data: bytes) -> Callable[[int], int]:
    """The physical line of a record."""

    def find(record: int) -> int:
        return [i for i, line in enumerate(data.split(b"\n"), 1) if line.strip()][record]

    return find


def _slow(data: bytes, header: Header, wanted: Wanted) -> Table:
    rows: list[dict[str, Any]] = []
    texts: list[str] = []
    table = Table(0, 0, {}, line_of=_line_finder(data))
    record_of: list[int] = []
    bad: list[int] = []
    needed = {header.names[i]: i for i in wanted.needed}
    numbers: dict[str, list[float | None]] = {n: [] for n in needed}
    known = frozenset(header.names)
    used = {*needed, *(() if wanted.whole else (header.names[i] for i in wanted.kept))}
    for line, raw in enumerate(data.split(b"\n"), 1):
        if not raw.strip():
            continue
        record, table.records = table.records, table.records + 1
        text = raw.strip().decode("utf-8", "replace")
        found, reason = read_object(raw)
        if found is not None:
            reason = repeated(found, used) or _no_text(found, wanted, header) or ""
        cut = found is None or (not wanted.whole and bool(repeated(found, used)))
        faults = [Fault(record, line, "", text, reason, HINT if found is None else None, cut)] if reason else []
        found = found or {}
        cells, wrong = _cells(found, needed, record, line, wanted)
        faults += [] if faults else wrong or _new_keys(found, known, record, line, text, wanted)
        table.faults += faults
        if faults and wanted.drop:
            continue
        if faults:
            bad.append(len(rows))
        rows.append(found)
        texts.append(text if found or not faults else "{}")
        record_of.append(record)
        for name, value in cells.items():
            numbers[name].append(value)
    table.rows, table.record_of = len(rows), np.array(record_of, dtype=np.intp)
    _fill(table, header, wanted, numbers, rows, texts)
    table.mark(bad, False)
    return table


def _fill(
    table: Table,
    header: Header,
    wanted: Wanted,
    numbers: dict[str, list[float | None]],
    rows: list[dict[str, Any]],
    texts: list[str],
) -> None:
    import polars as pl

    needed = {header.names[i]: i for i in wanted.needed}
    for name, index in needed.items():
        column = pl.Series(numbers[name], dtype=pl.Float64)
        table.values[index] = column.fill_null(float("nan")).to_numpy()
        if column.null_count():
            missing = column.is_null().to_numpy()
            table.missing = missing if table.missing is None else table.missing | missing
    if wanted.whole:
        table.lines = pl.Series(texts, dtype=pl.String)
    elif wanted.kept:
        names = [header.names[i] for i in wanted.kept]
        cell = dump if wanted.raw else shown
        columns = {n: [_writable(cell(r.get(n))) for r in rows] for n in names}
        table.frame = pl.DataFrame({n: pl.Series(column, dtype=pl.String) for n, column in columns.items()})


def _writable(text: str | None) -> str | None:
    """A cell, with an escape for half of a surrogate pair."""
    return text if text is None or is_text(text) else text.encode("utf-8", "backslashreplace").decode()


def _no_text(found: dict[str, Any], wanted: Wanted, header: Header) -> str | None:
    """Why an object cannot become cells of a table: JSON may escape half of a character."""
    if wanted.whole or wanted.raw:
        return None
    kept = [header.names[i] for i in wanted.kept]
    odd = next((n for n in kept if not is_text(shown(found.get(n)) or "")), None)
    return f"`{odd}`: {_HALF}" if odd is not None else None


def _cells(
    found: dict[str, Any], needed: dict[str, int], record: int, line: int, wanted: Wanted
) -> tuple[dict[str, float | None], list[Fault]]:
    cells: dict[str, float | None] = {}
    faults = []
    for name in needed:
        value, cells[name] = found.get(name), None
        if value is None:
            if wanted.reading.strict:
                faults.append(Fault(record, line, name, "", *wanted.reading.absence(None)))
            continue
        kind = type(value).__name__
        if isinstance(value, str):
            plain = value.strip()
            if not isinstance(value, Text) and plain.lower() in wanted.reading.missing:
                if wanted.reading.strict:
                    faults.append(Fault(record, line, name, value, *wanted.reading.absence(value)))
                continue
            cells[name] = parse_number(plain)
            if cells[name] is not None:
                continue
            kind = "str"
        word = {
            "bool": "true or false, not a number",
            "list": "a list",
            "dict": "an object",
            "str": "a text that is no number",
        }[kind]
        text = str(shown(value))
        faults.append(
            Fault(
                record, line, name, text, f"`{shorten(text)}` is {word}", "give a number, or null where it is missing"
            )
        )
    return cells, faults


def _new_keys(
    found: dict[str, Any], known: frozenset[str], record: int, line: int, text: str, wanted: Wanted
) -> list[Fault]:
    """A table has the columns of the first object: a later one may lack some, not add any, unless they were chosen."""
    if wanted.whole or wanted.chosen or found.keys() <= known:
        return []
    name = next(k for k in found if k not in known)
    return [
        Fault(
            record,
            line,
            name,
            text,
            f"`{shorten(name)}` is not in the first object, which names the columns",
            "write NDJSON: `--out-format ndjson`, or choose columns with `--keep`",
            cut=True,
        )
    ]


def encode(kept: Any, results: Sequence[Any], words: bool, raw: bool = False) -> bytes:
    """Objects: the text of `kept` (whole objects as a series, or a frame of texts and typed columns), then the results.

    `raw`: the texts of a frame are JSON already. Results that are not finite are null, or with `words` the strings NaN,
    Infinity, -Infinity.
    """
    import polars as pl

    columns = [(c.name, _number(c, words)) for c in results]
    if isinstance(kept, pl.Series):
        head = kept.str.head(-1).str.strip_chars_end()
        pieces: list[Any] = [head]
        comma: Any = ", "
        if columns and (head == "{").any():
            comma = pl.select(pl.when(head == "{").then(pl.lit("")).otherwise(pl.lit(", "))).to_series()
    else:
        passing = kept.get_columns() if kept is not None else ()
        columns = [(c.name, c if raw else _cell(c, words)) for c in passing] + columns
        pieces, comma = ["{"], ""
    for name, values in columns:
        key = json.dumps(name, ensure_ascii=False) + ": "
        pieces += [comma + key, values] if isinstance(comma, str) else [comma, key, values]
        comma = ", "
    pieces.append("}")
    return _joined(pieces)


def _joined(pieces: Sequence[Any]) -> bytes:
    """Lines of the pieces, which are columns and texts; numbers as the CSV writer of polars spells them.

    It puts a separator between columns: a control character, which JSON has only escaped. It is taken out again.
    """
    import polars as pl

    rows = next((len(p) for p in pieces if isinstance(p, pl.Series)), 0)
    if not rows:
        return b""
    frame = pl.DataFrame(
        {str(i): p if isinstance(p, pl.Series) else pl.repeat(p, rows, eager=True) for i, p in enumerate(pieces)}
    )
    out = io.BytesIO()
    frame.write_csv(out, include_header=False, separator="\x01", quote_style="never", null_value="null")
    return out.getvalue().replace(b"\x01", b"")


def _number(column: Any, words: bool) -> Any:
    """Floats as JSON; a null stays one."""
    import polars as pl

    if column.is_finite().all():
        return column
    odd = (
        {"NaN": '"NaN"', "inf": '"Infinity"', "-inf": '"-Infinity"'} if words else dict.fromkeys(("NaN", "inf", "-inf"))
    )
    return column.cast(pl.String).replace(odd)


def _cell(column: Any, words: bool) -> Any:
    """A column that passes through: a text that spells a JSON number is one, other texts are strings."""
    import polars as pl

    if column.dtype.is_float():
        return _number(column, words)
    if column.dtype.is_decimal():
        return column.cast(pl.String)
    if column.dtype != pl.String:
        return as_json(column)
    plain = column.str.contains(_NUMBER)
    escaped = '"' + column.str.replace_many(list(_ESCAPES), list(_ESCAPES.values())) + '"'
    return pl.select(pl.when(plain).then(column).otherwise(escaped)).to_series().fill_null("null")


_ESCAPES = {chr(i): f"\\u{i:04x}" for i in range(32)} | {
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    '"': '\\"',
    "\\": "\\\\",
}
