"""`gradcli diff` from outside."""

from __future__ import annotations

import subprocess
import sys

import pytest
from conftest import ROOT

NEURON = str(ROOT / "samples" / "neuron.expr")


@pytest.fixture
def diff(cli):
    def call(text, *arguments):
        found = cli("diff", "-e", text, *arguments)
        assert found.status == 0, found.err
        return found.out.rstrip("\n")

    return call


def test_one_derivative_is_a_bare_expression(diff):
    assert diff("x^2*sin(x)") == "2*x*sin(x) + x^2*cos(x)"


def test_several_are_definitions(cli):
    assert cli("diff", NEURON).out == (
        "n = x1*w1 + x2*w2 + b\n"
        "do_dx1 = w1*sech(n)^2\n"
        "do_dx2 = w2*sech(n)^2\n"
        "do_dw1 = x1*sech(n)^2\n"
        "do_dw2 = x2*sech(n)^2\n"
        "do_db = sech(n)^2\n"
    )


def test_output_is_a_model_again(cli, process):
    formula = cli("diff", NEURON, "--wrt", "w1").out
    piped = process(
        "grad", "-", "x1=2", "x2=0", "w1=-3", "w2=1", "b=6.8813735870195432", "--print", "value", input=formula
    )
    assert float(piped.stdout) == pytest.approx(1.0, rel=1e-12)


def test_wrt_takes_leaves_and_intermediates_in_the_order_asked(diff, cli):
    assert cli("diff", NEURON, "--wrt", "n").out == "n = x1*w1 + x2*w2 + b\nsech(n)^2\n"
    assert diff("x*y^2", "--wrt", "y,x") == "dvalue_dy = 2*x*y\ndvalue_dx = y^2"


def test_of_a_named_intermediate(cli):
    assert cli("diff", NEURON, "--of", "n", "--wrt", "w1").out == "x1\n"


def test_orders(diff):
    assert diff("x^5", "--order", "2") == "20*x^3"
    assert diff("x^5", "--order", "5") == "120"
    assert diff("x^5", "--order", "0") == "x^5"
    assert diff("x^2*y", "--order", "2").splitlines() == [
        "d2value_dx_dx = 2*y",
        "d2value_dx_dy = 2*x",
        "d2value_dy_dy = 0",
    ]


def test_mixed_derivatives_are_written_as_in_the_language(cli, diff):
    assert diff("f = x^2*y^3; d(f, x, y)") == "6*x*y^2"
    assert diff("d(x^2*y^3, y)") == "3*x^2*y^2"
    assert diff("f = x^2*y^3; d(f, x)", "--wrt", "y") == "6*x*y^2"
    assert diff("f = x^2*y^3; d(f, x)", "--order", "0") == "2*x*y^3"
    mixed = cli("diff", NEURON, "-e", "d(o, x1, w1)").out.splitlines()
    assert mixed == ["n = x1*w1 + x2*w2 + b", "sech(n)^2 - 2*x1*w1*tanh(n)*sech(n)^2"]


def test_no_dependence_is_zero(diff):
    assert diff("x = 1; y = 2; z = 3*x", "--wrt", "y") == "0"


def test_json_is_one_object_a_derivative(cli):
    found = cli("diff", "-e", "x^2*y", "--json")
    assert found.records == [
        {"schema": 1, "model": "-e", "output": "value", "by": ["x"], "order": 1, "text": "2*x*y", "latex": "2 x y"},
        {"schema": 1, "model": "-e", "output": "value", "by": ["y"], "order": 1, "text": "x^2", "latex": "x^{2}"},
    ]
    assert cli("diff", "-e", "x^2*y", "--to", "json").records == found.records
    assert cli("diff", "-e", "f = x^2*y; d(f, x, y)", "--json").json["by"] == ["x", "y"]


@pytest.mark.parametrize(
    ("notation", "start"),
    [("latex", r"2 x"), ("python", "import numpy as np"), ("c", "#include <math.h>"), ("sql", "(2.0 * x)")],
)
def test_notations(diff, notation, start):
    assert diff("x^2", "--to", notation).startswith(start)


