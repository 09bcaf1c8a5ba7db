"""The scripts of benchmarks/ run, with a size that says nothing about speed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        ("startup.py --repeat 1", ["--help", "grad -e", "grad samples", "diff -e"]),
        ("large.py --terms 10,20", ["10 terms", "20 terms"]),
        ("batch.py --rows 10,20 --repeat 1 csv parquet", ["csv", "csv", "parquet", "parquet"]),
        ("batch.py --rows 10 --repeat 1 --peers none wide ndjson", ["wide", "ndjson"]),
    ],
)
def test_a_benchmark_prints_a_line_for_each_contest(words: str, lines: list[str]) -> None:
    script, *rest = words.split()
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / script), *rest],
        env={**os.environ, "GRADCLI": f"{sys.executable} -m gradcli"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    printed = done.stdout.splitlines()
    assert len(printed) == len(lines)
    assert all(line.strip().startswith(start) for line, start in zip(printed, lines, strict=True))


def test_every_script_has_a_line_in_the_readme() -> None:
    text = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")
    scripts = {p.name for p in (ROOT / "benchmarks").glob("*.py")} - {"processes.py"}
    assert all(f"| `{name}` |" in text for name in scripts)
