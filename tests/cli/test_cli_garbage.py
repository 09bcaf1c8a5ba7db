"""Whatever is typed, the command answers with 0, 1 or 2: no internal error, no traceback, nothing raw on a stream."""

from __future__ import annotations

import contextlib
import io
import json

from hypothesis import given, settings
from hypothesis import strategies as st

from gradcli.cli.group import run

NAMES = [
    "x",
    "y",
    "z",
    "n",
    "pi",
    "e",
    "inf",
    "nan",
    "value",
    "d",
    "detach",
    "f",
    "g",
    "sin",
    "log",
    "where",
    "max",
    "sum",
    "mean",
    "softmax",
    "besselj",
]
STATEMENTS = ["const", "retain", "output", "domain", "claim", "expect", "if", "within", "rounded", "and", "or", "not"]
SIGNS = [
    "+",
    "-",
    "*",
    "/",
    "//",
    "%",
    "^",
    "**",
    "<",
    "<=",
    "==",
    "!=",
    "=",
    "(",
    ")",
    "[",
    "]",
    ",",
    ";",
    ":",
    "@",
    "#",
    "\\",
    ".",
    "!",
    "`",
    '"',
    "$",
    "1",
    "2.5",
    "0",
    "1e3",
    ".5",
    "σ",
    "²",
    "−",
    "\x1b",
]
PIECES = st.sampled_from([*NAMES, *STATEMENTS, *SIGNS, "\n", "\r\n", "\r", " ", "\t", "x = ", "\\\n"])
TEXTS = st.one_of(st.lists(PIECES, max_size=25).map("".join), st.lists(PIECES, max_size=25).map(" ".join), st.text())
FLAGS = st.lists(
    st.sampled_from(["--json", "--retain-all", "--hessian", "-v", "--of=x", "--wrt=*", "--print=x.grad", "--retain=n"]),
    max_size=2,
)


@settings(max_examples=400, deadline=5000)
@given(TEXTS, FLAGS, st.sampled_from(["grad", "explain"]), st.sampled_from(["x=1", "x=[1,2]", "x=nan", "x="]))
def test_any_text_is_answered(text, flags, command, binding):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = run([command, f"--expr=u = x + y\n{text}", "y=2", binding, *flags])
    assert status in (0, 1, 2), err.getvalue()
    assert status != 2 or "error: " in err.getvalue()
    assert "\x1b" not in out.getvalue() + err.getvalue()
    if "--json" in flags and status == 0:
        for line in out.getvalue().splitlines():
            json.loads(line)


@settings(max_examples=200, deadline=5000)
@given(st.lists(st.text(max_size=12), max_size=4))
def test_any_words_are_answered(words):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        assert run(["functions", *words]) in (0, 2)
        assert run(["grad", *(f"no-such-folder/{word}" for word in words)]) == 2
