"""The traps of reverse mode as a graph transformation: twins, masks, shapes, cuts, `d` and `detach`."""

from __future__ import annotations

import numpy as np
import pytest

import gradcli
from gradcli.calculus import adjoint
from gradcli.calculus.adjoint import adjoints
from gradcli.calculus.simplify import simplify
from gradcli.engine import execute
from gradcli.engine.program import schedule
from gradcli.graph import f
from gradcli.primitives import new_graph


def run(text: str, values=None, **options):
    return gradcli.parse(text).compile(**options).run(values or {})


def gradient(text: str, values=None, **options) -> dict:
    return dict(run(text, values, **options).gradients)


def value(text: str, values=None):
    return run(text, values, wrt=[]).value


def same(got, want) -> None:
    np.testing.assert_array_equal(got, want, strict=False)


# ---- twins, diamonds, reuse ----


def test_twins_have_a_gradient_each():
    text = "x = 2; y = 3; u = x*y; v = x*y; f = u + v"
    assert dict(run(text, retain=["u", "v"]).retained) == {"u": 1.0, "v": 1.0}
    assert gradient(text, wrt=["u"]) == {"u": 1.0}
    assert gradient(text) == {"x": 6.0, "y": 4.0}


def test_twins_of_twins_stay_apart():
    text = "x = 2; a = x^2; b = x^2; c = a + b; e = a + b; f = c*e"
    assert dict(run(text, retain=["a", "b", "c", "e"]).retained) == {"a": 16.0, "b": 16.0, "c": 8.0, "e": 8.0}


def test_an_alias_is_the_same_node():
    assert gradient("x = 3; y = x; f = x*y") == {"x": 6.0}


def test_a_node_used_twice_gets_both_cotangents():
    assert gradient("x = 3; u = x*x; f = u*u + u")["x"] == 4 * 27 + 6


def test_a_diamond_adds_up():
    assert gradient("x = 2; a = x*3; b = x*5; f = a*b") == {"x": 60.0}


def test_a_ladder_of_diamonds_is_not_walked_path_by_path():
    steps = [f"n{i} = n{i - 1}*0.5 + n{i - 1}*0.5" for i in range(1, 200)]
    assert gradient("n0 = 1; " + "; ".join(steps)) == {"n0": 1.0}


SLOPES = {"p": 2, "q": 3, "r": 7, "s": 11}
LEAVES = "x = 1.5; " + "; ".join(f"{name} = {slope}" for name, slope in SLOPES.items())


@pytest.mark.parametrize("rows", [None, 3], ids=["point", "columns"])
@pytest.mark.parametrize("seed", range(40))
def test_what_cancels_on_the_way_leaves_the_rest(seed, rows):
    """Slopes of x that are sums of others: on the way their total becomes a node that is there already, then zero."""
    rng = np.random.default_rng(seed)
    terms = ["0"]
    for _ in range(rng.integers(1, 4)):
        mask, (sign, other) = rng.choice(["", "", "x > 0", "x < 0"]), rng.permutation(["+", "-"])
        a, b, c = rng.permutation(["p", "q", "r"])
        factor = rng.choice(["", "", "*0.5"])
        cancels = [(sign, f"({a} + {b})*x{factor}"), (other, f"{b}*x{factor}"), (other, f"{a}*x{factor}")]
        before = [(sign, f"{c}*x"), (other, "s*x*0.25"), (other, "s*x")][rng.integers(3) :]
        for each, term in before + cancels:
            terms += [each, f"where({mask}, {term}, 0)" if mask else term]
    text = f"{LEAVES}; {' '.join(terms)}"
    slope = value(text, {"x": 1.5}) / 1.5
    x = 1.5 if rows is None else np.full(rows, 1.5)
    for wrt in (None, ["x"]):
        same(gradient(text, {"x": x}, wrt=wrt)["x"], slope if rows is None else np.full(rows, slope))


