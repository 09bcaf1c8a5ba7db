"""Reports of checks for other tools: one row a kind, loaded when it is used."""

from __future__ import annotations

import errno
import os
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from gradcli.descriptors import descriptor_of, duplicate
from gradcli.errors import Diagnostic, FileError, did_you_mean, shown
from gradcli.verdicts import Check

# Each is a module of this room with `render(report) -> str`.
KINDS = {"junit": "junit", "github": "github", "sarif": "sarif", "json": "json_report"}
_FOLDER = "name a file in a folder that exists"
_ELSEWHERE = {
    errno.ENOENT: _FOLDER,
    errno.ENOTDIR: _FOLDER,
    errno.EISDIR: "name a file, not a folder",
    errno.EACCES: "name a file that you may write",
    errno.EROFS: "name a file that you may write",
    errno.ENOSPC: "make room, or name a file elsewhere",
}


@dataclass(frozen=True)
class Entry:
    """One check of one model: `message` and `help` say why it failed; `replay` is a command that shows it."""

    model: str
    check: Check
    passed: bool
    message: str = ""
    help: str | None = None
    replay: str | None = None

    @property
    def path(self) -> str:
        """The file that the check stands in: an `-e` text has none of its own."""
        return self.check.part or self.model


@dataclass(frozen=True)
class Report:
    """What one run found; `faults` are models, or parts of them, that could not be checked."""

    entries: Sequence[Entry]
    faults: Sequence[tuple[str, Diagnostic]]
    models: int
    version: str

    def summary(self) -> dict[str, Any]:
        """The counts; the status is `ok` only where something passed and nothing failed."""
        verdicts = Counter(e.check.verdict for e in self.entries)
        passed = sum(e.passed for e in self.entries)
        failed = len(self.entries) - passed
        status = "failed" if failed else "error" if self.faults else "ok" if passed else "nothing checked"
        return {"models": self.models, "checked": len(self.entries), "passed": passed, "failed": failed,
                "agrees": verdicts["agrees"], "wrong": verdicts["wrong"], "undecided": verdicts["undecided"],
                "errors": len(self.faults), "status": status}  # fmt: skip


def parse_target(text: str) -> tuple[str, str]:
    """`KIND:PATH`. Raises FileError: an unknown kind, or a path that cannot be written."""
    kind, colon, path = text.partition(":")
    if kind not in KINDS:
        raise FileError.of(
            f"no report of kind {shown(kind)}", help=did_you_mean(kind, KINDS) or f"kinds are {', '.join(KINDS)}"
        )
    if not colon or not path:
        raise FileError.of(
            f"{shown(text)} names no file", help=f"write `{kind}:PATH`, or `{kind}:-` for standard output"
        )
    if path != "-":
        _probe(path)
    return kind, path


def _probe(path: str) -> None:
    """Say before the work, not after it, that a path cannot be written."""
    place = Path(path)
    existed = place.exists()
    try:
        with place.open("ab"):
            pass
        if not existed:
            place.unlink()
    except (OSError, ValueError) as fault:
        raise _unwritable(path, fault) from None


def _unwritable(path: str, fault: Exception) -> FileError:
    reason = (getattr(fault, "strerror", None) or str(fault)).lower()
    return FileError.of(
        f"cannot write {shown(path)}: {reason}", help=_ELSEWHERE.get(getattr(fault, "errno", None) or 0)
    )


def write(kind: str, path: str, report: Report, beside: bool = False) -> None:
    """Write one report. `-` is standard output, or standard error where data is there (`beside`). Raises FileError."""
    text = import_module(f"gradcli.reports.{KINDS[kind]}").render(report)
    if path == "-":
        (sys.stderr if beside else sys.stdout).write(text)
        return
    try:
        number = descriptor_of(path)
        data = text.encode("utf-8", "backslashreplace")
        if number is None:
            Path(path).write_bytes(data)
        else:
            with os.fdopen(duplicate(number), "wb") as file:
                file.write(data)
    except OSError as fault:
        raise _unwritable(path, fault) from None


def relative(path: str) -> str:
    """A path as seen from the root of its repository, else from here, with forward slashes."""
    try:
        place = Path(path).resolve()
        root = next((p for p in place.parents if (p / ".git").exists()), Path.cwd())
        return place.relative_to(root).as_posix()
    except (OSError, ValueError):
        return path


def values_of(check: Check) -> Mapping[str, str]:
    """The point of a check as texts."""
    return {n: repr(v) for n, v in (check.counterexample or {}).items()}
