"""Claims and expectations, judged by numbers on the decimals as written."""

from __future__ import annotations

import pytest

import gradcli
from gradcli.checking.rounded import significant, uncertainty
from gradcli.checking.run import Options, check_model


def last(text, **options):
    return check_model(gradcli.parse(text), Options(**options))[-1]


@pytest.mark.parametrize("text", [
    "x = 0.3; y = x; claim 0.1 + 0.2 = 0.3",
    "x = 0.1; y = 2*x; claim y*10 = 2 if x == 0.1",
    "x = -0.1; y = 2*x; claim y*10 = -2 if x == -1/10",
    "x = [0.1, -0.3]; y = 2*x; claim d(y, x) = 2",
    "x = 2; g = 3; y = g*x; claim d(d(y, x)*y, g) = 2*g*x",
    "x = 0.4; y = sin(x)^2 + cos(x)^2; claim y = 1; claim d(y, x) = 0",
    "x = 0.4; y = tanh(x); claim d(y, x, x) = -2*y*(1 - y^2)",
])  # fmt: skip
def test_identity_holds_on_the_decimals_as_written(text):
    assert last(text).verdict == "agrees"


def test_names_that_other_parsers_reserve_are_ordinary():
    names = "S N E I Q beta gamma zeta lambda Lambda".split()  # noqa: SIM905  a list of names reads better so
    text = "\n".join(f"{n} = {k + 2}" for k, n in enumerate(names))
    assert last(f"{text}\ny = {'*'.join(names)}\nclaim d(y, S) = y/S").verdict == "agrees"


def test_const_and_bound_values_stay():
    found = last("const g = 9.81; t = 2; s = g*t^2/2; claim d(s, t) = 9.81*t")
    assert found.verdict == "agrees"
    found = last("a = 1; x = 2; y = a*x; claim y = 2*x", points=12)
    assert found.verdict == "wrong"


def test_derivatives_inside_claims_are_cut_at_intermediates():
    assert last("x = 0.3; n = x^2; y = sin(n); claim d(y, n) = cos(n)").verdict == "agrees"


@pytest.mark.parametrize(("constant", "verdict"), [
    ("0.797884560802865", "agrees"),  # fifteen digits: rounded
    ("0.7978845608028654", "agrees"),  # a double
    ("0.79788456080286535587989211986876", "agrees"),
    ("0.7978845608028664", "wrong"),
    ("0.79788456", "wrong"),  # eight digits are meant as they are
])  # fmt: skip
def test_rounded_constant(constant, verdict):
    found = last(f"x = 0.4; y = x*sqrt(2/pi); claim d(y, x) = {constant}")
    assert found.verdict == verdict
    if verdict == "agrees":
        assert found.digits == pytest.approx(len(constant) - 2, abs=1.2)


TAIL = "x = -30; y = gelu(x); claim y = {}*x*(1 + erf(x*{}))"
SLOPE = "x = -0.7; y = gelu(x); claim d(y, x) = 0.5*(1 + erf(x*0.7071067811865476)) + x*{}*exp(-x^2/2)"
NORMAL = "x = -12; y = normcdf(x); claim y = 0.5*(1 + erf(x/{}))"
SINE = "x = 1; y = sin(2*pi*x)/(2*pi); claim d(y, x) = cos({}*x)"


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("text", "right", "wrong"), [
    (TAIL, ("0.5", "0.7071067811865476"), ("0.5", "0.7071067811865486")),
    (TAIL, ("0.5", "0.7071067811865475"), ("0.5000001", "0.7071067811865476")),
    (SLOPE, ("0.3989422804014327",), ("0.3989422804014317",)),
    (NORMAL, ("1.4142135623730951",), ("1.4142135623730941",)),
])  # fmt: skip
def test_rounded_constant_where_a_side_cancels(text, right, wrong, seed):
    assert last(text.format(*right), seed=seed).verdict == "agrees"
    assert last(text.format(*wrong), seed=seed).verdict == "wrong"


@pytest.mark.parametrize(("text", "right", "wrong"), [
    (SINE, "6.283185307179586", "6.283185307179596"),
    (SINE, "6.28318530717959", "6.28318530717979"),
    ("x = 2; y = x; claim cos(pi*x) = cos({}*x)", "3.141592653589793", "3.141592653589783"),
    ("x = 0.5; y = x; claim sin(pi*x) = sin({}*x)", "3.141592653589793", "3.141592653589803"),
    ("x = 1; y = x; claim sin(pi*x)^3 = sin({}*x)^3", "3.141592653589793", "3.141592653589783"),
    ("x = 1; y = x; claim (1 - cos(2*pi*x))^2 = (1 - cos({}*x))^2", "6.283185307179586", "6.283185307179576"),
    ("x = 1; y = x; claim 4*cos(pi*x) = 4*cos(({} - 0.7071067811865476 + sqrt(1/2))*x)", "3.141592653589793",
     "3.141592653589783"),
    ("x = 1; y = x; claim cos(pi*x) = cos(pi*x) + {}", "0", "1e-30"),
    ("x = 1; y = x; claim cos(2*pi*x) = cos(6.283185307179586*x) + {}", "0", "1e-29"),
    ("x = 1; y = x; claim cos(2*pi*x) = cos(6.283185307179586*x) - {}", "0", "1e-29"),
])  # fmt: skip
def test_rounded_constant_that_acts_to_second_order(text, right, wrong):
    for points in (0, 8):
        assert last(text.format(right), points=points).verdict == "agrees"
        assert last(text.format(wrong), points=points).verdict == "wrong"


@pytest.mark.parametrize("x", [-30, -90, -400, -1200])
def test_side_that_is_infinite_because_its_digits_cancel_gets_more(x):
    text = f"x = {x}; y = log(1 + tanh(x)); claim y = log(2) + {{}}*x - log1p(exp(2*x))"
    assert last(text.format("2"), points=0).verdict == "agrees"
    assert last(text.format("2.000001"), points=0).verdict == "wrong"


