"""The exact counterpart: both namespaces say the same, nothing raises, nothing is too large."""

from __future__ import annotations

import itertools
import math
import random
import subprocess
import sys
from fractions import Fraction
from typing import Any

import mpmath
import pytest

import gradcli
from gradcli import primitives
from gradcli.calculus.adjoint import adjoints, carries
from gradcli.calculus.exact import KNOWN, Numbers, Symbols, evaluate
from gradcli.calculus.specialise import build, specialise
from gradcli.graph import Graph, Known
from gradcli.primitives import CONSTANTS, TABLE, new_graph

ROWS = [name for name, row in TABLE.items() if not row.reduction]


def at(text: str, digits: int = 50, **leaves: Any) -> Any:
    """The last definition of a text, evaluated exactly."""
    resolved = gradcli.parse(text).resolved
    columns = {n for n, v in leaves.items() if isinstance(v, list)}
    node = resolved.names[resolved.outputs[-1]].node
    graph, where = specialise(resolved.graph, columns, [node])
    return evaluate(graph, [where[node]], leaves, digits)[0]


def close(a: Any, b: Any, digits: int = 48) -> bool:
    with mpmath.workdps(digits + 20):
        return bool(abs(mpmath.mpf(a) - b) <= mpmath.mpf(10) ** -digits * max(abs(b), abs(a)))


def test_import_loads_neither_mpmath_nor_sympy() -> None:
    code = "import sys, gradcli.calculus.exact; sys.exit('sympy' in sys.modules or 'mpmath' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_every_known_constant_and_every_constant_of_the_language_has_an_exact_value() -> None:
    m = Numbers(40)
    constants = [value for value in vars(primitives).values() if isinstance(value, Known)]
    assert constants
    for constant in constants:
        assert float(m.num(constant.label).value) == constant, constant.label
    for name, value in CONSTANTS.items():
        assert name in KNOWN
        assert float(m.num(name).value) == value or value != value


def test_known_constants_are_exact_in_sympy_too() -> None:
    m, s = Numbers(50), Symbols()
    for label in KNOWN:
        if "inf" not in label and label != "nan":
            with mpmath.workdps(60):
                assert close(m.num(label).value, mpmath.mpf(s.num(label).evalf(60)))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0.1", Fraction(1, 10)),
        (".5", Fraction(1, 2)),
        ("5.", Fraction(5)),
        ("1_000", Fraction(1000)),
        ("-1.25e-3", Fraction(-5, 4000)),
        ("1E3", Fraction(1000)),
        ("0.000", Fraction(0)),
        ("123456789" * 30, Fraction(int("123456789" * 30))),
        ("1e-400", Fraction(1, 10**400)),
    ],
)
def test_decimal_text_is_exact(text: str, value: Fraction) -> None:
    m = Numbers(60)
    assert close(m.num(text).value, m.num(value).value, 59)
    if len(text) < 20:
        assert Symbols().num(text) == value


def test_precision_of_mpmath_itself_is_left_alone() -> None:
    before = mpmath.mp.prec
    at("sin(x)", 100, x="0.5")
    assert mpmath.mp.prec == before