def test_a_sum_that_cancels_leaves_what_comes_behind_it():
    for wrt in (None, ["x"]):  # in either case another node is the last
        assert gradient(f"{LEAVES}; s*x + r*x - (q + p)*x + p*x + q*x", wrt=wrt)["x"] == 18.0
        assert gradient(f"{LEAVES}; s*x + 0.25*x - (q + p)*x + p*x + q*x", wrt=wrt)["x"] == 11.25


def test_an_argument_used_twice_in_one_operation():
    assert gradient("x = 3; x*x")["x"] == 6.0
    assert gradient("x = 3; x/x")["x"] == 0.0
    assert gradient("x = 3; x - x")["x"] == 0.0
    assert gradient("x = 3; max(x, x)")["x"] == 1.0
    assert gradient("x = 2; x^x")["x"] == pytest.approx(4 * (np.log(2) + 1), rel=1e-15)


def test_the_output_is_a_leaf():
    assert gradient("x = 3; y = 4; x", of="x")["x"] == 1.0


def test_a_shadowed_definition_keeps_its_own_gradient():
    result = run("x = 2; n = x*3; n = n*n; f = n + 1", retain=["n@1", "n"])
    assert dict(result.retained) == {"n@1": 12.0, "n": 1.0}
    assert result.gradients["x"] == 36.0


# ---- masks ----


def test_a_branch_that_is_not_selected_does_not_leak():
    assert gradient("x = -1; where(x > 0, sqrt(x), x)") == {"x": 1.0}
    assert gradient("x = 0; where(x != 0, sin(x)/x, 1)") == {"x": 0.0}
    assert gradient("x = 40; where(x < 1, exp(x^3), 3*x)") == {"x": 3.0}


def test_a_nested_where_masks_by_both_conditions():
    text = "where(x > 0, where(x > 1, log(x - 1), sqrt(x)), x)"
    assert gradient(text, {"x": 4.0})["x"] == pytest.approx(1 / 3, rel=1e-15)
    assert gradient(text, {"x": 0.25})["x"] == 1.0
    assert gradient(text, {"x": -1.0})["x"] == 1.0
    same(gradient(text, {"x": [4.0, 0.25, -1.0]})["x"], [gradient(text, {"x": x})["x"] for x in (4.0, 0.25, -1.0)])


@pytest.mark.parametrize("x", [-2.0, 0.0, 2.0, np.nan])
def test_masks_c_and_not_c_cover_everything(x):
    """Both branches use s: its cotangent counts everywhere, however the condition falls."""
    text = "s = 2*x + 1; where(x > 0, s*3, s*5)"
    want = np.nan if np.isnan(x) else 6.0 if x > 0 else 10.0
    same(gradient(text, {"x": x})["x"], want)


def test_the_union_of_two_masks_counts_where_either_does():
    text = "s = sqrt(x); where(x > 1, s, 0) + where(x < -1, s*2, 0)"
    same(gradient(text, {"x": [4.0, 0.0]})["x"], [0.25, 0.0])
    text = "s = sqrt(x); where(c > 0, s, 0) + where(k > 0, s*2, 0)"
    values = {"x": [0.0, 4.0, 4.0, 4.0], "c": [0.0, 1.0, 0.0, 1.0], "k": [0.0, 0.0, 1.0, 1.0]}
    same(gradient(text, values)["x"], [0.0, 0.25, 0.5, 0.75])


def test_an_unmasked_use_removes_the_mask():
    text = "s = sqrt(x); where(c > 0, s, 0) + s"
    same(gradient(text, {"x": [0.0, 4.0], "c": [0.0, 0.0]})["x"], [np.inf, 0.25])


def test_the_same_mask_twice_is_one_mask():
    text = "s = sqrt(x); where(x > 0, s, 0) + where(x > 0, 3*s, 7)"
    same(gradient(text, {"x": [0.0, 4.0]})["x"], [0.0, 1.0])


