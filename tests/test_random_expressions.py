"""Expressions grown at random from the table: gradients against difference quotients at 60 digits, symmetric Hessians,
and columns that give each row the bits that it has alone.

Every function of the table is grown into a few expressions: around it whatever fits, inside it arguments from its
domain. A point where the reference finds a kink, a pole or a number out of all proportion is not asked about.
"""

from __future__ import annotations

import math
import random
import re
import zlib
from fractions import Fraction
from functools import cache
from itertools import combinations_with_replacement

import numpy as np
import pytest

import gradcli
from gradcli.calculus.exact import evaluate
from gradcli.calculus.specialise import specialise
from gradcli.primitives import callable_rows

VARIABLES = ("x", "y", "z")
INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "lt": "<", "ge": ">="}
TABLE = {p.name: p for p in callable_rows().values() if not p.reduction and p.name not in ("d", "detach")}
ORDERED = {name for name, p in TABLE.items() if p.arguments[0] in ("n", "m") and len(p.arguments) == 2}
SMOOTH = ("sin", "cos", "exp", "tanh", "atan", "sigmoid", "softplus", "asinh", "log1p", "sqrt", "gelu", "hypot")
NUMBERS = ("0.5", "1.5", "2", "3", "0.1", "1e-2", "7")
EACH = 3  # expressions a function
DIGITS = 60
STEP = Fraction(1, 10**20)


class Tree:
    """An expression as an operation over others, or a leaf with its text."""

    def __init__(self, op: str, *arguments: Tree, text: str = "") -> None:
        self.op, self.arguments, self.text = op, arguments, text

    def __str__(self) -> str:
        if self.text:
            return self.text
        parts = [str(a) for a in self.arguments]
        if self.op in INFIX:
            return f"({parts[0]} {INFIX[self.op]} {parts[1]})"
        return f"({parts[0]})^{parts[1]}" if self.op == "pow" else f"{self.op}({', '.join(parts)})"


class Garden:
    """Grows trees. The seed is the name and number of the expression, so a new row changes no other expression."""

    def __init__(self, seed: str) -> None:
        self.random = random.Random(zlib.crc32(seed.encode()))

    def leaf(self) -> Tree:
        if self.random.random() < 0.2:
            return Tree("number", text=self.random.choice(NUMBERS))
        return Tree("variable", text=self.random.choice(VARIABLES))

    def tree(self, depth: int) -> Tree:
        if depth == 0 or self.random.random() < 0.15:
            return self.leaf()
        kind = self.random.random()
        if kind < 0.5:
            return Tree(self.random.choice(["add", "sub", "mul", "div"]), self.tree(depth - 1), self.tree(depth - 1))
        if kind < 0.6:
            power = Tree("number", text=self.random.choice(["2", "3", "-1", "0.5", "1.5"]))
            return Tree("pow", self.tree(depth - 1), power)
        if kind < 0.7:
            test = Tree(self.random.choice(["lt", "ge"]), self.leaf(), self.leaf())
            return Tree("where", test, self.tree(depth - 1), self.tree(depth - 1))
        return self.call(self.random.choice(SMOOTH), depth - 1)

    def call(self, name: str, depth: int) -> Tree:
        """A function with arguments that lie in its domain."""
        row = TABLE[name]
        domain = list(row.domain[: len(row.arguments)])
        if row.variadic:
            domain += domain[-1:] * self.random.randrange(2)
        arguments = [self.within(interval, depth) for interval in domain]
        if name in ORDERED:
            arguments[0] = Tree("number", text=self.random.choice("0123"))
        if name == "where":
            arguments[0] = Tree("lt", self.leaf(), self.leaf())
        return Tree(name, *arguments)

    def within(self, interval: tuple[float, float], depth: int) -> Tree:
        low, high = interval
        inner = self.tree(depth)
        if math.isinf(low) and math.isinf(high):
            return inner
        if math.isinf(high):
            return Tree("add", Tree("number", text=repr(low + 0.01)), Tree("softplus", inner))
        width, start = repr(0.98 * (high - low)), repr(low + 0.01 * (high - low))
        return Tree("add", Tree("number", text=start), Tree("mul", Tree("number", text=width), Tree("sigmoid", inner)))

    def around(self, tree: Tree) -> Tree:
        """Something that uses a tree once or twice."""
        once = [
            lambda: Tree("mul", tree, self.tree(1)),
            lambda: Tree("sin", tree),
            lambda: Tree("add", tree, Tree("mul", tree, self.leaf())),
            lambda: Tree("div", self.tree(1), Tree("add", Tree("number", text="2"), Tree("mul", tree, tree))),
            lambda: Tree("where", Tree("lt", self.leaf(), self.leaf()), tree, self.tree(1)),
        ]
        return self.random.choice(once)()

    def point(self) -> dict[str, float]:
        return {name: round(self.random.uniform(-2, 2), 6) for name in VARIABLES}


