"""What can go wrong, said the same way everywhere: place, fact, remedy."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Self
from unicodedata import normalize

from gradcli.source import Source, Span, visible

_LONGEST = 600  # characters of a message; what a user wrote may be a megabyte


class Diagnostic(NamedTuple):
    """One message: `severity` is `error`, `warning` or `note`; `help` says what to do about it."""

    message: str
    span: Span | None = None
    help: str | None = None
    severity: str = "error"

    def render(self, name: str = "gradcli") -> str:
        """`path:line:col: error: sentence`, the line with carets, and `help: …`; without a place `name` leads."""
        lines = [f"{self.span.place if self.span else name}: {self.severity}: {bounded(visible(self.message))}"]
        if self.span:
            lines.append(self.span.caret())
        if self.help:
            lines.append(f"help: {bounded(visible(self.help))}")
        return "\n".join(lines)

    def sentence(self) -> str:
        """One line without the severity, for a list of warnings in data."""
        place = f"{self.span.place}: " if self.span else ""
        return f"{place}{bounded(visible(self.message))}"


def bounded(text: str, longest: int = _LONGEST) -> str:
    """The text, its middle left out where it is very long."""
    if len(text) <= longest:
        return text
    tail = longest // 4
    return f"{text[: longest - tail - 5]} ... {text[-tail:]}"


class GradcliError(Exception):
    """Any failure this library reports; `diagnostics` holds all of them, in order of place."""

    def __init__(self, *diagnostics: Diagnostic) -> None:
        self.diagnostics = diagnostics
        super().__init__("\n".join(d.render() for d in diagnostics))

    def __reduce__(self) -> tuple[type[Self], tuple[Diagnostic, ...]]:
        """It comes back whole from another process."""
        return type(self), self.diagnostics

    @classmethod
    def of(cls, message: str, span: Span | None = None, help: str | None = None) -> Self:
        return cls(Diagnostic(message, span, help))


class ModelError(GradcliError):
    """The text of a model is wrong."""


class BindingError(GradcliError):
    """Values are missing, unknown, or of the wrong shape."""


class GradientError(GradcliError):
    """A gradient was asked for that does not exist."""


class FileError(GradcliError):
    """A file or folder cannot be read or written."""


def not_utf8(name: str, fault: UnicodeDecodeError) -> FileError:
    """A text that is not UTF-8, with the place of its first bad byte."""
    data = bytes(fault.object).removeprefix(b"\xef\xbb\xbf")
    start = len(bytes(fault.object)) - len(data)
    source = Source.of(data.decode("utf-8", "replace"), name)
    at = len(data[: max(0, fault.start - start)].decode("utf-8", "replace"))
    return FileError.of(
        f"not UTF-8: byte 0x{fault.object[fault.start]:02x}", Span(source, at, at + 1), "save it as UTF-8"
    )


_MANY = 2000
_LONG_NAME = 100


def shown(name: str) -> str:
    """A name in backquotes for a message, its middle left out where it is long."""
    return f"`{name if len(name) <= 60 else f'{name[:40]}...{name[-17:]}'}`"


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """`did you mean `x1`?` for the nearest of the known names, or None.

    Two names that look alike, such as the micro sign and the Greek letter, are told apart by their code points.
    """
    if not name or len(name) > _LONG_NAME:
        return None
    names = [n for n in dict.fromkeys(known) if len(n) <= _LONG_NAME]
    if len(names) > _MANY:  # difflib takes about 10 microseconds a name
        names = [n for n in names if abs(len(n) - len(name)) <= 1][:_MANY]
    alike = {normalize("NFKC", n).casefold(): n for n in names if n != name}
    near = alike.get(normalize("NFKC", name).casefold())
    if near is not None and near.lower() != name.lower():
        return f"did you mean {shown(near)} ({_points(near, name)}, not {_points(name, near)})?"
    if near is None:
        from difflib import get_close_matches  # a millisecond that a model without a mistake need not wait

        matches = get_close_matches(name, names, n=1, cutoff=0.76 if len(name) < 6 else 0.6)
        near = matches[0] if matches else None
    return f"did you mean {shown(near)}?" if near else None


def _points(name: str, other: str) -> str:
    """The code points of the characters of `name` that `other` lacks."""
    return " ".join(f"U+{ord(c):04X}" for c in dict.fromkeys(name) if c not in other) or shown(name)
