"""The library: parse, load, compile, run, gradient, explain, derivative, and what each refuses."""

from __future__ import annotations

import copy
import dataclasses
import doctest
import importlib
import inspect
import multiprocessing
import pickle
import subprocess
import sys
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import gradcli
from gradcli import BindingError, FileError, GradcliError, GradientError, ModelError

PUBLIC = [n for n in gradcli.__all__ if n != "__version__"]
NEURON = "x1 = 2; x2 = 0; w1 = -3; w2 = 1; b = 6.8813735870195432; n = x1*w1 + x2*w2 + b; o = tanh(n)"


def run(text: str, values=None, **options):
    return gradcli.parse(text).compile(**options).run(values or {})


def refused(kind: type[GradcliError], text: str, values=None, **options) -> str:
    with pytest.raises(kind) as caught:
        run(text, values, **options)
    return str(caught.value)


# ---- the package ----


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_has_a_docstring(name):
    assert inspect.getdoc(getattr(gradcli, name))


def members(kind: type):
    for name, member in vars(kind).items():
        if not name.startswith("_") and (
            inspect.isfunction(member) or hasattr(member, "fget") or hasattr(member, "func")
        ):
            yield name, getattr(member, "fget", None) or getattr(member, "func", None) or member


@pytest.mark.parametrize("name", ["load", "parse"])
def test_a_public_function_has_an_example(name):
    assert examples(getattr(gradcli, name))


@pytest.mark.parametrize("name", ["Model", "Program"])
def test_a_public_class_has_an_example(name):
    kind = getattr(gradcli, name)
    assert any(examples(member) for member in [kind, *dict(members(kind)).values()])


@pytest.mark.parametrize("name", ["compile", "gradient", "explain", "derivative"])
def test_a_method_of_the_contract_has_an_example(name):
    assert examples(getattr(gradcli.Model, name))


def test_running_a_program_has_an_example():
    assert examples(gradcli.Program.run)


@pytest.mark.parametrize("kind", ["Model", "Program"])
def test_public_methods_have_docstrings(kind):
    missing = [name for name, member in members(getattr(gradcli, kind)) if not inspect.getdoc(member)]
    assert missing == []


def examples(thing) -> list:
    return doctest.DocTestParser().get_examples(inspect.getdoc(thing) or "")


def test_the_public_names_are_those_of_their_homes():
    for name in PUBLIC:
        thing = getattr(gradcli, name)
        assert getattr(importlib.import_module(thing.__module__), name) is thing


def test_a_name_that_is_not_public_is_an_attribute_error():
    with pytest.raises(AttributeError, match="nothing"):
        gradcli.nothing  # noqa: B018


def test_everything_the_library_raises_is_a_gradcli_error():
    for kind in (ModelError, BindingError, GradientError, FileError):
        assert issubclass(kind, GradcliError)
        assert not issubclass(kind, SystemExit)


# ---- parse and load ----


def test_parse_gives_a_model():
    model = gradcli.parse(NEURON)
    assert model.outputs == ("o",)
    assert model.names == ("x1", "x2", "w1", "w2", "b", "n", "o")
    assert model.leaves == ("x1", "x2", "w1", "w2", "b")
    assert model.point["w1"] == -3.0


def test_the_neuron_is_that_of_pytorch():
    result = run(NEURON, retain=["n"], show=["n"])
    assert result.value == pytest.approx(0.7071067811865476, rel=3e-16)
    assert result.values["n"] == pytest.approx(0.8813735870195432, rel=3e-16)
    want = {"x1": -1.5, "x2": 0.5, "w1": 1.0, "w2": 0.0, "b": 0.5}
    assert dict(result.gradients) == pytest.approx(want, rel=5e-16)
    assert result.retained["n"] == pytest.approx(0.5, rel=5e-16)


def test_a_bare_expression_is_called_value():
    model = gradcli.parse("x^2")
    assert model.outputs == ("value",)
    assert model.gradient(x=3) == {"x": 6.0}