class Reference:
    """An expression to 60 digits, at the point and a step beside it."""

    def __init__(self, text: str) -> None:
        resolved = gradcli.parse(text).resolved
        node = resolved.names["o"].node
        self.graph, at = specialise(resolved.graph, (), [node])
        self.output = at[node]

    def __call__(self, point: dict[str, Fraction]):
        return evaluate(self.graph, [self.output], point, DIGITS)[0]

    def steps(self, point: dict[str, float]) -> list:
        """Every number on the way."""
        nodes = [n for n, mark in enumerate(self.graph.reachable([self.output])) if mark]
        return evaluate(self.graph, nodes, exactly(point), DIGITS)

    def slopes(self, point: dict[str, float], name: str) -> tuple:
        """The difference quotients to the left and to the right, and the mean of the two."""
        here = exactly(point)
        left = self({**here, name: here[name] - STEP})
        right = self({**here, name: here[name] + STEP})
        middle = self(here)
        step = float(STEP)
        return (middle - left) / step, (right - middle) / step, (right - left) / (2 * step)

    def second(self, point: dict[str, float], a: str, b: str):
        here, h = exactly(point), Fraction(1, 10**14)
        total = 0
        for i in (1, -1):
            for j in (1, -1):
                beside = dict(here)
                beside[a] += i * h
                beside[b] += j * h
                total += i * j * self(beside)
        return total / float(4 * h * h)


def exactly(point: dict[str, float]) -> dict[str, Fraction]:
    return {name: Fraction(value) for name, value in point.items()}


def moderate(number) -> bool:
    size = abs(number)
    return size == 0 or 1e-4 < size < 1e4


@cache
def harvest(name: str) -> tuple[tuple[str, dict[str, float], dict[str, float], float], ...]:
    """For a function a few expressions, each with a point, the gradient there to 60 digits, and the value."""
    found = []
    for number in range(400):
        garden = Garden(f"{name} {number}")
        text = f"o = {garden.around(garden.call(name, 2))}"
        if not re.search(r"\b[xyz]\b", text):
            continue
        point = garden.point()
        reference = Reference(text)
        if not all(map(moderate, reference.steps(point))):
            continue
        wanted = {}
        for variable in VARIABLES:
            left, right, middle = reference.slopes(point, variable)
            if not abs(left - right) <= 1e-12 * (1 + abs(middle)):
                break
            wanted[variable] = float(middle)
        else:
            if all(map(moderate, wanted.values())):
                found.append((text, point, wanted, float(reference(exactly(point)))))
        if len(found) == EACH:
            break
    return tuple(found)


@pytest.mark.parametrize("name", sorted(TABLE))
def test_a_function_grows(name):
    assert len(harvest(name)) == EACH


@pytest.mark.parametrize("name", sorted(TABLE))
def test_gradients_agree_with_difference_quotients_at_60_digits(name):
    for text, point, wanted, value in harvest(name):
        result = gradcli.parse(text).compile().run({k: v for k, v in point.items() if k in names_of(text)})
        assert result.value == pytest.approx(value, rel=1e-11, abs=1e-13), text
        scale = max(abs(v) for v in wanted.values())
        for variable, want in wanted.items():
            got = result.gradients.get(variable) or 0.0
            assert got == pytest.approx(want, rel=1e-9, abs=1e-12 * scale), (text, point, variable)


@cache
def names_of(text: str) -> frozenset[str]:
    return frozenset(gradcli.parse(text).leaves)


@pytest.mark.parametrize("name", sorted(TABLE))
def test_columns_have_the_bits_of_their_rows(name):
    for text, point, _, _ in harvest(name):
        used = sorted(names_of(text))
        columns = {v: np.array([point[v], 0.0, -point[v], 1e3 * point[v], np.nan, 1e-9, 2.0]) for v in used}
        program = gradcli.parse(text).compile()
        whole = program.run(columns)
        for row in range(7):
            alone = program.run({v: float(c[row]) for v, c in columns.items()})
            got = [whole.value[row], *(g[row] for g in whole.gradients.values() if g is not None)]
            want = [alone.value, *(g for g in alone.gradients.values() if g is not None)]
            np.testing.assert_array_equal(got, want, err_msg=text)
            assert list(np.signbit(got)[~np.isnan(got)]) == list(np.signbit(want)[~np.isnan(want)]), text