def test_masks_survive_into_second_derivatives():
    text = "y = where(x > 0, x^1.5, x^2)"
    assert value(f"x = 0; {text}; d(y, x)") == 0.0
    assert value(f"x = 0; {text}; d(y, x, x)") == 2.0
    assert value(f"x = -3; {text}; d(y, x, x)") == 2.0
    assert value(f"x = 4; {text}; d(y, x, x)") == pytest.approx(0.375, rel=1e-15)
    assert run(f"x = -3; {text}", hessian=True).hessian["x"]["x"] == 2.0


def test_masks_survive_into_third_derivatives():
    text = "x = -1; y = where(x > 0, sqrt(x)*log(x), x^4)"
    assert value(f"{text}; d(y, x, x, x)") == -24.0


@pytest.mark.parametrize("text", ["max(sqrt(x), 1)", "min(-sqrt(x), 1) ", "clip(1/x, -1, 1)", "max(log(x), -5)"])
def test_max_min_and_clip_do_not_leak(text):
    got = gradient(text, {"x": 0.0})["x"]
    assert not np.isnan(got)


def test_abs_does_not_leak_at_its_corner():
    assert gradient("abs(sqrt(x))", {"x": 0.0}) == {"x": 0.0}


def test_a_masked_reduction_does_not_leak_into_rows():
    """The mask of a number selects whole reductions; the rows behind them must not see 0 times infinity."""
    got = gradient("where(a > 0, sum(sqrt(x)), a)", {"a": -1.0, "x": [0.0, 1.0]})
    same(got["x"], [0.0, 0.0])
    assert got["a"] == 1.0


@pytest.mark.parametrize("name", ["sum", "mean", "norm", "logsumexp", "max", "min", "prod", "var", "std"])
def test_no_reduction_leaks_when_it_is_not_selected(name):
    got = gradient(f"where(a > 0, {name}(sqrt(x)), a)", {"a": -1.0, "x": [0.0, 0.0, 4.0]})
    same(got["x"], [0.0, 0.0, 0.0])


def test_a_shared_number_that_no_row_selects_does_not_leak():
    values = {"t": 0.0, "x": [-1.0, -2.0]}
    assert gradient("s = sqrt(t); sum(where(x > 0, s*x, x))", values)["t"] == 0.0
    same(gradient("s = sqrt(t); where(x > 0, s*x, x)", values)["t"], [0.0, 0.0])


def test_a_shared_number_that_one_row_selects_counts_that_row():
    assert gradient("s = sqrt(t); sum(where(x > 0, s*x, x))", {"t": 4.0, "x": [-1.0, 2.0]})["t"] == 0.5
    assert gradient("s = sqrt(t); sum(where(x > 0, s*x, x))", {"t": 0.0, "x": [-1.0, 2.0]})["t"] == np.inf


def test_an_unselected_nan_does_not_count():
    result = run("where(x > 0, log(x), x*2)", {"x": [-1.0, 1.0]})
    same(result.value, [-2.0, 0.0])
    same(result.gradients["x"], [2.0, 1.0])


def test_a_nan_output_has_nan_gradients_row_by_row():
    same(gradient("log(x)", {"x": [-2.0, 2.0]})["x"], [np.nan, 0.5])
    same(gradient("log(x) + 3*y", {"x": [-2.0, 2.0], "y": 1.0})["y"], [np.nan, 3.0])
    assert np.isnan(gradient("log(x)", {"x": -2.0})["x"])
    assert np.isnan(value("x = -2; d(log(x), x)"))


# ---- shapes ----

X = [1.0, 2.0, 3.0]


def test_the_sum_of_a_constant_slope_counts_every_row():
    assert value("sum(d(sum(3*x), x))", {"x": X}) == 9.0
    assert value("sum(d(3*x, x))", {"x": X}) == 9.0
    assert value("sum(d(7*x, x))", {"x": np.ones(5000)}) == 35_000.0


def test_the_sum_of_ones_counts_every_row():
    assert value("sum(x^0)", {"x": X}) == 3.0
    assert value("sum(x^0)", {"x": np.zeros(5000)}) == 5000.0
    assert value("mean(x^0)", {"x": X}) == 1.0


