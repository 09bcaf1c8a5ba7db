"""The first line of CSV and TSV: names of columns, checked before anything is computed."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gradcli.errors import FileError, did_you_mean
from gradcli.formats.cells import parse_number, shorten
from gradcli.formats.records import Chunk, fields_of, record_ends


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
    if chunk.faults and chunk.faults[0].record == 0:
        fault = chunk.faults[0]
        _refuse_object(chunk.source, fault.text)
        raise FileError.of(f"{chunk.source}:1: {fault.reason}: `{shorten(fault.text)}`", help=fault.help)
    data = chunk.data
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise FileError.of(f"{chunk.source} is UTF-16", help="`--encoding utf-16` reads it")
    if given is not None:
        return _checked(Header(tuple(given)), chunk)
    text = np.frombuffer(data, np.uint8)
    ends = record_ends(text, dialect.quoting)[1]
    end = int(ends[0])
    line = data[:end].removesuffix(b"\r")
    try:
        names = split_line(line.decode(), dialect)
    except UnicodeDecodeError as fault:
        byte = f"0x{fault.object[fault.start]:02x}"
        raise FileError.of(
            f"{chunk.source}:1: the header is not UTF-8: byte {byte}",
            help="`--encoding latin-1` (or another) says what it is",
        ) from None
    if b"\0" in line:
        which = "utf-16-be" if line.startswith(b"\0") else "utf-16-le"
        raise FileError.of(
            f"{chunk.source}:1: the header has zero bytes, as UTF-16 has", help=f"`--encoding {which}` reads it"
        )
    if not line.strip():
        raise FileError.of(
            f"{chunk.source}: the first line is empty, there is no header", help="begin with the names of columns"
        )
    if any("\r" in n for n in names) and len(ends) == 1:
        raise FileError.of(f"{chunk.source} ends its lines with CR alone", help="`tr '\\r' '\\n'` makes lines of them")
    _refuse_object(chunk.source, names[0])
    return _checked(Header(tuple(names), end + 1, data[: end + 1].count(b"\n")), chunk)


def _refuse_object(source: str, start: str) -> None:
    if start.lstrip(" \t").startswith('{"'):
        raise FileError.of(
            f"{source}:1: there is no header, but an object", help="`--in-format ndjson` reads an object a line"
        )


def split_line(line: str, dialect: Dialect) -> list[str]:
    if not dialect.quoting:
        return line.split(dialect.separator)
    for cells, _, sound, _ in fields_of(line + "\n", dialect.separator):
        if sound:
            return cells
    raise FileError.of(
        f"the header has a quote that does not close: `{shorten(line)}`", help="double a quote that is text"
    )


def _checked(header: Header, chunk: Chunk) -> Header:
    seen: dict[str, int] = {}
    for number, name in enumerate(header.names, 1):
        if name in seen:
            what = f"column `{shorten(name)}` appears twice" if name.strip() else "two columns have no name"
            raise FileError.of(
                f"{chunk.source}:1: {what}: columns {seen[name]} and {number}", help="give one of them another name"
            )
        seen[name] = number
    if chunk.first and header.lines and all(parse_number(n.strip()) is not None for n in header.names):
        raise FileError.of(
            f"{chunk.source}:1: there is no header: the first line is `{shorten(','.join(header.names))}`",
            help="`--header x,y` names the columns of data without a header",
        )
    return header


def check_same(header: Header, first: Header, source: str, name: str) -> None:
    """Files of one stream have one header."""
    if header.names != first.names:
        odd = next((n for n in header.names if n not in first.names), None)
        lost = next((n for n in first.names if n not in header.names), None)
        fact = (
            f"it has `{odd}`" if odd is not None else f"it lacks `{lost}`" if lost is not None else "the order differs"
        )
        near = did_you_mean(odd, first.names) if odd is not None else None
        raise FileError.of(
            f"{source}:1: the header is not that of {name}: {fact}", help=near or "run the files one by one"
        )


def match_key(name: str) -> str:
    """How a header is compared with the names of a model: trimmed, in NFC."""
    return unicodedata.normalize("NFC", name.strip())
