"""Lines to be pasted into a shell."""

from __future__ import annotations

import subprocess

import pytest

import gradcli
from gradcli.checking.messages import entry
from gradcli.checking.names import word
from gradcli.checking.run import check_model
from gradcli.source import Source


@pytest.mark.parametrize("text", [
    "x = 2", "it's", "a\tb", "it's a\ttab", "back\\slash\t", "$HOME `x`", "é\x01\x7f", "f = x^2\nclaim f = 3", "",
])  # fmt: skip
def test_shell_reads_a_word_back(text):
    spelled = word(text)
    assert spelled.isprintable()
    found = subprocess.run(["bash", "-c", f"printf %s {spelled}"], capture_output=True, check=True)
    assert found.stdout.decode() == text


@pytest.mark.parametrize(("text", "words"), [
    ("x = 2\nf = x^2\nclaim d(f, x) = 3*x", "-e 'x = 2' -e 'f = x^2' -e 'claim d(f, x) = 3*x' -e '(d(f, x)) - (3*x)'"),
    ("x = 2\r\n\r\nf = x^2\r\nclaim f = x\r\n", "-e 'x = 2' -e 'f = x^2' -e 'claim f = x' -e '(f) - (x)'"),
    ("x = 2; f = x^2; claim f = (x +\n1)", "-e 'x = 2; f = x^2; claim f = (x +' -e '1)' -e '(f) - ((x +' -e '1))'"),
    ("x = 2;\tf = x^2; claim f = x", "-e $'x = 2;\\tf = x^2; claim f = x' -e '(f) - (x)'"),
])  # fmt: skip
def test_replay_of_several_lines_can_be_pasted(text, words):
    model = gradcli.parse(text)
    source = Source.of(text)
    wrong = next(c for c in check_model(model) if c.verdict == "wrong")
    assert entry("-e", source, wrong).replay == f"gradcli grad {words} x=2.0"
