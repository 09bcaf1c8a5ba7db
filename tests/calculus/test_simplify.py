"""The simplifier removes work and never changes a bit of a value that the user can see.

The judge is a plain interpreter: the graph as it was built, one numpy call an operation, nothing rewritten.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pytest

import gradcli
from gradcli.calculus import simplify as simplifier
from gradcli.calculus.simplify import Machine, simplify
from gradcli.engine import execute
from gradcli.engine.program import schedule
from gradcli.graph import Graph, Node, f
from gradcli.primitives import BOOLEAN, REDUCTIONS, TABLE, callable_rows, new_graph

ROWS = 9
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -2.0, np.inf, -np.inf, np.nan, 1e300, -1e-300, 5e-324, 3.7, -0.3]
CONSTANTS = [0.0, -0.0, 1.0, -1.0, 2.0, 0.5, -4.0, 3.0, 0.1, np.inf, np.nan, 1e-320, 1e308]


# ---- the judge ----


def plain(graph: Graph, nodes: Iterable[int], leaves: Mapping[str, object]) -> list:
    """The nodes of a graph by numpy, operation by operation: float64 numbers, columns, and bools as 0 and 1."""
    known: list = [None] * len(graph)
    rows = next((len(v) for v in leaves.values() if np.ndim(v)), 1)
    with np.errstate(all="ignore"):
        for node, op in enumerate(graph.ops):
            if op == "leaf":
                known[node] = np.float64(leaves[graph.labels[node]])
            elif op == "constant":
                known[node] = np.float64(graph.numbers[node][0])
            else:
                known[node] = once(graph, op, list(graph.arguments(node)), known, rows)
    return [known[n] for n in nodes]


def once(graph: Graph, op: str, at: list[int], known: list, rows: int):
    values = [known[a] for a in at]
    if op in ("name", "detach"):
        return values[0]
    if op == "spread":
        return np.broadcast_to(values[0], np.broadcast_shapes(np.shape(values[0]), np.shape(values[1]))).copy()
    if op == "rows":
        return np.float64(rows if graph.columns[at[0]] else 1)
    if op == "_taint":
        return np.where(np.isnan(values[1]), np.nan, values[0])
    if op == "_number":
        return np.float64(values[0])
    if op == "where":
        return np.where(values[0] != 0, values[1], values[2])
    row = TABLE[op]
    if row.formula is not None:
        inner = Graph(REDUCTIONS)
        handles = []
        for i, a in enumerate(at):
            number = graph.numbers.get(a)
            leaf = inner.constant(*number) if number else inner.leaf(str(i), bool(graph.columns[a]))
            handles.append(Node(inner, leaf))
        return plain(inner, [row.formula(*handles).index], {str(i): v for i, v in enumerate(values)})[0]
    if row.ufunc.endswith(".reduce"):
        return np.float64(getattr(np, row.ufunc.removesuffix(".reduce")).reduce(np.atleast_1d(values[0])))
    return np.float64(execute.ufunc(row.ufunc)(*values))


def simplified(graph: Graph, nodes: list[int], leaves: Mapping[str, object]) -> list:
    machine, placed = simplify(graph, nodes)
    rows = next((len(v) for v in leaves.values() if np.ndim(v)), 1)
    return execute.run(schedule(machine, placed), leaves, rows)


def same_bits(got, want) -> bool:
    """Equal numbers, signs of zeros included; a nan is a nan."""
    got, want = np.asarray(got, dtype=float), np.asarray(want, dtype=float)
    if got.shape != want.shape:
        return False
    equal = (got == want) & (np.signbit(got) == np.signbit(want))
    return bool(np.all(equal | (np.isnan(got) & np.isnan(want))))


# ---- random graphs ----

ARITHMETIC = ["add", "sub", "mul", "div", "neg", "add", "sub", "mul", "div", "neg", "abs", "sqrt", "name", "detach"]
LOGIC = ["lt", "le", "gt", "ge", "eq", "ne", "and", "or", "not"]
CHOICE = ["where", "where", "min", "max", "_minimum", "_maximum", "sign", "floor"]
SHAPE = ["spread", "gather", "min_rows", "max_rows", "prod_rows", "rows"]
CURVES = ["exp", "sin", "sigmoid", "tanh", "relu", "_taint", "_number"]


def random_graph(seed: int, operations: int, ops: list[str]) -> tuple[Graph, list[int], dict[str, object]]:
    """A graph grown at random over numbers and columns of special values, and its last few nodes."""
    rng = np.random.default_rng(seed)
    graph = new_graph()
    leaves: dict[str, object] = {}
    nodes = []
    for label in ("a", "b"):
        leaves[label] = float(rng.choice(SPECIAL))
        nodes.append(graph.leaf(label))
    for label in ("x", "y"):
        leaves[label] = rng.choice(SPECIAL, ROWS)
        nodes.append(graph.leaf(label, True))
    nodes += [graph.constant(float(c)) for c in rng.choice(CONSTANTS, 4)]
    for _ in range(operations):
        op = str(rng.choice(ops))
        count = {"where": 3, "name": 1, "detach": 1}.get(op) or len(TABLE[op].arguments)
        arguments = [int(rng.choice(nodes[-12:] if rng.random() < 0.7 else nodes)) for _ in range(count)]
        if op == "_number" and graph.ops[arguments[0]] not in BOOLEAN:
            continue
        if op == "name":
            nodes.append(graph.name(arguments[0], f"n{len(nodes)}"))
            continue
        if TABLE[op].reduction and graph.ops[arguments[0]] == "spread":
            continue  # n times a number is one product, not n sums: test_a_sum_of_one_number_is_a_product
        nodes.append(graph.add(op, *arguments))
    return graph, nodes[-8:], leaves


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize(
    "ops",
    [
        ARITHMETIC,
        ARITHMETIC + LOGIC,
        ARITHMETIC + LOGIC + CHOICE,
        ARITHMETIC + CHOICE + SHAPE,
        ARITHMETIC + CURVES + LOGIC,
    ],
    ids=["arithmetic", "logic", "choice", "shape", "curves"],
)
def test_no_bit_of_a_random_graph_changes(ops, seed):
    graph, nodes, leaves = random_graph(seed, 60, ops)
    want = plain(graph, nodes, leaves)
    got = simplified(graph, nodes, leaves)
    for node, g, w in zip(nodes, got, want, strict=True):
        assert same_bits(g, w), f"node {node} {graph.ops[node]}: {g!r}, want {w!r}"


@pytest.mark.parametrize("seed", range(40))
def test_no_bit_of_a_random_derivative_changes(seed):
    """The graph with adjoints in it is simplified as faithfully as that of the value."""
    from gradcli.calculus.adjoint import adjoints

    graph, nodes, leaves = random_graph(seed, 40, ARITHMETIC + LOGIC + CHOICE + CURVES)
    output = graph.add("gather", graph.add("spread", nodes[-1], graph.leaf("x", True)))
    found = adjoints(graph, output, [graph.leaf(name) for name in "abxy"])
    nodes = list(found.values())
    want = plain(graph, nodes, leaves)
    got = simplified(graph, nodes, leaves)
    for node, g, w in zip(nodes, got, want, strict=True):
        assert same_bits(g, w) or reordered(graph, node, g, w), f"node {node} {graph.ops[node]}: {g!r}, want {w!r}"


def reordered(graph: Graph, node: int, got, want) -> bool:
    """Whether a number may differ because a sum over equal rows became a product."""
    marks = graph.reachable((node,))
    product = any(m and op == "gather" for m, op in zip(marks, graph.ops, strict=True))
    return product and np.shape(got) == np.shape(want) and np.allclose(got, want, rtol=1e-13, atol=0, equal_nan=True)


FUNCTIONS = {p.name: p for p in callable_rows().values() if p.name not in ("d", "detach")}


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
@pytest.mark.parametrize("column", [False, True], ids=["numbers", "columns"])
def test_no_bit_of_a_function_changes(name, column):
    row = FUNCTIONS[name]
    graph = new_graph()
    labels = "abc"[: len(row.arguments)]
    if row.reduction and not column:
        return
    order = row.arguments[0] in ("n", "m")
    output = graph.add(name, *(graph.leaf(label, column) for label in labels))
    whole = [1.0, 0.0, 2.0, 3.0] if order else SPECIAL
    for shift in range(1 if column else len(SPECIAL)):
        leaves = {label: np.roll(SPECIAL if i or not order else np.resize(whole, len(SPECIAL)), 3 * i + shift)
                  for i, label in enumerate(labels)}  # fmt: skip
        if not column:
            leaves = {label: float(v[0]) for label, v in leaves.items()}
        (want,) = plain(graph, [output], leaves)
        (got,) = simplified(graph, [output], leaves)
        assert same_bits(got, want), leaves


# ---- signed zeros, infinities, nan, one by one ----


@pytest.mark.parametrize("x", SPECIAL)
@pytest.mark.parametrize(
    "text",
    [
        "x + 0",
        "x + -0.0",
        "0 + x",
        "x - 0",
        "x - -0.0",
        "0 - x",
        "-x",
        "-(-x)",
        "x*1",
        "x*-1",
        "1*x",
        "x*0",
        "0*x",
        "x/1",
        "x/-1",
        "x/2",
        "x/-0.25",
        "x/3",
        "0/x",
        "x/x",
        "x - x",
        "-x + 1",
        "1 - -x",
        "-x - 1",
        "(-x)*(-3)",
        "(-x)/7",
        "-(x - 1)",
        "-(1 - x)",
        "x/1e-310",
        "x/4.9e-324",
        "x*2/2",
        "(x + 1) - 1",
        "x^1",
        "x^0",
        "where(x > 0, x, x)",
        "where(not x > 0, 1, x)",
        "where(x, 1, 2)",
        "x and x",
        "(x > 0) and (x > 0)",
        "not not x",
        "not not (x > 0)",
        "(x > 0) + (x > 0)",
        "(x > 0) != 0",
        "(x > 0) == (x > 0)",
        "-(x > 0)",
    ],
)
def test_a_shorter_way_gives_the_same_bits(text, x):
    """Each against Python or numpy on the number itself."""
    program = gradcli.parse(f"o = {text}").compile(wrt=[])
    graph = program.model.resolved.graph
    node = program.model.resolved.names["o"].node
    (want,) = plain(graph, [node], {"x": x})
    assert same_bits(program.run({"x": x}).value, want)
    assert same_bits(program.run({"x": [x, x]}).value, [want, want])


@pytest.mark.parametrize("number", [0.1, 3.0, -7.5, np.inf, np.nan])
def test_a_sum_of_one_number_is_a_product(number):
    graph = new_graph()
    x = graph.leaf("x", True)
    total = graph.add("gather", graph.add("spread", graph.leaf("a"), x))
    (got,) = simplified(graph, [total], {"x": np.zeros(1000), "a": number})
    np.testing.assert_equal(got, number * 1000)


# ---- shape ----


@pytest.mark.parametrize("op", ["var", "std", "norm", "logsumexp_rows", "softmax", "gather", "max_rows", "prod_rows"])
def test_a_reduction_of_one_number_in_every_row_counts_the_rows(op):
    graph = new_graph()
    x = graph.leaf("x", True)
    node = graph.add(op, graph.add("spread", graph.leaf("a"), x))
    leaves = {"x": np.zeros(4), "a": 1.5}
    (want,) = plain(graph, [node], leaves)
    (got,) = simplified(graph, [node], leaves)
    np.testing.assert_allclose(got, want, rtol=1e-15)


def test_a_choice_between_equal_numbers_is_still_a_column():
    graph = new_graph()
    x, a = graph.handle(graph.leaf("x", True)), graph.handle(graph.leaf("a"))
    chosen = f.where(x > 0, a, a)
    leaves = {"x": np.ones(3), "a": 2.0}
    total, column = simplified(graph, [f.gather(chosen).index, chosen.index], leaves)
    assert total == 6.0
    np.testing.assert_array_equal(column, [2.0, 2.0, 2.0])


def test_a_condition_as_an_output_is_a_number():
    model = gradcli.parse("o = x > 1")
    assert model.compile(wrt=[]).run({"x": 2.0}).value == 1.0
    column = model.compile(wrt=[]).run({"x": [0.0, 2.0]}).value
    assert column.dtype == np.float64
    np.testing.assert_array_equal(column, [0.0, 1.0])


# ---- less work ----


def operations(text: str, columns=("x",), **options) -> int:
    return gradcli.parse(text).compile(**options).machine(frozenset(columns)).operations


def test_dead_work_is_removed():
    assert operations("a = exp(x); b = sin(a)^3; o = x*2", wrt=[]) == operations("o = x*2", wrt=[])
    assert operations("o = x*y", wrt=["x"]) < operations("o = x*y*tanh(y)", wrt=["x", "y"])


def test_equal_work_is_done_once():
    once, twice = operations("o = tanh(x*3)", wrt=[]), operations("o = tanh(x*3) + tanh(x*3)", wrt=[])
    assert twice == once + 1
    assert operations("u = x*y; v = x*y; o = u + v", wrt=[]) == 2
    assert operations("u = x*y; v = y*x; o = u + v", wrt=[]) == 2


def test_names_and_aliases_cost_nothing():
    assert operations("a = x; b = a; c = b*2; e1 = c; o = e1", wrt=[]) == operations("o = x*2", wrt=[])


def test_constants_are_folded():
    assert operations("o = x*(2*3 + 4/8 - 1)", wrt=[]) == 1


def test_what_is_the_same_in_every_row_is_computed_once():
    program = gradcli.parse("o = x*exp(w)*sin(w)").compile(wrt=[])
    phases = program.machine(frozenset(("x",))).phases
    in_rows = [op for phase in phases for op, *_ in phase.columns]
    assert "exp" in in_rows or "exp" in [op for phase in phases for op, *_ in phase.scalars]
    program = gradcli.parse("o = x*(exp(w)*sin(w))").compile(wrt=[])
    in_rows = [op for phase in program.machine(frozenset(("x",))).phases for op, *_ in phase.columns]
    assert in_rows == ["mul"]


def test_a_gradient_that_is_not_asked_for_costs_nothing():
    text = "o = x*tanh(y) + sin(z)"
    assert operations(text, wrt=["x"]) < operations(text, wrt=["x", "y"]) < operations(text, wrt=["x", "y", "z"])


@pytest.mark.parametrize("many", [10**9, 1], ids=["loop", "stretches"])
def test_what_is_copied_unseen_is_what_the_rules_would_make(many, monkeypatch):
    graph, roots = new_graph(), []
    x, y = graph.handle(graph.leaf("x")), graph.handle(graph.leaf("y"))
    c = graph.handle(graph.leaf("c", column=True))
    kinds = [
        x,
        y,
        c,
        -x,
        -c,
        x < y,
        c > y,
        f.not_(x < y),
        f.spread(x, c),
        f.sin(c),
        graph.handle(graph.name(x.index, "n")),
    ]
    kinds += [graph.handle(graph.constant(k)) for k in CONSTANTS]
    for op, row in TABLE.items():
        ordered = op.startswith("_") and row.arguments[0] == "n"  # its order must be a number
        if row.reduction or ordered or op in ("spread", "rows"):
            continue
        for a in kinds:
            if len(row.arguments) == 1:
                roots.append(graph.add(op, a.index))
            elif len(row.arguments) == 2:
                roots += [graph.add(op, a.index, b.index) for b in kinds]
    slow, at = Machine(), {}
    fast = taken(graph, roots, monkeypatch, _MANY=many, _WINDOW=8, _PAUSE=1)
    for node in range(len(graph)):
        at[node] = slow.made(graph, node, at)
    assert list(fast.ops) == list(slow.ops)
    assert [tuple(fast.arguments(n)) for n in range(len(fast))] == [tuple(slow.arguments(n)) for n in range(len(slow))]
    assert fast.columns == slow.columns


# ---- stretches ----

NO_RULE = ["add", "sub", "mul", "div", "sin", "exp", "atan2", "name", "name", "lt"]
NUMBERS = [0.25, 3.0, -3.0, 0.3, -0.3, 1e308, 2.0]


def scalar_graph(seed: int, operations: int) -> Graph:
    """Numbers only; names, and the same again under another name, but few nodes that a rule looks at."""
    rng = np.random.default_rng(seed)
    graph = new_graph()
    nodes = [graph.leaf("a"), graph.leaf("b")]
    for i in range(operations):
        op = str(rng.choice(NO_RULE))
        a, b = (int(rng.choice(nodes[-12:] if rng.random() < 0.8 else nodes)) for _ in range(2))
        if rng.random() < 0.2:
            b = graph.constant(float(rng.choice(NUMBERS)) * (i if rng.random() < 0.5 else 1))
            b = graph.add("neg", b) if rng.random() < 0.3 else b
        if rng.random() < 0.05:
            b = graph.leaf(f"x{i}")
        if op == "name":
            nodes.append(graph.name(a, f"n{i}"))
        elif op != "lt" or rng.random() < 0.2:
            nodes.append(graph.add(op, *(a, b)[: len(TABLE[op].arguments)]))
    return graph


def taken(graph: Graph, roots: Iterable[int], monkeypatch: pytest.MonkeyPatch, **sizes: int) -> Machine:
    for name, size in sizes.items():
        monkeypatch.setattr(simplifier, name, size)
    machine = Machine()
    machine.take(graph, graph.reachable(roots))
    return machine


def test_stretches_copy_what_the_loop_copies(monkeypatch):
    """Node for node; and what they copied is found when it is interned again."""
    graphs = [(graph, [len(graph) - 1, *range(0, len(graph), 3)]) for graph in map(scalar_graph, range(40), [300] * 40)]
    graphs += [random_graph(seed, 200, ARITHMETIC + LOGIC + CHOICE + CURVES)[:2] for seed in range(20)]
    for graph, roots in graphs:
        loop = taken(graph, roots, monkeypatch, _MANY=10**9)
        for window, pause in ((2, 1), (16, 1), (1000, 4)):
            found = taken(graph, roots, monkeypatch, _MANY=1, _WINDOW=window, _PAUSE=pause, _LONG=1)
            for name in ("ops", "columns", "numbers", "labels", "_first", "_flat", "_leaves", "_looks"):
                assert repr(getattr(found, name)) == repr(getattr(loop, name)), name  # a nan is a nan
            size = len(found)
            for node, op in enumerate(found.ops):
                if op == "constant":
                    assert found.find_number(found.numbers[node][1]) == node
                elif op != "leaf":
                    assert found.intern(op, tuple(found.arguments(node)), found.columns[node]) == node
            assert len(found) == size


def test_where_no_rule_applies_nothing_is_taken_one_by_one(monkeypatch):
    text = "".join(f"n{i} = {i}.3*sin(n{i - 1}*w - {i}.7) + x{i}\n" for i in range(1, 3000))
    graph = gradcli.parse(f"n0 = 1\n{text}").resolved.graph
    alone = []
    take = Machine._take
    monkeypatch.setattr(Machine, "_take", lambda *a: alone.append(a[-1] - a[-2]) or take(*a))
    taken(graph, [len(graph) - 1], monkeypatch)
    assert len(graph) > simplifier._MANY
    assert sum(alone) < 100


def test_simplifying_twice_is_simplifying_once():
    graph, nodes, _ = random_graph(3, 50, ARITHMETIC)
    machine, placed = simplify(graph, nodes)
    again, _ = simplify(machine, placed)
    assert len(again) <= len(machine)
