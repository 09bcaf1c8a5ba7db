"""Bytes in: files, pipes, gzip and zstandard alike, several files as one stream, each in blocks as they arrive."""

from __future__ import annotations

import codecs
import glob
import os
import select
import stat
import sys
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gradcli.errors import FileError, did_you_mean

BLOCK = 1 << 20
_PATIENCE = 0.05  # seconds without new bytes after which whole records go on
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_STDIN = ("-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0")
_MAGIC = {b"PAR1": "parquet", b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"PK\x03\x04": "zip"}


def expand(words: Sequence[str]) -> list[str]:
    """Names of data files in order: a word that is no file and has `*?[` is a glob. Raises FileError."""
    found: list[str] = []
    for word in words:
        if not word:
            raise FileError.of("the name of a data file is empty", help="a variable of the shell may be unset")
        try:
            exists = word == "-" or Path(word).exists()
        except (OSError, ValueError) as fault:
            raise FileError.of(f"cannot read `{word[:100]}`: {_why(fault)}") from None
        if exists:
            if word != "-" and Path(word).is_dir():
                raise FileError.of(f"`{word}` is a folder", help=f"name its files: `'{word.rstrip('/')}/*.csv'`")
            found.append(word)
            continue
        globbed = any(c in word for c in "*?[")
        matches = sorted(glob.glob(word)) if globbed else []  # noqa: PTH207  names as the user would write them
        if not matches:
            raise FileError.of(f"no data file `{word[:200]}`", help=_near(word))
        found += matches
    if sum(name in _STDIN for name in found) > 1:
        raise FileError.of("standard input can be read once", help="name `-` once")
    return found


def _near(word: str) -> str | None:
    folder = Path(word).parent
    names = [p.name for p in folder.iterdir()] if folder.is_dir() else []
    return did_you_mean(Path(word).name, names) or "`-` is standard input"


def _why(fault: Exception) -> str:
    return (getattr(fault, "strerror", None) or str(fault)).lower()


@dataclass
class Progress:
    """Bytes read of the bytes there are (0: not known)."""

    read: int = 0
    total: int = 0


