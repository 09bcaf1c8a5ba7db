"""The graph is flat: append-only, interned, in birth order; handles append, and nothing recurses."""

from __future__ import annotations

import gc
import random
from array import array

import numpy as np
import pytest

import gradcli
from gradcli.arrays import decimals, enter, find
from gradcli.calculus.adjoint import depends, receives
from gradcli.graph import Graph, Known, Node, f, is_simple
from gradcli.primitives import new_graph


@pytest.fixture
def graph() -> Graph:
    return new_graph()


def test_equal_work_is_one_node(graph):
    x, y = graph.leaf("x"), graph.leaf("y")
    assert graph.add("mul", x, y) == graph.add("mul", x, y)
    assert graph.add("mul", x, y) != graph.add("mul", y, x)
    assert graph.add("mul", x, y) != graph.add("add", x, y)


def test_a_leaf_has_one_node(graph):
    assert graph.leaf("x") == graph.leaf("x") != graph.leaf("y")


def test_equal_numbers_are_one_node(graph):
    assert graph.constant(0.5) == graph.constant(0.5) != graph.constant(0.25)
    assert graph.constant(float("nan")) == graph.constant(float("nan"))


def test_zero_and_minus_zero_are_two_numbers(graph):
    assert graph.constant(0.0) != graph.constant(-0.0)


def test_a_decimal_keeps_its_text(graph):
    node = graph.constant(0.1, "0.10")
    assert graph.numbers[node] == (0.1, "0.10")
    assert graph.constant(0.1, "0.1") != node
    assert graph.constant(0.1, "0.10") == node


def test_names_are_never_interned(graph):
    x = graph.add("neg", graph.leaf("x"))
    assert graph.name(x, "u") != graph.name(x, "v")
    assert graph.name(x, "u") != graph.name(x, "u")


def test_birth_order_is_a_topological_order(graph):
    x = graph.handle(graph.leaf("x"))
    y = f.sin(x) * x + f.max(x, 2.0, x * x)
    for node in range(len(graph)):
        assert all(a < node for a in graph.arguments(node))
    assert y.index == len(graph) - 1


def test_nodes_stay_what_they_are_while_the_graph_grows(graph):
    x = graph.leaf("x")
    early = [graph.add("add", x, graph.constant(float(i))) for i in range(50)]
    before = [(graph.ops[n], tuple(graph.arguments(n))) for n in early]
    for i in range(20_000):
        x = graph.add("add", x, graph.constant(float(i % 700)))
    assert [(graph.ops[n], tuple(graph.arguments(n))) for n in early] == before
    assert [graph.add("add", graph.leaf("x"), graph.constant(float(i))) for i in range(50)] == early


def test_a_chain_of_a_hundred_thousand_is_built_and_walked(graph):
    node = first = graph.leaf("x")
    for _ in range(100_000):
        node = graph.add("neg" if node % 2 else "exp", node)
    marks = graph.reachable([node])
    assert sum(marks) == len(graph)
    assert marks[first]


def test_reachable_marks_operands_and_nothing_else(graph):
    x, y = graph.handle(graph.leaf("x")), graph.handle(graph.leaf("y"))
    dead = x * y
    root = f.sin(x) + 1.0
    marks = graph.reachable([root.index])
    assert marks[x.index]
    assert marks[root.index]
    assert not marks[y.index]
    assert not marks[dead.index]
    assert not any(graph.reachable([]))


def test_operators_append(graph):
    x, y = graph.handle(graph.leaf("x")), graph.handle(graph.leaf("y"))
    made = {
        "add": x + y, "sub": x - y, "mul": x * y, "div": x / y, "neg": -x, "lt": x < y, "le": x <= y, "gt": x > y,
        "ge": x >= y, "and": (x > 0) & (y > 0), "or": (x > 0) | (y > 0), "not": ~(x > 0),
    }  # fmt: skip
    assert {graph.ops[node.index] for node in made.values()} == set(made)
    assert all(graph.ops[node.index] == op for op, node in made.items())


def test_a_plain_number_stands_on_either_side(graph):
    x = graph.handle(graph.leaf("x"))
    for node, op, first in [(2 - x, "sub", 2.0), (2 / x, "div", 2.0), (2 + x, "add", 2.0), (2 * x, "mul", 2.0)]:
        assert graph.ops[node.index] == op
        assert graph.number(graph.arguments(node.index)[0]) == first
    node = x - 2
    assert graph.number(graph.arguments(node.index)[1]) == 2.0