@pytest.mark.parametrize("ones", ["x^0", "d(x, x)", "where(x > 2, 1, 1)", "0*x + 1", "where(x > 2, s, s)"])
@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("sum", 3),
        ("mean", 1),
        ("prod", 1),
        ("var", 0),
        ("std", 0),
        ("norm", np.sqrt(3)),
        ("logsumexp", 1 + np.log(3)),
        ("min", 1),
        ("max", 1),
    ],
)
def test_a_reduction_sees_a_number_in_every_row(ones, name, want):
    values = {"x": X, **({"s": 1.0} if "s" in ones else {})}
    assert value(f"{name}({ones})", values) == pytest.approx(want, rel=1e-15)


@pytest.mark.parametrize("ones", ["x^0", "d(x, x)", "where(x > 2, 1, 1)"])
def test_a_column_made_of_one_number_is_a_column(ones):
    same(value(f"o = {ones}", {"x": X}), [1.0, 1.0, 1.0])
    same(value(f"o = softmax({ones})", {"x": X}), np.full(3, 1 / 3))
    assert value(f"dot({ones}, {ones})", {"x": X}) == 3.0


def test_a_number_used_in_every_row_gets_the_sum():
    got = gradient("sum(w*x + b)", {"x": X, "w": 2.0, "b": 1.0})
    same(got["x"], [2.0, 2.0, 2.0])
    assert got["w"] == 6.0
    assert got["b"] == 3.0


def test_a_column_output_is_a_function_a_row_and_sums_nothing():
    got = gradient("w*x + b", {"x": X, "w": 2.0, "b": 1.0})
    same(got["x"], [2.0, 2.0, 2.0])
    same(got["w"], X)
    same(got["b"], [1.0, 1.0, 1.0])


def test_a_number_that_feeds_a_number_that_feeds_rows():
    got = gradient("s = exp(w)*2; sum(s*x)", {"x": X, "w": 0.0}, retain=["s"])
    assert got["w"] == 12.0
    assert run("s = exp(w)*2; sum(s*x)", {"x": X, "w": 0.0}, retain=["s"]).retained["s"] == 6.0
    got = gradient("s = exp(w)*2; o = s*x", {"x": X, "w": 0.0})
    same(got["w"], [2.0, 4.0, 6.0])


def test_an_intermediate_column_gets_a_column():
    result = run("n = w*x; sum(n^2)", {"x": X, "w": 2.0}, retain=["n"])
    same(result.retained["n"], [4.0, 8.0, 12.0])


def test_a_reduction_of_a_reduction():
    got = gradient("m = mean(x); v = mean((x - m)^2); v/m", {"x": X})
    x = np.array(X)
    m, v = x.mean(), x.var()
    np.testing.assert_allclose(got["x"], 2 * (x - m) / 3 / m - v / m**2 / 3, rtol=1e-14)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("o = x - sum(x)", "sum"),
        ("o = x - mean(x)", "mean"),
        ("o = x/prod(x)", "prod"),
        ("o = x/var(x)", "var"),
        ("o = x/std(x)", "std"),
        ("o = x/norm(x)", "norm"),
        ("o = x - logsumexp(x)", "logsumexp"),
        ("o = x - min(x)", "min"),
        ("o = x - max(x)", "max"),
        ("o = x*dot(x, x)", "dot"),
        ("o = softmax(x)", "softmax"),
        ("s = mean(x); m = s*2; o = x*m", "mean"),
    ],
)
def test_a_gradient_that_would_mix_rows_is_refused(text, named):
    with pytest.raises(gradcli.GradientError, match="mix rows") as refused:
        run(text, {"x": X})
    assert f"`{named}`" in str(refused.value)
    assert f"{named}(x" in str(refused.value)  # the line, with a caret
    assert "sum(...)" in str(refused.value)
    assert run(text, {"x": X}, wrt=[]).value.shape == (3,)  # the value alone is fine
    assert gradient(f"{text}; total = sum(o)", {"x": X})["x"].shape == (3,)


