"""Rules that only multiply, followed once: the same cotangents as those of the rule itself."""

from __future__ import annotations

import pytest

from gradcli.calculus.adjoint import pull
from gradcli.calculus.partials import SAME, partials, passed
from gradcli.cotangent import Cotangent
from gradcli.graph import Graph, f
from gradcli.primitives import TABLE, new_graph

CONSTANTS = [0.0, 1.0, -1.0, 0.5, 3.0, 0.1, 1e300, float("inf"), float("nan")]


def operands(graph: Graph) -> list[int]:
    """Whatever a rule might look at."""
    x, c = graph.handle(graph.leaf("x")), graph.handle(graph.leaf("c", column=True))
    made = [x, c, -x, x / 3.0, c / x, f.exp(x), 1.0 + f.exp(x), x * 0.1]
    return [n.index for n in made] + [graph.constant(k) for k in CONSTANTS]


def flows(graph: Graph, at: list[int]) -> list[Cotangent]:
    """Cotangents of every kind: plain, scaled, masked, a number, a quotient, zero."""
    x, y = at[0], graph.leaf("y")
    mask = graph.add("lt", x, y)
    kinds = [Cotangent(graph, y), Cotangent(graph, y, -2.0), Cotangent(graph, y, 0.5, mask), Cotangent.seed(graph)]
    kinds += [Cotangent(graph, graph.add("div", y, a)) for a in at[:8]]
    kinds += [Cotangent(graph, graph.add("mul", y, a), 3.0, mask, clean=True) for a in at[:8]]
    return [*kinds, Cotangent(graph, -1)]


def parts(flow: Cotangent | None) -> tuple | None:
    return None if flow is None else (flow.index, flow.scale, flow.mask, flow.clean)


FOLLOWED = [name for name, row in TABLE.items() if row.rule and partials(name, len(row.arguments))]


@pytest.mark.parametrize("name", FOLLOWED)
def test_what_was_followed_once_is_what_the_rule_makes(name):
    graph, count = new_graph(), len(TABLE[name].arguments)
    at = operands(graph)
    for g in flows(graph, at):
        for a in at:
            for b in at if count > 1 else at[:1]:
                arguments = (a, b, *at[:count])[:count]
                node = graph.add(name, *arguments)
                want = [parts(p) for p in pull(graph, node, g, arguments)]
                known = len(graph)
                rules = partials(name, count)
                assert [parts(p and passed(p, g, (node, *arguments))) for p in rules] == want
                assert len(graph) == known  # the very same nodes


def test_rules_that_look_at_numbers_or_mask_are_asked_each_time():
    for name in ("pow", "abs", "relu", "where", "max", "floor", "gather", "spread", "sum"):
        assert partials(name, len(TABLE[name].arguments)) is None


def test_most_rows_only_multiply():
    assert {"add", "sub", "mul", "div", "neg", "exp", "log", "sin", "tanh", "sqrt", "erf", "besselj"} <= set(FOLLOWED)
    assert partials("add", 2) == (SAME, SAME)
    assert partials("name", 1) == (SAME,)
    assert partials("besselj", 2)[0] is None
