"""Points: seeded, within the domain, near and far, on each side of what selects."""

from __future__ import annotations

import pytest

import gradcli
from gradcli.checking.branches import Branches
from gradcli.checking.names import sampled_names
from gradcli.checking.points import Sampler, canonical
from gradcli.checking.run import Options, check_model


def sampler(text, seed=1):
    model = gradcli.parse(text)
    nodes = [model.resolved.names[o].node for o in model.outputs]
    return model, Sampler(model.resolved, model.point, sampled_names(model, nodes), seed)


def points(text, count=40):
    return [p for p, _ in zip(sampler(text)[1].stream(), range(count), strict=False)]


def test_points_lie_in_the_domain():
    found = points("x = 1; w = 2; y = x*w; domain 0.5 < x < 1.5 and x < w and w < 3")
    assert len(found) == 40
    assert all(0.5 < p["x"] < 1.5 and p["x"] < p["w"] < 3 for p in found)


def test_half_are_near_and_half_are_wide_with_both_signs():
    found = [p["x"] for p in points("x = 100; y = x")]
    near = [x for x in found if 85 <= x <= 115]
    wide = [x for x in found if not 85 <= x <= 115]
    assert len(near) >= 15
    assert any(x < 0 for x in wide)
    assert any(x > 0 for x in wide)


def test_order_is_kept_near_the_point():
    found = points("low = 1; mid = 1.05; high = 1.1; y = low + mid + high")[::2]
    assert all(p["low"] <= p["mid"] <= p["high"] for p in found)


def test_columns_keep_their_rows_and_constants_stay():
    found = points("x = [1, 2, 3]; const g = 9.81; y = sum(x)*g")
    assert {len(p["x"]) for p in found} == {3}
    assert {p["g"] for p in found} == {9.81}


def test_same_seed_same_points():
    text = "x = 1; w = 2; y = x*w"
    assert points(text) == points(text)
    assert points(text) != [p for p, _ in zip(sampler(text, 2)[1].stream(), range(40), strict=False)]


def digest(text):
    model = gradcli.parse(text)
    return canonical(model.resolved.graph, [model.resolved.claims[0].left, model.resolved.claims[0].right])


def test_canonical_form_ignores_what_does_not_matter():
    base = digest("x = 1; y = x^2; claim d(y, x) = 2*x")
    assert digest("# note\nx = 1\nz = 5\ny = x^3 # other\nclaim  d(y,x)=2 * x") == base
    assert digest("x = 1; y = x^2; claim d(y, x) = 3*x") != base
    assert digest("x = 1; y = x^2; claim 2*x = d(y, x)") != base


def test_canonical_form_of_nested_functions_stays_small():
    text = "s(a) = a*a\nx = 1\ny = x\nclaim " + "s(" * 40 + "x" + ")" * 40 + " = 1"
    assert len(digest(text)) < 100


@pytest.mark.parametrize("text", [
    "x = 50; y = where(x > 1000, x^2, sin(x))",
    "x = 50; y = max(x, 3000) + abs(x - 700)",
    "x = 0.5; y = clip(x, -40, 80)",
    "x = 0.5; y = relu6(x)",
    "x = 0.5; w = 2; y = where(x > w and w > 300, x, w)",
])  # fmt: skip
def test_each_side_is_aimed_at(text):
    for check in check_model(gradcli.parse(text), Options(points=4)):
        assert check.branches[0] == check.branches[1], check.note


def test_side_that_the_domain_rules_out_is_named_and_costs_nothing():
    text = "x = 2; y = where(x > 1000, x^2, sin(x)); domain 0 < x < 10"
    (check,) = check_model(gradcli.parse(text), Options(points=4))
    assert check.branches == (1, 2)
    assert "no point took the first branch of `where(x > 1000, x^2, sin(x))`" in check.note
    assert check.points == 5


def test_sides_of_rules_are_not_branches_of_the_text():
    model = gradcli.parse("x = 2; p = 3; y = x^p")
    assert Branches(model.resolved, [model.resolved.names["y"].node]).count is None