def test_a_model_error_lists_every_error_with_its_place():
    with pytest.raises(ModelError) as caught:
        gradcli.parse("a = lgo(1)\nb = hypot(2)\nc = sinn(3)\n", name="m.expr")
    text = str(caught.value)
    assert len(caught.value.diagnostics) == 3
    assert all(f"m.expr:{line}:" in text for line in (1, 2, 3))
    assert "did you mean `sin`?" in text
    assert all(d.span is not None for d in caught.value.diagnostics)


def test_load_reads_a_file(tmp_path):
    path = tmp_path / "m.expr"
    path.write_text("\ufeffx = 3\r\ny = x^2\r\n", encoding="utf-8")
    for given in (path, str(path)):
        model = gradcli.load(given)
        assert model.gradient() == {"x": 6.0}
        assert model.source.name == str(path)


def test_load_takes_values(tmp_path):
    path = tmp_path / "m.expr"
    path.write_text("y = x^2\n", encoding="utf-8")
    assert gradcli.load(path, x=4).gradient() == {"x": 8.0}


def test_a_file_that_cannot_be_read_is_a_file_error(tmp_path):
    with pytest.raises(FileError, match="no such file"):
        gradcli.load(tmp_path / "none.expr")
    with pytest.raises(FileError, match="directory"):
        gradcli.load(tmp_path)


def test_a_file_that_is_not_utf8_is_a_file_error_with_its_line(tmp_path):
    path = tmp_path / "latin.expr"
    path.write_bytes(b"x = 1\ny = x # caf\xe9\n")
    with pytest.raises(FileError, match=r"(?s)latin.expr:2.*UTF-8.*0xe9"):
        gradcli.load(path)


def test_a_model_error_of_a_file_names_the_file(tmp_path):
    path = tmp_path / "m.expr"
    path.write_text("y = (x\n", encoding="utf-8")
    with pytest.raises(ModelError, match=r"m\.expr:1:"):
        gradcli.load(path)


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing\n", ";;"])
def test_a_text_without_an_expression_is_an_error(text):
    with pytest.raises(ModelError, match="no expression"):
        gradcli.parse(text)


def test_a_model_without_an_output_says_so():
    message = refused(GradcliError, "const g = 9.8", of=None)
    assert "``" not in message
    assert "output" in message


# ---- values given to parse ----


def test_values_given_to_parse_are_defaults():
    model = gradcli.parse("y = x*w", x=3, w=4)
    assert model.gradient() == {"x": 4.0, "w": 3.0}
    assert model.gradient(x=5) == {"x": 4.0, "w": 5.0}
    assert model.point == {"x": 3.0, "w": 4.0}


def test_values_given_to_parse_replace_those_of_the_text():
    assert gradcli.parse("x = 2; y = x^2", x=3).gradient() == {"x": 6.0}


def test_a_value_given_to_parse_cuts_an_intermediate_into_a_leaf():
    model = gradcli.parse("x = 1; n = x*2; y = n^2", n=3)
    assert model.gradient()["n"] == 6.0
    assert model.gradient()["x"] is None
    assert "n" in model.leaves


def test_a_value_given_to_parse_wins_over_a_constant_of_the_language():
    assert gradcli.parse("y = e*x", e=3, x=2).gradient() == {"e": 2.0, "x": 3.0}


def test_a_value_given_to_parse_that_nothing_uses_is_an_error():
    with pytest.raises(BindingError, match=r"(?s)`wieght`.*did you mean `weight`\?"):
        gradcli.parse("y = x*weight", wieght=3, x=1).gradient(weight=1)


def test_a_column_given_to_parse():
    model = gradcli.parse("y = x*w", x=[1.0, 2.0], w=3)
    np.testing.assert_array_equal(model.compile().run().value, [3.0, 6.0])


# ---- what run takes ----


