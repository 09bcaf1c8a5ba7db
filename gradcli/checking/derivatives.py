"""Is the rule right, and are the digits right: every derivative of an output, by three witnesses.

The engine's adjoint graph and the symbolic witness are evaluated at the same points to fifty digits; they agree to
forty or somebody is wrong. The function itself, differenced at twice the digits, is the third witness and says who.
At a kink the one-sided slopes count: a gradient between them is accepted, and the kink is named.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradcli.api import Model, Program
from gradcli.checking.branches import Branches
from gradcli.checking.exactly import DIGITS, MORE, MOST, is_nan, leaves, near, slope_text, spell, spell_both
from gradcli.checking.names import call, common_rows, placed, point_text, sampled_names
from gradcli.checking.points import Point, Sampler, seed_of
from gradcli.checking.shapes import Shape, conditioning, raw, shape_of
from gradcli.checking.slopes import Slope, meet, one_sided
from gradcli.checking.witness import Sweep
from gradcli.errors import BindingError, Diagnostic
from gradcli.language.lower import Name
from gradcli.results import Number
from gradcli.verdicts import Check

_FLOAT_DIGITS = 15.95
_LOST = 14.0  # digits below which it is said what the conditioning leaves
_INF = math.inf


@dataclass
class _Verdict:
    """What has been found for one leaf so far; `worst` is where the most digits are lost."""

    points: int = 0
    digits: float = _FLOAT_DIGITS
    worst: tuple[Shape, int, dict[str, Any]] | None = None
    wrong: dict[str, Any] | None = None
    kink: str | None = None
    doubt: str | None = None
    settled: int = 0  # points at which somebody has an opinion


class DerivativeCheck:
    """All derivatives of one output of a model, checked together at the same points."""

    def __init__(self, model: Model, output: str, count: int, seed: int, only: frozenset[str] | None = None) -> None:
        self.model, self.count = model, count
        self.program: Program = model.compile(output)
        self.output = self.program.output
        self.names = model.resolved.names
        self.leaves = [n for n in self.program.wanted if n in self.program.filled and n != self.output]
        if only is not None:
            self.leaves = [n for n in self.leaves if f"d({self.output}, {n})" in only]
        self.needed = sampled_names(model, [self.names[self.output].node])
        self.seed = seed_of(f"d {self.output} by {' '.join(n.label for n in self.needed)}", seed)
        self._shapes: dict[frozenset[str], Shape] = {}

    def run(self) -> list[Check]:
        """One verdict a leaf. Raises BindingError where the domain contains no valid point, or columns do not fit."""
        found = {n: _Verdict() for n in self.leaves}
        if not found:
            return []
        node = self.names[self.output].node
        common_rows(self.model, self.needed, [node], self.names[self.output].span)
        self.sampler = Sampler(self.model.resolved, self.model.point, self.needed, self.seed)
        self.branches = Branches(self.model.resolved, [node])
        if (own := self.sampler.own) is not None:
            self._visit(own, found)
        valid = 0
        for tries, point in enumerate(self.sampler.stream()):
            if valid >= self.count or tries >= self.count * 12 or all(v.wrong for v in found.values()):
                break
            valid += self._visit(point, found)
        for point in self.branches.unseen(self.sampler):
            self._visit(point, found)
        domains = self.model.resolved.domains
        if domains and not any(v.points for v in found.values()):
            raise BindingError(Diagnostic(f"the domain contains no valid point of `{self.output}`", domains[0].span,
                                          "widen it to where the output is defined"))  # fmt: skip
        return [self._check(self.names[n], v) for n, v in found.items()]

    def _visit(self, point: Point, found: dict[str, _Verdict]) -> bool:
        """Judge every leaf at a point; False where the output has no value there."""
        shape = self._shape(frozenset(n for n, v in point.items() if isinstance(v, list)))
        values = leaves(self.model.resolved, point, own=False)
        watched = [shape.at[n] for n in self.branches.watched]
        numbers = shape.values(values, DIGITS, watched)
        if any(is_nan(v) or abs(v) == _INF for v in raw(numbers[shape.output])):
            return False
        sides = self.branches.taken(lambda n: [float(v) for v in raw(numbers[shape.at[n]])])
        self.branches.seen |= sides
        tied = self.branches.tied(lambda n: [float(v) for v in raw(numbers[shape.at[n]])])
        sweep = shape.sweep(numbers, values, DIGITS, sized=False)
        if any(_unclear(*_both(n, shape, sweep, numbers)) for n in found):
            sweep = shape.sweep(numbers, values, DIGITS)  # how large the terms are that cancel decides
        floats = self._floats(point)
        for name, verdict in found.items():
            if verdict.wrong is None:
                self._judge(name, verdict, shape, sweep, numbers, floats.get(name), point, values, tied)
        return True

    def _shape(self, columns: frozenset[str]) -> Shape:
        if columns not in self._shapes:
            self._shapes[columns] = shape_of(self.model, self.output, self.leaves, columns)
        return self._shapes[columns]

    def _floats(self, point: Point) -> dict[str, Number | None]:
        given = {n: v for n, v in point.items() if n in self.program.needed}
        return dict(self.program.run(given, threads=1).gradients)

    def _judge(self, name: str, verdict: _Verdict, shape: Shape, sweep: Sweep, numbers: list[Any],
               gradient: Number | None, point: Point, values: dict[str, Any], tied: bool) -> None:  # fmt: skip
        engine, slopes, sizes = _both(name, shape, sweep, numbers)
        verdict.points += 1
        odd = [row for row, e in enumerate(engine) if not near(e, slopes[row], sizes[row])]
        if tied and not odd:
            self._name_kink(name, verdict, shape, engine, values, point)
        for digits in (MORE, MOST):
            if not odd:
                break
            # a witness that cancels, such as 1 - tanh(x)^2 in the tail, comes right with more digits
            again = shape.values(values, digits)
            engine, slopes, sizes = _both(name, shape, shape.sweep(again, values, digits), again)
            odd = [row for row in odd if not near(engine[row], slopes[row], sizes[row])]
        doubts = 0
        for row in odd:
            who = self._settle(name, verdict, shape, engine[row], slopes[row], sizes[row], row, point, values)
            if who == "wrong":
                return
            doubts += who == "doubt"
        verdict.settled += not doubts
        if gradient is not None:
            self._count_digits(verdict, engine, sizes, gradient, shape, values)

    def _name_kink(self, name: str, verdict: _Verdict, shape: Shape, engine: Sequence[Any], values: dict[str, Any],
                   point: Point) -> None:  # fmt: skip
        """Where two sides meet, engine and witness may agree on a slope that the function does not have."""
        for row in range(min(len(engine), 4)):
            left, right = one_sided(shape, name, row, values)
            if left.known and right.known and not meet(left, right):
                verdict.kink = verdict.kink or _kink(point, left, right, engine[row])

    def _settle(self, name: str, verdict: _Verdict, shape: Shape, engine: Any, slope: Any, size: Any, row: int,
                point: Point, values: dict[str, Any]) -> str:  # fmt: skip
        """The function says who is right: wrong, doubt, or right, also at a kink with a slope between its two."""
        left, right = one_sided(shape, name, row, values)
        sides = [s for s in (left, right) if s.known]
        at = point_text(point)
        if not sides:
            verdict.doubt = f"neither the witness nor the function has a slope at {at}"
            return "doubt"
        if any(s.jump for s in sides):
            verdict.doubt = f"the function jumps at {at}"
            return "doubt"
        fits = [s.fits(engine, size) for s in sides]
        if not meet(sides[0], sides[-1], size):
            if any(fits) or min(s.value for s in sides) <= engine <= max(s.value for s in sides):
                verdict.kink = verdict.kink or _kink(point, left, right, engine)
                return "right"
        elif all(fits) and not all(s.fits(slope, size) for s in sides):
            verdict.doubt = f"the symbolic witness differs at {at}: {spell(slope)}"
            return "right"
        elif all(fits) and all(abs(e) <= s.error for e in (engine, slope) for s in sides):
            verdict.doubt = f"the slope at {at} is too small to tell it from 0"
            return "doubt"
        both = spell_both(engine, slope)
        verdict.wrong = {"point": point, "left": both[0], "right": both[1],
                         "hint": _odd_one(engine, slope, size, left, right)}  # fmt: skip
        return "wrong"

    def _count_digits(self, verdict: _Verdict, engine: Sequence[Any], sizes: Sequence[Any], gradient: Number,
                      shape: Shape, values: dict[str, Any]) -> None:  # fmt: skip
        numbers = np.atleast_1d(gradient)
        for row, truth in enumerate(engine):
            value = float(numbers[row if len(numbers) > 1 else 0])
            if is_nan(truth) or not math.isfinite(value) or abs(truth) == _INF or 0 < abs(truth) < 2.3e-308:
                continue  # a subnormal number has fewer digits to be right
            scale = abs(truth) if truth else sizes[row]
            error = float(abs(value - truth) / scale) if scale else float(abs(value - truth))
            digits = -math.log10(error) if error > 0 else _FLOAT_DIGITS
            if digits < verdict.digits:
                verdict.digits, verdict.worst = digits, (shape, row, values)

    def _check(self, name: Name, verdict: _Verdict) -> Check:
        span = self.names[self.output].span
        wrong = verdict.wrong
        state = "wrong" if wrong else "agrees" if verdict.settled else "undecided"
        text = f"d({self.output}, {name.label})"
        lost = verdict.worst if state == "agrees" and verdict.digits < _LOST else None
        notes = [verdict.kink, verdict.doubt, self.branches.untaken()]
        if not verdict.points:
            notes = [f"`{self.output}` has no finite value at any point that was tried"]
        return Check(
            kind="derivative", name=text, text=call(self.output, name.label), **placed(span),
            verdict=state, points=verdict.points,
            digits=max(0.0, round(verdict.digits, 1)) if verdict.points else None, seed=self.seed, output=self.output,
            by=name.label, counterexample=wrong["point"] if wrong else None,
            left=wrong["left"] if wrong else None, right=wrong["right"] if wrong else None,
            hint=wrong["hint"] if wrong else None, note="; ".join(filter(None, notes)) or None,
            branches=self.branches.count,
            conditioning=conditioning(lost[0], name.label, *lost[1:]) if lost else None,
        )  # fmt: skip


def _unclear(engine: Sequence[Any], slopes: Sequence[Any], sizes: Sequence[Any]) -> bool:
    """Whether the numbers alone do not say that they agree."""
    return any(not e or not near(e, s, 0) for e, s in zip(engine, slopes, strict=True))


def _kink(point: Point, left: Slope, right: Slope, taken: Any) -> str:
    sides = f"slopes {slope_text(left.value)} and {slope_text(right.value)}"
    return f"a kink at {point_text(point)}: {sides}, {slope_text(taken)} is taken"


def _odd_one(engine: Any, slope: Any, size: Any, left: Slope, right: Slope) -> str:
    """Who differs from the function, for a hint."""
    if is_nan(engine):
        sides = f"{slope_text(left.value)} and {slope_text(right.value)}"
        return f"the gradient is undefined where the function has slopes {sides}"
    side = left if left.known else right
    who = "the engine's rule is the odd one out" if side.fits(slope, size) else "engine and witness differ"
    return f"{who}: the function itself has slope {slope_text(side.value)}"


def _both(name: str, shape: Shape, sweep: Sweep, numbers: list[Any]) -> tuple[list[Any], list[Any], list[Any]]:
    """Engine, witness, and the size of the witness's terms, row by row."""
    zero = [sweep.m.num(0)]
    node = shape.witness_by[name]
    engine = raw(numbers[shape.adjoint[name]])
    slopes = [v.value for v in sweep.adjoint.get(node, zero)]
    sizes = [v.value for v in sweep.size.get(node, zero)]
    rows = max(len(engine), len(slopes))
    engine, slopes, sizes = (x if len(x) == rows else x * rows for x in (engine, slopes, sizes))
    return engine, slopes, sizes