@pytest.mark.parametrize(
    ("text", "leaves", "want"),
    [
        ("1/x", {"x": 0.0}, math.inf),
        ("-1/x", {"x": 0.0}, -math.inf),
        ("x/x", {"x": 0.0}, math.nan),
        ("x - x", {"x": math.inf}, math.nan),
        ("0*x", {"x": math.inf}, math.nan),
        ("log(x)", {"x": 0.0}, -math.inf),
        ("log(x)", {"x": -1.0}, math.nan),
        ("sqrt(x)", {"x": -1.0}, math.nan),
        ("x^0.5", {"x": -1.0}, math.nan),
        ("x^3", {"x": -2.0}, -8.0),
        ("x^0", {"x": math.nan}, 1.0),
        ("x^-1", {"x": 0.0}, math.inf),
        ("x^p", {"x": -math.inf, "p": 3.0}, -math.inf),
        ("asin(x)", {"x": 2.0}, math.nan),
        ("acosh(x)", {"x": 0.5}, math.nan),
        ("atanh(x)", {"x": 1.0}, math.inf),
        ("gamma(x)", {"x": -1.0}, math.nan),
        ("lgamma(x)", {"x": 0.0}, math.inf),
        ("tan(x)", {"x": math.inf}, math.nan),
        ("cbrt(x)", {"x": -8.0}, -2.0),
        ("round(x)", {"x": 2.5}, 2.0),
        ("round(x)", {"x": -1.5}, -2.0),
        ("x % 3", {"x": -7.0}, 2.0),
        ("fmod(x, 3)", {"x": -7.0}, -1.0),
        ("x // 2", {"x": -7.0}, -4.0),
        ("atan2(x, -1)", {"x": 0.0}, math.pi),
        ("max(x, 1)", {"x": math.nan}, math.nan),
        ("step(x)", {"x": 0.0}, 0.5),
        ("(x != 1) + (x == x)", {"x": math.nan}, 1.0),
        ("sinc(x)", {"x": 0.0}, 1.0),
        ("where(x > 0, log(x), 7)", {"x": -1.0}, 7.0),
        ("erfcx(x)", {"x": 1e200}, 1 / math.sqrt(math.pi) / 1e200),
        ("softplus(x)", {"x": 1e30}, 1e30),
        ("logsumexp(x, -inf, -inf)", {"x": 3.0}, 3.0),
    ],
)
def test_special_points_are_those_of_the_engine(text: str, leaves: dict[str, float], want: float) -> None:
    got = float(at(text, **leaves))
    value = gradcli.parse(text).compile(wrt=[]).run(leaves).value
    assert got == pytest.approx(want, nan_ok=True, rel=1e-15)
    assert value == pytest.approx(want, nan_ok=True, rel=1e-15)


EDGES = [0.0, -0.0, 1.0, -1.0, -0.5, 0.3, 2.0, -3.0, 1e300, -1e300, 1e-300, math.inf, -math.inf, math.nan]
HUGE = ["1e1000000000", "-1e1000000000", "1e-1000000000", "1e99999999999999999999999", Fraction(7, 3)]


@pytest.mark.parametrize("name", ROWS)
def test_nothing_raises_and_all_of_it_ends(name: str) -> None:
    m = Numbers(30)
    count = len(TABLE[name].arguments)
    rng = random.Random(name)
    cases = list(itertools.product(EDGES + HUGE, repeat=count))
    for case in cases if count == 1 else rng.sample(cases, 60):
        m.num(TABLE[name].exact(m, *[m.num(x) for x in case]))


@pytest.mark.parametrize(
    ("text", "leaves"),
    [
        ("9^9^9", {}),
        ("9^9^9^9", {}),
        ("-9^9^9^9", {}),
        ("1e1000000000", {}),
        ("sin(1e1000000000)", {}),
        ("exp(exp(exp(exp(exp(x)))))", {"x": 5.0}),
        ("x^1000000000", {"x": "1.5"}),
        ("(1 + x)^(1e300)", {"x": "1e-300"}),
        ("gamma(9^9^9)", {}),
        ("lgamma(9^9^9) % 3", {}),
        ("besselj(1e9, 1e9)", {}),
        ("polygamma(1e9, 2)", {}),
        ("cosh(1e300) - sinh(1e300)", {}),
        ("erfcx(-1e300)", {}),
        ("(1e300 % 1e-300) + floor(1e300)", {}),
    ],
)
def test_large_numbers_take_neither_time_nor_memory(text: str, leaves: dict[str, Any]) -> None:
    at(text, 60, **leaves)


def test_large_powers_are_right() -> None:
    assert close(at("log(9^9^9)"), at("9^9*log(9)"))
    assert close(at("(1 + x)^(1e100)", 200, x="1e-100"), at("e"))
    assert close(at("log(1e1000000000)"), at("1000000000*log(10)"))


