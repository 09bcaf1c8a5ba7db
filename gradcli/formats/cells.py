"""From the text of cells to float64: what is missing, what is malformed and why.

polars casts a whole column, correctly rounded (compared with Python over 400,000 random texts and all the hard cases
of the tests); only what it refuses is looked at again, cell by cell.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

MISSING = frozenset(("", "na", "n/a", "#n/a", "null"))
_NUMBER = re.compile(r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|inf(?:inity)?|nan)", re.IGNORECASE | re.ASCII)
_GROUPED = re.compile(r"[+-]?[1-9]\d{0,2}(?:\.\d{3})+(?:,\d+)?", re.ASCII)
_SHOWN = 80
_MINUSES = "\u2010\u2011\u2012\u2013\u2014\u2212\ufe63\uff0d"
_PLACEHOLDERS = frozenset(
    ("-", "--", ".", "..", "?", "*", "none", "nil", "missing", "n.a.", "nd", "n.d.", "\\n", "#n/d")
)


@dataclass(frozen=True)
class Fault:
    """A record that cannot be used: `record` is its number in the chunk, `line` its physical line in the chunk.

    `cut`: where it stays as a row without results, its cells lack some of its text, which then is here.
    """

    record: int
    line: int
    column: str
    text: str
    reason: str
    help: str | None = None
    cut: bool = False


@dataclass(frozen=True)
class Reading:
    """How cells are read.

    Which texts mean missing (`extra`: also such as are numbers), whether that is a fault (`strict`), whether a comma is
    the decimal point.
    """

    missing: Collection[str] = MISSING
    extra: Collection[str] = ()
    decimal_comma: bool = False
    strict: bool = False

    @property
    def is_unusual(self) -> bool:
        """Whether texts must be looked at before they become numbers."""
        return self.decimal_comma or bool(self.extra)

    def absence(self, text: str | None) -> tuple[str, str]:
        """Why a missing value is a fault, where it is one."""
        shown = f"`{text}` means missing" if text and text.strip() else "the value is missing"
        return shown, "`--missing null` leaves the results of such rows empty"


@dataclass(frozen=True)
class Numbers:
    """One column: `missing` marks cells without a value (nan in `values`), `bad` lists (index, text, reason, help)."""

    values: NDArray[np.float64]
    missing: NDArray[np.bool_] | None
    bad: list[tuple[int, str, str, str | None]]


def shorten(text: str) -> str:
    """A cell as a message shows it."""
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 20]}... ({len(text)} characters)"


def read_cells(cells: Any, reading: Reading) -> Numbers:
    """A polars series of texts as numbers."""
    import polars as pl

    written = cells
    if reading.decimal_comma:
        cells = pl.Series(cells.name, _without_commas(cells), dtype=pl.String)
    if reading.extra:
        said = cells.str.strip_chars().str.to_lowercase().is_in(list(reading.extra))
        cells = cells.set(said.fill_null(False), None)
    found = cells.cast(pl.Float64, strict=False)
    if not found.null_count():
        return Numbers(found.to_numpy(), None, [])
    odd = found.is_null().arg_true()
    values = found.to_numpy(writable=True)
    texts = cells.gather(odd).str.strip_chars()
    absent = (texts.is_null() | texts.str.to_lowercase().is_in(list(reading.missing))).to_numpy()
    where = odd.to_numpy()
    missing = np.zeros(len(values), dtype=bool)
    missing[where[absent]] = True
    bad: list[tuple[int, str, str, str | None]] = []
    if not absent.all():
        again = texts.cast(pl.Float64, strict=False)
        values[where] = again.to_numpy()
        for at in np.flatnonzero(again.is_null().to_numpy() & ~absent).tolist():
            index = int(where[at])
            text = str(written[index])
            bad.append((index, text, *malformed(text.strip(), reading)))
    if reading.strict and absent.any():
        bad += [(i, written[i] or "", *reading.absence(written[i])) for i in np.flatnonzero(missing).tolist()]
        return Numbers(values, None, sorted(bad))
    return Numbers(values, missing if absent.any() else None, bad)


def _without_commas(cells: Any) -> list[str | None]:
    """Decimal commas become points; a point is a thousands separator there, and only between groups of three.

    The first group never begins with 0: `0.123` is a number with a decimal point.
    """
    found: list[str | None] = []
    for text in cells.to_list():
        if text is None or not ("," in text or "." in text):
            found.append(text)
        elif "." in text:
            clean = text.strip()
            found.append(clean.replace(".", "").replace(",", ".") if _GROUPED.fullmatch(clean) else text + "?")
        else:
            found.append(text.replace(",", "."))
    return found


def malformed(text: str, reading: Reading) -> tuple[str, str | None]:
    """Why a text is no number, and what to do about it."""
    plain = shorten(text)
    if text.startswith('"'):
        return f"`{plain}` is not a number: its quotes are text", (
            "quotes count right behind the separator; in TSV nowhere: `--in-format csv --delimiter '\\t'` reads them"
        )
    if "," in text and not reading.decimal_comma:
        return f"`{plain}` is not a number: it has a comma", _about_comma(text)
    if reading.decimal_comma and "." in text:
        return f"`{plain}` is not a number with a decimal comma", _about_point(text)
    if "_" in text:
        return f"`{plain}` is not a number: it has an underscore", "write the digits without separators"
    if any(c.isdecimal() and not c.isascii() for c in text):
        digits = "".join(str(unicodedata.digit(c, c)) for c in text)
        return f"`{plain}` is not a number: its digits are not 0 to 9", f"write `{shorten(digits)}`"
    if minus := next((c for c in text if c in _MINUSES), None):
        return f"`{plain}` is not a number: its minus is U+{ord(minus):04X}", "write the minus as `-`"
    if re.fullmatch(r"[+-]?\d{1,3}(?:[\s'\u2019]\d{3})+(?:\.\d*)?", text):
        return f"`{plain}` is not a number: its digits are in groups", "write the digits without separators"
    if re.fullmatch(r"[+-]?[\d.]+\s*%", text, re.ASCII):
        return f"`{plain}` is not a number: it is in per cent", "write the number itself: 0.05 for 5%"
    if text.lower() in _PLACEHOLDERS:
        return f"`{plain}` is not a number", f"`--na '{plain}'` says that it means missing"
    if re.fullmatch(r"[+-]?[\d.]+[dD][+-]?\d+", text, re.ASCII):
        return f"`{plain}` is not a number: its exponent is written with a `d`", "write the exponent with `e`"
    return f"`{plain}` is not a number", "`--on-error null` leaves such rows empty, `--on-error skip` leaves them out"


def _about_comma(text: str) -> str:
    """A comma may be the decimal point or separate thousands; `1,234` looks like both."""
    grouped = re.fullmatch(r"[+-]?\d{1,3}(?:,\d{3})+", text, re.ASCII)
    if grouped and text.count(",") == 1:
        return "`--decimal-comma` reads a comma as the decimal point; a thousands separator must be left out"
    if not grouped and re.fullmatch(
        r"[+-]?(?:\d*|\d{1,3}(?:\.\d{3})+),\d+(?:e[+-]?\d+)?", text, re.ASCII | re.IGNORECASE
    ):
        return "`--decimal-comma` reads a comma as the decimal point"
    return "write it without thousands separators"


def _about_point(text: str) -> str:
    if _NUMBER.fullmatch(text):
        return "write its point as a comma, or leave `--decimal-comma` out"
    return "a point separates groups of three digits there"


def parse_number(text: str) -> float | None:
    """The number that a trimmed text spells, or None."""
    return float(text) if _NUMBER.fullmatch(text) else None