def test_side_that_is_infinite_is_wrong():
    assert last("x = 2; y = x; claim log(x - 2) = x", points=0).verdict == "wrong"
    assert last("x = 2; y = x; claim 1/(x^2 - 4) = x", points=0).verdict == "wrong"


def test_rounding_that_decides_what_is_defined_leaves_the_point_out():
    text = "x = 1; y = x; claim asin(x) = asin(x*{}*sqrt(2))"
    assert last(text.format("0.7071067811865476")).verdict == "agrees"
    assert last(text.format("0.7071067811865476"), points=0).verdict == "undecided"
    assert last(text.format("0.7071067811865576"), points=0).verdict == "wrong"


def test_counterexample_has_the_digits_that_it_took():
    found = last(TAIL.format("0.5", "0.7071067811865486"))
    assert (found.left, found.right) == ("-1.472014178144456e-196", "-1.4720141781424387e-196")


def test_size_of_a_rounding():
    assert significant("0.00120e5") == 3
    assert significant("pi") == 0
    assert float(uncertainty("0.797884560802865")) == pytest.approx(5e-16, rel=0.01)


@pytest.mark.parametrize("seed", range(8))
def test_tail_in_which_fifty_digits_cancel_is_no_difference(seed):
    text = "x = 0.5; w = 2; o = tanh(w*x); domain -90 < x < 90 and -90 < w < 90"
    assert last(f"{text}; claim d(o, x) = w*(1 - o^2)", seed=seed, points=12).verdict == "agrees"
    assert last(f"{text}; claim d(o, x) = 1.001*w*(1 - o^2)", seed=seed, points=12).verdict == "wrong"


def test_condition_steers_the_sampling():
    found = last("x = 1; y = x; claim abs(x) = x if 1000 < x < 1001", points=6)
    assert (found.verdict, found.points) == ("agrees", 6)


def test_sides_of_unequal_definition_are_wrong():
    assert last("x = 1; y = x; claim log(x^2) = 2*log(x)").verdict == "wrong"
    assert last("x = 1; y = x; claim log(x^2) = 2*log(x) if x > 0").verdict == "agrees"
    assert last("x = -2; y = x; claim log(x - 100) = sqrt(x - 100) if x < -1").verdict == "undecided"


HINTS = {
    "the sign is wrong": "x = 0.3; w = 2; y = cos(w*x); claim d(y, x) = w*sin(w*x)",
    "is 2 times the right": "x = 0.3; y = x^2; claim d(y, x) = x",
    "`w` times the right side: a factor": "x = 0.3; w = 2; y = sin(w*x); claim d(y, x) = cos(w*x)",
    "`cos(x)` times the right side: a factor": "x = 0.3; y = exp(sin(x)); claim d(y, x) = exp(sin(x))",
    "plus 1: a term is missing": "x = 0.3; y = sin(x) + x; claim d(y, x) = cos(x)",
    "arguments of `atan2(x, w)` swapped": "x = 0.5; w = 2; y = atan2(w, x); claim y = atan2(x, w)",
    "only on the else branch of `where(x > 0, x, x^2)`": "x = 0.5; y = where(x > 0, x, x^2); claim d(y, x) = 1",
    "only on the negative side of `abs(x)`": "x = 0.5; y = abs(x); claim d(y, x) = 1",
    "only where `a` is negative": "x = 0.3; a = 2; y = x; claim sqrt(a^2) = a",
    "the right side is not defined here": "x = 0.5; y = x; claim x = sqrt(x)^2",
}  # fmt: skip


@pytest.mark.parametrize("told", HINTS)
def test_hint(told):
    found = last(HINTS[told], points=12)
    assert found.verdict == "wrong"
    assert told in found.hint


@pytest.mark.parametrize(("line", "verdict"), [
    ("expect x = 0.1", "agrees"),
    ("expect 10*x = 1", "agrees"),
    ("expect x = 0.1000001", "wrong"),
    ("expect x = 0.1000001 within 1e-6", "agrees"),
    ("expect x = 0.11 within 10%", "agrees"),
    ("expect x = 0.12 within 10%", "wrong"),
    ("expect sqrt(2) = 1.414 rounded", "agrees"),
    ("expect sqrt(2) = 1.415 rounded", "wrong"),
    ("expect x - 0.1 = 0", "agrees"),
    ("expect 1e-7*x = 0", "wrong"),
    ("expect 0/0 = nan", "agrees"),
    ("expect x = nan", "wrong"),
    ("expect 1/0 = inf", "agrees"),
    ("expect -1/0 = inf", "wrong"),
    ("expect 1e308 = inf", "wrong"),
    ("expect c = [1, 2]", "agrees"),
    ("expect c = [1, 3]", "wrong"),
    ("expect c*0 = 0", "agrees"),
    ("expect sum(c) = 3", "agrees"),
    ("expect d(y, x) = 0.2", "agrees"),
])  # fmt: skip
def test_expectation(line, verdict):
    found = last(f"x = 0.1; c = [1, 2]; y = x^2; {line}")
    assert (found.kind, found.verdict) == ("expect", verdict)


def test_expectation_of_a_column_names_the_row():
    assert last("c = [1, 2]; y = sum(c); expect c = [1, 3]").hint.startswith("in row 2")


def test_sides_with_other_rows():
    with pytest.raises(gradcli.GradcliError, match="columns of different lengths"):
        last("x = [1, 2, 3]; y = sum(x); expect x = [1, 2]")
    with pytest.raises(gradcli.GradcliError, match="`w` has no value"):
        last("y = w*2; expect y = 2")
