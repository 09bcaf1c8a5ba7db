"""What a run came to: counts, causes, seconds; as a line for people and as an object for programs."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from gradcli.batching.causes import Cause
from gradcli.formats.stream import Progress

_LINE = 72  # letters of a line of progress that is written over
_EVERY = {True: 0.2, False: 2.0}  # seconds between reports: on a terminal, elsewhere


@dataclass
class Summary:
    """Counts over the whole stream; `causes`: how many rows, and the first of them (counted over all files from 1).

    `cut` are rejected rows that were written without some of their text; `first_cut` says which and why. `error` is
    what ended the run before its end.
    """

    rows: int = 0
    written: int = 0
    missing: int = 0
    rejected: int = 0
    cut: int = 0
    first_cut: str = ""
    error: str | None = None
    nonfinite: int = 0
    causes: dict[Cause, tuple[int, int]] = field(default_factory=dict)
    seconds: float = 0.0
    started: float = field(default_factory=time.monotonic)

    def add_cause(self, cause: Cause, count: int, first: int) -> None:
        earlier = self.causes.get(cause, (0, first))
        self.causes[cause] = earlier[0] + count, min(earlier[1], first)

    def finish(self) -> None:
        self.seconds = time.monotonic() - self.started

    def record(self, status: int) -> dict[str, Any]:
        return {
            "schema": 1,
            "rows": self.rows,
            "written": self.written,
            "missing": self.missing,
            "rejected": self.rejected,
            "cut": self.cut,
            "nonfinite": self.nonfinite,
            "causes": [
                {
                    "output": c.output,
                    "function": c.function,
                    "text": c.text,
                    "line": c.line,
                    "slope": c.slope,
                    "rows": count,
                    "first_row": first,
                }
                for c, (count, first) in self._by_count()
            ],
            "error": self.error,
            "seconds": round(self.seconds, 3),
            "status": status,
        }

    def _by_count(self) -> list[tuple[Cause, tuple[int, int]]]:
        return sorted(self.causes.items(), key=lambda item: (-item[1][0], item[1][1]))

    @property
    def sentence(self) -> str:
        """`5 rows, 1 missing, 2 not finite (`log(x)` in line 1 in 2 rows, first in row 4), 0.1 s`."""
        parts = [f"{self.rows:,} row{'s' * (self.rows != 1)}"]
        parts += [f"{self.missing:,} missing"] if self.missing else []
        parts += [f"{self.rejected:,} rejected"] if self.rejected else []
        parts += [f"{self.cut:,} of them cut"] if self.cut else []
        if self.nonfinite:
            causes = [
                f"{c.sentence} in {n:,} row{'s' * (n != 1)}, first in row {first:,}"
                for c, (n, first) in self._by_count()[:3]
            ]
            more = f"; {len(self.causes) - 3} causes more" if len(self.causes) > 3 else ""
            parts.append(f"{self.nonfinite:,} not finite ({'; '.join(causes)}{more})")
        return ", ".join([*parts, f"{self.seconds:.1f} s"])

    @property
    def is_notable(self) -> bool:
        return bool(not self.rows or self.missing or self.rejected or self.nonfinite)


class Reporter:
    """Progress on stderr: a line that is written over on a terminal, lines elsewhere; silent unless wanted."""

    def __init__(self, wanted: bool, progress: Progress, say: Callable[[str], None] | None = None) -> None:
        self.wanted, self.progress = wanted, progress
        self.terminal = sys.stderr is not None and sys.stderr.isatty()
        self.say = say or self._write
        self.last = time.monotonic()
        self.shown = False

    def tick(self, summary: Summary) -> None:
        now = time.monotonic()
        if self.wanted and now - self.last >= _EVERY[self.terminal]:
            self.last = now
            line = self._line(summary, now - summary.started)
            width = self._width()
            self.say(f"\r{line[:width]:<{min(width, _LINE)}}" if self.terminal else line + "\n")
            self.shown = True

    def _line(self, summary: Summary, seconds: float) -> str:
        line = f"{summary.rows:,} rows, {summary.rows / seconds:,.0f} rows/s"
        if self.progress.total:
            share = min(self.progress.read / self.progress.total, 1.0)
            line += f", {share:.0%}" + (f", {seconds / share - seconds:.0f} s left" if share > 0.01 else "")
        return line

    def clear(self) -> None:
        if self.shown and self.terminal:
            self.say("\r" + " " * min(self._width(), _LINE) + "\r")

    def _width(self) -> int:
        """How many letters go into one line: with one more the terminal begins another, and the first cannot be
        written over."""
        with suppress(OSError, ValueError):
            return (os.get_terminal_size(sys.stderr.fileno()).columns or _LINE + 1) - 1
        return _LINE

    def _write(self, text: str) -> None:
        with suppress(OSError, ValueError, AttributeError):  # progress that nobody can see ends no run
            sys.stderr.write(text)
            sys.stderr.flush()
