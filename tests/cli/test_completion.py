"""What a shell is told when it completes a word: the protocol of click, by environment variables."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys

import pytest
from conftest import ROOT


def ask(instruction: str, words: str = "", **more: str) -> subprocess.CompletedProcess[str]:
    at = str(len(shlex.split(words)) - (not words.endswith(" ")))
    told = {"_GRADCLI_COMPLETE": instruction, "COMP_WORDS": words, "COMP_CWORD": at, "PYTHONPATH": str(ROOT), **more}
    command = [sys.executable, "-m", "gradcli"]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **told}, timeout=60, check=False)


def complete(words: str) -> list[str]:
    found = ask("bash_complete", words)
    assert (found.returncode, found.stderr) == (0, "")
    return found.stdout.split()


def test_commands():
    assert complete("gradcli gr") == ["plain,grad"]
    assert complete("gradcli ")[:3] == ["plain,grad", "plain,diff", "plain,check"]
    assert complete("gradcli --ver") == ["plain,--version"]
    assert complete("gradcli gradd --js") == []


def test_options_and_their_choices():
    assert complete("gradcli grad --ret") == ["plain,--retain", "plain,--retain-all"]
    assert complete("gradcli check -e x^2 --exit") == ["plain,--exit-zero"]
    assert complete("gradcli grad -x^2 --hes") == ["plain,--hessian"]
    assert complete("gradcli diff m.expr --to la") == ["plain,latex"]


@pytest.mark.parametrize(
    "words",
    ["grad mo", "grad a.expr x=2 mo", "check mo", "diff mo", "explain mo", "batch m.expr mo", "grad m.expr --data mo",
     "batch m.expr d.csv -o mo", "batch m.expr d.csv --rejects mo", "check m.expr --against mo"],
)  # fmt: skip
def test_files(words):
    assert complete(f"gradcli {words}") == ["file,mo"]


@pytest.mark.parametrize("words", ["grad -e x", "grad m.expr --of x", "check m.expr --seed 1"])
def test_what_is_no_file_completes_to_nothing(words):
    assert complete(f"gradcli {words}") == []


def test_zsh_gets_the_help_of_an_option():
    found = ask("zsh_complete", "gradcli grad --hes")
    assert found.stdout.splitlines() == ["plain", "--hessian", "Second derivatives by every two names too."]
    assert ask("zsh_complete", "gradcli grad mo").stdout.splitlines() == ["file", "mo", "_"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_script_of_a_shell(shell):
    found = ask(f"{shell}_source")
    assert (found.returncode, found.stderr) == (0, "")
    assert f"_GRADCLI_COMPLETE={shell}_complete" in found.stdout


def test_unknown_shell():
    assert ask("tcl_source").returncode == 1


@pytest.mark.skipif(not shutil.which("bash"), reason="no bash")
def test_script_of_bash_completes_a_command(tmp_path):
    (tmp_path / "gradcli").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m gradcli "$@"\n')
    (tmp_path / "gradcli").chmod(0o755)
    script = 'eval "$(_GRADCLI_COMPLETE=bash_source gradcli)"; COMP_WORDS=(gradcli ba); COMP_CWORD=1; '
    script += '_gradcli_completion gradcli; echo "${COMPREPLY[@]}"'
    told = {**os.environ, "PYTHONPATH": str(ROOT), "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    found = subprocess.run(["bash", "-c", script], capture_output=True, text=True, env=told, timeout=60, check=False)
    assert (found.stdout, found.stderr) == ("batch\n", "")
