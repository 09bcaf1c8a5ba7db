"""Every sample gives what stands beside it, and every mistake its message."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from gradcli.api import Model
from gradcli.language.lower import ExpectLine, lower
from gradcli.source import Source

sys.path.insert(0, str(Path(__file__).parent))
from test_docs import ROOT, generate

SAMPLES = sorted((ROOT / "samples").glob("*.expr"))
ERRORS = ROOT / "samples" / "errors"


def named(path: Path) -> str:
    return path.stem


@pytest.mark.parametrize("path", generate.TRANSCRIPTS, ids=named)
def test_sample_gives_its_output(path: Path) -> None:
    old = path.read_text(encoding="utf-8")
    with generate.surroundings():
        made = generate.transcript(old, where=path.name)
    assert generate.settled(old, made) == old, "run `python docs/generate.py samples` if the change is meant"


def test_every_sample_has_an_output_and_every_mistake_a_message() -> None:
    assert {p.stem for p in SAMPLES} <= {p.stem for p in generate.TRANSCRIPTS}
    assert {p.stem for p in ERRORS.glob("*.expr")} == {p.stem for p in ERRORS.glob("*.message")}
    for path in generate.TRANSCRIPTS:
        assert f"samples/{path.stem}.expr" in path.read_text(encoding="utf-8") or path.stem == "retention"


# ---- what the files themselves say should hold ---------------------------------------------------------------------


def value(source: Source, text: str) -> float | np.ndarray:
    """An expression behind a model, at the model's own point."""
    return Model(lower(source.plus(text))).compile(wrt=()).run().value


def tolerance(line: ExpectLine, number: float) -> float:
    kind, text = line.tolerance.kind, line.tolerance.text
    if kind == "absolute":
        return float(text)
    if kind == "percent":
        return abs(number) * float(text) / 100
    if kind == "rounded":
        assert line.text is not None
        mantissa, _, exponent = line.text.lower().partition("e")
        digits = len(mantissa.partition(".")[2])
        return 0.5 * 10.0 ** (int(exponent or 0) - digits) * (1 + 1e-12)
    return 1e-9 * abs(number) if number else 1e-9


EXPECTED = [
    pytest.param(path, number, id=f"{path.stem}-{line.left_span.text}")
    for path in SAMPLES
    for number, line in enumerate(lower(Source.read(path)).expects)
]


@pytest.mark.parametrize(("path", "number"), EXPECTED)
def test_expectation_holds(path: Path, number: int) -> None:
    """The published figures among them: Hull, Haug, NIST, GUM, Wien."""
    source = Source.read(path)
    line = lower(source).expects[number]
    assert line.text is not None, "the samples expect plain numbers"
    right = float(line.text)
    assert abs(value(source, line.left_span.text) - right) <= tolerance(line, right)


def test_black_scholes_has_all_published_greeks() -> None:
    assert sum(param.values[0].stem == "black_scholes" for param in EXPECTED) == 16


@pytest.mark.parametrize("path", [p for p in SAMPLES if lower(Source.read(p)).claims], ids=named)
def test_claims_hold_at_the_point_of_the_file(path: Path) -> None:
    source = Source.read(path)
    for line in lower(source).claims:
        left, right = value(source, line.left_span.text), value(source, line.right_span.text)
        np.testing.assert_allclose(left, right, rtol=1e-12, atol=1e-15)


# ---- mistakes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", sorted(ERRORS.glob("*.expr")), ids=named)
def test_mistake_has_its_message(path: Path) -> None:
    """`# arguments: ...` in a file goes behind its name; `# status: N` is the exit status, 2 unless said."""
    from gradcli.cli import group

    text = path.read_bytes().decode("latin-1")
    arguments = re.search(r"^# arguments: (.*)$", text, re.MULTILINE)
    status = re.search(r"^# status: (\d)$", text, re.MULTILINE)
    wanted = path.with_suffix(".message").read_text(encoding="utf-8")
    words = ["grad", path.relative_to(ROOT).as_posix(), *shlex.split(arguments[1] if arguments else "")]
    out, err = io.StringIO(), io.StringIO()
    with generate.surroundings():
        assert generate.message(path).text == wanted, "run `python docs/generate.py samples` if the change is meant"
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            assert group.run(words) == int(status[1] if status else 2)
    assert err.getvalue(), "a message goes to stderr"
    assert out.getvalue() == ("none\n" if status else ""), "nothing on stdout for a model with a mistake"


def test_messages_have_their_form() -> None:
    """Place, kind, fact; small letters, no full stop."""
    for path in ERRORS.glob("*.message"):
        first = path.read_text(encoding="utf-8").split("\n")[0]
        place, kind, fact = re.fullmatch(r"(\S+): (error|warning): (.+)", first).groups()  # type: ignore[union-attr]
        assert place == "gradcli" or re.fullmatch(rf"samples/errors/{path.stem}\.expr:\d+:\d+", place), first
        assert kind in ("error", "warning")
        assert not fact.endswith("."), first
        assert not fact[0].isupper(), first


# ---- the demo ------------------------------------------------------------------------------------------------------


def test_demo_runs_from_anywhere(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, ROOT / "samples" / "demo.py"], cwd=tmp_path, text=True, encoding="utf-8",
                          capture_output=True, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    for fact in ("0.7071067811865476", "none", "status 1", "Hull prints", "1330.0", "missing operator"):
        assert fact in done.stdout
