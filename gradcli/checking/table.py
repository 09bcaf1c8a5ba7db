"""Another program's numbers: a table of cells, each with the text that it was written with."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradcli.checking.rounded import significant
from gradcli.errors import FileError, did_you_mean, not_utf8, shown

_FULL = 15  # significant digits of a number that is not rounded for people


@dataclass(frozen=True)
class Table:
    """Columns of cells by name: texts, or numbers of a format that has them as such. `first` is the line of row 1."""

    name: str
    columns: Mapping[str, Sequence[Any]]
    first: int = 1

    @property
    def rows(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def numbers(self, column: str) -> list[float]:
        """A column as floats. Raises FileError with the line of the first cell that is no number."""
        return [self._number(column, row, cell) for row, cell in enumerate(self.columns[column])]

    def _number(self, column: str, row: int, cell: Any) -> float:
        try:
            if cell is None or isinstance(cell, bool) or (isinstance(cell, str) and "_" in cell):
                raise ValueError
            return float(cell)
        except (TypeError, ValueError):
            what = "no number" if cell in (None, "") else f"{shown(str(cell))} is no number"
            raise FileError.of(
                f"{self.name}:{row + self.first}: {what} in column {shown(column)}",
                help="every row is judged: give each one",
            ) from None

    def halves(self, column: str) -> list[float]:
        """Half a unit in the last digit of each number as written; 0 where the column carries fifteen digits, or more.

        `0` and `0.0` are what a program prints for exactly 0.
        """
        texts = [c.strip().lower() if isinstance(c, str) else "" for c in self.columns[column]]
        if max(map(significant, texts), default=0) >= _FULL or not all(texts):
            return [0.0] * len(texts)
        return [_half(text) for text in texts]


def _half(text: str) -> float:
    if text.strip("+-") in ("nan", "inf", "infinity", "0", "0.0"):
        return 0.0
    mantissa, _, exponent = text.partition("e")
    return float(f"0.5e{int(exponent or 0) - len(mantissa.partition('.')[2])}")


def read_table(path: str) -> Table:
    """A CSV or TSV file with a header, NDJSON, or Parquet, by its suffix; `-` is CSV on stdin. Raises FileError."""
    suffix = Path(path).suffix.lower()
    try:
        if path == "-":
            if sys.stdin is None:
                raise FileError.of("standard input is closed", help="pipe a table into `-`, or name a file")
            return parse_csv(sys.stdin.buffer.read(), "-")
        if suffix in (".parquet", ".pq"):
            return _parquet(path)
        data = Path(path).read_bytes()
    except OSError as fault:
        raise FileError.of(f"cannot read {shown(path)}: {(fault.strerror or str(fault)).lower()}",
                           help=_near(path)) from None  # fmt: skip
    if suffix in (".ndjson", ".jsonl"):
        return _ndjson(data, path)
    return parse_csv(data, path, "\t" if suffix in (".tsv", ".tab") else ",")


def _near(path: str) -> str | None:
    folder = Path(path).parent
    names = [p.name for p in folder.iterdir()] if folder.is_dir() else []
    return did_you_mean(Path(path).name, names)


def parse_csv(data: bytes, name: str, separator: str = ",") -> Table:
    import polars as pl

    try:
        header = data.decode("utf-8-sig").partition("\n")[0].rstrip("\r").split(separator)
    except UnicodeDecodeError as fault:
        raise not_utf8(name, fault) from None
    twice = [h for i, h in enumerate(header) if h in header[:i]]
    if twice:
        raise FileError.of(f"{name}:1: two columns are called {shown(twice[0])}", help="rename one")
    if not data.strip():
        return Table(name, {})
    try:
        frame = pl.read_csv(io.BytesIO(data), separator=separator, infer_schema=False)
    except pl.exceptions.PolarsError as fault:
        raise FileError.of(
            f"{name}: {str(fault).splitlines()[0].lower()}", help="a table has a header and equal rows"
        ) from None
    return Table(name, {c.strip(): frame[c].to_list() for c in frame.columns}, 2)


def _ndjson(data: bytes, name: str) -> Table:
    columns: dict[str, list[Any]] = {}
    for number, line in enumerate([x for x in data.decode("utf-8-sig", "replace").split("\n") if x.strip()], 1):
        try:
            row = json.loads(line, parse_float=str, parse_int=str)
        except ValueError:
            row = None
        if not isinstance(row, dict):
            raise FileError.of(f"{name}:{number}: not a JSON object", help="one object a line")
        for key in row.keys() - columns.keys():
            columns[key] = [None] * (number - 1)
        for key, cells in columns.items():
            cells.append(row.get(key))
    return Table(name, columns)


def _parquet(path: str) -> Table:
    import polars as pl

    try:
        frame = pl.read_parquet(path)
    except pl.exceptions.PolarsError as fault:
        raise FileError.of(f"cannot read {shown(path)}: {str(fault).splitlines()[0].lower()}") from None
    return Table(path, {c: frame[c].to_list() for c in frame.columns})