@pytest.mark.parametrize(
    "value",
    [
        [1, 2, 3],
        (1.0, 2.0, 3.0),
        range(1, 4),
        np.array([1, 2, 3]),
        np.array([1, 2, 3], dtype=np.int8),
        np.array([1, 2, 3], dtype=np.uint64),
        np.array([1, 2, 3], dtype=np.float32),
        np.array([1, 2, 3], dtype=np.float16),
        np.array([1, 2, 3], dtype=np.longdouble),
        np.array([1, 2, 3], dtype=object),
        np.array([1, 2, 3], dtype=">f8"),
        np.array([1.0, 9, 2, 9, 3, 9])[::2],
        np.array([3.0, 2, 1])[::-1],
        np.array([[1.0, 9], [2, 9], [3, 9]])[:, 0],
        [Fraction(1), Decimal(2), np.float64(3)],
        memoryview(np.array([1.0, 2.0, 3.0])),
    ],
    ids=lambda v: f"{type(v).__name__}-{getattr(v, 'dtype', '')}",
)
def test_a_column_is_any_sequence_of_numbers(value):
    result = run("x^2", {"x": value})
    assert result.value.dtype == np.float64
    np.testing.assert_array_equal(result.value, [1, 4, 9])
    np.testing.assert_array_equal(result.gradients["x"], [2, 4, 6])
    assert result.rows == 3


@pytest.mark.parametrize(
    "value",
    [3, 3.0, np.float64(3), np.float32(3), np.int64(3), np.array(3), np.array(3.0), Fraction(3), Decimal(3)],
    ids=lambda v: type(v).__name__,
)
def test_a_number_is_anything_that_is_one(value):
    result = run("x^2", {"x": value})
    assert type(result.value) is float
    assert result.value == 9.0
    assert type(result.gradients["x"]) is float


@pytest.mark.parametrize("value", [True, np.True_, [True, False], np.array([True, False])], ids=repr)
def test_a_truth_value_is_one_or_zero(value):
    np.testing.assert_array_equal(run("x*2", {"x": value}).value, np.multiply(value, 2.0))


@pytest.mark.parametrize(
    "value",
    ["abc", [1, "x"], {}, 1j, [1j], np.array([1j]), [[1], [2, 3]], 10**400, None, [1.0, None]],
    ids=repr,
)
def test_what_is_not_a_number_is_refused_by_name(value):
    message = refused(BindingError, "sum(x)", {"x": value})
    assert "`x`" in message


def test_two_dimensions_are_refused():
    assert "2 dimensions" in refused(BindingError, "x^2", {"x": [[1, 2], [3, 4]]})
    assert "2 dimensions" in refused(BindingError, "x^2", {"x": np.ones((3, 1))})
    assert "3 dimensions" in refused(BindingError, "x^2", {"x": np.ones((1, 1, 1))})


def test_a_given_array_is_not_copied_into_the_model():
    x = np.array([1.0, 2.0])
    program = gradcli.parse("x^2").compile()
    program.run({"x": x})
    x[0] = 5.0
    np.testing.assert_array_equal(program.run({"x": x}).value, [25.0, 4.0])


# ---- missing, unknown, of the wrong length ----


def test_all_missing_values_are_named_at_once_with_their_places():
    with pytest.raises(BindingError) as caught:
        run("y = a*b\nz = y + c*d", {"b": 1})
    assert len(caught.value.diagnostics) == 3
    text = str(caught.value)
    assert all(f"`{name}` has no value" in text for name in "acd")
    assert "-e:1:5" in text
    assert "-e:2:9" in text


def test_what_the_output_does_not_need_may_be_missing():
    assert run("y = a^2; z = b*y", {"a": 3}, of="y").value == 9.0


def test_what_is_only_shown_is_needed():
    assert "`b` has no value" in refused(BindingError, "y = a^2; z = b*y", {"a": 3}, of="y", show=["z"])


@pytest.mark.parametrize(
    ("given", "meant"), [("weigth", "weight"), ("Weight", "weight"), ("wieght", "weight"), ("biass", "bias")]
)
def test_an_unknown_name_asks_did_you_mean(given, meant):
    message = refused(BindingError, "o = weight*x + bias", {given: 1, "x": 1})
    assert f"no name `{given}`" in message
    assert f"did you mean `{meant}`?" in message


def test_an_unknown_name_unlike_any_lists_those_there_are():
    message = refused(BindingError, "o = weight*x", {"zzz": 1})
    assert "`weight`" in message
    assert "`x`" in message


@pytest.mark.parametrize("option", ["of", "wrt", "retain", "no_grad", "show"])
def test_an_unknown_name_in_compile_asks_did_you_mean(option):
    name = "weigth" if option != "of" else "outptu"
    with pytest.raises(BindingError, match=f"no name `{name}`") as caught:
        gradcli.parse("output = weight*x" if option == "of" else "o = weight*x").compile(
            **{option: name if option == "of" else [name]}
        )
    assert "did you mean" in str(caught.value)


