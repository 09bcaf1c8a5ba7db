"""Data files in parts that can be read apart: byte ranges that end with a record, rows of Parquet, or whole files.

Whoever cuts finds the places; whoever reads a part opens the file by itself, and gives the chunks that it would have
given in one stream, with the same lines and the same header.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gradcli.errors import FileError
from gradcli.formats import delimited, headers, ndjson, parquet
from gradcli.formats.headers import Dialect, Header
from gradcli.formats.reader import Options, Reader, Slice, text_of
from gradcli.formats.records import Chunk, Cutter
from gradcli.formats.stream import BLOCK, Progress, Stream, without_mark
from gradcli.formats.table import Table, Wanted


@dataclass(frozen=True)
class Part:
    """Part `index` of all: bytes or rows `start` to `stop` of file `number`, or all of it where `stop` is None.

    `line` lines came before; `size` is how many bytes of the input it stands for, for progress.
    """

    index: int
    number: int
    source: str
    path: str
    start: int = 0
    stop: int | None = None
    line: int = 0
    size: int = 0


@dataclass(frozen=True)
class Outline:
    """What a reader knows after the header, as plain data."""

    first: str
    path: str
    format: str
    columns: tuple[str, ...]
    dialect: Dialect | None
    unbound: tuple[str, ...]
    header: tuple[str, ...] | None
    encoding: str | None
    chunk_bytes: int
    chunk_rows: int | None

    @classmethod
    def of(cls, reader: Reader, names: Sequence[str], options: Options) -> Outline:
        given = tuple(options.header) if options.header is not None else None
        unbound = tuple(getattr(reader, "unbound", ()))
        path = str(Path(names[0]).resolve())
        return cls(names[0], path, reader.format, reader.header.names, reader.dialect, unbound, given, options.encoding,
                   options.chunk_bytes, options.chunk_rows)  # fmt: skip


def cut(outline: Outline, names: Sequence[str], size: int) -> Iterator[Part]:
    """The parts in order, at least one. Text is cut into about `size` bytes.

    Raises FileError for what others cannot open: standard input and pipes.
    """
    index = 0
    for number, name in enumerate(names):
        _check(name)
        whole = Path(name).stat().st_size
        path = str(Path(name).resolve())
        for start, stop, line, read in _pieces(outline, name, whole, size):
            yield Part(index, number, name, path, start, stop, line, read)
            index += 1


def _check(name: str) -> None:
    if name == "-" or not stat.S_ISREG(Path(name).stat().st_mode):
        shown = "standard input" if name == "-" else f"`{name}`"
        raise FileError.of(
            f"{shown} is read once, workers read parts of files", help="save it in a file, or `--engine local`"
        )


def _pieces(outline: Outline, name: str, whole: int, size: int) -> Iterator[tuple[int, int | None, int, int]]:
    if outline.format == "parquet":
        rows = parquet.open_file(name)[2]
        step = outline.chunk_rows or parquet.ROWS
        step *= max(1, size // (step * 64))
        for start in range(0, max(rows, 1), step):
            stop = min(start + step, rows)
            yield start, stop, 0, whole * stop // max(rows, 1) - whole * start // max(rows, 1)
        return
    stream = Stream.open(name, Progress(), size=BLOCK)
    try:
        if stream.kind or outline.encoding:
            yield 0, None, 0, whole
            return
        cutter = Cutter(name, outline.dialect.cut_at if outline.dialect else None, size)
        start, line, mark = 0, 0, stream.mark
        for place, lines in cutter.marks(without_mark(stream.raw())):
            stop = mark + place
            yield start, stop, line, stop - start
            start, line = stop, lines
        if start < whole or not whole:
            yield start, whole, line, whole - start
    finally:
        stream.close()


@dataclass
class PartReader:
    """Reads parts of the data that an outline describes."""

    outline: Outline
    types: Mapping[str, Any] = field(default_factory=dict)
    progress: Progress = field(default_factory=Progress)
    known: dict[int, Header] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.format, self.dialect = self.outline.format, self.outline.dialect
        self.header = Header(self.outline.columns)
        if self.format == "parquet":
            self.types = dict(parquet.open_file(self.outline.path)[0].collect_schema())

    def chunks(self) -> Iterator[Any]:
        return iter(())

    def chunks_of(self, part: Part) -> Iterator[Any]:
        """Raises FileError: the file cannot be read, is another than it was, or has another header."""
        if self.format == "parquet":
            frame, header, rows = parquet.open_file(part.path)
            headers.check_same(header, self.header, part.source, self.outline.first)
            stop = rows if part.stop is None else part.stop
            here = frame.slice(part.start, stop - part.start)
            step = self.outline.chunk_rows or parquet.ROWS
            yield from (Slice(part.source, part.number, f) for f in parquet.slices(here, stop - part.start, step))
            return
        separator = self.dialect.cut_at if self.dialect else None
        cutter = Cutter(part.source, separator, self.outline.chunk_bytes, self.outline.chunk_rows, part.line)
        for chunk in cutter.cut(self._blocks(part)):
            yield self._checked(chunk, part)

    def _checked(self, chunk: Chunk, part: Part) -> Chunk:
        if self.dialect is not None and chunk.first:
            header = headers.read_header(chunk, self.dialect, self.outline.header)
            headers.check_same(header, self.header, part.source, self.outline.first)
            self.known[part.number] = header
        return replace(chunk, number=part.number)

    def _blocks(self, part: Part) -> Iterator[bytes]:
        if part.stop is not None:
            blocks = _range(part, self.outline.chunk_bytes)
            yield from blocks if part.start else without_mark(blocks)
            return
        stream = Stream.open(part.path, Progress(), self.outline.encoding, self.outline.chunk_bytes)
        stream.name = part.source
        try:
            yield from text_of(stream)
        finally:
            stream.close()

    def parse(self, chunk: Any, wanted: Wanted) -> Table:
        if self.format == "parquet":
            return parquet.parse(chunk.source, chunk.frame, self.header, wanted)
        if self.dialect is None:
            return ndjson.parse(chunk, self.header, wanted, self.outline.unbound)
        header = self.known.get(chunk.number, self.header) if chunk.first else self.header
        return delimited.parse(chunk, header, self.dialect, wanted)

    def extend(self, names: Sequence[str], unbound: Sequence[str]) -> None:
        """The outline has them."""


def _range(part: Part, size: int) -> Iterator[bytes]:
    assert part.stop is not None
    try:
        descriptor = os.open(part.path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
    except OSError as fault:
        raise FileError.of(f"cannot read {part.source}: {(fault.strerror or str(fault)).lower()}") from None
    try:
        at = part.start
        while at < part.stop:
            block = os.pread(descriptor, min(size, part.stop - at), at)
            if not block:
                raise FileError.of(f"{part.source} became shorter while it was read", help="run again")
            at += len(block)
            yield block
    finally:
        os.close(descriptor)
