"""Text and places in it: every later object can point into the text it came from."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

_EXCERPT = 96  # characters of a line that a message shows at the most
_BREAK = re.compile(r"\r\n?|\n")


def visible(text: str) -> str:
    """Replace control characters, line breaks included, by their escapes, so that no input reaches a terminal raw."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == " " else c.encode("unicode_escape").decode() for c in text)


class Part(NamedTuple):
    """One named piece of a source: a file, standard input, or the `-e` texts."""

    name: str
    text: str


class Source:
    """The text of one model, joined from parts by newlines; offsets run over the whole."""

    def __init__(self, parts: Iterable[Part]) -> None:
        self.parts = tuple(parts)
        self.text = "\n".join(part.text for part in self.parts)

    @classmethod
    def of(cls, text: str, name: str = "-e") -> Source:
        return cls([Part(name, text)])

    @classmethod
    def read(cls, path: str | Path) -> Source:
        """Read a UTF-8 file; a byte order mark is dropped.

        Raises OSError, or UnicodeDecodeError whose `start` is the offset of the first bad byte.
        """
        with open(path, "rb") as file:
            return cls([Part(str(path), file.read().decode().removeprefix("\ufeff"))])

    def plus(self, text: str, name: str = "-e") -> Source:
        """The same source with one more part behind it."""
        return Source([*self.parts, Part(name, text)])

    @property
    def name(self) -> str:
        return self.parts[0].name

    @cached_property
    def _line_starts(self) -> list[int]:
        """Where lines begin; they end in LF, CR LF or CR, as the lexer sees them."""
        return [0, *(found.end() for found in _BREAK.finditer(self.text))]

    @cached_property
    def _part_starts(self) -> list[int]:
        starts, at = [], 0
        for part in self.parts:
            starts.append(at)
            at += len(part.text) + 1
        return starts

    def part_of(self, offset: int) -> int:
        """The index of the part that an offset is in."""
        return bisect_right(self._part_starts, offset) - 1

    def locate(self, offset: int) -> tuple[str, int, int]:
        """Name of the part, line and column (both from 1, columns in characters)."""
        part = self.part_of(offset)
        line = bisect_right(self._line_starts, offset) - 1
        first = bisect_right(self._line_starts, self._part_starts[part]) - 1
        return self.parts[part].name, line - first + 1, offset - self._line_starts[line] + 1

    def line_of(self, offset: int) -> int:
        return self.locate(offset)[1]

    def line_bounds(self, offset: int) -> tuple[int, int]:
        line = bisect_right(self._line_starts, offset) - 1
        start = self._line_starts[line]
        found = _BREAK.search(self.text, start)
        return start, found.start() if found else len(self.text)


class Span(NamedTuple):
    """Characters `start` to `end` of a source."""

    source: Source
    start: int
    end: int

    @property
    def text(self) -> str:
        return self.source.text[self.start : self.end]

    @property
    def line(self) -> int:
        return self.source.line_of(self.start)

    @property
    def place(self) -> str:
        """`path:line:column`."""
        name, line, column = self.source.locate(self.start)
        return f"{visible(name)}:{line}:{column}"

    def caret(self) -> str:
        """The line, cut around the span when it is long, and carets under the span."""
        low, high = self.source.line_bounds(self.start)
        start = min(self.start, high)
        end = max(start, min(self.end, high))
        first, last = low, high
        if high - low > _EXCERPT:
            first = max(low, min(start - _EXCERPT // 3, high - _EXCERPT))
            last = min(high, first + _EXCERPT)
            end = min(end, last)
        before, under, after = (self._shown(a, b) for a, b in ((first, start), (start, end), (end, last)))
        left, right = "..." if first > low else "", "..." if last < high else ""
        line = f"    {left}{before}{under}{after}{right}".rstrip()
        return f"{line}\n    {' ' * len(left + before)}{'^' * max(1, len(under))}"

    def _shown(self, start: int, end: int) -> str:
        return visible(self.source.text[start:end].replace("\t", " "))