def test_several_models_are_titled_in_the_comment_of_the_notation(cli):
    for notation, title in (("text", f"# {NEURON}"), ("latex", f"% {NEURON}"), ("sql", f"-- {NEURON}")):
        out = cli("diff", NEURON, NEURON, "--wrt", "n", "--to", notation).out
        assert out.splitlines().count(title) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-e", "const g = 9.81; h = 2; v = g*h", "--wrt", "g"], "`g` does not require grad: `const` on line 1"),
        (["-e", "x = 1; n = detach(x); n*x", "--wrt", "n"], "`n` does not require grad: `detach` on line 1"),
        (["-e", "x = [1, 2]; x/sum(x)"], "would mix rows: it passes through `sum`"),
        (["-e", "2 + 3"], "has no leaf to differentiate by"),
        (["-e", "const g = 9.81; 2*g"], "`g` does not require grad"),
        (["-e", "x*y", "--wrt", "q"], "no name `q`"),
        (["-e", "x*y", "--of", "q"], "no name `q`"),
        (["-e", "x +"], "error"),
        (["-e", "+".join(f"x{i}^9" for i in range(40)), "--order", "4"], "40 names have 123410 derivatives of order 4"),
        (["-e", "x^2", "--order", "-1"], "invalid value for `--order`"),
        (["-e", "x^2", "--to", "cobol"], "invalid value for `--to`"),
        (["-e", "besselj(1, x)", "--to", "c"], "C has no `besselj`"),
        (["-e", "x*gamma(x)", "--to", "sql"], "SQL has no `digamma`, `gamma`"),
        (["nowhere.expr"], "neither a file nor a NAME=VALUE"),
    ],
)
def test_errors_have_status_2_and_print_nothing(cli, arguments, message):
    found = cli("diff", *arguments)
    assert (found.status, found.out) == (2, "")
    assert message in found.err


def test_a_bad_model_does_not_stop_the_others(cli, tmp_path):
    (tmp_path / "a.expr").write_text("x +")
    (tmp_path / "b.expr").write_text("x^2")
    found = cli("diff", str(tmp_path))
    assert found.status == 2
    assert found.out.splitlines()[1:] == ["2*x"]


def test_the_point_of_the_model_is_among_those_compared(diff):
    """At x = 0 the engine has nan; the short form has 0 there."""
    assert diff("x = 0; x*x^0.5") == "x^0.5 + x*x^(-0.5)/2"


def test_twenty_nested_sines_do_not_swell(cli):
    found = cli("diff", "-e", "sin(" * 20 + "x" + ")" * 20)
    assert found.status == 0
    assert len(found.out) < 1000


def test_a_model_of_two_thousand_definitions_is_linear(cli, tmp_path):
    def size(count):
        lines = ["y0 = x*w", *(f"y{i + 1} = sin(y{i})*w + y{max(0, i - 3)}/2" for i in range(count))]
        path = tmp_path / f"{count}.expr"
        path.write_text("\n".join(lines))
        found = cli("diff", str(path))
        assert found.status == 0, found.err
        return len(found.out)

    assert size(2000) < 5 * size(500)


def test_deep_models_do_not_recurse(cli, tmp_path):
    path = tmp_path / "deep.expr"
    path.write_text("sin(" * 3000 + "x" + ")" * 3000)
    assert cli("diff", str(path)).status == 0
    path.write_text("(" * 5000 + "x" + "*x + a)" * 5000)
    assert cli("diff", str(path), "--wrt", "a").status == 0


def test_neither_sympy_nor_mpmath_is_imported():
    code = (
        "import sys; from gradcli.cli.group import run; run(['diff', '-e', 'x^2*sin(x)', '--order', '2']);"
        "print([m for m in ('sympy', 'mpmath', 'scipy', 'polars') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True).stdout
    assert out.splitlines()[-1] == "[]"