def test_a_known_number_keeps_its_label(graph):
    x = graph.handle(graph.leaf("x"))
    node = x * Known(3.141592653589793, "pi")
    assert graph.numbers[graph.arguments(node.index)[1]] == (3.141592653589793, "pi")


def test_functions_append_by_name(graph):
    x = graph.handle(graph.leaf("x"))
    node = f.where(x > 0, x, 1.0)
    assert isinstance(node, Node)
    assert graph.ops[node.index] == "where"
    assert len(graph.arguments(node.index)) == 3


# ---- shape ----


def test_a_column_makes_columns(graph):
    x, s = graph.handle(graph.leaf("x", True)), graph.handle(graph.leaf("s"))
    assert graph.columns[(x * s).index]
    assert graph.columns[f.where(x > 0, s, s).index]
    assert not graph.columns[(s * s).index]


def test_a_reduction_makes_a_number(graph):
    x = graph.handle(graph.leaf("x", True))
    assert not graph.columns[f.gather(x).index]
    assert not graph.columns[f.max_rows(x).index]
    assert graph.columns[f.softmax(x).index]


def test_a_number_is_one_row(graph):
    s = graph.handle(graph.leaf("s"))
    assert f.gather(s).index == s.index
    assert f.max_rows(s).index == s.index
    assert f.rows(s).value() == 1.0


def test_spread_of_a_number_like_a_column_is_a_column(graph):
    x, s = graph.handle(graph.leaf("x", True)), graph.handle(graph.leaf("s"))
    assert graph.columns[f.spread(s, x).index]
    assert f.spread(s, s).index == s.index


def test_a_text_concludes_nothing_from_shapes():
    text = new_graph(shaped=False)
    s = text.handle(text.leaf("s"))
    assert text.ops[f.gather(s).index] == "gather"


def test_a_list_is_a_leaf_of_its_own():
    text = new_graph(shaped=False)
    items = [text.constant(1.0), text.constant(2.0)]
    first, second = text.literal(items), text.literal(items)
    assert first != second
    assert text.lists[first] == tuple(items)


def test_nodes_remember_the_text_they_came_from(graph):
    graph.place = (3, 9)
    node = graph.leaf("x")
    graph.place = (0, 2)
    other = graph.add("neg", node)
    assert (graph.starts[node], graph.ends[node]) == (3, 9)
    assert (graph.starts[other], graph.ends[other]) == (0, 2)


@pytest.mark.parametrize(
    ("number", "simple"),
    [(0.0, True), (1.0, True), (-0.5, True), (1 / 64, True), (1 / 128, False), (0.1, False), (1e7, False)],
)
def test_a_short_binary_fraction_is_simple(number, simple):
    assert is_simple(number) == simple


@pytest.mark.parametrize("number", [float("inf"), float("nan")])
def test_what_is_not_finite_is_not_simple(number):
    assert not is_simple(number)


def test_a_long_decimal_near_a_simple_number_is_not_simple(graph):
    assert graph.simple(graph.constant(0.5, "0.5")) == 0.5
    assert graph.simple(graph.constant(0.5, "0.50000000000000000000001")) is None
    assert graph.simple(graph.constant(1.0, "e^0")) is None
    assert graph.simple(graph.leaf("x")) is None


# ---- marks over whole arrays ----


def random_graph(seed: int, size: int) -> Graph:
    rng, graph = random.Random(seed), new_graph()
    for label in "xyz":
        graph.leaf(label)
    graph.constant(2.0)
    for _ in range(size):
        op, count = rng.choice(
            [("add", 2), ("sin", 1), ("lt", 2), ("where", 3), ("besselj", 2), ("detach", 1), ("max", 4)]
        )
        graph.add(op, *[rng.randrange(max(0, len(graph) - 9), len(graph)) for _ in range(count)])
        graph.name(len(graph) - 1, "n")
    return graph


@pytest.mark.parametrize("rounds", [1, 3, 1000])
@pytest.mark.parametrize("seed", range(8))
def test_marks_over_whole_arrays_are_those_of_the_loops(monkeypatch, seed, rounds):
    graph = random_graph(seed, 60)
    middle, last = len(graph) // 2, len(graph) - 1
    asked = [
        lambda: graph.reachable([middle]),
        lambda: graph.reachable([last, middle, 3]),
        lambda: graph.reachable([]),
        lambda: receives(graph, last),
        lambda: receives(graph, middle),
        lambda: depends(graph, [0, 2], last),
        lambda: depends(graph, [1, middle], last - 5),
        lambda: depends(graph, [last], middle),
    ]
    by_loops = [ask() for ask in asked]
    monkeypatch.setattr("gradcli.graph._MANY", 0)
    monkeypatch.setattr("gradcli.arrays._ROUNDS", rounds)
    assert [ask() for ask in asked] == by_loops


