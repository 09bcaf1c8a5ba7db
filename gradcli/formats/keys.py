"""The keys of many objects, one a line, without reading them: by where the quotes are."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np

from gradcli.formats.records import NEWLINE, QUOTE, Positions

_OPEN, _CLOSE, _COLON, _COMMA, _BLANK = b"{}:, "
_MARK = 1  # stands between cells, if no value has it
_QUOTED = re.compile(rb'"([^"]*)"([ \t]*:)?')
_BEHIND_A_VALUE = tuple(b",]}")


class Keys:
    """`common` are the keys of every line where all have the same in the same order (those of inner objects among
    them), else None."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.text = np.frombuffer(data, np.uint8)
        self.quotes = np.flatnonzero(self.text == QUOTE)
        self.ends = np.flatnonzero(self.text == NEWLINE)
        self.places: list[tuple[bytes, Positions, Positions]] = []
        self.common = self._common()

    def _common(self) -> list[bytes] | None:
        """What is quoted is a key or a text: where the first line has a key all must have the same one, where it has a
        text none may have a key."""
        ends, rows = self.ends, len(self.ends)
        if not rows or self.text[-1] != NEWLINE or b"\\" in self.data:
            return None
        words = _QUOTED.findall(self.data[: int(ends[0])])
        each = 2 * len(words)
        if len(self.quotes) != rows * each:
            return None
        grid = self.quotes.reshape(rows, each)
        if each and not ((grid[:, -1] < ends).all() and (grid[1:, 0] > ends[:-1]).all()):
            return None
        for (word, is_key), begin, end in zip(words, grid[:, ::2].T, grid[:, 1::2].T, strict=True):
            if not (self._all_have(word, begin, end) if is_key else self._are_texts(end)):
                return None
            if is_key:
                self.places.append((word, begin, end))
        return [word for word, _, _ in self.places]

    def _all_have(self, word: bytes, begin: Positions, end: Positions) -> bool:
        if (end - begin != len(word) + 1).any():
            return False
        return all((self.text[begin + i] == byte).all() for i, byte in enumerate(word, 1))

    def _are_texts(self, end: Positions) -> bool:
        return bool(np.isin(self.text[end + 1], _BEHIND_A_VALUE).all())

    def values(self) -> dict[str, Any] | None:
        """The values of every key as they are written, as series of texts; None where lines are not alike, or hold
        objects. The lines must be sound JSON."""
        import polars as pl

        if not self.common or len(set(self.common)) < len(self.common) or _MARK in self.data:
            return None
        if np.count_nonzero(self.text == _OPEN) != len(self.ends) or not (self.text[self.ends - 1] == _CLOSE).all():
            return None
        text = self.text.copy()
        text[self.ends - 1] = _BLANK
        for number, (word, begin, end) in enumerate(self.places):
            before = begin - 1 - (text[begin - 1] == _BLANK)
            if not (text[end + 1] == _COLON).all() or not (text[before] == (_COMMA if number else _OPEN)).all():
                return None
            text[before] = _MARK if number else _BLANK
            for offset in range(len(word) + 3):
                text[begin + offset] = _BLANK
        frame = pl.read_csv(text.tobytes(), has_header=False, infer_schema=False, separator=chr(_MARK), quote_char=None)
        if frame.height != len(self.ends):
            return None
        names = [word.decode() for word in self.common]
        return {n: c.str.strip_chars(" \t") for n, c in zip(names, frame.get_columns(), strict=True)}

    def may_have(self, name: str) -> bool:
        """Whether some line may have the key."""
        if self.common is not None:
            return name.encode() in self.common
        return any(key in self.data and re.search(re.escape(key) + rb"\s*:", self.data) for key in _spellings(name))

    def has_once(self, name: str) -> bool:
        """Whether no line has the key twice; False also where the name stands within a value of such a line."""
        if self.common is not None:
            return self.common.count(name.encode()) < 2
        places = [self._places(key) for key in _spellings(name)]
        lines = np.searchsorted(self.ends, places[0] if len(places) == 1 else np.sort(np.concatenate(places)))
        return not (lines[1:] == lines[:-1]).any()

    def _places(self, key: bytes) -> Positions:
        """Where a key stands, its quotes included."""
        found = self.quotes[self.quotes <= len(self.text) - len(key)]
        for offset, byte in enumerate(key[1:], 1):
            found = found[self.text[found + offset] == byte]
        return found


def _spellings(name: str) -> set[bytes]:
    """A key as writers of JSON spell it: letters beyond ASCII as they are, or all escaped."""
    return {json.dumps(name, ensure_ascii=False).encode(), json.dumps(name).encode()}
