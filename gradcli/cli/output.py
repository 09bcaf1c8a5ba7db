"""What goes to which stream: data to stdout, everything else to stderr."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Callable, Iterable
from math import isfinite
from typing import Any

import click

from gradcli.errors import Diagnostic, GradcliError
from gradcli.source import visible

FINE, FAILED, WRONG, INTERNAL, NOTHING = 0, 1, 2, 3, 4
INTERRUPTED, CLOSED = 130, 141
_JSON_WORDS = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
_COLORS = {"error": "red", "warning": "yellow", "note": "cyan"}


class Console:
    """Prints for one run of a command, and remembers the worst exit status."""

    def __init__(self, quiet: bool = False, verbose: bool = False, strict: bool = False, color: str = "auto") -> None:
        self.quiet, self.verbose, self.strict = quiet, verbose, strict
        self.color = color
        self.status = FINE
        self.heard: list[Diagnostic] = []

    def worst(self, status: int) -> None:
        self.status = max(self.status, status)

    def data(self, text: str) -> None:
        """A piece of stdout, ended by a newline. Raises OSError."""
        if sys.stdout is None:
            raise OSError(errno.EBADF, "standard output is closed")
        sys.stdout.write(text + "\n")

    def tell(self, *diagnostics: Diagnostic) -> None:
        """Messages to stderr. Notes are kept back by -q; a warning under --strict fails the run.

        Where stderr cannot be written the status alone has to say it.
        """
        for diagnostic in diagnostics:
            self.heard.append(diagnostic)
            if diagnostic.severity == "warning" and self.strict:
                self.worst(FAILED)
            if diagnostic.severity == "note" and self.quiet:
                continue
            whisper(paint(diagnostic, wants_color(self.color)))

    def fail(self, fault: GradcliError, status: int = WRONG) -> None:
        self.tell(*fault.diagnostics)
        self.worst(status)


def whisper(text: str) -> None:
    """A line of stderr, if there is one."""
    with contextlib.suppress(OSError, ValueError):
        click.echo(text, err=True, color=True)


def drop_stdout() -> None:
    """What is still buffered for a stream that cannot be written must not raise again when the process ends."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def interrupted() -> int:
    """One short line, and nothing more of the data."""
    drop_stdout()
    whisper("\ninterrupted" if terminal(sys.stderr) else "interrupted")  # a terminal has written ^C on the line
    return INTERRUPTED


def terminal(stream: Any) -> bool:
    return stream is not None and not stream.closed and bool(stream.isatty())


def wants_color(choice: str) -> bool:
    """auto: on a terminal, unless NO_COLOR is set and not empty, or TERM is dumb."""
    if choice != "auto":
        return choice == "always"
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return terminal(sys.stderr)


def paint(diagnostic: Diagnostic, colored: bool) -> str:
    text = diagnostic.render()
    if not colored:
        return text
    word = f"{diagnostic.severity}:"
    styled = click.style(word, fg=_COLORS[diagnostic.severity], bold=True)
    return text.replace(f" {word} ", f" {styled} ", 1)


def number(value: Any, style: str | None = None) -> str:
    """A float as `repr` does (shortest that reads back) or by a `%` style; a column as a list; none as `none`."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    spell: Callable[[float], str] = repr if style is None else lambda x: style % x
    if isinstance(value, float):
        return spell(value)
    if isinstance(value, str):  # many digits, spelled already
        return value
    return "[" + ", ".join(value if isinstance(value, list) else map(spell, value.tolist())) + "]"


def json_number(value: Any) -> Any:
    """Strict JSON: non-finite numbers are the strings NaN, Infinity, -Infinity; none is null; a column a list."""
    if isinstance(value, str):  # many digits, spelled already
        return _JSON_WORDS.get(value, value)
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if isfinite(value) else _JSON_WORDS[str(value)]
    return [json_number(v) for v in (value if isinstance(value, list) else value.tolist())]


def json_line(record: dict[str, Any]) -> str:
    """One line of strict JSON; letters as they are where the stream has them all, what cannot be printed as escapes."""
    import json

    encoding = (getattr(sys.stdout, "encoding", None) or "utf-8").lower().replace("-", "")
    text = json.dumps(record, ensure_ascii=encoding != "utf8", allow_nan=False)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] if c != "\x7f" else "\\u007f" for c in text)


def table(rows: Iterable[tuple[str, ...]], aligned: bool) -> list[str]:
    """Tab-separated lines; padded columns for a person at a terminal. Cells are printable, whatever a name holds."""
    shown = [tuple(map(visible, row)) for row in rows]
    if not aligned or not shown:
        return ["\t".join(row) for row in shown]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in shown]
