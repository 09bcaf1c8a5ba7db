"""The conventions at special points, one test each, through the public API (design, section 3)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import gradcli

INF, NAN = math.inf, math.nan


def gradients(text: str, **values: Any) -> dict[str, Any]:
    return dict(gradcli.parse(text).compile().run(values).gradients)


def slope(text: str, x: Any, **values: Any) -> Any:
    """The gradient of an expression by x."""
    return gradcli.parse(text).compile(wrt=["x"]).run({"x": x, **values}).gradients["x"]


def value(text: str, **values: Any) -> Any:
    return gradcli.parse(text).compile(wrt=[]).run(values).value


def same(a: Any, b: Any) -> bool:
    return bool(np.array_equal(np.asarray(a, float), np.asarray(b, float), equal_nan=True))


# ---- ties ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("max(x, y)", {"x": 0.5, "y": 0.5}),
        ("min(x, y)", {"x": 0.5, "y": 0.5}),
        ("max(x, y, z)", {"x": 1 / 3, "y": 1 / 3, "z": 1 / 3}),
        ("max(x, y, 0)", {"x": 0.5, "y": 0.5}),
        ("min(x, y, 2)", {"x": 1 / 3, "y": 1 / 3}),
        ("max(x, 2)", {"x": 0.5}),
        ("max(2, x)", {"x": 0.5}),
        ("max(x, x)", {"x": 1.0}),
        ("max(x, y) + min(x, y)", {"x": 1.0, "y": 1.0}),
        ("maximum(x, y) - minimum(x, y)", {"x": 0.0, "y": 0.0}),
    ],
)
def test_tie_is_shared_evenly_numbers_included(text: str, want: dict[str, float]) -> None:
    assert gradients(text, **dict.fromkeys(want, 2.0)) == want


def test_tie_over_the_rows_is_shared_evenly() -> None:
    x = [1.0, 3.0, 3.0, -2.0]
    assert same(slope("max(x)", x), [0, 0.5, 0.5, 0])
    assert same(slope("min(x)", [1.0, 1.0, 1.0, 1.0]), [0.25] * 4)
    assert same(slope("max(x) + min(x)", [2.0, 2.0]), [1, 1])


@pytest.mark.parametrize(("x", "want"), [(-1.0, 0.0), (0.0, 0.5), (0.5, 1.0), (1.0, 0.5), (2.0, 0.0)])
def test_clip_carries_one_half_at_its_border(x: float, want: float) -> None:
    assert slope("clip(x, 0, 1)", x) == want
    assert slope("min(max(x, 0), 1)", x) == want


def test_clip_shares_its_border_with_its_limits() -> None:
    assert gradients("clip(x, lo, hi)", x=1.0, lo=1.0, hi=3.0) == {"x": 0.5, "lo": 0.5, "hi": 0.0}
    assert gradients("clip(x, lo, hi)", x=3.0, lo=1.0, hi=3.0) == {"x": 0.5, "lo": 0.0, "hi": 0.5}
    assert gradients("clip(x, lo, hi)", x=2.0, lo=3.0, hi=1.0) == {"x": 0.0, "lo": 0.0, "hi": 1.0}


@pytest.mark.parametrize("x", [-2.0, -0.0, 0.0, 3.0, 1e-320])
def test_abs_is_the_larger_of_x_and_minus_x(x: float) -> None:
    assert slope("abs(x)", x) == slope("max(x, -x)", x) == (x > 0) - (x < 0)


# ---- corners and steps -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "x", "want"),
    [
        ("relu(x)", 0.0, 0.0),
        ("relu6(x)", 0.0, 0.0),
        ("relu6(x)", 6.0, 0.0),
        ("relu6(x)", 3.0, 1.0),
        ("leaky_relu(x)", 0.0, 0.01),
        ("elu(x)", 0.0, 1.0),
        ("selu(x)", 0.0, 1.7580993408473766),
        ("softsign(x)", 0.0, 1.0),
        ("gelu(x)", 0.0, 0.5),
        ("softplus(x)", 0.0, 0.5),
        ("sinc(x)", 0.0, 0.0),
        ("sqrt(x)", 0.0, INF),
        ("cbrt(x)", 0.0, INF),
        ("acosh(x)", 1.0, INF),
        ("asin(x)", 1.0, INF),
        ("acos(x)", 1.0, -INF),
        ("log(x)", 0.0, INF),
        ("copysign(x, -1)", 0.0, 0.0),
        ("copysign(x, -1)", 2.0, -1.0),
        ("acot(x)", 2.0, -0.2),
    ],
)
def test_slope_at_a_corner(text: str, x: float, want: float) -> None:
    assert slope(text, x) == want


@pytest.mark.parametrize("text", ["floor(x)", "ceil(x)", "round(x)", "trunc(x)", "sign(x)", "step(x)", "x // 2"])
@pytest.mark.parametrize("x", [-1.5, 0.0, 0.5, 2.0])
def test_step_has_slope_zero_not_none(text: str, x: float) -> None:
    assert slope(text, x) == 0


@pytest.mark.parametrize("text", ["x > 1", "x == 1", "x != 1", "1 < x < 3", "x and 1", "not x"])
def test_condition_carries_no_gradient(text: str) -> None:
    assert slope(text, 1.0) is None


def test_comparison_with_nan_is_false_but_unequal_is_true() -> None:
    assert value("(x < 1) + (x <= 1) + (x > 1) + (x >= 1) + (x == x)", x=NAN) == 0
    assert value("x != x", x=NAN) == 1


def test_step_is_one_half_at_zero() -> None:
    assert same(value("step(x)", x=[-1.0, -0.0, 0.0, 2.0]), [0, 0.5, 0.5, 1])


def test_round_is_half_to_even() -> None:
    assert same(value("round(x)", x=[0.5, 1.5, 2.5, -0.5, -1.5]), [0, 2, 2, 0, -2])


def test_remainders() -> None:
    assert value("x % 3", x=-7.0) == 2
    assert value("x // 3", x=-7.0) == -3
    assert value("fmod(x, 3)", x=-7.0) == -1
    assert gradients("x % y", x=6.0, y=2.0) == {"x": 1.0, "y": -3.0}
    assert gradients("x % y", x=-7.0, y=3.0) == {"x": 1.0, "y": 3.0}
    assert gradients("fmod(x, y)", x=-7.0, y=3.0) == {"x": 1.0, "y": 2.0}


# ---- powers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("x", "p", "want"),
    [
        (0.0, 0.0, (0.0, 0.0)),
        (0.0, 1.0, (1.0, 0.0)),
        (0.0, 2.0, (0.0, 0.0)),
        (0.0, 0.5, (INF, 0.0)),
        (0.0, 0.25, (INF, 0.0)),
        (0.0, -1.0, (-INF, -INF)),
        (-2.0, 3.0, (12.0, NAN)),
        (2.0, 0.0, (0.0, math.log(2))),
        (INF, 0.0, (0.0, INF)),
        (1e300, 0.1, (0.1 * 1e300**0.1 / 1e300, 1e300**0.1 * math.log(1e300))),
    ],
)
def test_power_at_special_points(x: float, p: float, want: tuple[float, float]) -> None:
    found = gradients("x^p", x=x, p=p)
    assert [found["x"], found["p"]] == pytest.approx(list(want), nan_ok=True, rel=1e-15)
    if not (x == 0 and p < 0) and x != INF:
        assert slope(f"x^{p!r}", x) == pytest.approx(want[0], rel=1e-15)


def test_zero_to_the_zero_is_one() -> None:
    assert value("x^0", x=0.0) == value("x^p", x=0.0, p=0.0) == value("0^0") == 1
    assert slope("x^0", 0.0) == slope("x^0", INF) == 0
    assert value("x^0", x=NAN) == 1


def test_power_of_a_negative_base_has_a_slope_by_the_base_only() -> None:
    assert slope("x^3", -2.0) == 12
    assert slope("x^-2", -2.0) == 0.25
    assert math.isnan(slope("x^0.5", -2.0))


def test_the_inverse_of_erf_has_infinite_slope_at_its_ends() -> None:
    assert slope("erfinv(x)", 1.0) == slope("erfinv(x)", -1.0) == INF
    assert slope("d(erfinv(x), x)", 1.0) == -slope("d(erfinv(x), x)", -1.0) == INF
    assert math.isnan(slope("erfinv(x)", 1.5))


@pytest.mark.parametrize(("name", "second"), [("asin", 1.0), ("acos", -1.0), ("atanh", 2.0)])
def test_second_derivatives_of_inverse_functions_keep_their_digits_near_zero(name: str, second: float) -> None:
    """They are `second*x` there."""
    for x in (1e-300, 2.8e-12, -3e-9):
        assert abs(slope(f"d({name}(x), x)", x) - second * x) <= 4 * math.ulp(second * x)


@pytest.mark.parametrize("zero", [1, 2])
def test_lgamma_has_all_its_digits_around_its_zeros(zero: int) -> None:
    from mpmath import mp

    with mp.workdps(40):
        for step in [s * 10.0**-k for k in range(1, 16) for s in (3, -3, 0.7)]:
            x = zero + step
            want = mp.loggamma(mp.mpf(x))
            assert abs(value("lgamma(x)", x=x) - want) <= 4 * math.ulp(float(want))
    assert value("lgamma(x)", x=float(zero)) == 0


def test_products_of_zero() -> None:
    assert same(slope("prod(x)", [0.0, 2.0, 3.0]), [6, 0, 0])
    assert same(slope("prod(x)", [0.0, 0.0, 3.0]), [0, 0, 0])
    assert same(slope("prod(x)", [1.0, 2.0, 3.0]), [6, 3, 2])


# ---- the origin, equal values ----------------------------------------------------------------------------------------


def test_slopes_at_the_origin_are_zero() -> None:
    assert gradients("hypot(x, y)", x=0.0, y=0.0) == {"x": 0.0, "y": 0.0}
    assert gradients("atan2(y, x)", x=0.0, y=0.0) == {"y": 0.0, "x": 0.0}
    assert same(slope("norm(x)", [0.0, 0.0]), [0, 0])
    assert same(slope("std(x)", [2.0, 2.0, 2.0]), [0, 0, 0])
    assert same(slope("var(x)", [2.0, 2.0, 2.0]), [0, 0, 0])


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1.0, 1e160, 1e300])
def test_hypot_and_atan2_neither_overflow_nor_underflow(scale: float) -> None:
    point = {"x": 3 * scale, "y": 4 * scale}
    assert value("hypot(x, y)", **point) == pytest.approx(5 * scale, rel=1e-15)
    assert gradients("hypot(x, y)", **point) == pytest.approx({"x": 0.6, "y": 0.8}, rel=1e-15)
    found = gradients("atan2(y, x)", **point)
    assert found["y"] == pytest.approx(0.12 / scale, rel=1e-15)
    assert found["x"] == pytest.approx(-0.16 / scale, rel=1e-15)


def test_variance_divides_by_one_less() -> None:
    assert value("var(x)", x=[1.0, 2.0, 4.0]) == pytest.approx(7 / 3, rel=1e-15)
    assert math.isnan(value("var(x)", x=[1.0]))


def test_xlogy_is_zero_at_zero() -> None:
    assert value("xlogy(x, y)", x=0.0, y=0.0) == 0
    assert gradients("xlogy(x, y)", x=0.0, y=2.0) == {"x": math.log(2), "y": 0.0}
    assert gradients("xlogy(x, y)", x=0.0, y=0.0)["x"] == 0
    assert gradients("xlog1py(x, y)", x=0.0, y=1.0) == {"x": math.log(2), "y": 0.0}


# ---- a branch that is not selected never leaks -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "x", "want"),
    [
        ("where(x > 0, sqrt(x), x)", -1.0, 1.0),
        ("where(x > 0, x*log(x), 0)", 0.0, 0.0),
        ("where(x != 0, sin(x)/x, 1)", 0.0, 0.0),
        ("where(x > 0, x, 1/x)", 0.0, -INF),
        ("where(x > 0, 1/x, x)", 0.0, 1.0),
        ("max(sqrt(x), 1)", 0.0, 0.0),
        ("min(1/x, 2)", 0.0, 0.0),
        ("clip(log(x), -1, 1)", 0.0, 0.0),
        ("abs(where(x > 0, sqrt(x), 0))", 0.0, 0.0),
        ("where(x > 0, where(x > 1, sqrt(x - 1), 1/x), x^2)", 0.0, 0.0),
        ("where(x > 0, where(x > 1, sqrt(x - 1), 2*x), 0)", 0.5, 2.0),
        ("exp(where(x > 0, log(x), 0))", -3.0, 0.0),
        ("where(x > 0, sqrt(x), x) + where(x > 0, log(x), 3*x)", -1.0, 4.0),
        ("where(x > 0, sqrt(x), 0)*where(x <= 0, x, 0)", -1.0, 0.0),
        ("where(x > 0, atan2(sqrt(x), x), x)", -1.0, 1.0),
    ],
)
def test_unselected_branch_never_leaks(text: str, x: float, want: float) -> None:
    assert slope(text, x) == want
    assert same(slope(text, [x, x]), [want, want])


def test_sum_of_masked_cotangents_is_masked_by_their_union() -> None:
    text = "u = sqrt(x); y = where(x > 0, u, 0) + where(x > 1, u, 0)"
    assert slope(text, -1.0) == 0
    assert slope(text, 4.0) == 0.5
    assert slope(text, 0.25) == 1
    assert same(slope(text, [-1.0, 0.25, 4.0]), [0, 1, 0.5])


def test_unmasked_cotangent_removes_the_mask() -> None:
    text = "u = sqrt(x); y = where(x > 1, u, 0) + 2*u"
    assert slope(text, 0.25) == 2
    assert slope(text, 0.0) == INF
    assert math.isnan(slope(text, -1.0))  # the output itself is nan there


def test_both_branches_of_one_name_need_no_mask() -> None:
    assert slope("u = x^2; y = where(x > 0, 3*u, 5*u)", -1.0) == -10
    assert slope("u = x^2; y = where(x > 0, 3*u, 5*u)", 2.0) == 12


@pytest.mark.parametrize(
    ("text", "x", "want"),
    [
        ("d(where(x > 0, sqrt(x), x^2), x)", -1.0, 2.0),
        ("d(where(x > 0, log(x), x^3), x)", 0.0, 0.0),
        ("d(where(x > 0, x*log(x), x^2), x, x)", -1.0, 0.0),
        ("d(max(sqrt(x), x - 5), x)", 0.0, -INF),
        ("d(max(sqrt(x), 1), x)", 0.0, 0.0),
        ("d(abs(x)^3, x)", -2.0, 12.0),
        ("d(relu(x)^2, x)", -1.0, 0.0),
    ],
)
def test_masks_survive_into_second_derivatives(text: str, x: float, want: float) -> None:
    assert slope(text, x) == want


def test_a_mask_on_columns_selects_row_by_row() -> None:
    x = np.array([-1.0, 0.0, 4.0])
    assert same(slope("where(x > 0, sqrt(x), x)", x), [1, 1, 0.25])
    assert same(slope("sum(where(x > 0, sqrt(x), x))", x), [1, 1, 0.25])
    assert gradients("sum(where(x > 0, sqrt(x)*w, 0))", x=x, w=3.0)["w"] == 2


def test_condition_that_is_a_number_selects_where_it_is_not_zero() -> None:
    assert gradients("where(c, x, 1/x)", c=2.0, x=0.0)["x"] == 1
    assert gradients("where(c, 1/x, x)", c=0.0, x=0.0)["x"] == 1


# ---- nan -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "x"), [("log(x)", -2.0), ("sqrt(x)", -1.0), ("acosh(x)", 0.0), ("max(x, 1)", NAN), ("x*0", NAN)]
)
def test_output_that_is_nan_has_gradients_that_are_nan(text: str, x: float) -> None:
    assert math.isnan(slope(text, x))
    assert math.isnan(value(f"d({text}, x)", x=x))


def test_nan_of_one_row_stays_in_its_row() -> None:
    assert same(slope("log(x)", [-2.0, 2.0]), [NAN, 0.5])
    found = gradients("log(x) + b", x=[-2.0, 2.0], b=1.0)
    assert same(found["b"], [NAN, 1])
    assert same(slope("sum(log(x))", [-2.0, 2.0]), [NAN, NAN])


def test_unselected_nan_does_not_count() -> None:
    assert slope("where(x > 0, log(x), 3*x)", -1.0) == 3
    assert gradients("where(x > 0, log(x)*y, 2*y)", x=-1.0, y=5.0) == {"x": 0.0, "y": 2.0}
    assert slope("max(2, x)", INF) == 1


@pytest.mark.parametrize("text", ["c*sqrt(x)", "sqrt(x^2) + c", "x*x^0.5 + c"])
def test_zero_times_infinity_is_honestly_nan(text: str) -> None:
    assert math.isnan(slope(text, 0.0, c=0.0))


def test_factor_of_a_written_zero_has_no_slope() -> None:
    assert slope("5 + 0*x", 2.0) == 0
    assert slope("0*sqrt(x)", 0.0) == 0


def test_values_are_never_simplified() -> None:
    assert math.isnan(value("x - x", x=INF))
    assert math.isnan(value("0*x", x=INF))
    assert math.isnan(value("x/x", x=0.0))
    assert value("x*y/y", x=1e-200, y=1e-200) == 0
    assert math.copysign(1, value("x + 0", x=-0.0)) == 1
    assert math.copysign(1, value("-x", x=0.0)) == -1


def test_cotangents_cancel_a_difference_and_a_factor() -> None:
    assert slope("x*y - x*y", 3.0, y=INF) != slope("x*y - x*y", 3.0, y=INF)  # the value is nan
    assert slope("s = sqrt(x)*1; y = s*s", 0.0) != slope("s = x*1; y = s*s", 0.0)
    assert slope("(x*y)/y", 3.0, y=1e-320) == 1
    assert slope("log(exp(x))", 800.0) == 1
    assert slope("log(exp(x))", -800.0) == 1
    assert slope("sum(x) - sum(x)", [1.0, 2.0])[0] == 0


# ---- definitions -----------------------------------------------------------------------------------------------------


def test_definitions_of_functions() -> None:
    assert value("sinc(x)", x=0.5) == pytest.approx(2 / math.pi, rel=1e-15)
    assert value("gelu(x)", x=1.0) == pytest.approx(0.5 * (1 + math.erf(math.sqrt(0.5))), rel=1e-15)
    assert value("acot(x)", x=-2.0) == math.atan(-0.5)
    assert value("norm(x)", x=[3.0, 4.0]) == 5
    assert value("logsumexp(x)", x=[1000.0, 1000.0]) == pytest.approx(1000 + math.log(2), rel=1e-15)
    assert value("sigmoid(x)", x=-744.0) == pytest.approx(math.exp(-744.0), rel=1e-15)


@pytest.mark.parametrize(
    ("text", "x", "want"),
    [
        ("tanh(x)", 20.0, 1.699341702116e-17),
        ("sigmoid(x)", 40.0, 4.248354255291589e-18),
        ("asin(x)", 1 - 9 * 2.0**-53, 2.0**26 / 3.0),
        ("softplus(x)", -40.0, 4.248354255291589e-18),
        ("gelu(x)", -10.0, -7.6166e-22),
        ("sinc(x)", 1e-9, -3.289868133696453e-09),
        ("3/x", 1e-150, -3e300),
        ("expm1(x)", -40.0, 4.248354255291589e-18),
        ("logaddexp(x, 0)", 40.0, 1.0),
    ],
)
def test_rules_are_accurate_in_the_tails(text: str, x: float, want: float) -> None:
    places = len(repr(want).split("e")[0])
    assert slope(text, x) == pytest.approx(want, rel=10.0 ** (3 - min(places, 15)))