@dataclass
class Stream:
    """The bytes of one file. An empty block means that a pipe makes us wait: go on with what there is."""

    name: str
    progress: Progress
    encoding: str | None = None
    kind: str = ""
    size: int = BLOCK
    _head: bytes = b""
    _descriptor: int = -1
    _own: bool = field(default=False)

    @classmethod
    def open(cls, name: str, progress: Progress, encoding: str | None = None, size: int = BLOCK) -> Stream:
        """Open and look at the first bytes: `kind` is gzip, zstd, another container, or empty for text."""
        self = cls(name, progress, encoding, size=size)
        if name == "-":
            self._descriptor = _standard_input()
            if os.isatty(self._descriptor):
                raise FileError.of("standard input is a terminal", help="pipe data into `-`, or name a file")
        else:
            try:
                self._descriptor = os.open(name, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
            except (OSError, ValueError) as fault:
                raise FileError.of(f"cannot read {name}: {_why(fault)}") from None
            self._own = True
        self._head = self._read(BLOCK)
        while _may_begin(self._head) and (more := self._read(6 - len(self._head))):
            self._head += more
        self.kind = _kind(self._head)
        return self

    @property
    def mark(self) -> int:
        """How many bytes the mark of UTF-8 takes at the beginning."""
        return len(codecs.BOM_UTF8) if self._head.startswith(codecs.BOM_UTF8) else 0

    def close(self) -> None:
        if self._own:
            os.close(self._descriptor)
            self._own = False

    def _read(self, size: int) -> bytes:
        try:
            data = os.read(self._descriptor, size)
        except OSError as fault:
            raise FileError.of(f"cannot read {self.name}: {_why(fault)}") from None
        self.progress.read += len(data)
        return data

    def raw(self) -> Iterator[bytes]:
        """What the file holds, and an empty block wherever a pipe makes us wait."""
        head, self._head = self._head, b""
        waits = not stat.S_ISREG(os.fstat(self._descriptor).st_mode)
        size = BLOCK if waits else self.size
        while head:
            yield head
            if waits and not select.select([self._descriptor], [], [], _PATIENCE)[0]:
                yield b""
            head = self._read(size)

    def blocks(self) -> Iterator[bytes]:
        """The text: decompressed, in UTF-8, without its mark."""
        found = without_mark({"gzip": self._gunzip, "zstd": self._unzstd}.get(self.kind, self.raw)())
        return without_mark(self._decoded(found)) if self.encoding else found

    def _gunzip(self) -> Iterator[bytes]:
        """All members, one after the other; zero padding behind the last is allowed."""
        inflater, started = zlib.decompressobj(wbits=31), False
        for block in self.raw():
            if not block:
                yield b""
            try:
                while block:
                    if inflater.eof:
                        block = block.lstrip(b"\0")
                        if not block:
                            break
                        inflater = zlib.decompressobj(wbits=31)
                    started = True
                    text = inflater.decompress(block, 4 * BLOCK)
                    if text:
                        yield text
                    block = inflater.unused_data if inflater.eof else inflater.unconsumed_tail
            except zlib.error as fault:
                raise FileError.of(f"{self.name} is damaged: {fault}", help="it begins as gzip does") from None
        if started and not inflater.eof:
            yield inflater.flush()
        if started and not inflater.eof:
            raise FileError.of(f"{self.name} ends in the middle of its gzip data", help="it was cut: copy it again")

    def _unzstd(self) -> Iterator[bytes]:
        from gradcli.formats.zstd import decompressed

        return decompressed(self.raw(), self.name)

    def _decoded(self, blocks: Iterator[bytes]) -> Iterator[bytes]:
        decoder = codecs.getincrementaldecoder(self.encoding or "utf-8")()
        try:
            for block in blocks:
                text = decoder.decode(block)
                if text or not block:
                    yield text.encode()
            yield decoder.decode(b"", True).encode()
        except UnicodeError as fault:
            raise FileError.of(f"{self.name} is not {self.encoding}: {fault}") from None


def without_mark(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """The blocks of a file without the mark of UTF-8 at its beginning: quotes are looked at from the first byte on."""
    head = b""
    for block in blocks:
        head += block
        if len(head) >= len(codecs.BOM_UTF8) or not codecs.BOM_UTF8.startswith(head):
            break
        if not block:
            yield b""
    if head := head.removeprefix(codecs.BOM_UTF8):
        yield head
    yield from blocks


def _may_begin(head: bytes) -> bool:
    """Whether more bytes may turn these few into the mark of a container."""
    return bool(head) and any(m != head and m.startswith(head) for m in (_GZIP, _ZSTD, *_MAGIC))


def _kind(head: bytes) -> str:
    if head.startswith(_GZIP):
        return "gzip"
    if head.startswith(_ZSTD):
        return "zstd"
    return next((kind for magic, kind in _MAGIC.items() if head.startswith(magic)), "")


def known_encoding(name: str) -> str | None:
    """None for UTF-8. Raises FileError for an encoding that does not exist."""
    try:
        found = codecs.lookup(name).name
        "".encode(found)  # LookupError also where it is none of texts
    except (LookupError, ValueError):
        raise FileError.of(f"no encoding `{name}`", help="such as latin-1, cp1252, utf-16") from None
    return None if found == "utf-8" else found


def _standard_input() -> int:
    """Its descriptor. Raises FileError where there is none: the number may belong to another file."""
    if sys.stdin is None:
        raise FileError.of("standard input is closed", help="pipe data into `-`, or name a file")
    return sys.stdin.fileno()


def total_bytes(names: Sequence[str]) -> int:
    """The size of all files together, 0 where one is a pipe."""
    total = 0
    for name in names:
        status: Any = os.fstat(_standard_input()) if name == "-" else Path(name).stat()
        if not stat.S_ISREG(status.st_mode):
            return 0
        total += status.st_size
    return total
