"""Every row of the table against its exact counterpart: values, rules, second derivatives, bits, words.

All tests are generated from the table. Points are drawn from the domain of the row: magnitudes from 2^-1000 to 2^1000
of both signs, both sides of every edge, whole and half numbers, the doubles next to multiples of pi/2, and random ones.
The reference is the `exact` column at 60 digits and its central difference at 140 digits or more.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest

import gradcli
from gradcli.calculus.adjoint import adjoints, carries, derivative
from gradcli.calculus.exact import Numbers, evaluate
from gradcli.calculus.simplify import simplify
from gradcli.calculus.specialise import build, expand
from gradcli.cotangent import Cotangent
from gradcli.engine import execute
from gradcli.engine.program import Program, schedule
from gradcli.graph import Graph
from gradcli.primitives import BOOLEAN, HIDDEN, OPERATORS, TABLE, callable_rows, new_graph

BOUND = 4.0  # ulp of the result; for a row without a rule, a sum over several paths, of its largest term


@dataclass(frozen=True)
class Special:
    """What a row keeps instead of the bound, mostly because scipy computes it.

    `value`, `slope`: the worst error in ulp that was measured, with about a third of room. `value_near`, `slope_near`:
    near a zero the error is in ulp of this number. `terms`: the slope is a difference by nature, the error is in ulp of
    the largest term of its formula. `reach`: for which sizes of the arguments all this was measured.
    """

    reason: str
    value: float = BOUND
    slope: float = BOUND
    value_near: float = 0.0
    slope_near: float = 0.0
    reach: tuple[float, float] = (0.0, math.inf)
    terms: bool = False


SPECIAL = {
    "sinc": Special("the rule is one term: its sum is in the formula of _sinc", slope_near=2.0**-4),
    "_sinc": Special("its sum is in its formula", value_near=16.0, slope_near=16.0),
    "logaddexp": Special("numpy adds a logarithm to the larger argument", value_near=1.0),
    "_logaddexp": Special("numpy adds a logarithm to the larger argument", value_near=1.0),
    "logsumexp": Special("by logaddexp", 8, value_near=1.0),
    "erfc": Special("scipy's erfcx is off by up to 7 ulp (measured 6.4)", 9),
    "erfcx": Special("scipy's erfcx, and up to x = 2 the rule cancels (measured 7.4 and 53)", 10, 70),
    "erfinv": Special("scipy's erfcx is in the rule (measured 4.8)", slope=7),
    "normcdf": Special("scipy's erfcx is off by up to 7 ulp (measured 6.8)", 9),
    "gelu": Special("by normcdf (measured 5.3 and 4.4)", 7, 6),
    "_erfc": Special("scipy's exp(-x^2) rounds further out (measured 2.2)", reach=(0.0, 0.5)),
    "_erfcx": Special("scipy's exp(x^2) rounds further left (measured 7.4 and 8.2)", 10, 12, reach=(0.0, 1.0)),
    "_digamma_drop": Special("powers of rounded reciprocals, and polygamma (measured 7.1)", slope=10),
    "_ierfcx": Special("up to x = 2 it cancels, the more the higher the order (measured 3.0e3 and 1.6e4)", 4e3, 2e4),
    "gamma": Special("scipy's gamma and digamma (measured 4.4 and 4.3)", 6, 6),
    "polygamma": Special("scipy's gamma and zeta (measured 5.0 and 5.3)", 7, 7),
    "_zeta": Special("scipy (measured 3.8 and 4.4)", 6, 6),
    "beta": Special("scipy cancels from a + b = 171 on (measured 6.7e3)", 1e4, 1e4, reach=(1e-6, 1e3)),
    "logbeta": Special("scipy cancels (measured 3.7e3)", 5e3, value_near=1.0, reach=(1e-6, 1e3)),
    "besselj": Special("scipy (measured 14 and 9.8 of the amplitude)", 20, 14, 0.1, 0.1, (1e-3, 1e5)),
    "bessely": Special("scipy (measured 9.5 and 7.2 of the amplitude)", 13, 10, 0.1, 0.1, (1e-3, 1e5)),
    "besseli": Special("scipy (measured 9.8 and 8.8)", 13, 12, reach=(1e-3, 1e5)),
    "besselk": Special("scipy (measured 5.4 and 6.1, further out all digits)", 7, 8, reach=(1e-3, 300.0)),
}

ROWS = [name for name, row in TABLE.items() if not row.reduction]
REDUCING = [name for name, row in TABLE.items() if row.reduction]
STEPPED = [name for name in ROWS if name.endswith(("mod", "floordiv"))]
SMALLEST, LARGEST = 2.3e-308, 1.7e308
Point = tuple[float, ...]


def special(name: str) -> Special:
    return SPECIAL.get(name, Special(""))


# ---- points ----------------------------------------------------------------------------------------------------------


def numbers(low: float, high: float, rng: random.Random, many: bool, reach: tuple[float, float]) -> list[float]:
    """Doubles inside an interval: where rounding, overflow and cancellation show."""
    found: list[float] = []
    for exponent in np.linspace(-1000, 1000, 31 if many else 9).astype(int).tolist():
        size = math.ldexp(1 + rng.random(), exponent)
        found += [size, -size]
    for edge in {low, high, 1.0, -1.0, 0.5, 0.75}:
        if math.isfinite(edge):
            for k in range(1, 17) if many else (1, 4, 8, 13, 16):
                found += [edge - 10.0**-k * (1 + rng.random()), edge + 10.0**-k * (1 + rng.random())]
            found += [math.nextafter(edge, -math.inf), math.nextafter(edge, math.inf)]
    found += [k * math.pi / 2 for k in (1, 2, 3, -1, 1e5)]
    found += [0.5, 1.5, 2.5, -1.5, 3.0, 1.0, -1.0, 1e15 + 0.5, math.nextafter(1.5, 2)]
    for width, count in ((1, 12), (7, 20), (40, 12), (750, 12)):
        found += [rng.uniform(-width, width) for _ in range(count if many else count // 3)]
    least, most = reach
    return [x for x in found if low < x < high and max(least, SMALLEST) <= abs(x) <= most]


def counts(name: str) -> tuple[int, ...]:
    return (2, 3) if TABLE[name].variadic else (len(TABLE[name].arguments),)


def is_condition(name: str, place: int, count: int) -> bool:
    return domain(name, place) == (0.0, 1.0) and not carries(name, count)[place]


def is_order(name: str, place: int, count: int) -> bool:
    """A whole number such as the order of a Bessel function: it carries no gradient and its domain is bounded."""
    low, high = domain(name, place)
    return not carries(name, count)[place] and math.isfinite(high) and (low, high) != (0.0, 1.0)


def domain(name: str, place: int) -> tuple[float, float]:
    intervals = TABLE[name].domain
    return intervals[min(place, len(intervals) - 1)]


@cache
def points(name: str, count: int) -> list[Point]:
    """For one argument every number, for more random pairs of them, half of which are near each other."""
    rng = random.Random(f"{name} {count}")
    lists = []
    for place in range(count):
        low, high = domain(name, place)
        if is_condition(name, place, count):
            lists.append([0.0, 1.0])
        elif is_order(name, place, count):
            lists.append([float(k) for k in (0, 1, 2, 3, 5) if low <= k <= high])
        else:
            lists.append(numbers(low, high, rng, count == 1, special(name).reach))
    if count == 1:
        return [(x,) for x in lists[0]]
    slow = any(is_order(name, place, count) for place in range(count))
    found = [tuple(rng.choice(items) for items in lists) for _ in range(16 if slow else 160)]
    for _ in range(60 if domain(name, 0) == domain(name, 1) else 0):
        x = rng.choice(lists[0])
        near = [x * (1 + 10.0 ** -rng.uniform(0, 17)) * rng.choice((1, 1, -1)) for _ in range(count - 1)]
        if all(domain(name, 0)[0] < y < domain(name, 0)[1] for y in near):
            found.append((x, *near))
    return [p for p in found if count == 2 or len(set(p)) == count]  # three that tie: a convention, not a slope


def inside(name: str, count: int) -> list[Point]:
    """A few unremarkable points."""
    rng = random.Random(name)
    found = []
    for _ in range(3 if any(is_order(name, i, count) for i in range(count)) else 6):
        point: list[float] = []
        for place in range(count):
            low, high = domain(name, place)
            if is_condition(name, place, count) or is_order(name, place, count):
                point.append(float(max(low, rng.choice((0, 1, 2)))) if high > 1 else rng.choice((0.0, 1.0)))
            else:
                low, high = max(low, -3.0) + 0.05, min(high, max(low, -3.0) + 5.0) - 0.05
                point.append(rng.uniform(low, high))
        found.append(tuple(point))
    return found


# ---- the engine ------------------------------------------------------------------------------------------------------


@dataclass
class Compiled:
    """A row, its gradient, and the graphs that an exact evaluation needs."""

    graph: Graph
    leaves: list[int]
    output: int
    found: dict[int, int]
    program: Program

    def run(self, columns: Sequence[Any], rows: int, **options: Any) -> list[Any]:
        values = {self.graph.labels[leaf]: column for leaf, column in zip(self.leaves, columns, strict=True)}
        return execute.run(self.program, values, rows, **options)


@cache
def compiled(name: str, count: int, column: bool = True, constants: tuple[float | None, ...] = ()) -> Compiled:
    """The row over leaves, all columns or all scalars, or with constants in some places."""
    graph = new_graph()
    places = constants or (None,) * count
    inputs = [graph.leaf(str(i), column) if c is None else graph.constant(c) for i, c in enumerate(places)]
    leaves = [node for node, c in zip(inputs, places, strict=True) if c is None]
    output = build(graph, name, inputs)
    if TABLE[name].reduction == "column" and column:  # each row is its own function: weigh them and add
        leaves.append(graph.leaf("weights", True))
        output = graph.add("gather", graph.add("mul", output, leaves[-1]))
    found = adjoints(graph, output, leaves)
    roots = [output, *(found[leaf] for leaf in leaves if leaf in found)]
    machine, placed = simplify(graph, roots)
    program = schedule(machine, placed, [-1] + [0] * (len(roots) - 1))
    return Compiled(graph, leaves, output, found, program)


def columns_of(rows: Sequence[Point], places: Sequence[int] | None = None) -> list[Any]:
    return [np.array([row[i] for row in rows]) for i in (range(len(rows[0])) if places is None else places)]


# ---- the reference ---------------------------------------------------------------------------------------------------


@cache
def at_digits(digits: int) -> Numbers:
    return Numbers(digits)


def exact(m: Numbers, name: str, arguments: Sequence[Any]) -> Any:
    result = TABLE[name].exact(m, *arguments)
    return [m.raw(v) for v in result] if isinstance(result, list) else m.raw(result)


def slope(function: Callable[[Numbers, Any], Any], x: float, fine: bool = False) -> Any:
    """The central difference at enough bits for 50 digits of the result; None at a kink or step.

    `fine`: by a step so small that not even floor(1e301/x) moves.
    """
    m = at_digits(140)
    c = m.context
    place = m._size(x)
    step = (-2200 if fine else -120) + min(place, 0)
    precision = 180 - 2 * step + place
    for _ in range(3):
        with c.workprec(precision):
            h = c.ldexp(1, step)
            low, middle, high = (function(m, m.real(c.mpf(x) + k * h)) for k in (-1, 0, 1))
            if not c.isfinite(low + middle + high):
                return None
            right, left = high - middle, middle - low
            if abs(right - left) > c.ldexp(abs(right) + abs(left), -60):
                lost = True
            else:
                lost = max(m._size(v) for v in (low, high)) - m._size(high - low) > precision - 200
            if not lost and high != low:
                return (high - low) / (2 * h)
        precision += 1300
    return c.zero if high == middle == low else None


def partial(name: str, point: Point, place: int, fine: bool = False) -> Any:
    def function(m: Numbers, x: Any) -> Any:
        arguments = [m.num(v) for v in point]
        arguments[place] = x
        return exact(m, name, arguments)

    return slope(function, point[place], fine)


def largest_terms(graph: Graph, nodes: Sequence[int], leaves: dict[str, Any]) -> list[float]:
    """For each node the size of the largest term of the sum that it is: what its rounding errors are measured by.

    A factor or a numerator may be a sum, a divisor or the argument of a function must not cancel.
    """
    needed = graph.reachable(nodes)
    order = [n for n in range(len(graph)) if needed[n]]
    values = dict(zip(order, evaluate(graph, order, leaves, 40), strict=True))
    terms: dict[int, Any] = {}
    for n in order:
        op, own, arguments = graph.ops[n], values[n], graph.arguments(n)
        if isinstance(own, list):
            terms[n] = [abs(v) for v in own]
            if op in ("mul", "div", "add", "sub", "neg", "where", "name", "spread", "_taint"):
                terms[n] = [
                    _term(op, v, [_row(terms[a], i) for a in arguments], [_row(values[a], i) for a in arguments])
                    for i, v in enumerate(own)
                ]
        elif op == "gather":
            terms[n] = max(terms[arguments[0]])
        else:
            terms[n] = _term(op, own, [_row(terms[a], 0) for a in arguments], [_row(values[a], 0) for a in arguments])
    return [terms[n] for n in nodes]


def _row(value: Any, i: int) -> Any:
    return value[i] if isinstance(value, list) else value


def _term(op: str, own: Any, terms: list[Any], values: list[Any]) -> Any:
    found = abs(own)
    if op in ("add", "sub"):
        found = max(terms)
    elif op == "mul":
        found = max(terms[0] * abs(values[1]), terms[1] * abs(values[0]))
    elif op == "div" and values[1]:
        found = terms[0] / abs(values[1])
    elif op == "where":
        found = terms[1] if values[0] else terms[2]
    elif op in ("neg", "name", "spread", "_taint"):
        found = terms[0]
    return max(found, abs(own))  # also where it is nan


def error(got: float, want: Any) -> float:
    """The distance in ulp of the wanted number; 0 where that is no normal double and both say the same of it."""
    size = float(want)
    if math.isnan(size) or math.isinf(size) or not want:
        return 0.0 if got == size or (got != got and size != size) else math.inf
    if not SMALLEST <= abs(size) <= LARGEST:
        return 0.0
    if not math.isfinite(got):
        return math.inf
    return float(abs(at_digits(60).context.mpf(got) - want)) / math.ulp(size)


def scaled(ulps: float, want: Any, term: Any, near: float) -> float:
    """The same distance in ulp of the largest term, or of `near`."""
    return ulps * math.ulp(float(want)) / math.ulp(max(abs(float(want)), min(float(term), LARGEST), near))


def cases(name: str, count: int) -> list[tuple[Compiled, list[Point], list[int]]]:
    """The row compiled for its points, once for each order; and which arguments are leaves."""
    orders = [i for i in range(count) if is_order(name, i, count)]
    places = [i for i in range(count) if i not in orders]
    found: dict[tuple[float | None, ...], list[Point]] = {}
    for point in points(name, count):
        found.setdefault(tuple(x if i in orders else None for i, x in enumerate(point)), []).append(point)
    return [(compiled(name, count, constants=fixed), rows, places) for fixed, rows in found.items()]


def worst_values(name: str, count: int) -> tuple[float, Point]:
    worst: tuple[float, Point] = (0.0, ())
    m = at_digits(60)
    for row, rows, places in cases(name, count):
        got = np.broadcast_to(row.run(columns_of(rows, places), len(rows))[0], len(rows))
        for point, number in zip(rows, got.tolist(), strict=True):
            want = exact(m, name, [m.num(x) for x in point])
            ulps = error(number, want)
            if ulps > BOUND and math.isfinite(ulps):
                ulps = scaled(ulps, want, 0.0, special(name).value_near)
            worst = max(worst, (ulps, point))
    return worst


def worst_slopes(name: str, count: int) -> tuple[float, tuple[Any, ...]]:
    found = []
    for _, rows, places in cases(name, count):
        found.append(worst_over(name, rows, {i: rows[0][i] for i in range(count) if i not in places}))
    return max(found, key=lambda w: w[0])


def worst_over(name: str, rows: list[Point], fixed: dict[int, float]) -> tuple[float, tuple[Any, ...]]:
    """The worst slope over points that have constants in the `fixed` places."""
    count = len(rows[0])
    places = [i for i in range(count) if i not in fixed]
    row = compiled(name, count, constants=tuple(fixed.get(i) for i in range(count)))
    results = row.run(columns_of(rows, places), len(rows))[1:]
    worst: tuple[float, tuple[Any, ...]] = (0.0, ())
    m = at_digits(60)
    for leaf, column in zip([leaf for leaf in row.leaves if leaf in row.found], results, strict=True):
        place = places[row.leaves.index(leaf)]
        for point, number in zip(rows, np.broadcast_to(column, len(rows)).tolist(), strict=True):
            value = float(exact(m, name, [m.num(x) for x in point]))
            if value and not SMALLEST <= abs(value) <= LARGEST:
                continue  # the row itself is out of range
            want = partial(name, point, place)
            if want is not None and error(number, want) > BOUND:
                want = partial(name, point, place, fine=name in STEPPED)
            if want is None or abs(want) > LARGEST:
                continue
            ulps = error(number, want)
            if ulps > BOUND and math.isfinite(ulps):
                leaves, term = {str(i): [x] for i, x in enumerate(point)}, 0.0
                if TABLE[name].rule is None or special(name).terms:
                    term = largest_terms(row.graph, [row.found[leaf]], leaves)[0][0]
                ulps = scaled(ulps, want, term, special(name).slope_near)
            worst = max(worst, (ulps, (place, point, number, float(want))), key=lambda w: w[0])
    return worst


COUNTS = [(name, count) for name in ROWS for count in counts(name)]
SMOOTH = [(name, count) for name, count in COUNTS if any(carries(name, count))]


@pytest.mark.parametrize(("name", "count"), COUNTS)
def test_value_is_the_exact_one(name: str, count: int) -> None:
    ulps, point = worst_values(name, count)
    assert ulps <= special(name).value, (ulps, point)


@pytest.mark.parametrize(("name", "count"), SMOOTH)
def test_rule_is_the_derivative_of_the_exact_counterpart(name: str, count: int) -> None:
    ulps, where = worst_slopes(name, count)
    assert ulps <= special(name).slope, (ulps, where)


CONSTANTS = (2.0, 0.5, -1.0, 3.0, 0.1, -0.3, 1.3, -4.0, 8.0, 9.0, 0.25, 1.0)


@pytest.mark.parametrize(("name", "count"), [(n, c) for n, c in SMOOTH if c > 1])
def test_constant_argument_changes_the_formula_not_the_number(name: str, count: int) -> None:
    for fixed in range(count):
        low, high = domain(name, fixed)
        if is_condition(name, fixed, count) or is_order(name, fixed, count) or not carries(name, count)[fixed]:
            continue
        for constant in CONSTANTS:
            if not low < constant < high:
                continue
            rows = [(*p[:fixed], constant, *p[fixed + 1 :]) for p in points(name, count)[:60:3]]
            orders = {i: rows[0][i] for i in range(count) if is_order(name, i, count)}
            rows = [tuple(orders.get(i, x) for i, x in enumerate(p)) for p in rows]
            worst = worst_over(name, rows, {fixed: constant} | orders)
            assert worst[0] <= special(name).slope, worst


FAR = (30.0, 711.0, 800.0, 1e5, 1e10)
OF_ONE = sorted({row.name for row in callable_rows().values() if row.arguments == ("x",) and not row.reduction})


@pytest.mark.parametrize("name", OF_ONE)
def test_far_out_a_derivative_is_a_number_where_the_function_is(name: str) -> None:
    """What overflows on the way is never divided by itself."""
    low, high = domain(name, 0)
    x = np.array([x for far in FAR for x in (far, -far) if low < x < high])
    model = gradcli.parse(f"y = {name}(x)")
    value = model.compile(wrt=[]).run({"x": x}).value if len(x) else x
    for order in (1, 2, 3):
        slope = model.derivative("y", *["x"] * order).compile(wrt=[]).run({"x": x}).value if len(x) else x
        assert not np.isnan(slope[np.isfinite(value)]).any(), (order, x[np.isnan(slope)])


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_derivatives_of_erfcx_keep_their_digits_far_out(order: int) -> None:
    """By the first terms of its asymptotic series (DLMF 7.12.1)."""
    x = np.array([1e5, 1e8, 1e10, 1e20, 1e50])
    program = gradcli.parse("y = erfcx(x)").derivative("y", *["x"] * order).compile(wrt=[])
    k = math.factorial(order)
    want = (-1) ** order * k / math.sqrt(math.pi) / x ** (order + 1) * (1 - (order + 1) * (order + 2) / 4 / x / x)
    np.testing.assert_allclose(program.run({"x": x}).value, want, rtol=1e-14)


@pytest.mark.parametrize("a", [1e-10, 1e-3, 0.7, 20.0, 1e7, 1e12])
@pytest.mark.parametrize("b", [1e-10, 1e-3, 0.7, 20.0, 1e7, 1e12])
def test_slopes_of_logbeta_keep_their_digits(a: float, b: float) -> None:
    m = at_digits(60)
    found = gradcli.parse("logbeta(a, b)").compile(hessian=True).run({"a": a, "b": b})
    for order, by in ((0, found.gradients), (1, {x: found.hessian[x][x] for x in "ab"})):
        for name, x, step in (("a", a, b), ("b", b, a)):
            want = float(m.digamma_drop(order, x, step).value)
            assert by[name] == pytest.approx(want, rel=2e-15, abs=0)


HALVES = (0.5, 1.5, 2.5, -0.5, -1.5, -2.5)
EDGES = [0.0, np.inf, np.nan, -1.0, 5e-324, 1e-310, 1e308, 1e-205, 1e205, 1e-130, 1e130]


@pytest.mark.parametrize("engine", ["numpy", "native"])
@pytest.mark.parametrize("k", HALVES)
def test_a_half_power_and_its_slope_are_exact_to_three_ulp(k: float, engine: str) -> None:
    x = np.concatenate([EDGES, np.exp(np.random.default_rng(0).uniform(-90, 90, 400))])
    result = gradcli.parse(f"x^{k}").compile(engine=engine).run({"x": x})
    m = at_digits(40).context
    for value, slope, a in zip(result.value, result.gradients["x"], x, strict=True):
        if not 0 < a < np.inf:
            with np.errstate(all="ignore"):
                np.testing.assert_array_equal([value, slope], [np.power(a, k), k * np.power(a, k - 1)])
            continue
        for got, want in ((value, m.mpf(a) ** k), (slope, k * m.mpf(a) ** (k - 1))):
            near = float(want)
            assert got == near or abs(got - near) <= 3 * np.spacing(abs(near)), (a, got, near)


@pytest.mark.parametrize("k", HALVES[1:])
def test_a_half_power_of_minus_zero_has_the_sign_of_numpys(k: float) -> None:
    with np.errstate(divide="ignore"):
        numpys = float(np.power(-0.0, k))
    for value in (gradcli.parse(f"y = x^{k}").compile().run({"x": -0.0}).value, numpys):
        assert (value, math.copysign(1, value)) == (0.0 if k > 0 else np.inf, 1.0)


@pytest.mark.parametrize(("name", "count"), COUNTS)
def test_scalars_columns_blocks_and_threads_give_the_same_bits(name: str, count: int) -> None:
    for row, rows, places in cases(name, count):
        columns = [np.tile(c, 9000 // len(rows) + 1) for c in columns_of(rows, places)]
        size = len(columns[0])
        whole = row.run(columns, size, threads=1)
        outputs = [np.empty(size) for _ in range(row.program.output_count)]
        others = [
            row.run(columns, size, threads=2, block=4096),
            row.run(columns, size, threads=1, block=97),
            row.run(columns, size, threads=1, out=outputs),
        ]
        for other in others:
            for a, b in zip(whole, other, strict=True):
                np.testing.assert_array_equal(a, b)
        constants = tuple(None if i in places else rows[0][i] for i in range(count))
        single = compiled(name, count, False, constants)
        for k, point in enumerate(rows[:12]):
            alone = single.run([point[i] for i in places], 1)
            np.testing.assert_array_equal(alone, [np.broadcast_to(a, size)[k] for a in whole])


@pytest.mark.parametrize("name", [n for n in ROWS if TABLE[n].ufunc and n not in BOOLEAN and n != "_number"])
def test_kernel_may_write_over_its_operands(name: str) -> None:
    count = len(TABLE[name].arguments)
    columns = columns_of(points(name, count))
    kernel, fresh = execute.kernel(name), np.empty(len(columns[0]))
    with np.errstate(all="ignore"):
        kernel(*columns, fresh)
        for place in range(count):
            own = [c.copy() for c in columns]
            kernel(*own, own[place])
            np.testing.assert_array_equal(own[place], fresh)


# ---- second derivatives, exact adjoints ------------------------------------------------------------------------------


def second(name: str, point: Point, i: int, j: int) -> Any:
    """The second difference of the exact counterpart."""
    m = at_digits(140)
    c = m.context

    def value(*moves: tuple[int, int]) -> Any:
        arguments = [c.mpf(x) for x in point]
        for place, sign in moves:
            arguments[place] += sign * h
        return exact(m, name, [m.real(x) for x in arguments])

    with c.workprec(600):
        h = c.ldexp(1, -100)
        if i == j:
            return (value((i, 1)) - 2 * value() + value((i, -1))) / h**2
        corners = [(s, t, value((i, s), (j, t))) for s in (1, -1) for t in (1, -1)]
        return sum(s * t * v for s, t, v in corners) / (4 * h**2)


@pytest.mark.parametrize(("name", "count"), SMOOTH)
def test_second_derivatives_are_those_of_the_exact_counterpart(name: str, count: int) -> None:
    for point in inside(name, count):
        graph = new_graph()
        constants = [is_order(name, i, count) for i in range(count)]
        leaves = [graph.constant(x) if c else graph.leaf(str(i)) for i, (x, c) in enumerate(zip(point, constants))]
        output = build(graph, name, leaves)
        flows = carries(name, count)
        pairs = [(i, j) for i in range(count) for j in range(i + 1) if flows[i] and flows[j]]
        found = [derivative(graph, derivative(graph, output, leaves[i]), leaves[j]) for i, j in pairs]
        machine, placed = simplify(graph, found)
        values = {str(i): x for i, x in enumerate(point)}
        for (i, j), got in zip(pairs, execute.run(schedule(machine, placed), values, 1), strict=True):
            want = float(second(name, point, i, j))
            assert got == pytest.approx(want, rel=1e-9, abs=1e-12), (point, i, j)


@pytest.mark.parametrize(("name", "count"), SMOOTH)
def test_adjoint_is_exact_to_forty_digits(name: str, count: int) -> None:
    """The constants and rules of the graph itself, nothing rounded to doubles: relative to its largest term."""
    tails = [p for p in points(name, count)[::5] if all(1e-30 < abs(x) < 1e30 for x in p)]
    for point in inside(name, count) + tails[:5]:
        fixed = tuple(x if is_order(name, i, count) else None for i, x in enumerate(point))
        row = compiled(name, count, constants=fixed)
        leaves = {str(i): [x] for i, x in enumerate(point)}
        for leaf in row.leaves:
            if leaf not in row.found:
                continue
            want = partial(name, point, int(row.graph.labels[leaf]))
            if want is None:
                continue
            (got,) = evaluate(row.graph, [row.found[leaf]], leaves, 50)[0]
            term = largest_terms(row.graph, [row.found[leaf]], leaves)[0][0]
            faint = not want and at_digits(60)._size(got) < -3000  # `slope` sees no further down
            assert faint or abs(got - want) <= 1e-40 * max(abs(want), term), (point, row.graph.labels[leaf], got, want)


# ---- over the rows ---------------------------------------------------------------------------------------------------


def samples(name: str) -> list[list[list[float]]]:
    """For each argument a column of five rows: ordinary, of very different sizes, far apart, with a zero."""
    rng = random.Random(name)
    kinds: list[Callable[[], float]] = [
        lambda: rng.uniform(-3, 3),
        lambda: rng.gauss(0, 1) * 10.0 ** rng.randint(-8, 8),
        lambda: rng.uniform(-300, 300),
        lambda: float(rng.randint(-1, 2)),
    ]
    return [[[kind() for _ in range(5)] for _ in TABLE[name].arguments] for kind in kinds * 2]


@pytest.mark.parametrize("name", REDUCING)
def test_reduction_and_its_gradient_are_the_exact_ones(name: str) -> None:
    count = len(TABLE[name].arguments)
    row = compiled(name, count)
    weights = [0.5, -1.25, 2.0, 0.75, -3.0]
    m = at_digits(60)

    def value(m: Numbers, columns: Sequence[Sequence[Any]]) -> Any:
        result = exact(m, name, columns)
        return sum(m.raw(w) * v for w, v in zip(weights, result)) if isinstance(result, list) else result

    formula_graph = new_graph()
    inputs = [formula_graph.leaf(str(i), True) for i in range(count)]
    formula = expand(formula_graph, name, inputs)
    for columns in samples(name):
        arrays = [np.array(c) for c in columns] + [np.array(weights)] * (len(row.leaves) - count)
        got = row.run(arrays, 5)
        exactly = [[m.num(x) for x in c] for c in columns]
        leaves = {str(i): c for i, c in enumerate(columns)} | {"weights": weights}
        want = value(m, exactly)
        term = largest_terms(formula_graph, [formula], leaves)[0]
        size = max(abs(want), max(t * 3 for t in term) if isinstance(term, list) else term)
        assert got[0] != got[0] or abs(got[0] - float(want)) <= BOUND * math.ulp(float(size))
        for place in range(count):
            if row.leaves[place] not in row.found:
                continue
            gradient = got[1 + place]
            terms = largest_terms(row.graph, [row.found[row.leaves[place]]], leaves)[0]
            for k, x in enumerate(columns[place]):

                def moved(m: Numbers, x: Any, place: int = place, k: int = k, columns: Any = columns) -> Any:
                    own = [[m.num(v) for v in c] for c in columns]
                    own[place][k] = x
                    return value(m, own)

                slope_of_one = slope(moved, x)
                if slope_of_one is not None:
                    unit = math.ulp(max(abs(float(slope_of_one)), float(terms[k]), SMALLEST))
                    assert abs(gradient[k] - float(slope_of_one)) <= BOUND * unit, (columns, place, k)


# ---- words -----------------------------------------------------------------------------------------------------------


def test_names_and_aliases_are_unique() -> None:
    words = [w for row in TABLE.values() for w in (row.name, *row.aliases)]
    assert sorted(words) == sorted(set(words))
    assert set(callable_rows()) == {
        w for n, row in TABLE.items() if n not in OPERATORS | HIDDEN and n[0] != "_" for w in (n, *row.aliases)
    }


@pytest.mark.parametrize("name", TABLE)
def test_row_states_everything(name: str) -> None:
    row = TABLE[name]
    assert row.name == name
    assert re.fullmatch(r"_?[a-z][a-z0-9_]*", name)
    assert row.doc.endswith(".")
    assert "\n" not in row.doc
    assert len(row.domain) == len(row.arguments)
    assert all(low < high for low, high in row.domain)
    assert all(a.isidentifier() for a in row.arguments[:-1])
    assert row.arguments[-1].rstrip("*").isidentifier()
    assert row.signature.startswith(f"{name}(")
    assert not (row.ufunc and row.formula)


def pulled(name: str) -> tuple[Graph, tuple[Cotangent | None, ...]]:
    graph = new_graph()
    row = TABLE[name]
    orders = [is_order(name, i, len(row.arguments)) for i in range(len(row.arguments))]
    leaves = [graph.constant(2.0) if o else graph.leaf(str(i), True) for i, o in enumerate(orders)]
    y = graph.handle(graph.leaf("y", row.reduction != "scalar"))
    assert row.rule is not None
    return graph, row.rule(Cotangent(graph, graph.leaf("g", True)), y, *map(graph.handle, leaves))


@pytest.mark.parametrize("name", [n for n in TABLE if TABLE[n].rule])
def test_rule_gives_each_argument_a_masked_cotangent_or_none(name: str) -> None:
    graph, parts = pulled(name)
    row = TABLE[name]
    assert len(parts) == len(row.arguments)
    for place, part in enumerate(parts):
        if part is None:
            assert is_condition(name, place, len(parts)) or is_order(name, place, len(parts)) or name in BOOLEAN or (
                "gradient" in row.doc or name in HIDDEN or name.startswith("_")
            )  # fmt: skip
        else:
            assert part.mask is None or graph.ops[part.mask] in (*BOOLEAN, "leaf")
    assert all(TABLE[op].rule for op in graph.ops if op in TABLE), "a rule may not use what is made of other rows"


@pytest.mark.parametrize("name", [n for n in TABLE if TABLE[n].formula])
def test_formula_uses_rows_that_have_rules(name: str) -> None:
    graph = new_graph()
    count = len(TABLE[name].arguments)
    inputs = [graph.constant(2.0) if is_order(name, i, count) else graph.leaf(str(i), True) for i in range(count)]
    expand(graph, name, inputs)
    assert all(TABLE[op].rule for op in graph.ops if op in TABLE)


def test_special_bounds_are_for_rows_that_need_them() -> None:
    assert set(SPECIAL) <= set(TABLE)
    for name, entry in SPECIAL.items():
        assert entry.reason
        assert entry != Special(entry.reason), name