def test_only_a_gradient_through_the_reduction_mixes_rows():
    same(gradient("w*x - sum(y)", {"x": X, "y": X, "w": 2.0}, wrt=["w", "x"])["w"], X)
    same(gradient("x - detach(mean(x))", {"x": X})["x"], [1.0, 1.0, 1.0])


def test_d_of_a_column_mixes_no_rows_either():
    with pytest.raises(gradcli.GradientError, match="mix rows"):
        run("sum(d(x - mean(x), x))", {"x": X})


def test_a_reduction_of_a_number_is_of_one_row():
    for name in ("sum", "mean", "prod", "max", "min", "logsumexp"):
        result = run(f"{name}(x)", {"x": 3.0})
        assert result.value == pytest.approx(3.0, rel=1e-15)
        assert result.gradients["x"] == 1.0
    assert gradient("dot(x, y)", {"x": 3.0, "y": 4.0}) == {"x": 4.0, "y": 3.0}


@pytest.mark.parametrize("shape", [0.0, [0.0], [0.0, 0.0]], ids=["a number", "one row", "two rows"])
def test_the_norm_of_nothing_has_slope_zero(shape):
    result = run("norm(x)", {"x": shape})
    assert result.value == 0.0
    assert np.all(result.gradients["x"] == 0.0)


@pytest.mark.parametrize("name", ["sum", "mean", "prod", "norm", "logsumexp", "max", "min", "softmax"])
def test_a_reduction_of_a_number_mixes_no_rows(name):
    got = gradient(f"o = x*{name}(w)", {"x": X, "w": 2.0})
    same(got["x"], np.full(3, 1.0 if name == "softmax" else 2.0))
    same(got["w"], np.zeros(3) if name == "softmax" else X)


@pytest.mark.parametrize(
    ("text", "slope"),
    [("x*sqrt(x)", 1.5), ("w*sqrt(x)*x", 4.5), ("x^2*sqrt(x)", 2.5), ("x*sqrt(x)/w", 0.5), ("x*cbrt(x)", 4 / 3)],
)
def test_a_root_times_its_number_has_slope_zero_at_zero(text, slope):
    assert gradient(text, {"x": 0.0, "w": 3.0} if "w" in text else {"x": 0.0}, wrt=["x"])["x"] == 0.0
    at_one = gradient(text, {"x": 1.0, "w": 3.0} if "w" in text else {"x": 1.0}, wrt=["x"])["x"]
    assert at_one == pytest.approx(slope, rel=1e-15)


@pytest.mark.parametrize("x", [2.0, 0.25, 1e200])
@pytest.mark.parametrize("power", ["x^p", "relu(x)^sin(p)", "pow(x, -p)"])
def test_the_slope_of_a_power_of_zero_has_a_slope_by_the_exponent(power, x):
    sign = -1 if "-p" in power else 1
    values = {"x": x, "p": 0.0}
    hessian = gradcli.parse(power).compile(hessian=True).run(values).hessian
    assert hessian["x"]["p"] == hessian["p"]["x"] == sign / x
    assert value(f"d({power}, p, x)", values) == value(f"d({power}, x, p)", values) == sign / x


@pytest.mark.parametrize("x", [0.0, -0.0, 5e-324, np.inf, np.nan, -3.0])
def test_a_power_of_zero_has_slope_zero_by_any_base(x):
    assert gradient("x^p", {"x": x, "p": 0.0}, wrt=["x"])["x"] == 0.0
    same(gradient("x^p", {"x": np.full(3, x), "p": 0.0}, wrt=["x"])["x"], np.zeros(3))


def test_a_power_of_zero_has_the_shape_of_its_base():
    assert value("x^0", {"x": 3.0}) == 1.0
    assert isinstance(value("x^0", {"x": 3.0}), float)
    assert isinstance(value("w*x^0", {"x": 3.0, "w": 2.0}), float)
    same(value("x^0", {"x": X}), [1.0, 1.0, 1.0])


