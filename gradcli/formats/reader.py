"""Data files as one stream of chunks: opened, looked at, cut, parsed, whatever their format."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Protocol

from gradcli.errors import FileError
from gradcli.formats import by_suffix, delimited, headers, input_format, ndjson, parquet
from gradcli.formats.headers import Dialect, Header
from gradcli.formats.records import CHUNK, Chunk, Cutter
from gradcli.formats.stream import Progress, Stream, total_bytes
from gradcli.formats.table import Table, Wanted

_IS_JSON = re.compile(rb"\s*(?:\{|\[\s*\{)").match
_HELP = {"bzip2": "`bzcat`", "xz": "`xzcat`", "zip": "`unzip -p`"}


@dataclass
class Options:
    """How data are read, as far as the user said."""

    format: str | None = None
    separator: str | None = None
    encoding: str | None = None
    header: Sequence[str] | None = None
    chunk_bytes: int = CHUNK
    chunk_rows: int | None = None


class Reader(Protocol):
    """One stream of rows. `header` has the columns; `lines_pass` is the dialect whose lines may pass as they are."""

    format: str
    header: Header
    progress: Progress
    dialect: Dialect | None
    types: Mapping[str, Any]

    def chunks(self) -> Iterator[Any]: ...

    def parse(self, chunk: Any, wanted: Wanted) -> Table: ...

    def extend(self, names: Sequence[str], unbound: Sequence[str]) -> None: ...


def open_data(names: Sequence[str], options: Options) -> Reader:
    """Open the first of the files and read its header. Raises FileError."""
    known = options.format or (by_suffix(names[0])[0] and input_format(list(names), None))
    progress = Progress(0, total_bytes(names))
    if known == "parquet":
        return ParquetReader(list(names), options, progress)
    first = Stream.open(names[0], progress, options.encoding, options.chunk_bytes)
    if first.kind == "parquet":
        if options.format is not None:
            raise FileError.of(f"{names[0]} is Parquet, not {options.format}", help="leave `--in-format` out")
        return ParquetReader(list(names), options, progress, first)
    blocks = text_of(first)
    if known is None:
        head = next((b for b in blocks if b), b"")
        blocks = chain([head], blocks)
        known = "ndjson" if _IS_JSON(head) else "csv"
    return TextReader(list(names), known, options, progress, blocks)


def text_of(stream: Stream) -> Iterator[bytes]:
    """Decompressed text. Raises FileError for a container that is not read."""
    if stream.kind in _HELP or stream.kind == "parquet":
        remedy = f"unpack it first: {_HELP[stream.kind]}" if stream.kind in _HELP else "run it by itself"
        if stream.name.lower().endswith((".xlsx", ".xlsm", ".ods")):
            remedy = "save the sheet as CSV"
        raise FileError.of(f"{stream.name} is {stream.kind} data", help=remedy)
    return stream.blocks()  # what it is, its content says, not its name


class TextReader:
    """CSV, TSV and NDJSON."""

    def __init__(
        self, names: list[str], format: str, options: Options, progress: Progress, blocks: Iterator[bytes]
    ) -> None:
        self.names, self.format, self.options, self.progress = names, format, options, progress
        separator = options.separator or ("\t" if format == "tsv" else ",")
        self.types: Mapping[str, Any] = {}
        self.dialect: Dialect | None = None
        if format != "ndjson":
            self.dialect = Dialect(separator, format == "csv")
        self.unbound: Sequence[str] = ()
        self.known: dict[int, Header] = {}
        self._stream = self._all(blocks)
        self.header = self._first_header()

    def _first_header(self) -> Header:
        for chunk in self._stream:
            header = self.known.get(chunk.number) if self.dialect else ndjson.first_header(chunk)
            if header is not None:
                self._stream = chain([chunk], self._stream)
                return header
        if self.dialect is not None:
            if self.options.header is not None:
                return Header(tuple(self.options.header))
            raise FileError.of(f"{self.names[0]} is empty: there is no header", help="begin with the names of columns")
        return Header(())

    def _all(self, blocks: Iterator[bytes]) -> Iterator[Chunk]:
        cut_at = self.dialect.cut_at if self.dialect else None
        for number, name in enumerate(self.names):
            stream = None
            if number:
                stream = Stream.open(name, self.progress, self.options.encoding, self.options.chunk_bytes)
                blocks = text_of(stream)
            cutter = Cutter(name, cut_at, self.options.chunk_bytes, self.options.chunk_rows)
            for chunk in cutter.cut(blocks):
                numbered = replace(chunk, number=number)
                if self.dialect is not None and chunk.first:
                    self._take_header(numbered)
                yield numbered
            if stream is not None:
                stream.close()

    def _take_header(self, chunk: Chunk) -> None:
        assert self.dialect is not None
        header = headers.read_header(chunk, self.dialect, self.options.header)
        if self.known:  # an empty file has none
            first = min(self.known)
            headers.check_same(header, self.known[first], chunk.source, self.names[first])
        self.known[chunk.number] = header

    def chunks(self) -> Iterator[Chunk]:
        return self._stream

    def parse(self, chunk: Chunk, wanted: Wanted) -> Table:
        if self.dialect is not None:
            return delimited.parse(chunk, self.known[chunk.number], self.dialect, wanted)
        return ndjson.parse(chunk, self.header, wanted, self.unbound)

    def extend(self, names: Sequence[str], unbound: Sequence[str]) -> None:
        """NDJSON: columns that the first object lacks but a later one may have; and names that no row may have."""
        self.header = Header((*self.header.names, *names))
        self.unbound = unbound


@dataclass
class Slice:
    """Rows of a Parquet file."""

    source: str
    number: int
    frame: Any
    line: int = 0


@dataclass
class ParquetReader:
    """Parquet, file by file; standard input goes to a temporary file first, since the format begins at its end."""

    names: list[str]
    options: Options
    progress: Progress
    stream: Stream | None = None
    format: str = "parquet"
    dialect: Dialect | None = None
    header: Header = field(init=False)
    types: Mapping[str, Any] = field(init=False)
    _copy: Any = None

    def __post_init__(self) -> None:
        self.progress.total = 0
        frame, self.header, _ = self._open(self.names[0])
        self.types = dict(frame.collect_schema())

    def _open(self, name: str) -> tuple[Any, Header, int]:
        if name != "-":
            return parquet.open_file(name)
        if self._copy is None:
            self._copy = _copied(self.stream or Stream.open("-", Progress()))
        return parquet.open_file("-", f"/dev/fd/{self._copy.fileno()}")

    def chunks(self) -> Iterator[Slice]:
        for number, name in enumerate(self.names):
            frame, header, rows = self._open(name)
            headers.check_same(header, self.header, name, self.names[0])
            for part in parquet.slices(frame, rows, self.options.chunk_rows or parquet.ROWS):
                yield Slice(name, number, part)

    def parse(self, chunk: Slice, wanted: Wanted) -> Table:
        return parquet.parse(chunk.source, chunk.frame, self.header, wanted)

    def extend(self, names: Sequence[str], unbound: Sequence[str]) -> None:
        raise FileError.of(f"{self.names[0]} has no column `{names[0]}`") if names else AssertionError


def _copied(stream: Stream) -> Any:
    """Standard input as a temporary file without a name, of which nothing is left however the run ends."""
    try:
        copy = tempfile.TemporaryFile()  # noqa: SIM115  closed with the reader
        for block in stream.raw():
            copy.write(block)
        copy.flush()
    except OSError as fault:
        why = (fault.strerror or str(fault)).lower()
        raise FileError.of(f"cannot keep standard input in a temporary file: {why}", help="TMPDIR says where") from None
    return copy
