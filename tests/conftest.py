"""The command in this process: what it wrote to each stream, and its status."""

from __future__ import annotations

import fcntl
import json
import os
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gradcli.cli.group import run

ROOT = Path(__file__).parent.parent


@dataclass(frozen=True)
class Outcome:
    """One run."""

    status: int
    out: str
    err: str

    @property
    def rows(self) -> dict[str, tuple[str, str]]:
        """Value and gradient by name, as printed."""
        cells = [line.split("\t") for line in self.out.splitlines()]
        return {row[0]: (row[1], row[2] if len(row) > 2 else "") for row in cells}

    @property
    def json(self) -> dict[str, Any]:
        (record,) = self.records
        return record

    @property
    def records(self) -> list[dict[str, Any]]:
        return [json.loads(line, parse_constant=refuse) for line in self.out.splitlines()]

    def value(self, name: str = "value") -> float:
        return float(self.rows[name][0])

    def slope(self, name: str) -> float:
        return float(self.rows[name][1])


def taken(stream: Any) -> None:
    """Wait until the process at the other end of a pipe has read all that it was sent: then it is at work, however long
    it took to start. Raises TimeoutError after a minute."""
    deadline = time.monotonic() + 60
    while struct.unpack("i", fcntl.ioctl(stream, termios.FIONREAD, bytes(4)))[0]:
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.01)


def refuse(word: str) -> None:
    raise AssertionError(f"{word} is not JSON")


Cli = Callable[..., Outcome]


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    """`cli("grad", "-e", "x^2", "x=3")` runs the command in this process."""

    def call(*arguments: str) -> Outcome:
        capsys.readouterr()
        status = run(list(arguments))
        out, err = capsys.readouterr()
        return Outcome(status, out, err)

    return call


@pytest.fixture
def grad(cli: Cli) -> Cli:
    """`grad("x^2", "x=3")` asks for the value and the gradients of a text."""

    def call(text: str, *arguments: str) -> Outcome:
        return cli("grad", "-e", text, *arguments)

    return call


@pytest.fixture
def process() -> Callable[..., subprocess.CompletedProcess[str]]:
    """`process("grad", "-", input="x=1; x^2")` runs the command as a process of its own."""

    def call(*arguments: str, environment: dict[str, str] | None = None, **options: Any) -> Any:
        return subprocess.run(
            command(*arguments),
            env={**os.environ, "PYTHONPATH": str(ROOT), **(environment or {})},
            timeout=60,
            check=False,
            **{"capture_output": True, "text": True, "encoding": "utf-8", **options},
        )

    return call


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "gradcli", *arguments]