def test_the_deviation_of_equal_values_has_slope_zero():
    same(gradient("std(x)", {"x": [2.0, 2.0]})["x"], [0.0, 0.0])


def test_the_deviation_of_equal_values_has_slope_zero_also_where_their_mean_rounds():
    same(gradient("std(x)", {"x": np.full(5000, 0.1)})["x"], np.zeros(5000))


def test_the_product_knows_the_others():
    same(gradient("prod(x)", {"x": [2.0, 3.0, 4.0]})["x"], [12.0, 8.0, 6.0])
    same(gradient("prod(x)", {"x": [2.0, 0.0, 4.0]})["x"], [0.0, 8.0, 0.0])
    same(gradient("prod(x)", {"x": [0.0, 0.0, 4.0]})["x"], [0.0, 0.0, 0.0])
    same(gradient("prod(x)", {"x": [0.0, 1e200, 1e200]})["x"], [np.inf, 0.0, 0.0])


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize(
    "factors", [[1, 2], [0, 2, 3], [1, 0, 0], [2, 0, 0, 0.5], [0, 0, 0], [1.5, 2, 3], [0, 0, 0, 0]]
)
def test_the_product_has_higher_derivatives_where_factors_are_zero(factors, order):
    """Along a line every factor is linear, so the product is a polynomial."""
    slopes = [1.0, 2.0, -0.5, 3.0][: len(factors)]
    line = np.poly1d([1.0])
    for slope, factor in zip(slopes, factors, strict=True):
        line *= np.poly1d([slope, factor])
    text = f"const x = {factors}; const c = {slopes}; t = 0; p = prod(x + c*t); d(p{', t' * order})"
    assert gradcli.parse(text).compile().run({}).value == pytest.approx(line.deriv(order)(0.0), rel=1e-12)


@pytest.mark.parametrize("name", ["max", "min"])
def test_tied_rows_share_evenly(name):
    sign = 1.0 if name == "max" else -1.0
    same(gradient(f"{name}(x)", {"x": sign * np.array([1.0, 5.0, 5.0])})["x"], [0.0, 0.5, 0.5])


def plain(graph, nodes, values, rows):
    machine, placed = simplify(graph, nodes)
    return execute.run(schedule(machine, placed), values, rows)


def inner_products(operator, rows=7, seed=0):
    """<u, A v> and <A^T u, v>, with A^T from the adjoint of <u, A v>."""
    rng = np.random.default_rng(seed)
    u, v, s = rng.standard_normal(rows), rng.standard_normal(rows), float(rng.standard_normal())
    graph = new_graph()
    nodes = {
        "u": graph.handle(graph.leaf("u", True)),
        "v": graph.handle(graph.leaf("v", True)),
        "s": graph.handle(graph.leaf("s")),
    }
    product, by = operator(**nodes)
    found = adjoints(graph, product.index, [by.index])
    left, transposed = plain(graph, [product.index, found[by.index]], {"u": u, "v": v, "s": s}, rows)
    return left, np.dot(np.atleast_1d(transposed), np.atleast_1d(v if by is nodes["v"] else s)), transposed, u


def test_gather_is_the_adjoint_of_spread():
    left, right, transposed, u = inner_products(lambda u, v, s: (f.gather(u * f.spread(s, u)), s))
    assert left == pytest.approx(right, rel=1e-14)
    assert transposed == pytest.approx(u.sum(), rel=1e-14)


def test_spread_is_the_adjoint_of_gather():
    left, right, transposed, _ = inner_products(lambda u, v, s: (s * f.gather(v), v))
    assert left == pytest.approx(right, rel=1e-14)
    assert np.ptp(transposed) == 0.0