def test_whole_numbers_survive_the_rounding_of_the_last_bits() -> None:
    assert at("floor(log10(1000))") == 3
    assert at("floor(sqrt(2)^2)") == 2
    assert at("3 % 0.1") == 0
    assert at("floor(x)", x="2.99999999999999999999") == 2
    assert at("(-1e-60) // 1") == -1


def test_columns_reduce_and_mix_with_scalars() -> None:
    assert at("sum(a*x)", a="0.5", x=["1", "2", Fraction(1, 3)]) == pytest.approx(5 / 3)
    assert [float(v) for v in at("softmax(x)", x=[0, 0])] == [0.5, 0.5]
    assert float(at("std(x)", x=[1.0, 2.0, 3.0])) == 1
    assert at("norm(x)", x=[3.0, 4.0]) == 5
    assert [float(v) for v in at("where(x > 0, 1/x, x)", x=[0.0, 4.0])] == [0, 0.25]
    assert float(at("mean(x) + max(x) - min(x) + prod(x)", x=[1.0, 3.0])) == 7


def test_unselected_side_never_counts_in_the_exact_adjoint() -> None:
    graph = new_graph()
    x = graph.leaf("x")
    zero = graph.constant(0.0)
    output = build(graph, "where", [graph.add("gt", x, zero), build(graph, "sqrt", [x]), x])
    found = adjoints(graph, output, [x])
    assert evaluate(graph, [found[x]], {"x": -1.0}, 50) == [1]


def test_taint_makes_the_derivative_of_nan_nan() -> None:
    assert math.isnan(at("d(log(x), x)", x=-2.0))
    assert at("d(log(x), x)", x=4) == 0.25


def numbers_inside(name: str) -> list[float]:
    rng, found = random.Random(name), []
    flows = carries(name, len(TABLE[name].arguments))
    for (low, high), flow in zip(TABLE[name].domain, flows, strict=True):
        if not flow and math.isfinite(high):
            found.append(float(max(low, rng.choice((0, 1)))))
        else:
            found.append(round(rng.uniform(max(low, -2.5) + 0.1, min(high, max(low, -2.5) + 3) - 0.1), 6))
    return found


@pytest.mark.parametrize("name", ROWS)
def test_sympy_and_mpmath_agree_in_value_and_slope(name: str) -> None:
    import sympy

    point = numbers_inside(name)
    flows = carries(name, len(point))
    m, s = Numbers(60), Symbols()
    symbols = [s.symbol(f"x{i}") if flow or name in ("and", "or", "not") else s.num(x)
               for i, (flow, x) in enumerate(zip(flows, point, strict=True))]  # fmt: skip
    expression = TABLE[name].exact(s, *symbols)
    values = {symbol: s.num(x) for symbol, x in zip(symbols, point, strict=True) if symbol.is_Symbol}

    def number(expression: Any) -> Any:
        return mpmath.mpf(s.num(expression).subs(values).evalf(40))

    with mpmath.workdps(40):
        assert close(number(expression), m.raw(TABLE[name].exact(m, *map(m.num, point))), 25)
    graph = new_graph()
    leaves = [graph.leaf(str(i)) if flow else graph.constant(x) for i, (flow, x) in enumerate(zip(flows, point))]
    found = adjoints(graph, build(graph, name, leaves), [n for n, flow in zip(leaves, flows) if flow])
    for leaf, symbol in zip(leaves, symbols, strict=True):
        if leaf in found:
            (slope,) = evaluate(graph, [found[leaf]], {str(i): x for i, x in enumerate(point)}, 40)
            witness = sympy.diff(expression, symbol)
            with mpmath.workdps(40):
                assert close(number(witness) + 1, slope + 1, 25), witness


def test_graph_of_a_million_numbers_is_a_loop() -> None:
    graph: Graph = new_graph()
    node = x = graph.leaf("x")
    for _ in range(20_000):
        node = graph.add("add", node, x)
    assert evaluate(graph, [node], {"x": "0.1"}, 30)[0] == pytest.approx(2000.1)