def test_a_value_for_an_intermediate_is_refused():
    message = refused(BindingError, "x = 1; n = x*2; y = n^2", {"n": 3})
    assert "`n` is computed" in message


def test_columns_of_different_lengths_are_refused_with_both_names():
    message = refused(BindingError, "a*b", {"a": [1, 2, 3], "b": [1, 2]})
    assert "different lengths" in message
    assert "`a` has 3 rows" in message
    assert "`b` has 2 rows" in message


def test_an_alias_may_be_bound_by_either_name():
    model = gradcli.parse("x = 2; y = x; o = y^2")
    assert model.compile().run({"y": 3}).value == 9.0
    assert model.compile().run({"x": 3}).value == 9.0


def test_a_const_takes_a_new_value_and_stays_const():
    result = run("const g = 9.81; o = g*t", {"g": 2, "t": 3})
    assert result.value == 6.0
    assert dict(result.gradients) == {"t": 2.0}


# ---- compile ----


def test_of_chooses_the_output():
    model = gradcli.parse("x = 2; a = x^2; b = x^3; output a, b")
    assert model.outputs == ("a", "b")
    assert model.compile("a").run().value == 4.0
    assert model.compile("b").run().value == 8.0
    assert model.compile("x").run().gradients == {"x": 1.0}


def test_wrt_chooses_leaves_and_intermediates_in_the_order_asked():
    result = run("x = 2; w = 3; n = x*w; o = n^2", wrt=["n", "w"])
    assert list(result.gradients.items()) == [("n", 12.0), ("w", 24.0)]


def test_wrt_nothing_gives_the_value_alone():
    result = run("x = 2; x^2", wrt=[])
    assert result.value == 4.0
    assert dict(result.gradients) == {}


@pytest.mark.parametrize("option", ["wrt", "retain", "no_grad", "show"])
def test_a_str_is_one_name_not_its_letters(option):
    text = "w1 = 2; x = 3; n1 = w1*x; o = n1^2"
    name = "w1" if option in ("wrt", "no_grad") else "n1"
    assert run(text, **{option: name}) == run(text, **{option: [name]})
    assert [e.name for e in gradcli.parse(text).explain("n1")] == ["n1"]


@pytest.mark.parametrize("option", ["of", "wrt", "retain", "no_grad", "show"])
def test_what_is_no_name_is_refused_by_its_option(option):
    for given in (5, [5], [["x"]], b"x", [b"x"]):
        with pytest.raises(TypeError, match=f"`{option}` takes "):
            gradcli.parse("x = 1; n = x*2; o = n*3").compile(**{option: given})
    with pytest.raises(TypeError, match="`of` takes one name, not list; compile once for each output"):
        gradcli.parse("x = 1; y = x; z = x; output y, z").compile(of=["y", "z"])


def test_what_is_no_text_name_or_path_is_refused():
    with pytest.raises(TypeError, match="a model is a str, not bytes; `load` reads a file"):
        gradcli.parse(b"x = 1; x^2")
    with pytest.raises(TypeError, match="not int"):
        gradcli.load(0)
    with pytest.raises(TypeError, match="a name is a str, not list"):
        gradcli.parse("x = 1; y = x^2").derivative("y", ["x"])
    with pytest.raises(TypeError, match="a name is a str, not int"):
        run("x = 1; y = x^2", {1: 2.0})


def test_wrt_twice_is_once():
    assert dict(run("x = 2; x^2", wrt=["x", "x"]).gradients) == {"x": 4.0}


def test_retain_keeps_the_gradient_of_an_intermediate():
    result = run("x = 2; n = x^2; m = n*3; o = m^2", retain=["n", "m"])
    assert list(result.retained.items()) == [("n", 72.0), ("m", 24.0)]
    assert list(result.gradients) == ["x"]


def test_retaining_a_leaf_has_no_effect():
    result = run("x = 2; x^2", retain=["x"])
    assert dict(result.retained) == {}
    assert dict(result.gradients) == {"x": 4.0}