@pytest.mark.parametrize("seed", range(5))
def test_a_linear_map_and_its_adjoint_give_one_inner_product(seed):
    def centre_twice(u, v, s):
        def centre(a):
            return a - f.spread(f.gather(a) / f.rows(a), a)

        return f.gather(u * centre(f.where(u > 0, centre(v) * 3.0, v / 2.0))), v

    left, right, _, _ = inner_products(centre_twice, seed=seed)
    assert left == pytest.approx(right, rel=1e-12)


# ---- d ----


def test_d_by_an_intermediate_cuts_there():
    assert value("x = 3; n = x^2; y = n*x; d(y, n)") == 3.0
    assert value("x = 3; n = x^2; y = n^2 + x; d(y, n)") == 18.0
    assert value("x = 3; n = x^2; y = n*x; d(y, x)") == 27.0


def test_d_by_an_intermediate_of_equal_expression_is_its_own():
    assert value("x = 3; n = x^2; m = x^2; y = n*m; d(y, n)") == 9.0


def test_d_of_a_name_by_itself_is_one():
    assert value("x = 3; d(x, x)") == 1.0
    assert value("x = 3; n = x^2; d(n, n)") == 1.0


def test_d_by_two_names_is_d_of_d():
    text = "x = 2; y = 3; f = x^2*y^3"
    assert value(f"{text}; d(f, x, y)") == value(f"{text}; d(d(f, x), y)") == 2 * 2 * 3 * 9
    assert value(f"{text}; d(f, y, x)") == 108.0
    assert value(f"{text}; d(f, x, x)") == 54.0
    assert value(f"{text}; d(f, x, x, x)") == 0.0


def test_d_can_be_differentiated_like_anything():
    assert gradient("x = 2; y = x^3; d(y, x)^2") == {"x": 2 * 12 * 12.0}
    assert gradient("x = 2; w = 5; y = w*x^3; d(y, x)") == {"x": 60.0, "w": 12.0}


def test_d_of_a_function_of_the_text():
    assert value("g(t) = t^3; x = 2; d(g(x), x)") == 12.0


def test_d_ignores_requires_grad():
    assert value("const x = 3; y = x^2; d(y, x)") == 6.0
    assert run("x = 3; y = x^2; z = d(y, x)*2", no_grad=["x"]).value == 12.0


def test_detach_stops_d_and_gradients():
    assert value("x = 3; y = x*detach(x); d(y, x)") == 3.0
    assert gradient("x = 3; x*detach(x)") == {"x": 3.0}
    assert gradient("x = 3; y = 2; y*detach(x^2)") == {"x": None, "y": 9.0}
    assert value("x = 3; d(detach(x^2), x)") == 0.0


def test_d_without_a_path_is_zero():
    assert value("x = 3; y = 4; d(y^2, x)") == 0.0
    assert value("x = 3; y = 4; d(5, x)") == 0.0
    assert value("x = 3; n = x*2; y = x^2; d(y, n)") == 0.0
    same(value("o = d(y^2, x)", {"x": X, "y": 2.0}), [0.0, 0.0, 0.0])


def test_a_gradient_without_a_path_is_none():
    assert gradient("x = 3; y = 4; x^2") == {"x": 6.0, "y": None}


def test_steps_have_slope_zero_not_none():
    for name in ("floor", "ceil", "round", "trunc", "sign", "step"):
        assert gradient(f"x = 1.5; {name}(x)") == {"x": 0.0}


def test_a_comparison_carries_no_gradient():
    assert gradient("x = 1.5; x > 1") == {"x": None}
    assert gradient("x = 1.5; y = 2; where(x > 1, y, 0)") == {"x": None, "y": 1.0}


def test_an_order_carries_no_gradient():
    assert gradient("besselj(n, x)", {"n": 1.0, "x": 2.0})["n"] is None


# ---- cancellation in cotangents ----


def test_a_factor_that_is_divided_out_again_cancels():
    assert gradient("log(exp(x))", {"x": 800.0}) == {"x": 1.0}
    assert gradient("sqrt(x)^2", {"x": 0.0}) == {"x": 1.0}
    assert gradient("exp(log(x))", {"x": 1e-310}) == {"x": 1.0}


