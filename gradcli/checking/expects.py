"""Expectations: values at the file's own point, on the decimals as written."""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal
from typing import Any

from gradcli.api import Model, mixed_rows
from gradcli.calculus.adjoint import MixedRows
from gradcli.calculus.exact import evaluate
from gradcli.calculus.specialise import specialise
from gradcli.checking.exactly import DIGITS, is_nan, leaves, rows_of, spell, spell_both
from gradcli.checking.names import common_rows, placed, plain_point
from gradcli.errors import BindingError, Diagnostic
from gradcli.language.lower import ExpectLine
from gradcli.verdicts import Check


def check_expect(model: Model, line: ExpectLine) -> Check:
    """Raises BindingError for names without a value and for sides with different numbers of rows."""
    resolved = model.resolved
    marks = resolved.graph.reachable([line.left, line.right])
    names = [n for n in resolved.names.inputs() if marks[n.node]]
    missing = [n for n in names if n.label not in model.point]
    if missing:
        raise BindingError(*[Diagnostic(f"`{n.label}` has no value for this expectation", line.span,
                                        f"give it one: `{n.label}=VALUE`") for n in missing])  # fmt: skip
    common_rows(model, names, [line.left, line.right], line.span)
    point = plain_point(model, names)
    columns = {n for n, v in point.items() if isinstance(v, list)} | {
        resolved.graph.labels[n] for n in resolved.graph.lists
    }
    try:
        graph, at = specialise(resolved.graph, columns, [line.left, line.right])
    except MixedRows as fault:
        raise mixed_rows(model, fault) from None
    found = evaluate(graph, [at[line.left], at[line.right]], leaves(resolved, point, own=True), DIGITS)
    left, right = (rows_of(v) for v in found)
    if len(left) == 1 < len(right):
        fact = f"a scalar on the left, {len(right)} rows on the right"
        raise BindingError(Diagnostic(fact, line.span, "expect a number, or name a row's function such as `sum`"))
    right = right * len(left) if len(right) == 1 else right
    bad = next((row for row, v in enumerate(left) if not _within(v, right[row], line)), None)
    check = _check(line, "agrees" if bad is None else "wrong")
    if bad is None:
        return check
    gap = left[bad] - right[bad]
    told = f"off by {spell(_short(gap))}" if not is_nan(gap) and abs(gap) != math.inf else None
    if len(left) > 1:
        told = f"in row {bad + 1}" + (f", {told}" if told else "")
    both = spell_both(left[bad], right[bad])
    return replace(check, counterexample=point, left=both[0], right=both[1], hint=told, replay=line.left_span.text)


def _short(gap: Any) -> float:
    return float(f"{float(gap):.3g}")


def _check(line: ExpectLine, verdict: str) -> Check:
    text = line.span.text.split("\n")[0]
    return Check(kind="expect", name=line.left_span.text, text=text, verdict=verdict, points=1, **placed(line.span))


def _within(value: Any, wanted: Any, line: ExpectLine) -> bool:
    """Whether a value is as expected: relative 1e-9 by default (absolute where 0 is expected)."""
    if is_nan(value) or is_nan(wanted):
        return is_nan(value) and is_nan(wanted)
    if value == wanted:
        return True
    if abs(value) == math.inf or abs(wanted) == math.inf:
        return False
    kind, text = line.tolerance.kind, line.tolerance.text
    number = type(wanted)
    if kind == "absolute":
        limit = number(text)
    elif kind == "percent":
        limit = abs(wanted) * number(text) / 100
    elif kind == "rounded":
        exponent = int(Decimal((line.text or "0").replace("_", "")).as_tuple().exponent)
        limit = number(5) * number(10) ** (exponent - 1)
    else:
        limit = number("1e-9") * (abs(wanted) or 1)
    return bool(abs(value - wanted) <= limit * (1 + number("1e-30")))
