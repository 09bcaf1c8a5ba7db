"""Every row of the table against its exact counterpart: values, rules, second derivatives, bits, words.

All tests are generated from the table. Points are drawn from the domain of the row: magnitudes from 2^-1000 to 2^1000 of
both signs, both sides of every edge, whole and half numbers, the doubles nearest to multiples of pi/2, and random ones.
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

from gradcli.calculus.adjoint import adjoints, carries, derivative
from gradcli.calculus.exact import Numbers, Symbols, evaluate
from gradcli.calculus.simplify import simplify
from gradcli.calculus.specialise import build, expand
from gradcli.cotangent import Cotangent
from gradcli.engine import execute
from gradcli.engine.program import Program, schedule
from gradcli.graph import Graph
from gradcli.primitives import BOOLEAN, HIDDEN, OPERATORS, TABLE, callable_rows, new_graph

BOUND = 4.0  # ulp of the larger of the result and the largest term of its formula

# Rows that scipy computes, or that cancel, with their worst error in ulp where it is above the bound: measured here, with
# about a third of room. (value, rule); 0 keeps the bound.
WORST: dict[str, tuple[float, float, str]] = {}

ROWS = [name for name, row in TABLE.items() if not row.reduction]
REDUCING = [name for name, row in TABLE.items() if row.reduction]
REPEATED = [name for name, row in TABLE.items() if row.variadic]
SMALLEST, LARGEST = 2.3e-308, 1.7e308
Point = tuple[float, ...]


def bound(name: str, of: int) -> float:
    return max(BOUND, WORST.get(name, (0.0, 0.0, ""))[of])


# ---- points -----------------------------------------------------------------------------------------------------------


def numbers(low: float, high: float, rng: random.Random, many: bool) -> list[float]:
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
    return [x for x in found if low < x < high and abs(x) >= SMALLEST]


def is_condition(name: str, place: int, count: int) -> bool:
    return domain(name, place) == (0.0, 1.0) and not carries(name, count)[place]


def is_order(name: str, place: int, count: int) -> bool:
    """A whole number such as the order of a Bessel function: it carries no gradient and its domain is bounded."""
    return not carries(name, count)[place] and math.isfinite(domain(name, place)[1]) and name not in BOOLEAN


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
            lists.append(numbers(low, high, rng, count == 1))
    if count == 1:
        return [(x,) for x in lists[0]]
    slow = any(is_order(name, place, count) for place in range(count))
    found = [tuple(rng.choice(items) for items in lists) for _ in range(80 if slow else 160)]
    for _ in range(60 if domain(name, 0) == domain(name, 1) else 0):
        x = rng.choice(lists[0])
        near = [x * (1 + 10.0 ** -rng.uniform(0, 17)) * rng.choice((1, 1, -1)) for _ in range(count - 1)]
        if all(domain(name, 0)[0] < y < domain(name, 0)[1] for y in near):
            found.append((x, *near))
    return found


def inside(name: str, count: int) -> list[Point]:
    """A few unremarkable points."""
    rng = random.Random(name)
    found = []
    for _ in range(6):
        point = []
        for place in range(count):
            low, high = domain(name, place)
            if is_condition(name, place, count) or is_order(name, place, count):
                point.append(float(max(low, rng.choice((0, 1, 2)))) if high > 1 else rng.choice((0.0, 1.0)))
            else:
                low, high = max(low, -3.0) + 0.05, min(high, max(low, -3.0) + 5.0) - 0.05
                point.append(rng.uniform(low, high))
        found.append(tuple(point))
    return found


# ---- the engine -------------------------------------------------------------------------------------------------------


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


# ---- the reference ----------------------------------------------------------------------------------------------------


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
    step = (-2200 if fine else -150) + min(place, 0)
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
    return found if found >= abs(own) else abs(own)  # also where it is nan


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


def scaled(name: str, ulps: float, want: Any, term: Any) -> float:
    """The same distance in ulp of the largest term."""
    return ulps * math.ulp(float(want)) / math.ulp(max(abs(float(want)), min(float(term), LARGEST)))


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
        formula, graph = -1, new_graph()
        if TABLE[name].formula is not None:
            constants = [graph.constant(x) if i not in places else -1 for i, x in enumerate(rows[0])]
            formula = expand(graph, name, [graph.leaf(str(i)) if c < 0 else c for i, c in enumerate(constants)])
        for point, number in zip(rows, got.tolist(), strict=True):
            want = exact(m, name, [m.num(x) for x in point])
            ulps = error(number, want)
            if ulps > BOUND and math.isfinite(ulps):
                leaves = {str(i): x for i, x in enumerate(point)}
                term = largest_terms(graph, [formula], leaves)[0] if formula >= 0 else 0.0
                ulps = scaled(name, ulps, want, term)
            worst = max(worst, (ulps, point))
    return worst


def worst_slopes(name: str, count: int) -> tuple[float, tuple[Any, ...]]:
    worst: tuple[float, tuple[Any, ...]] = (0.0, ())
    m = at_digits(60)
    for row, rows, places in cases(name, count):
        results = row.run(columns_of(rows, places), len(rows))[1:]
        for leaf, column in zip([leaf for leaf in row.leaves if leaf in row.found], results, strict=True):
            place = places[row.leaves.index(leaf)]
            for point, number in zip(rows, np.broadcast_to(column, len(rows)).tolist(), strict=True):
                value = float(exact(m, name, [m.num(x) for x in point]))
                if value and not SMALLEST <= abs(value) <= LARGEST:
                    continue  # the row itself is out of range
                want = partial(name, point, place)
                if want is not None and error(number, want) > BOUND:
                    want = partial(name, point, place, fine=TABLE[name].ufunc is not None)
                if want is None or abs(want) > LARGEST:
                    continue
                ulps = error(number, want)
                if ulps > BOUND and math.isfinite(ulps):
                    leaves = {str(i): [x] for i, x in enumerate(point)}
                    ulps = scaled(name, ulps, want, largest_terms(row.graph, [row.found[leaf]], leaves)[0][0])
                worst = max(worst, (ulps, (place, point, number, float(want))), key=lambda w: w[0])
    return worst
