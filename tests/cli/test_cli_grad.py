"""`gradcli grad`: its flags, its text and its JSON."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from conftest import ROOT

MODEL = "x = 2; const c = 3; n = x*c; k = c*2; m = detach(x); o = n^2 + k + m; p = 5*x; output o, p"


# ---- what is printed -------------------------------------------------------------------------------------------------


def test_text_is_name_value_gradient(grad):
    found = grad("x = 2; n = x*3; o = n^2", "--retain", "n")
    assert found.out == "o\t36.0\tnone\nx\t2.0\t36.0\nn\t6.0\t12.0\n"


def test_columns_are_lists(grad):
    assert grad("x = [1, 2]; o = x^2").out == "o\t[1.0, 4.0]\tnone\nx\t[1.0, 2.0]\t[2.0, 4.0]\n"


def test_several_models_are_titled(cli, tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.expr").write_text("x = 2; x^2")
    found = cli("grad", str(tmp_path))
    assert [line for line in found.out.splitlines() if line.startswith("#")] == [
        f"# {tmp_path / 'a.expr'}",
        f"# {tmp_path / 'b.expr'}",
    ]


def test_many_intermediates_are_listed_with_v_only(grad):
    text = "x = 1;" + ";".join(f"y{i} = {f'y{i - 1}' if i else 'x'} + 1" for i in range(40))
    few = grad(text)
    assert "39 intermediates are not listed" in few.err
    assert set(few.rows) == {"y39", "x"}
    assert len(grad(text, "-v").rows) == 41
    assert "y5" in grad(text, "--retain", "y5").rows


def test_ofmt_is_for_numbers(grad):
    assert grad("x = 2; o = x/3", "--ofmt", "%.3g").out == "o\t0.667\tnone\nx\t2\t0.333\n"


@pytest.mark.parametrize("style", ["%d", "%s", "%", "6g", "%.6g%.6g", "%.9999g", "%r", "%(x)g", "%.6g\n", "%*g"])
def test_ofmt_takes_number_formats_only(grad, style):
    found = grad("x = 2; o = x/3", "--ofmt", style)
    assert (found.status, found.out) == (2, "")


def test_hessian(grad):
    text = "x = 2; y = 3; o = x^2*y"
    rows = grad(text, "--hessian").rows
    assert [rows[f"d2o_d{pair}"][0] for pair in ("x_dx", "x_dy", "y_dy")] == ["6.0", "4.0", "0.0"]
    assert grad(text, "--hessian", "--json").json["hessian"] == {"x": {"x": 6, "y": 4}, "y": {"x": 4, "y": 0}}


# ---- json ------------------------------------------------------------------------------------------------------------


def test_json_shape(grad):
    assert grad("x = 2; const c = 3; u = 1; n = x*c; o = n^2", "--json", "--retain", "n").json == {
        "schema": 1,
        "model": "-e",
        "output": "o",
        "value": 36.0,
        "point": {"x": 2.0, "c": 3.0},
        "gradients": {"x": 36.0, "u": None},
        "retained": {"n": {"value": 6.0, "gradient": 12.0}},
        "reasons": {"u": "it is unused: `o` does not depend on it"},
        "warnings": [],
    }


def test_json_is_a_line_for_each_output(grad):
    assert [r["output"] for r in grad(MODEL, "--json").records] == ["o", "p"]
    assert [r["output"] for r in grad(MODEL, "--json", "--of", "p", "--of", "o").records] == ["p", "o"]
    assert [r["output"] for r in grad(MODEL, "--json", "--of", "n,p").records] == ["n", "p"]


def test_json_numbers_that_are_not_finite_are_words(grad):
    found = grad("x = [inf, -inf, nan]; o = x*1", "--json").json
    assert found["value"] == ["Infinity", "-Infinity", "NaN"]
    assert found["point"] == {"x": ["Infinity", "-Infinity", "NaN"]}


def test_json_has_the_warnings_also_when_quiet(grad):
    found = grad("x = 0; gelu(a) = a; o = gelu(1/x)", "--json", "-q")
    assert found.err == ""
    replaced, infinite = found.json["warnings"]
    assert replaced.startswith("-e:1:8: `gelu` replaces the built-in function")
    assert infinite.startswith("-e:1:")
    assert "`o` is inf: it arose in `1/x` with x = 0.0" in infinite


@pytest.mark.parametrize(
    ("text", "point", "note"),
    [
        ("asec(x)", "x=1", "it arose in the slope of `asec(x)` with x = 1.0"),
        ("sqrt(x*y)", "x=0 y=2", "it arose in the slope of `sqrt(x*y)` with x*y = 0.0"),
        ("sum(sqrt(x))", "x=[1,0]", "it arose in the slope of `sqrt(x)` with x = 0.0"),
        ("acsc(x)", "x=0", "it arose in `acsc(x)` with x = 0.0"),
    ],
)
def test_a_note_shows_the_operands_of_the_text_not_those_of_a_rule(grad, text, point, note):
    assert grad(text, *point.split()).err.splitlines()[0].endswith(note)


def test_json_gives_the_reason_of_a_retained_none(grad):
    found = grad("x = 2; n = x*3; o = x^2", "--json", "--retain", "n").json
    assert found["retained"] == {"n": {"value": 6.0, "gradient": None}}
    assert found["reasons"] == {"n": "it is unused: `o` does not depend on it"}


def test_json_and_print_exclude_each_other(grad):
    assert grad("x = 2; x", "--json", "--print", "x").status == 2


# ---- --print ---------------------------------------------------------------------------------------------------------


def test_print_items_in_order(grad):
    items = ["o", "x.grad", "n", "c", "n.is_leaf", "n.requires_grad", "n.retains_grad", "k.is_leaf", "k.requires_grad"]
    found = grad(MODEL, "--of", "o", "--retain", "n", *(w for item in items for w in ("--print", item)))
    assert found.out.split() == ["44.0", "36.0", "6.0", "3.0", "false", "true", "true", "true", "false"]
    assert (found.status, found.err) == (0, "")


def test_print_of_values_is_said_once_for_all_outputs(grad):
    assert grad(MODEL, "--print", "o", "--print", "p").out == "44.0\n10.0\n"
    assert grad(MODEL, "--print", "x.grad").out == "36.0\n5.0\n"


def test_print_of_earlier_definitions_and_quoted_names(grad):
    text = "x = 1; x = x*2; `a.b` = 3; o = x*`a.b`"
    assert grad(text, "--print", "x@1.grad", "--print", "x@2", "--print", "`a.b`.grad", "--print", "`a.b`").out == (
        "6.0\n2.0\n2.0\n3.0\n"
    )


@pytest.mark.parametrize("item", ["q", "q.grad", "x.gradient", "x.", "", ".grad", "x.grad.grad"])
def test_print_of_what_there_is_not(grad, item):
    found = grad("x = 1; o = x*2", "--print", item)
    assert (found.status, found.out) == (2, "")


def test_print_of_an_unretained_gradient_fails(grad):
    found = grad("x = 1; n = x*2; o = n*3", "--print", "n.grad", "--print", "x.grad")
    assert (found.status, found.out) == (1, "none\n6.0\n")
    assert found.err.count("warning") == 1


# ---- which names -----------------------------------------------------------------------------------------------------


def test_wrt_limits_the_gradients(grad):
    found = grad("x = 2; y = 3; n = x*y; o = n^2", "--wrt", "n, x", "--json").json
    assert found["gradients"] == {"n": 12, "x": 36}


def test_wrt_of_a_const_names_it(grad):
    found = grad("x = 2; const c = 3; o = x*c", "--wrt", "c")
    assert (found.status, found.out) == (2, "")
    assert "-e:1:14: error: `c` does not require grad: `const` on line 1" in found.err


def test_globs_skip_what_has_no_gradient(grad):
    found = grad(MODEL, "--of", "o", "--wrt", "*", "--json").json
    assert set(found["gradients"]) == {"x", "n", "o", "p"}
    assert set(grad(MODEL, "--of", "o", "--retain", "?", "--json").json["retained"]) == {"n", "o", "p"}
    assert grad(MODEL, "--of", "o", "--no-grad", "*", "--wrt", "x").status == 2


@pytest.mark.parametrize("flag", ["--wrt", "--retain", "--no-retain", "--no-grad", "--of"])
def test_names_and_globs_that_mean_nothing(grad, flag):
    for name in ("zz", "z*"):
        found = grad(MODEL, flag, name)
        assert (found.status, found.out) == (2, "")
        assert f"`{name}`" in found.err


def test_names_in_backquotes_may_have_commas(grad):
    found = grad("`a, b` = 2; x = 3; o = `a, b`*x", "--wrt", "`a, b`,x", "--json").json
    assert found["gradients"] == {"a, b": 3, "x": 2}


def test_retain_all_and_no_retain(grad):
    found = grad(MODEL, "--of", "o", "--retain-all", "--no-retain", "o", "--json").json
    assert set(found["retained"]) == {"n", "p"}


def test_no_grad(grad):
    found = grad("x = 2; y = 3; o = x*y", "--no-grad", "x", "--json").json
    assert found["gradients"] == {"y": 2}


def test_materialized_gradients_are_zero_in_the_shape_of_their_name(grad):
    found = grad("x = [1, 2]; u = 5; w = [3, 4]; o = sum(x)", "--materialize-grads", "--json").json
    assert found["gradients"] == {"x": [1, 1], "u": 0, "w": [0, 0]}
    assert found["reasons"] == {}


# ---- bindings --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "want"),
    [
        (["x=3"], 9),
        (["x = 1 + 2"], 9),
        (["`x`=3"], 9),
        (["x=\n3"], 9),
        (["x=1", "x=3"], 9),
        (["x=-(3)"], 9),
    ],
)
def test_bindings(grad, words, want):
    assert grad("x^2", *words).value() == want


def test_two_equals_signs_are_no_binding(grad):
    found = grad("x^2", "x==1")
    assert found.status == 2
    assert "a value is given with one `=`: `x=1`" in found.err


def test_names_with_other_characters_go_in_backquotes(grad):
    found = grad("`Total price`*2", "Total price=3")
    assert found.status == 2
    assert "'`Total price`=3'" in found.err
    assert grad("`Total price`*2", "`Total price`=3").value() == 6


def test_path_with_an_equals_sign(cli, tmp_path, monkeypatch):
    (tmp_path / "run=3").mkdir()
    (tmp_path / "run=3" / "m.expr").write_text("x = 2; x^2")
    monkeypatch.chdir(tmp_path)
    assert cli("grad", "./run=3/m.expr").value() == 4
    assert cli("grad", "run=3/m.expr").status == 2


def test_binding_of_an_intermediate_cuts_it_with_a_note(grad):
    found = grad("x = 1; n = x*2; o = n^2", "n=5")
    assert found.rows == {"o": ("25.0", "none"), "x": ("1.0", "none"), "n": ("5.0", "10.0")}
    assert "note: `n` is computed here, but `n=` on the command line replaces it" in found.err
    assert grad("x = 1; n = x*2; o = n^2", "n=5", "-q").err == ""


def test_binding_must_be_used_by_one_model(cli, tmp_path):
    (tmp_path / "a.expr").write_text("x^2")
    (tmp_path / "b.expr").write_text("x = 1; y = x")
    assert cli("grad", str(tmp_path), "x=3").status == 0
    found = cli("grad", str(tmp_path), "x=3", "q=1")
    assert (found.status, found.out) == (2, "")
    assert "`q` is no name that any model uses" in found.err


# ---- -e --------------------------------------------------------------------------------------------------------------


def test_expressions_are_joined_by_newlines(cli):
    assert cli("grad", "-e", "x = 2", "-e", "x^2").value() == 4


def test_expression_is_a_question_to_each_model(cli, tmp_path):
    path = tmp_path / "m.expr"
    for text in ("x = 2; o = x^3", "x = 2; o = x^3; output o", "x = 2; o = x^3; o + 1"):
        path.write_text(text)
        found = cli("grad", str(path), "-e", "d(o, x)*x", "--json").json
        assert (found["model"], found["output"], found["value"]) == (str(path), "value", 24)


def test_errors_in_an_appended_expression_have_its_own_place(cli, tmp_path):
    path = tmp_path / "m.expr"
    path.write_text("x = 2\no = x^3\n")
    found = cli("grad", str(path), "-e", "d(o, x)*", "-e", "1 1")
    assert "-e:1:9: error:" in found.err
    assert "-e:2:3: error:" in found.err


# ---- how it talks ----------------------------------------------------------------------------------------------------


def test_strict_turns_warnings_into_a_failure(cli):
    assert cli("functions", "nothingofthatname").status == 0
    assert cli("functions", "nothingofthatname", "--strict").status == 1


def test_messages_have_place_line_caret_and_help(grad):
    assert grad("y = x +\nz = 2").err == (
        "-e:1:8: error: the expression ended after `+`\n"
        "    y = x +\n"
        "           ^\n"
        "help: brackets or a trailing backslash carry it on to the next line\n"
    )


def test_option_that_is_mistyped(cli):
    found = cli("grad", "-e", "x", "x=1", "--retian", "x")
    assert found.status == 2
    assert "did you mean `--retain`?" in found.err
    assert "requires an argument" in cli("grad", "-e", "x", "--of").err


def test_closed_standard_output_is_an_error():
    code = "import sys; sys.stdout = None; from gradcli.cli.group import run; sys.exit(run(['grad', '-e', 'x=1; x^2']))"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)
    assert (found.returncode, found.stderr) == (2, "gradcli: error: cannot write: standard output is closed\n")


def test_internal_errors_say_how_to_report_them(cli, monkeypatch):
    from gradcli.cli.answers import Questions

    def broken(*arguments):
        raise RuntimeError("what\x1b")

    monkeypatch.setattr(Questions, "answer", broken)
    found = cli("grad", "-e", "x = 1; x")
    assert (found.status, found.out) == (3, "")
    assert "internal error: RuntimeError at" in found.err
    assert "please report it" in found.err
    assert "\x1b" not in found.err