@pytest.mark.parametrize("name", sorted(TABLE))
def test_hessians_are_symmetric_and_right(name):
    text, point, _, _ = harvest(name)[0]
    used = sorted(names_of(text))
    hessian = gradcli.parse(text).compile(hessian=True).run({v: point[v] for v in used}).hessian
    reference = Reference(text)
    wanted = {}
    for a, b in combinations_with_replacement(used, 2):
        wanted[a, b] = float(reference.second(point, a, b))
    scale = max(map(abs, wanted.values()), default=0.0)
    for (a, b), want in wanted.items():
        if a not in hessian or b not in hessian:
            assert want == 0.0
            continue
        assert hessian[a][b] == pytest.approx(hessian[b][a], rel=1e-9, abs=1e-12 * scale), text
        assert hessian[a][b] == pytest.approx(want, rel=1e-7, abs=1e-9 * scale + 1e-13), (text, point, a, b)


# ---- over the rows ----

ROWS = {"x": [0.3, -0.7, 1.1, 0.4], "y": [1.3, 0.2, 0.9, -0.6]}
REDUCED = ["sum", "mean", "prod", "var", "std", "norm", "logsumexp", "min", "max"]


@pytest.mark.parametrize("name", REDUCED)
@pytest.mark.parametrize("number", range(4))
def test_gradients_through_a_reduction_agree_with_difference_quotients(name, number):
    garden = Garden(f"over rows {name} {number}")
    inner = Tree(garden.random.choice(["sin", "cosh", "sigmoid"]), garden.tree(1))
    text = f"r = {name}({inner} + x*w*0.1); s = sum(y*r); o = s/(2 + r^2) + dot(x, softmax(y*w))".replace("z", "w")
    model = gradcli.parse(text)
    values = {"x": ROWS["x"], "y": ROWS["y"], "w": 0.8}
    result = model.compile().run(values)
    node = model.resolved.names["o"].node
    graph, at = specialise(model.resolved.graph, {"x", "y"}, [node])

    def at_point(**moved):
        given = {"x": list(map(Fraction, ROWS["x"])), "y": list(map(Fraction, ROWS["y"])), "w": Fraction(0.8), **moved}
        return evaluate(graph, [at[node]], given, DIGITS)[0]

    def moved(label, row, by):
        if label == "w":
            return {"w": Fraction(0.8) + by}
        column = list(map(Fraction, ROWS[label]))
        column[row] += by
        return {label: column}

    assert result.value == pytest.approx(float(at_point()), rel=1e-12)
    for label, rows in (("x", 4), ("y", 4), ("w", 1)):
        for row in range(rows):
            rise = at_point(**moved(label, row, STEP)) - at_point(**moved(label, row, -STEP))
            got = np.atleast_1d(result.gradients[label])[row]
            assert got == pytest.approx(float(rise / float(2 * STEP)), rel=1e-9, abs=1e-13), (text, label, row)


# ---- against PyTorch, where it is installed ----

IN_TORCH = {
    "add": "add", "sub": "sub", "mul": "mul", "div": "div", "pow": "pow", "sin": "sin", "cos": "cos", "tan": "tan",
    "exp": "exp", "tanh": "tanh", "atan": "atan", "sigmoid": "sigmoid", "asinh": "asinh", "log1p": "log1p",
    "sqrt": "sqrt", "hypot": "hypot", "log": "log", "erf": "erf", "lgamma": "lgamma", "sinc": "sinc", "abs": "abs",
    "atan2": "atan2", "logaddexp": "logaddexp", "where": "where", "lt": "lt", "ge": "ge", "cosh": "cosh",
}  # fmt: skip


def in_torch(torch, tree: Tree, leaves):
    if tree.op == "variable":
        return leaves[tree.text]
    if tree.op == "number":
        return torch.tensor(float(tree.text), dtype=torch.float64)
    arguments = [in_torch(torch, a, leaves) for a in tree.arguments]
    if tree.op in ("softplus", "gelu"):
        return getattr(torch.nn.functional, tree.op)(arguments[0])
    return getattr(torch, IN_TORCH[tree.op])(*arguments)


@pytest.mark.parametrize("number", range(60))
def test_gradients_agree_with_pytorch(number):
    torch = pytest.importorskip("torch")
    garden = Garden(f"torch {number}")
    tree = garden.around(garden.call(garden.random.choice([n for n in IN_TORCH if n in TABLE]), 2))
    point = garden.point()
    leaves = {n: torch.tensor(v, dtype=torch.float64, requires_grad=True) for n, v in point.items()}
    output = in_torch(torch, tree, leaves)
    gradients = torch.autograd.grad(output, list(leaves.values()), allow_unused=True) if output.requires_grad else ()
    result = gradcli.parse(f"o = {tree}", **point).compile().run()
    if not np.isfinite(output.item()):
        return
    assert result.value == pytest.approx(output.item(), rel=1e-9)
    for name, want in zip(leaves, gradients, strict=False):
        got = result.gradients.get(name)
        if want is not None and math.isfinite(want.item()):  # a branch not taken leaks in PyTorch
            assert (got or 0.0) == pytest.approx(want.item(), rel=1e-8, abs=1e-12), str(tree)