def test_a_large_model_with_a_long_part_that_nothing_needs(graph):
    x = node = graph.leaf("x")
    for _ in range(20_000):
        node = graph.add("sin", node)
    dead = node
    for _ in range(20_000):
        x = graph.add("cos", x)
    marks = graph.reachable([x])
    assert sum(marks) == 20_001
    assert not marks[dead]


def test_nodes_that_are_entered_at_once_are_found_like_those_of_the_loop(monkeypatch):
    graph = random_graph(3, 4000)
    interned = [n for n, op in enumerate(graph.ops) if n not in graph.labels and n not in graph.numbers]
    monkeypatch.setattr("gradcli.graph._MANY", 0)
    for size in (1 << 13, 1 << 14, 1 << 18):  # nearly full, and nearly empty
        graph.table = array("i", (-1,)) * size
        enter(graph, 0, 100)
        enter(graph, 100)
        assert [graph.find(graph.ops[n], tuple(graph.arguments(n))) for n in interned] == interned
        assert graph.find("add", (0, 10**6)) == -1
    before = len(graph)
    assert [graph.intern(graph.ops[n], tuple(graph.arguments(n)), 0) for n in interned] == interned
    graph.reserve(10**5)
    assert len(graph) == before
    assert [graph.find(graph.ops[n], tuple(graph.arguments(n))) for n in interned] == interned


def test_numbers_that_are_made_at_once_are_those_made_one_by_one():
    one_by_one, at_once = new_graph(shaped=False), new_graph(shaped=False)
    texts = ["2", "0.5", "2", "1e-3", "7", "0.5"]
    for graph in (one_by_one, at_once):
        graph.constant(7.0, "7")
    nodes = []
    for i, text in enumerate(texts):
        one_by_one.place = 10 * i, 10 * i + 1
        nodes.append(one_by_one.constant(float(text), text))
    assert decimals(at_once, texts, 10 * np.arange(6), 10 * np.arange(6) + 1).tolist() == nodes
    assert [at_once.find_number(text) for text in texts] == nodes
    for name in ("ops", "numbers", "starts", "ends", "columns"):
        assert getattr(at_once, name) == getattr(one_by_one, name)
    assert at_once.add("mul", nodes[0], nodes[1]) == one_by_one.add("mul", nodes[0], nodes[1])


@pytest.mark.parametrize("seed", range(5))
def test_operations_are_found_at_once_like_one_by_one(graph, seed):
    rng = random.Random(seed)
    leaves = [graph.leaf(str(i)) for i in range(12)]
    for _ in range(300):  # into a table of 1024: many try the next slot
        graph.add(rng.choice(["add", "mul", "pow"]), *rng.sample(leaves, 2))
        graph.add(rng.choice(["sin", "neg"]), rng.choice(leaves))
        graph.constant(rng.random())
    for count in (1, 2, 3):
        names = rng.choices(["add", "mul", "pow", "sin", "neg", "where"], k=400)
        asked = [tuple(rng.choices(leaves, k=count)) for _ in names]
        found = find(graph, names, list(np.array(asked).T))
        assert found.tolist() == [graph.find(*each) for each in zip(names, asked, strict=True)]
        assert (count < 3) == (found >= 0).any()


def test_a_large_model_leaves_the_collector_alone():
    """Where each node has a list or an object of its own for a while, the collector walks all names of a model again
    and again: a third of the time of a million lines."""
    lines = [f"t{i} = 1.{i % 997:03d}7*sin(x{i % 10}*0.{i:05d} + x{i * 7 % 10})" for i in range(6000)]
    sums = [f"s{i + 1} = s{i} + t{i}{f' - 0.5*x{i % 10}' if i % 100 < 10 else ''}" for i in range(6000)]
    leaves = [f"x{i} = 0.{i + 1}" for i in range(10)]
    text = "\n".join([*leaves, "s0 = 0.5*x0", *(line for pair in zip(lines, sums, strict=True) for line in pair)])
    gradcli.parse(text).gradient()  # what is loaded, and what is kept from now on
    gc.collect()
    before = gc.get_stats()[0]["collections"]
    gradcli.parse(text).gradient()
    assert gc.get_stats()[0]["collections"] - before < 10  # one for 700 objects more; there are 66,000 nodes
