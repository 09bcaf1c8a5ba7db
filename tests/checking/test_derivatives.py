"""Derivatives where the slope is 0, where the function begins, and where all digits of a formula cancel."""

from __future__ import annotations

import pytest

import gradcli
from gradcli.calculus.exact import numbers
from gradcli.checking.exactly import near
from gradcli.checking.run import Options, check_model
from gradcli.checking.witness import partial
from gradcli.graph import f
from gradcli.primitives import TABLE


def at_the_point(text):
    """The checks at the file's own point alone."""
    return check_model(gradcli.parse(text), Options(points=0))


def assert_right(text):
    for checks in (at_the_point(text), gradcli.check(gradcli.parse(text))):
        assert [(c.verdict, c.note) for c in checks] == [("agrees", None)] * len(checks)


@pytest.fixture
def at_zero(monkeypatch):
    """Add a number to the slope of a row by its first argument where that is 0, and only there."""

    def spoil(name, number):
        right = TABLE[name].rule

        def rule(g, y, x, *others):
            first, *rest = right(g, y, x, *others)
            return first.plus((g * number).only(f.eq(x, 0))), *rest

        monkeypatch.setitem(TABLE, name, TABLE[name]._replace(rule=rule))

    return spoil


FLAT = [
    "x = 0; y = x^3", "x = 0; y = x^5", "x = 0; y = x^7", "x = 0; y = 5*x^3", "x = 0; y = pow(x, 3)",
    "x = 0; n = 3; y = x^n", "x = 2; y = (x - 2)^3", "x = 1; w = 1; y = (x - w)^3", "x = 0; y = sin(x)^3",
    "x = 1; y = log(x)^3", "x = [-1, 0, 1]; y = x^3", "x = [-1, 0, 1]; y = sum(x^3)", "x = 0; y = x^3 + 1e12",
    "x = 0; y = x^3 + x^2", "x = 0; y = -x^4", "x = 1; y = cospi(x)", "x = 0.5; y = sinpi(x)", "x = 0; y = d(x^5, x)",
]  # fmt: skip
STARTS = [
    "x = 0; y = x^1.5", "x = 0; y = x^0.5", "x = 0; y = x^2.5", "x = 0; y = x^(1/3)", "x = 0; y = x^(4/3)",
    "x = 2; y = (x - 2)^0.5", "x = 1; y = (1 - x^2)^1.5", "x = 0; n = 1.5; y = x^n", "x = 0; n = 0.3; y = x^n",
    "x = 0; y = x^1.5; domain x >= 0", "x = [0, 1, 2]; n = 1.5; y = sum(x^n)", "x = 0; y = d(x^2.5, x)",
    "x = 0; w = 0; y = (x^2 + w^2)^1.5",
]  # fmt: skip
SMOOTH = [
    "abs(x)^2", "abs(x)^3", "abs(x)^1.5", "max(x, 0)^2", "relu(x)^2", "relu(x)^3", "cos(abs(x))", "x*abs(x)",
    "where(x > 0, x^2, x^2)", "where(x > 0, x^3, -x^2)", "max(x, x^2)^3", "clip(x, 0, 1)^2",
]  # fmt: skip


@pytest.mark.parametrize("text", FLAT)
def test_slope_of_zero_is_right_and_no_kink(text):
    assert_right(text)


@pytest.mark.parametrize("text", STARTS)
def test_power_that_begins_at_its_base_of_zero(text):
    assert_right(text)


@pytest.mark.parametrize("function", SMOOTH)
def test_sides_that_meet_smoothly_are_no_kink(function):
    assert_right(f"x = 0; y = {function}")


@pytest.mark.parametrize("number", [1.0, -1e-6, 1e-30, 1e-60])
@pytest.mark.parametrize(("name", "function"), [
    ("pow", "x^3"), ("pow", "x^3 + 1e12"), ("pow", "x^2.5"), ("cos", "cos(x)"),
    ("cospi", "cospi(x)"), ("cosh", "x^3 + cosh(x)"),
])  # fmt: skip
def test_other_slope_than_zero_is_wrong(name, function, number, at_zero):
    at_zero(name, number)
    (check,) = at_the_point(f"x = 0; y = {function}")
    assert check.verdict == "wrong"


@pytest.mark.parametrize("number", [1.5, -1.0001])
def test_slope_outside_of_a_kink_is_wrong(number, at_zero):
    at_zero("abs", number)
    (check,) = at_the_point("x = 0; y = abs(x)")
    assert check.verdict == "wrong"


@pytest.mark.parametrize(("text", "note"), [
    ("x = 0; y = abs(x) + x^3", "slopes -1 and 1, 0 is taken"),
    ("x = 0; y = sqrt(abs(x))", "slopes -infinite and infinite, 0 is taken"),
    ("x = 0; y = max(x^2, 1e-20*x)", "slopes 0 and 1e-20"),
])  # fmt: skip
def test_kink_is_still_named(text, note):
    (check,) = at_the_point(text)
    assert check.verdict == "agrees"
    assert note in check.note


def test_convention_stands_where_the_function_jumps():
    by_base, by_exponent = gradcli.check(gradcli.parse("x = 0; n = 0; y = x^n"))
    assert (by_base.verdict, by_exponent.verdict) == ("agrees", "agrees")
    assert by_exponent.note == "the function jumps at x=0.0 n=0.0"
    assert at_the_point("x = 0; n = 0; y = x^n")[1].verdict == "undecided"


TAILS = [
    "x = -800; y = 1 + tanh(x)", "x = 800; y = 1 - tanh(x)", "x = -1e5; y = 1 + tanh(x)", "x = 500; y = coth(x) - 1",
    "x = -1000; y = coth(x) + 1", "x = 700; y = 1 - tanh(x/2)", "x = 600; y = tanh(x)^2 - 1", "x = -200; y = gelu(x)",
    "x = -700; y = mish(x)", "x = -60; y = 1 + erf(x)",
]  # fmt: skip


@pytest.mark.parametrize("text", TAILS)
def test_slope_is_right_where_all_digits_of_a_formula_cancel(text):
    (check,) = at_the_point(text)
    assert (check.verdict, check.note) == ("agrees", None)


def test_partial_of_the_witness_has_all_digits_where_its_terms_cancel():
    few, many = (partial("gelu", 0, 1)(m, [m.num(-100)]).value for m in (numbers(50), numbers(2300)))
    assert near(few, many, 0)


@pytest.mark.parametrize("seed", range(12))
def test_gelu_by_tanh_is_right_at_any_point(seed):
    text = "f(x) = x/2*(1 + tanh(sqrt(2/pi)*(x + 0.044715*x^3))); x = 0.37; y = f(x)"
    (check,) = gradcli.check(gradcli.parse(text), seed=seed)
    assert (check.verdict, check.note) == ("agrees", None)


@pytest.mark.parametrize("factor", [-1.0, 2.0, 1 + 1e-12])
@pytest.mark.parametrize("text", ["x = -300; y = 1 + tanh(x)", "x = 60; y = tanh(x)", "x = -90; y = coth(x) + 1"])
def test_wrong_slope_in_a_tail_is_wrong(text, factor, monkeypatch):
    name = "coth" if "coth" in text else "tanh"
    right = TABLE[name].rule
    monkeypatch.setitem(TABLE, name, TABLE[name]._replace(rule=lambda g, y, x: (right(g, y, x)[0] * factor,)))
    assert at_the_point(text)[0].verdict != "agrees"
    assert gradcli.check(gradcli.parse(text))[0].verdict == "wrong"
