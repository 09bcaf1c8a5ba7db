"""Claims that hold on one stretch of the line only are found out on another; right ones are not."""

from __future__ import annotations

import pytest

import gradcli
from gradcli.checking.names import sampled_names
from gradcli.checking.points import Sampler
from gradcli.checking.run import Options, check_model
from gradcli.checking.turns import Turns


def verdict(text, seed=0):
    return check_model(gradcli.parse(text), Options(seed=seed))[-1].verdict


ONE_STRETCH = [
    "x = 0.5; y = asin(sin(x)); claim y = x",
    "x = 0.5; y = asin(sin(x)); claim d(y, x) = 1",
    "x = 0.5; y = x; claim asin(sin(0.01*x)) = 0.01*x",
    "x = 0.5; w = 0.2; y = x; claim asin(sin(x*w)) = x*w",
    "x = 0.5; y = x; claim atan(tan(x)) = x",
    "x = 0.5; y = x; claim acos(cos(x)) = abs(x)",
    "x = 0.5; y = x; claim acot(cot(x)) = x if x > 0",
    "x = [0.5, 0.2]; y = x; claim asin(sin(x/100)) = x/100",
    "x = 0.5; y = x; claim asin(sinpi(x/50)) = pi*x/50",
    "x = 0.5; y = x; claim 2*asin(x) = asin(2*x*sqrt(1 - x^2))",
    "x = 0.5; w = 0.3; y = x; claim atan(x) + atan(w) = atan((x + w)/(1 - x*w))",
    "x = 0.3; y = x; claim x % 10 = x if x > 0",
    "x = 0.3; y = x; claim mod(x, 500) = x if x > 0",
    "x = 0.3; y = x; claim fmod(x, 500) = x",
    "x = 0.3; y = x; claim x // 1000 = 0 if x > 0",
    "x = 0.3; y = x; claim round(x/300) = 0",
    "x = 0.3; y = x; domain 0 < x < 201; claim x % 200 = x",
    "x = 0.3; y = x; claim x % 200 = x if abs(x - 100) < 101",
    "const c = 3; x = 0.5; y = x; claim (c + x) % 50 = c + x if x > 0",
    "x = 1; y = asec(x + 1); claim d(y, x) = 1/((x + 1)*sqrt((x + 1)^2 - 1))",
    "x = 4; y = acsc(x - 3); claim d(y, x) = -1/((x - 3)*sqrt((x - 3)^2 - 1))",
    "x = 1; y = x; claim sqrt((x - 50)^2) = 50 - x",
    "x = 1; y = x; claim ((x + 50)^2)^0.5 = x + 50",
    "x = 1; w = 2; y = x; claim sqrt((x + w + 300)^2) = x + w + 300",
    "x = 1; y = x; claim log((x + 300)^2) = 2*log(x + 300)",
    "x = 1; y = x; claim sign(x - 177) = -1",
    "x = 1; y = x; claim copysign(1, x - 177) = -1",
]
EVERYWHERE = [
    "x = 0.5; y = x; claim asin(sin(x)) = x if abs(x) < 1.5707",
    "x = 0.5; y = x; domain -pi/2 < x < pi/2; claim asin(sin(x)) = x",
    "x = 0.5; y = x; claim atan(tan(x)) = x - pi*floor(x/pi + 1/2)",
    "x = 0.5; y = x; claim acos(cos(x)) = abs(x - 2*pi*round(x/(2*pi)))",
    "x = 0.5; y = x; claim x % 10 = x - 10*floor(x/10)",
    "x = 0.5; y = x; claim fmod(x, 3) = x - 3*trunc(x/3)",
    "x = 0.5; y = x; domain 0 < x < 3; claim x % 4 = x",
    "x = 1; y = asec(x + 1); claim d(y, x) = 1/(abs(x + 1)*sqrt((x + 1)^2 - 1))",
    "x = 0.5; y = x; claim sqrt((x - 50)^2) = abs(x - 50)",
    "x = 0.5; w = 0.3; y = x; claim atan(x) + atan(w) = atan((x + w)/(1 - x*w)) if x*w < 1",
    "x = [0.5, 0.2]; y = sum(x); claim y % 3 = y - 3*floor(y/3)",
    "x = 0.5; y = x; claim cos(asin(x)) = sqrt(1 - x^2)",
]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("text", ONE_STRETCH)
def test_claim_of_one_stretch_is_wrong(text, seed):
    assert verdict(text, seed) == "wrong"


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("text", EVERYWHERE)
def test_claim_that_holds_everywhere_agrees(text, seed):
    assert verdict(text, seed) == "agrees"


def aims(text, own):
    model = gradcli.parse(text)
    claim = model.resolved.claims[0]
    nodes = [claim.left, claim.right]
    sampler = Sampler(model.resolved, model.point, sampled_names(model, nodes), 1)
    turns = Turns(model.resolved, nodes)
    return turns, list(turns.aims(sampler, [own], lambda point: True))


def test_cells_that_were_visited_are_not_aimed_at_again():
    _, cells = aims("x = 0.3; y = x; claim x % 10 = x", {"x": 15.0})
    assert [round(points[0]["x"], 1) for points in cells] == [-4.1, 26.0, 3.7, -27.0]


def test_other_rows_of_a_column_stay():
    _, cells = aims("x = [3, 4]; y = x; claim x % 10 = x", {"x": [3.0, 4.0]})
    assert {tuple(p["x"][1:]) for points in cells for p in points} == {(4.0,)}


def test_bound_leaf_and_rows_that_mix_are_left_alone():
    _, cells = aims("const x = 0.3; y = 1; claim y*(x % 10) = y*x", {"x": 0.3, "y": 1.0})
    assert cells == []
    turns, _ = aims("x = [3, 4]; y = x; claim sum(x) % 10 = sum(x)", {"x": [3.0, 4.0]})
    assert turns.spots == []


def test_sums_count_only_where_something_folds():
    turns, _ = aims("x = 1; y = x; claim (x + 1)^2 = x^2 + 2*x + 1", {"x": 1.0})
    assert turns.spots == []