def test_retaining_what_has_no_gradient_names_the_cause():
    assert "`const`" in refused(GradientError, "const c = 2; n = c^2; x = 1; o = n*x", retain=["n"])
    assert "`detach`" in refused(GradientError, "x = 2; n = detach(x); o = n*x", retain=["n"])
    assert "no-grad" in refused(GradientError, "w = 2; n = w^2; x = 1; o = n*x", retain=["n"], no_grad=["w"])


def test_asking_for_a_gradient_that_does_not_exist_names_the_cause():
    assert "`const`" in refused(GradientError, "const c = 2; x = 1; c*x", wrt=["c"])


def test_no_grad_leaves_a_leaf_out():
    result = run("x = 2; w = 3; x*w", no_grad=["w"])
    assert dict(result.gradients) == {"x": 3.0}


def test_an_unreachable_leaf_has_none():
    result = run("x = 2; y = 3; z = 4; o = x*detach(y)")
    assert dict(result.gradients) == {"x": 3.0, "y": None, "z": None}


def test_show_gives_values():
    result = run("x = 2; n = x^2; m = n + 1; o = m*2", show=["m", "n", "x"])
    assert dict(result.values) == {"m": 5.0, "n": 4.0, "x": 2.0}


def test_show_reaches_beyond_the_output():
    assert run("x = 2; o = x^2; later = o*10", of="o", show=["later"]).values["later"] == 40.0


@pytest.mark.parametrize("engine", ["auto", "numpy"])
def test_an_engine_by_name(engine):
    assert run("x = 2; x^2", engine=engine).value == 4.0


def test_an_unknown_engine_is_refused():
    with pytest.raises((ValueError, GradcliError), match="steam"):
        gradcli.parse("x^2").compile(engine="steam")


def test_a_hessian_is_second_derivatives_by_every_two():
    result = run("x = 2; y = 3; x^2*y^3", hessian=True)
    assert {a: dict(row) for a, row in result.hessian.items()} == {
        "x": {"x": 54.0, "y": 108.0},
        "y": {"x": 108.0, "y": 72.0},
    }


def test_a_hessian_of_what_has_no_second_is_zero():
    hessian = run("x = 2; y = 3; x*2 + y", hessian=True).hessian
    assert {a: dict(row) for a, row in hessian.items()} == {"x": {"x": 0.0, "y": 0.0}, "y": {"x": 0.0, "y": 0.0}}


def test_a_hessian_by_some():
    hessian = run("x = 2; y = 3; x^2*y^3", hessian=True, wrt=["x"]).hessian
    assert {a: dict(row) for a, row in hessian.items()} == {"x": {"x": 54.0}}


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("x = [1, 2]; y = sum(x)^2", "ask by scalars only: `--wrt`, or `wrt` in Python"),
        ("x = [1, 2]; a = 3; y = sum(x*a)^2", "ask by scalars only, such as `a`: `--wrt`, or `wrt` in Python"),
    ],
)
def test_a_hessian_that_mixes_rows_asks_for_scalars_to_differentiate_by(text, remedy):
    assert refused(GradientError, text, hessian=True).endswith(f"help: {remedy}")


# ---- run ----


def test_a_program_runs_at_many_points():
    program = gradcli.parse("o = x^2").compile()
    assert [program.run({"x": x}).value for x in (1, 2, 3)] == [1.0, 4.0, 9.0]


def test_run_takes_threads_and_arrays_to_write_into():
    x = np.linspace(0, 1, 50_000)
    out = [np.empty(50_000), np.empty(50_000)]
    result = gradcli.parse("x^2").compile().run({"x": x}, threads=2, out=out)
    assert result.value is out[0]
    assert result.gradients["x"] is out[1]
    np.testing.assert_array_equal(out[1], 2 * x)


def test_a_result_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        run("x = 2; x^2").value = 3


def test_results_say_their_output_and_rows():
    assert run("x = 2; y = x^2").output == "y"
    assert run("x = 2; y = x^2").rows == 1
    assert run("y = x^2", {"x": [1, 2, 3]}).rows == 3
    assert run("s = sum(x)", {"x": [1, 2, 3]}).rows == 3