def test_equal_terms_of_opposite_sign_cancel():
    assert gradient("s = sqrt(x); s - s", {"x": 0.0}) == {"x": 0.0}
    assert gradient("s = sqrt(x); s*3 - s - s*2 + x", {"x": 0.0}) == {"x": 1.0}


def test_values_are_never_cancelled():
    assert np.isnan(value("x = 0; x/x"))
    assert np.isnan(value("x = inf; x - x"))
    assert value("x = 1e-320; x*1e-10/1e-10") == 0.0


# ---- second derivatives ----


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("x^4", 12 * 0.49),
        ("exp(3*x)", 9 * np.exp(2.1)),
        ("sin(x)*x", 2 * np.cos(0.7) - 0.7 * np.sin(0.7)),
        ("1/x", 2 / 0.343),
        ("abs(x)*x", 2.0),
        ("max(x, 0)^2", 2.0),
        ("clip(x, 0, 1)^3", 6 * 0.7),
        ("relu(x)*x", 2.0),
        ("x % 0.5", 0.0),
    ],
)
def test_a_second_derivative(text, want):
    assert value(f"x = 0.7; d({text}, x, x)") == pytest.approx(want, rel=1e-13)


def test_a_hessian_is_that_of_rosenbrock():
    h = run("x = -1.2; y = 1; 100*(y - x^2)^2 + (1 - x)^2", hessian=True).hessian
    assert h["x"]["x"] == pytest.approx(1330, rel=1e-14)
    assert h["x"]["y"] == h["y"]["x"] == pytest.approx(480, rel=1e-14)
    assert h["y"]["y"] == 200.0


def test_a_hessian_of_columns_is_within_a_row():
    h = run("sum(w*x^3)", {"x": X, "w": 2.0}, hessian=True).hessian
    same(h["x"]["x"], [12.0, 24.0, 36.0])
    same(h["x"]["w"], [3.0, 12.0, 27.0])
    same(h["w"]["x"], [3.0, 12.0, 27.0])
    assert np.all(h["w"]["w"] == 0.0)


def test_twenty_thousand_nested_sines_are_differentiated():
    x = 0.5
    text = "sin(" * 20_000 + "x" + ")" * 20_000
    slope = 1.0
    at = x
    for _ in range(20_000):
        slope *= np.cos(at)
        at = np.sin(at)
    assert gradient(text, {"x": x})["x"] == pytest.approx(slope, rel=1e-9)


EVERY_KIND = [
    "x = 2; w = 3; y = -x*w - w; z = sin(y)*cos(x) + exp(-y); o = z/x - y*y + 2*z - z*0.1 + x - x",
    "x = 2; w = 3; y = x/w*w + w/x*x; z = where(y > 1, y, -y)*y; o = -(z - y) - (y - z)*-1",
    "x = 2; y = [1, 2, 3]; u = x*y; v = sum(u)*x - u; o = sum(v*x) + max(x, v, 1) + x^3",
    "x = 2; u = tanh(x) - x; v = d(u*x*x, x); o = v*u + detach(u)*x + logsumexp(x, u, v)",
    "x = 2; a = x; b = -a; c = -b; e = c*b - b*c; o = e + 0*a + 1*b - a*-1 + (a + a)",
]


@pytest.mark.parametrize("text", EVERY_KIND)
def test_what_flows_as_a_number_is_the_cotangent_it_stands_for(text, monkeypatch):
    """The same nodes in the same order as where every rule is followed with cotangents alone."""
    found = []
    for cotangents_only in (True, False):
        if cotangents_only:
            monkeypatch.setattr(adjoint, "_plain", lambda flow: flow)
        graph, roots, _ = gradcli.parse(text).compile(hessian=True)._differentiated(frozenset())
        found.append(([(op, graph.arguments(i)) for i, op in enumerate(graph.ops)], graph.numbers, roots))
        monkeypatch.undo()
    assert found[0] == found[1]
