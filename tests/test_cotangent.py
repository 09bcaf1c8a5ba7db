"""What flows back: a node, a factor and a mask; masks meet in unions, and only exact things cancel."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from gradcli.calculus.simplify import simplify
from gradcli.cotangent import Cotangent
from gradcli.engine import execute
from gradcli.engine.program import schedule
from gradcli.graph import Node, f
from gradcli.primitives import new_graph

TRUE, FALSE = 1.0, -1.0


class Bench:
    """A graph with a few leaves, and the number of a cotangent at their values."""

    def __init__(self) -> None:
        self.graph = new_graph()
        self.x, self.y, self.c, self.k = (self.graph.handle(self.graph.leaf(n)) for n in "xyck")

    def of(self, node: Node) -> Cotangent:
        return Cotangent.seed(self.graph) * node

    def at(self, cotangent: Cotangent, **values: float) -> float:
        machine, placed = simplify(self.graph, [cotangent.node()])
        return execute.run(schedule(machine, placed), {"x": 2.0, "y": 3.0, "c": TRUE, "k": TRUE, **values}, 1)[0]


@pytest.fixture
def b() -> Bench:
    return Bench()


def test_a_seed_is_one(b):
    assert b.at(Cotangent.seed(b.graph)) == 1.0


def test_factors_multiply(b):
    g = Cotangent.seed(b.graph)
    assert b.at(g * b.x * b.y) == 6.0
    assert b.at(g * 3.0 * b.x) == 6.0
    assert b.at(-(g * b.x)) == -2.0
    assert b.at(g * b.x / b.y) == 2 / 3
    assert b.at(g * 0.1 * 0.1) == 0.1 * 0.1


def test_a_number_divided_by_its_root_leaves_roots(b):
    g = Cotangent.seed(b.graph)
    root, cubic = f.sqrt(b.x), f.cbrt(b.x)
    for x in (2.0, 0.0, np.inf):
        assert b.at(g * b.y * b.x / root, x=x) == 3.0 * np.sqrt(x)
        assert b.at(g * b.x / cubic, x=x) == np.cbrt(x) * np.cbrt(x)
        assert b.at(g * b.x / cubic / cubic, x=x) == np.cbrt(x)
    assert b.at(g * b.y / root) == 3.0 / np.sqrt(2.0)


def test_zero_stays_zero_whatever_it_meets(b):
    zero = Cotangent.seed(b.graph).zero()
    assert zero.is_zero
    assert (zero * float("inf")).is_zero
    assert (zero / b.x).is_zero
    assert (-zero).only(b.c > 0).is_zero
    assert (zero.spread(b.x).gather(b.x)).is_zero
    assert b.at(zero) == 0.0
    assert b.at(zero.plus(b.of(b.x))) == 2.0
    assert b.at(b.of(b.x).plus(zero)) == 2.0


def test_a_factor_of_zero_is_exactly_zero(b):
    assert (b.of(b.x) * 0.0).is_zero


def test_a_mask_selects(b):
    g = b.of(b.x).only(b.c > 0)
    assert b.at(g) == 2.0
    assert b.at(g, c=FALSE) == 0.0


def test_a_mask_travels_behind_what_is_multiplied_in(b):
    g = Cotangent.seed(b.graph).only(b.c > 0) * (1.0 / b.x)
    assert b.at(g, x=0.0, c=FALSE) == 0.0
    assert b.at(g, x=0.0) == np.inf


@pytest.mark.parametrize(("c", "k"), list(itertools.product([TRUE, FALSE], repeat=2)))
def test_two_masks_in_a_row_are_both_needed(b, c, k):
    g = (Cotangent.seed(b.graph).only(b.c > 0) * b.x).only(b.k > 0) * b.y
    assert b.at(g, c=c, k=k) == (6.0 if c > 0 and k > 0 else 0.0)


@pytest.mark.parametrize(("c", "k"), list(itertools.product([TRUE, FALSE], repeat=2)))
def test_the_sum_of_masked_cotangents_is_masked_by_the_union(b, c, k):
    total = b.of(b.x).only(b.c > 0).plus(b.of(b.y).only(b.k > 0))
    want = (2.0 if c > 0 else 0.0) + (3.0 if k > 0 else 0.0)
    assert b.at(total, c=c, k=k) == want
    infinite = total / (b.x - b.x)
    assert b.at(infinite, c=c, k=k) == (np.inf if want else 0.0)


@pytest.mark.parametrize("c", [TRUE, FALSE, 0.0, np.nan])
def test_c_and_not_c_make_no_mask(b, c):
    positive = b.c > 0
    total = b.of(b.x).only(positive).plus(b.of(b.y).only(~positive))
    assert total.mask is None
    assert b.at(total, c=c) == (2.0 if c > 0 else 3.0)


def test_an_unmasked_one_removes_the_mask(b):
    total = b.of(b.x).only(b.c > 0).plus(b.of(b.y))
    assert total.mask is None
    assert b.at(total, c=FALSE) == 3.0


def test_equal_masks_stay_one_mask(b):
    total = b.of(b.x).only(b.c > 0).plus(b.of(b.y).only(b.c > 0))
    assert total.mask == (b.c > 0).index
    assert b.at(total) == 5.0
    assert b.at(total, c=FALSE) == 0.0


def test_the_same_mask_twice_is_once(b):
    g = b.of(b.x).only(b.c > 0)
    assert g.only(b.c > 0).mask == g.mask


def test_equal_terms_of_opposite_sign_cancel(b):
    g = b.of(b.x)
    assert g.plus(-g).is_zero
    assert Cotangent.total([g, b.of(b.y), -g]).index == b.y.index
    assert Cotangent.total([g * 2.0, b.of(b.y), -g, -g]).index == b.y.index


def test_equal_terms_under_different_masks_do_not_cancel(b):
    g = b.of(b.x)
    total = Cotangent.total([g.only(b.c > 0), (-g).only(b.k > 0)])
    assert b.at(total, k=FALSE) == 2.0
    assert b.at(total, c=FALSE) == -2.0
    assert b.at(total) == 0.0


@pytest.mark.parametrize("factors", [(1.0, 1.0), (1.0, -1.0), (2.0, -3.0), (-2.0, 3.0), (-0.5, -0.25), (4.0, 0.5)])
def test_terms_with_factors_add_up(b, factors):
    first, second = factors
    total = (b.of(b.x) * first).plus(b.of(b.y) * second)
    assert b.at(total) == 2.0 * first + 3.0 * second
    assert b.at(Cotangent.total([b.of(b.x) * first, b.of(b.y) * second])) == 2.0 * first + 3.0 * second


def test_a_total_of_one_is_itself(b):
    g = b.of(b.x).only(b.c > 0)
    assert Cotangent.total([g]) is g


def test_a_factor_multiplied_in_is_divided_out_exactly(b):
    g = b.of(b.y)
    assert b.at(g * b.x / b.x, x=0.0) == 3.0
    assert b.at(g * b.x * b.k / b.x, x=0.0, k=5.0) == 15.0
    assert b.at(g / b.x * b.x, x=0.0) == 3.0


def test_a_power_loses_one_factor(b):
    g = b.of(b.y) * f.pow(b.x, 3.0) / b.x
    assert b.at(g, x=0.0) == 0.0
    assert b.at(g, x=5.0) == 75.0


def test_what_was_not_multiplied_in_does_not_cancel(b):
    assert np.isnan(b.at(b.of(b.x) * (b.y - b.y) / (b.x - b.x)))
    assert b.at(b.of(b.x + b.y) / b.x, x=0.0) == np.inf


def test_long_products_are_divided_without_recursion(b):
    g = Cotangent.seed(b.graph)
    for i in range(5000):
        g = g * (b.x + float(i))
    g = g / b.x / (b.x + 4999.0)
    assert 0 <= g.node() < len(b.graph)


# ---- rows ----


def rows_of(graph, cotangent, **values):
    machine, placed = simplify(graph, [cotangent.node()])
    return execute.run(schedule(machine, placed), values, 3)[0]


def test_gather_sums_what_a_column_holds():
    graph = new_graph()
    x = graph.handle(graph.leaf("x", True))
    assert rows_of(graph, (Cotangent.seed(graph) * x).gather(x), x=np.array([1.0, 2.0, 4.0])) == 7.0


def test_gather_of_a_number_counts_the_rows():
    graph = new_graph()
    x, s = graph.handle(graph.leaf("x", True)), graph.handle(graph.leaf("s"))
    assert rows_of(graph, (Cotangent.seed(graph) * s).gather(x), x=np.ones(3), s=2.0) == 6.0
    assert rows_of(graph, (Cotangent.seed(graph) * 0.5).gather(x), x=np.ones(3)) == 1.5


def test_gather_counts_only_the_rows_under_the_mask():
    graph = new_graph()
    x, s = graph.handle(graph.leaf("x", True)), graph.handle(graph.leaf("s"))
    masked = (Cotangent.seed(graph) * s).only(x > 0)
    assert rows_of(graph, masked.gather(x), x=np.array([1.0, -1.0, 1.0]), s=2.0) == 4.0


def test_a_mask_passes_through_gather():
    graph = new_graph()
    x, s = graph.handle(graph.leaf("x", True)), graph.handle(graph.leaf("s"))
    gathered = (Cotangent.seed(graph) * x).only(x > 0).gather(x) / s
    assert rows_of(graph, gathered, x=np.array([-1.0, -2.0, -3.0]), s=0.0) == 0.0
    assert rows_of(graph, gathered, x=np.array([-1.0, 2.0, -3.0]), s=0.0) == np.inf


def test_a_mask_passes_through_spread():
    graph = new_graph()
    x, s = graph.handle(graph.leaf("x", True)), graph.handle(graph.leaf("s"))
    spread = (Cotangent.seed(graph) * s).only(s > 0).spread(x) / x
    np.testing.assert_array_equal(rows_of(graph, spread, x=np.array([0.0, 1.0, 2.0]), s=-1.0), [0.0, 0.0, 0.0])
    np.testing.assert_array_equal(rows_of(graph, spread, x=np.array([0.0, 1.0, 2.0]), s=1.0), [np.inf, 1.0, 0.5])


def test_what_all_rows_share_stays_outside_of_their_sum():
    """So that the sum can be taken before the shared factor is known; a row that does not count never meets it."""
    graph = new_graph()
    x, s = graph.handle(graph.leaf("x", True)), graph.handle(graph.leaf("s"))
    flow = (Cotangent.seed(graph) / s).spread(x) * x
    gathered = flow.gather(x).node()
    assert graph.ops[gathered] == "mul"
    assert {graph.ops[a] for a in graph.arguments(gathered)} == {"gather", "div"}
    assert rows_of(graph, flow.gather(x), x=np.array([1.0, 2.0, 4.0]), s=2.0) == 3.5
    masked = flow.only(x > 5).gather(x)
    assert rows_of(graph, masked, x=np.array([1.0, 2.0, 4.0]), s=0.0) == 0.0
    np.testing.assert_array_equal(rows_of(graph, flow, x=np.array([1.0, 2.0, 4.0]), s=2.0), [0.5, 1.0, 2.0])


def test_cotangents_that_share_a_factor_are_added_without_it():
    graph = new_graph()
    x, s, t = graph.handle(graph.leaf("x", True)), graph.handle(graph.leaf("s")), graph.handle(graph.leaf("t"))
    one, two = (Cotangent.seed(graph) * s).spread(x), (Cotangent.seed(graph) * t).spread(x)
    same = (one * x).plus(one * 3.0)
    assert same.shared == s.index
    assert (one * x).plus(-(one * x)).is_zero
    other = (one * x).plus(two)
    assert other.shared is None
    columns = {"x": np.array([1.0, 2.0, 1.0]), "s": 5.0, "t": 7.0}
    np.testing.assert_array_equal(rows_of(graph, same, **columns), [20.0, 25.0, 20.0])
    np.testing.assert_array_equal(rows_of(graph, other, **columns), [12.0, 17.0, 12.0])
    apart = (one * x).only(x > 1.5).plus(one.only(x < 1.5))
    np.testing.assert_array_equal(rows_of(graph, apart, **columns), [5.0, 10.0, 5.0])
