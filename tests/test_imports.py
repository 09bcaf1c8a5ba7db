"""Nothing is imported that a command does not need (design sections 4 and 7), measured in a fresh interpreter."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("numpy", "scipy", "sympy", "mpmath", "polars", "dask", "distributed", "llvmlite", "click")
SCRIPT = """
import sys
{code}
print("\\n" + " ".join(m for m in {heavy} if m in sys.modules), "scipy.special" * ("scipy.special" in sys.modules))
"""
COMMAND = """
from gradcli.cli import main
sys.argv = ["gradcli", *{words}]
try:
    status = main()
except SystemExit as stop:
    status = stop.code
assert not status, status
"""


def loaded_by(code: str) -> set[str]:
    """Which of the heavy libraries are in memory after some lines of Python."""
    script = SCRIPT.format(code=code, heavy=HEAVY)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines()[-1].split())


def loaded_by_command(*words: str) -> set[str]:
    return loaded_by(COMMAND.format(words=list(words)))


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["-h"], ["grad", "--help"], ["explain", "--help"]])
def test_help_loads_click_alone(words):
    assert loaded_by_command(*words) == {"click"}


def test_an_expression_loads_numpy_alone():
    assert loaded_by_command("grad", "-e", "x^2", "x=1") == {"click", "numpy"}


@pytest.mark.parametrize("expression", ["tanh(x)*exp(-x) + gamma", "gelu_like = max(x, 0.5)*log1p(x)", "sum([1, 2]*x)"])
def test_names_that_look_special_load_no_scipy(expression):
    assert loaded_by_command("grad", "-e", expression, "x=1", *(["gamma=2"] if "gamma" in expression else [])) == {
        "click",
        "numpy",
    }


def test_a_special_function_loads_scipy_special():
    loaded = loaded_by_command("grad", "-e", "erf(x)", "x=1")
    assert "scipy.special" in loaded
    assert loaded <= {"click", "numpy", "scipy", "scipy.special"}


def test_a_special_function_that_is_not_reached_loads_no_scipy():
    assert "scipy" not in loaded_by_command("grad", "-e", "unused = erf(x); y = x^2", "--of", "y", "x=1")


def test_json_of_the_command_loads_numpy_alone():
    assert loaded_by_command("grad", "-e", "x^2", "x=1", "--json") == {"click", "numpy"}


def test_the_table_of_functions_loads_nothing_heavy():
    assert loaded_by_command("functions") <= {"click", "numpy"}


def test_importing_the_package_loads_nothing():
    assert loaded_by("import gradcli; gradcli.__version__") == set()


def test_naming_a_public_name_loads_numpy_at_most():
    assert loaded_by("import gradcli; gradcli.GradcliError, gradcli.ModelError") == set()
    assert loaded_by("import gradcli; gradcli.parse('x = 2; y = x^2').gradient()") == {"numpy"}


NEW = """
import sys
before = set(sys.modules)
from gradcli.cli import main
sys.argv = ["gradcli", *{words}]
try:
    main()
except SystemExit as stop:
    assert not stop.code
print("\\n" + " ".join(set(sys.modules) - before))
"""
BEHIND_HELP = {"cli", "cli.group", "cli.inputs", "cli.options", "cli.output", "errors", "source"}
BEHIND_GRAD = BEHIND_HELP | {
    *("api", "columns", "compiled", "cotangent", "formulas", "graph", "leaves", "primitives"),
    *("results", "sparse", "values"),
    *("calculus", "calculus.adjoint", "calculus.looks", "calculus.partials"),
    *("calculus.simplify", "calculus.specialise"),
    *("cli.answers", "cli.data", "cli.grad", "cli.selection"),
    *("engine", "engine.execute", "engine.program"),
    *("language", "language.calls", "language.expressions", "language.inline", "language.lexer", "language.lower"),
    *("language.parser", "language.resolved", "language.scope", "language.syntax"),
}


UNUSED = {"difflib", "json", "pathlib", "shlex", "tempfile", "urllib.parse"}
UNUSED_BY_GRAD = UNUSED | {"encodings.utf_8_sig", "fnmatch", "locale"}


@pytest.mark.parametrize(
    ("words", "ours", "unused"),
    [
        (["--help"], BEHIND_HELP, UNUSED),
        (["grad", "samples/neuron.expr"], BEHIND_GRAD, UNUSED_BY_GRAD),
        (["grad", "-e", "x^2", "x=1"], BEHIND_GRAD, UNUSED_BY_GRAD),
    ],
    ids=["help", "grad", "grad -e"],
)
def test_start_up_loads_these_modules_and_no_others(words, ours, unused):
    """A module more is a millisecond more for everybody; whoever adds one here has measured it."""
    done = subprocess.run([sys.executable, "-c", NEW.format(words=words)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    loaded = set(done.stdout.splitlines()[-1].split())
    assert {m.removeprefix("gradcli.") for m in loaded if m.startswith("gradcli.")} == ours
    assert not loaded & unused
