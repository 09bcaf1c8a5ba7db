"""A byte stream is cut at record ends: chunks of whole records with their physical line numbers, in bounded memory.

A line break inside quotes is no record end. Where every quote stands as RFC 4180 wants (checked with numpy), its parity
says what is inside; where one does not (`5"9 tall`), the piece is read exactly, field by field, and written again
with regular quotes, so that polars and we agree on it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from gradcli.errors import FileError
from gradcli.formats.cells import Fault, shorten

CHUNK = 3 << 20
LONGEST = 64 << 20  # bytes of one record; more means that a quote was never closed
QUOTE, NEWLINE, RETURN = 34, 10, 13
Bytes = NDArray[np.uint8]
Positions = NDArray[np.intp]
Split: TypeAlias = "tuple[bytes, bytes, tuple[Fault, ...], Mapping[int, str]]"  # whole records and what is behind them


@dataclass(frozen=True)
class Chunk:
    """Whole records of one file: `line` physical lines of it came before; `first` where the file begins.

    `faults` are broken quotes that were found while cutting, by number of the record in the chunk; `written` are
    records as the file has them, where their quotes were made regular.
    """

    source: str
    line: int
    data: bytes
    first: bool = False
    faults: tuple[Fault, ...] = ()
    number: int = 0
    written: Mapping[int, str] = field(default_factory=dict)


def inside(quotes: Positions, places: Positions) -> NDArray[np.bool_]:
    """Which places lie within quotes: those with an odd number of quotes before them."""
    return (np.searchsorted(quotes, places) & 1).astype(bool)


class Cutter:
    """Cuts blocks of one file. `separator` is None where nothing is quoted (TSV, NDJSON); `line` lines came before."""

    def __init__(
        self, name: str, separator: int | None, size: int = CHUNK, rows: int | None = None, line: int = 0
    ) -> None:
        self.name, self.separator, self.size, self.rows = name, separator, size, rows
        self.line = line

    def marks(self, blocks: Iterator[bytes]) -> Iterator[tuple[int, int]]:
        """Where the file can be cut, about `size` bytes apart: the place behind a record, and the lines before it."""
        held, at, wanted = bytearray(), 0, self.size
        for block in blocks:
            held += block
            while len(held) >= wanted:
                piece = bytes(held[:wanted])
                cut = len(piece) - len(self._split(piece)[1])
                if cut:
                    self.line += int(np.count_nonzero(np.frombuffer(piece, np.uint8, cut) == NEWLINE))
                    at += cut
                    yield at, self.line
                elif wanted > LONGEST:
                    return  # whoever reads the rest says what is wrong
                del held[:cut]
                wanted = self.size if cut else 2 * wanted

    def cut(self, blocks: Iterator[bytes]) -> Iterator[Chunk]:
        """Chunks of about `size` bytes; fewer when an empty block says that the pipe makes us wait."""
        parts: list[bytes] = [b""]
        held, wanted = 0, self.size
        for block in blocks:
            if held + len(block) >= wanted and len(parts) == 1 and (found := self._plain(parts[0], block)) is not None:
                whole, data = found
                yield from self._chunks(whole)
                parts, held, wanted = [data], len(data), self.size
                continue
            parts.append(block)
            held += len(block)
            if held >= wanted or (not block and held):
                data = b"".join(parts)
                whole, data, faults, written = self._split(data)
                yield from self._chunks(whole, faults, written)
                if not whole and len(data) > LONGEST:
                    raise self._too_long(data)
                wanted = max(self.size, 2 * len(data)) if not whole else self.size
                parts, held = [data], len(data)
        data = b"".join(parts)
        while data:
            whole, rest, faults, written = self._split(data if data.endswith(b"\n") else data + b"\n")
            yield from self._chunks(whole, faults, written)
            if not whole or not rest.strip():
                if rest.strip():
                    yield from self._unclosed(rest)
                return
            data = rest

    def _plain(self, held: bytes, block: bytes) -> tuple[bytes, bytes] | None:
        """Whole records and the rest where nothing is quoted, without a copy more than it takes; else None."""
        last = block.rfind(b"\n") + 1
        if not last or (self.separator is not None and (b'"' in block or b'"' in held)):
            return None
        return b"".join((held, memoryview(block)[:last])), block[last:]

    def _chunks(
        self, data: bytes, faults: tuple[Fault, ...] = (), written: Mapping[int, str] | None = None
    ) -> Iterator[Chunk]:
        if not data:
            return
        if self.rows is None or faults or written:
            yield self._chunk(data, faults, written or {})
            return
        ends = record_ends(np.frombuffer(data, np.uint8), self.separator is not None)[1]
        start = 0
        for end in [*ends[self.rows - 1 :: self.rows].tolist(), len(data) - 1]:
            if end >= start:
                yield self._chunk(data[start : end + 1], (), {})
                start = end + 1

    def _chunk(self, data: bytes, faults: tuple[Fault, ...], written: Mapping[int, str]) -> Chunk:
        chunk = Chunk(self.name, self.line, data, self.line == 0, faults, written=written)
        self.line += int(np.count_nonzero(np.frombuffer(data, np.uint8) == NEWLINE))
        return chunk

    def _split(self, data: bytes) -> Split:
        last = data.rfind(b"\n")
        if last < 0 or self.separator is None or b'"' not in data:
            return data[: last + 1], data[last + 1 :], (), {}
        text = np.frombuffer(data, np.uint8)
        quotes = np.flatnonzero(text == QUOTE)
        before = int(np.searchsorted(quotes, last))
        while last >= 0 and before & 1:
            last = data.rfind(b"\n", 0, int(quotes[before - 1]))
            before = int(np.searchsorted(quotes, last)) if last >= 0 else 0
        if regular(text, quotes, self.separator):
            return data[: last + 1], data[last + 1 :], (), {}
        return exact(data, chr(self.separator))

    def _unclosed(self, rest: bytes) -> Iterator[Chunk]:
        """The record that a quote opened and nothing closed: one fault."""
        text = rest.decode("utf-8", "replace").rstrip("\n")
        fault = Fault(0, 1, "", text, "a quote is opened and never closed", "close it, or double a quote that is text")
        yield Chunk(self.name, self.line, b"\n", self.line == 0, (fault,))

    def _too_long(self, data: bytes) -> FileError:
        text = shorten(data[:200].decode("utf-8", "replace"))
        why = "a quote is opened there and not closed" if self.separator is not None else "it has no line breaks"
        return FileError.of(
            f"{self.name}:{self.line + 1}: a record goes on for more than {LONGEST >> 20} MB: {why}: `{text}`",
            help="close the quote, or double a quote that is text",
        )


def record_ends(text: Bytes, quoted: bool) -> tuple[Positions, Positions]:
    """Where the quotes are, and the newlines that end records."""
    newlines = np.flatnonzero(text == NEWLINE)
    quotes = np.flatnonzero(text == QUOTE) if quoted else newlines[:0]
    if len(quotes):
        newlines = newlines[~inside(quotes, newlines)]
    return quotes, newlines


def regular(text: Bytes, quotes: Positions, separator: int) -> bool:
    """Whether quotes open only where a field begins and close only where it ends (a doubled quote does both)."""
    opening, closing = quotes[::2], quotes[1::2]
    before = text[np.maximum(opening - 1, 0)]
    good = (before == separator) | (before == NEWLINE) | (opening == 0)
    doubled = np.zeros(len(opening), dtype=bool)
    doubled[1:] = opening[1:] == closing[: len(opening) - 1] + 1
    if not (good | doubled).all():
        return False
    after = text[np.minimum(closing + 1, len(text) - 1)]
    ends = (after == separator) | (after == NEWLINE) | (after == RETURN) | (closing == len(text) - 1)
    followed = np.zeros(len(closing), dtype=bool)
    followed[: len(opening) - 1] = opening[1:] == closing[: len(opening) - 1] + 1
    return bool((ends | followed).all())


def fields_of(data: str, separator: str) -> Iterator[tuple[list[str], str, bool, int]]:
    """Each whole record: its fields, its text, whether its quotes are sound, and where it ends."""
    mark = re.escape(separator)
    field = re.compile(rf'"((?:[^"]|"")*+)"([^{mark}\n]*)|([^{mark}\n]*)')
    at, start, cells, sound = 0, 0, [], True
    while at < len(data):
        found = field.match(data, at)
        assert found is not None
        quoted, junk, plain = found.groups()
        if quoted is None and plain.startswith('"'):
            return  # a quote that is not closed in this piece
        sound = sound and (quoted is None or not junk.strip("\r"))
        cells.append(plain if quoted is None else quoted.replace('""', '"') + junk.rstrip("\r"))
        at = found.end()
        if at >= len(data):
            return
        if data[at] == "\n":
            if quoted is None:
                cells[-1] = cells[-1].removesuffix("\r")
            yield cells, data[start:at], sound, at + 1
            start, cells, sound = at + 1, [], True
        at += 1


def exact(data: bytes, separator: str) -> Split:
    """Whole records with regular quotes, the rest, faults where text follows a closing quote.

    A record whose quotes are regular stays as it is, so that what is written does not depend on its neighbours.
    """
    text = data.decode("utf-8", "surrogateescape")
    done: list[str] = []
    faults: list[Fault] = []
    written: dict[int, str] = {}
    end, line = 0, 0
    mark = re.escape(separator)
    field = rf'(?:"(?:[^"]|"")*+"|[^"{mark}\n]*+)'
    is_regular = re.compile(rf"{field}(?:{mark}{field})*+\r?").fullmatch
    for cells, raw, sound, stop in fields_of(text, separator):
        if not sound:
            faults.append(
                Fault(len(done), line + 1, "", raw, "text follows a closing quote", "double a quote that is text")
            )
        regular_quotes = is_regular(raw)
        if not regular_quotes:
            written[len(done)] = raw.removesuffix("\r")
        done.append(raw if regular_quotes else separator.join(quoted(c, separator) for c in cells))
        line += raw.count("\n") + 1
        end = stop
    whole = "".join(row + "\n" for row in done)
    rest = text[end:].encode("utf-8", "surrogateescape")
    return whole.encode("utf-8", "surrogateescape"), rest, tuple(faults), written


def quoted(cell: str, separator: str) -> str:
    """A cell as CSV: in quotes only where it must be."""
    if any(c in cell for c in (separator, '"', "\n", "\r")):
        return '"' + cell.replace('"', '""') + '"'
    return cell
