"""Progress on a terminal: one line that is written over, however narrow the terminal is."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest
from conftest import taken


def shown(folder: Path, columns: int, *flags: str) -> str:
    """What a slow run writes to a terminal of that width."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    words = [sys.executable, "-m", "gradcli", "batch", "-e", "x", "-", "-o", "/dev/null", "--chunk-rows", "1", *flags]
    process = subprocess.Popen(words, cwd=folder, stdin=subprocess.PIPE, stderr=theirs)
    assert process.stdin
    process.stdin.write(b"x\n1\n")
    process.stdin.flush()
    taken(process.stdin)
    for _ in range(8):
        process.stdin.write(b"1\n")
        process.stdin.flush()
        time.sleep(0.3)
    process.stdin.close()
    assert process.wait(timeout=100) == 0
    os.close(theirs)
    try:
        return os.read(ours, 1 << 16).decode()
    except OSError:  # nothing was written
        return ""
    finally:
        os.close(ours)


@pytest.mark.parametrize("columns", [0, 10, 40, 300])
def test_progress_never_wraps(tmp_path: Path, columns: int) -> None:
    text = shown(tmp_path, columns, "--on-error", "null")
    updates = text.split("\r")
    assert len(updates) > 3
    assert max(map(len, updates[:-2])) < (columns or 80)  # behind them: the last line, and its end
    assert "\n" not in "".join(updates[:-2])


def test_no_progress_where_quiet_is_asked_for(tmp_path: Path) -> None:
    assert shown(tmp_path, 80, "-q") == ""
    assert shown(tmp_path, 80, "-q", "--progress") == ""


def test_an_interrupt_has_a_line_of_its_own(tmp_path: Path) -> None:
    """A terminal shows `^C` where the cursor stands."""
    ours, theirs = pty.openpty()
    words = [sys.executable, "-m", "gradcli", "batch", "-q", "-e", "x", "-", "-o", "/dev/null"]
    process = subprocess.Popen(words, cwd=tmp_path, stdin=subprocess.PIPE, stderr=theirs)
    assert process.stdin
    process.stdin.write(b"x\n1\n")
    process.stdin.flush()
    taken(process.stdin)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    os.close(theirs)
    assert os.read(ours, 1000) == b"\r\ninterrupted\r\n"
    os.close(ours)