def test_a_default_list_can_be_replaced_by_a_column_of_any_length():
    model = gradcli.parse("x = [1, 2, 3]; w = 2; o = sum(w*x)")
    assert model.compile().run().value == 12.0
    assert model.compile().run({"x": [5.0, 5.0]}).value == 20.0
    assert model.compile().run({"x": 5.0}).rows == 1


# ---- gradient, explain, derivative ----


def test_gradient_is_at_the_point_of_the_text_unless_told():
    model = gradcli.parse("x = 1; w = 2; o = x^2*w")
    assert model.gradient() == {"x": 4.0, "w": 1.0}
    assert model.gradient(x=3) == {"x": 12.0, "w": 9.0}
    assert model.gradient() == {"x": 4.0, "w": 1.0}


def test_gradient_over_columns():
    found = gradcli.parse("o = x^2").gradient(x=[1, 2])
    np.testing.assert_array_equal(found["x"], [2, 4])


def test_explain_gives_one_line_a_name_in_the_order_asked():
    model = gradcli.parse("x = 2; const c = 3; n = x*c; o = tanh(n)")
    assert [e.name for e in model.explain()] == ["x", "c", "n", "o"]
    assert [e.name for e in model.explain(["n", "x"])] == ["n", "x"]
    by_name = {e.name: e for e in model.explain()}
    assert by_name["x"].is_leaf
    assert by_name["x"].requires_grad
    assert not by_name["c"].requires_grad
    assert not by_name["n"].is_leaf
    assert by_name["n"].gradient is None
    assert "retain" in by_name["n"].help
    assert by_name["n"].line == 1


def test_explain_without_values_explains_what_it_can():
    (found,) = gradcli.parse("o = x*detach(y)").explain(["y"])
    assert "detach" in found.reason


def test_derivative_is_a_model():
    second = gradcli.parse("x = 3; y = x^3").derivative("y", "x", "x")
    assert second.compile().run().value == 18.0
    assert second.gradient()["x"] == 6.0
    assert gradcli.parse("x = 3; y = x^3").derivative("y", "x").gradient() == {"x": 18.0}


def test_derivative_by_several_names():
    model = gradcli.parse("x = 2; w = 3; y = x^2*w^3")
    assert model.derivative("y", "x", "w").compile().run().value == 108.0


def test_derivative_by_an_intermediate():
    assert gradcli.parse("x = 3; n = x*2; y = n^2").derivative("y", "n").compile().run().value == 12.0


def test_derivative_of_a_model_with_outputs_of_its_own():
    model = gradcli.parse("x = 3; y = x^2; z = x^3; output y")
    assert model.derivative("y", "x").compile().run().value == 6.0
    assert model.derivative("z", "x").compile().run().value == 27.0


def test_derivative_of_a_bare_expression():
    assert gradcli.parse("x = 3; x^2").derivative("value", "x").compile().run().value == 6.0
    assert gradcli.parse("x^2").derivative("value", "x").compile().run({"x": 4}).value == 8.0


def test_derivative_of_a_shadowed_name():
    model = gradcli.parse("x = 3; x = x*2; y = x^2")
    assert model.derivative("y", "x@1").compile().run().value == 24.0
    assert model.derivative("y", "x").compile().run().value == 12.0


def test_derivative_of_a_text_that_ends_in_a_comment():
    assert gradcli.parse("x = 3; y = x^2 # the end").derivative("y", "x").compile().run().value == 6.0


def test_derivative_of_a_derivative():
    model = gradcli.parse("x = 3; y = x^3").derivative("y", "x")
    assert model.derivative(model.outputs[-1], "x").compile().run().value == 18.0


def test_derivative_keeps_the_values_given_to_parse():
    assert gradcli.parse("y = x^2", x=5).derivative("y", "x").compile().run().value == 10.0


def test_derivative_of_an_unknown_name_asks_did_you_mean():
    with pytest.raises(BindingError, match="did you mean `speed`"):
        gradcli.parse("t = 1; speed = t^2").derivative("sped", "t")


def test_a_name_in_backquotes_is_bound_by_its_text():
    model = gradcli.parse("o = `Total price`^2")
    assert model.compile().run({"Total price": 3}).gradients == {"Total price": 6.0}
    assert model.derivative("o", "Total price").compile().run({"Total price": 3}).value == 6.0


def test_a_model_is_not_changed_by_anything_asked_of_it():
    model = gradcli.parse("x = 2; n = x^2; o = n*3")
    before = (model.names, model.outputs, model.leaves, model.point, len(model.resolved.graph))
    model.gradient(x=5)
    model.compile(retain=["n"], hessian=True).run()
    model.derivative("o", "x").gradient()
    model.explain()
    assert (model.names, model.outputs, model.leaves, model.point, len(model.resolved.graph)) == before
    assert model.gradient() == {"x": 12.0}


@pytest.mark.parametrize("text", ["x = 2; l = [1, 2]; o = sum(l)*x", "x = 2; l = [1, 2]*3; o = sum(l)*x"])
def test_the_point_cannot_be_written(text):
    model = gradcli.parse(text, x=5.0)
    with pytest.raises(TypeError):
        model.point["x"] = 7.0
    with pytest.raises(ValueError, match="read-only"):
        model.point["l"][0] = 7.0
    assert (model.point["x"], model.point["l"][0]) == (5.0, 3.0 if "*3" in text else 1.0)
    assert model.gradient()["x"] == model.compile().run().value / 5.0


def test_a_given_array_stays_writable_for_its_owner():
    column = np.array([1.0, 2.0])
    assert gradcli.parse("x^2", x=column).point["x"].tolist() == [1.0, 2.0]
    column[0] = 3.0


def test_what_is_shared_among_out_is_refused():
    program = gradcli.parse("y = x*w").compile()
    given = {"x": np.ones(6), "w": np.ones(6)}
    room = np.empty(17)
    for out in ([room[:6]] * 3, [room[:6], room[5:11], room[11:]], [room[6:12], np.empty(6), room[11:]]):
        with pytest.raises(BindingError, match="two arrays of `out` share memory"):
            program.run(given, out=out)
    room = np.empty(18)
    assert program.run(given, out=[room[12:], room[:6], room[6:12]]).value.tolist() == [1.0] * 6


@pytest.mark.parametrize("option", ["threads", "block"])
def test_a_number_of_threads_or_rows_below_one_is_refused(option):
    program = gradcli.parse("y = x*2").compile()
    for count in (0, -1):
        with pytest.raises(ValueError, match=f"`{option}` must be 1 or more, not {count}"):
            program.run({"x": [1.0, 2.0]}, **{option: count})


@pytest.mark.parametrize("again", [copy.deepcopy, copy.copy, lambda x: pickle.loads(pickle.dumps(x))])  # noqa: S301  our own
def test_models_programs_and_results_are_copied_and_pickled(again):
    model = gradcli.parse(NEURON, b=6.9)
    assert model.point["b"] == 6.9
    assert again(model).point == model.point
    program = model.compile(retain=["n"])
    before = program.run({"x1": [1.0, 2.0]})
    for found in (again(program), again(again(program))):
        result = found.run({"x1": [1.0, 2.0]})
        assert repr(result) == repr(before)
        assert found.run().gradients == program.run().gradients
    assert repr(again(before)) == repr(before)


def test_a_program_goes_to_other_processes():
    program = gradcli.parse("y = x^2").compile()
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert [r.gradients["x"] for r in pool.map(program.run, [{"x": 1.0}, {"x": 2.0}])] == [2.0, 4.0]


def test_the_package_lists_its_names_before_they_are_loaded():
    code = "import gradcli, sys; assert not set(gradcli.__all__) - set(dir(gradcli)); assert 'numpy' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_models_and_programs_say_what_they_are():
    model = gradcli.parse(NEURON, "neuron.expr")
    assert repr(model) == "<Model neuron.expr: `o` of `x1`, `x2`, `w1`, `w2`, `b`>"
    assert repr(model.compile(wrt=["w1", "n"])) == "<Program of neuron.expr: `o` by `w1`, `n`>"
    assert repr(model.compile(wrt=[])) == "<Program of neuron.expr: `o` by no names>"
    many = gradcli.parse(" + ".join(f"x{i}" for i in range(5000)))
    assert repr(many).endswith("`x7` and 4992 more>")
    assert len(repr(many.compile())) < 200


def test_the_package_is_typed():
    assert (Path(sys.modules["gradcli"].__file__).parent / "py.typed").exists()
