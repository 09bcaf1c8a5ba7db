"""A checker that cannot fail proves nothing: every rule of the table, made wrong in a small way, is found out.

Each row is checked with its rule multiplied by 1 + 1e-6, by -1 and by 0; where the slope is 0, 1e-6 is added instead.
"""

from __future__ import annotations

import pytest

import gradcli
from gradcli.calculus.adjoint import carries
from gradcli.primitives import TABLE, callable_rows

FACTORS = {"1 + 1e-6": 1 + 1e-6, "-1": -1.0, "0": 0.0}

# Arguments at which the function and its slopes are neither 0 nor at a kink.
ARGUMENTS = {
    "abs": ["-1.3"], "relu": ["1.3"], "relu6": ["2.3"], "leaky_relu": ["-1.3"], "elu": ["-0.7"], "selu": ["-0.7"],
    "acosh": ["1.7"], "acoth": ["1.7"], "asec": ["1.7"], "acsc": ["1.7"], "clip": ["0.7", "0.1", "1.9"],
    "max": ["0.7", "0.3"], "min": ["0.7", "1.3"], "_maximum": ["0.7", "0.3"], "_minimum": ["0.7", "1.3"],
    "polygamma": ["1", "1.7"], "mod": ["7.3", "1.9"], "fmod": ["7.3", "1.9"], "copysign": ["1.3", "-0.4"],
    "besselj": ["1", "1.7"], "bessely": ["1", "1.7"], "besseli": ["1", "1.7"], "besselk": ["1", "1.7"],
    "where": ["1", "0.7", "0.4"], "logit": ["0.3"], "xlogy": ["0.7", "1.6"], "xlog1py": ["0.7", "1.6"],
    "_sinc": ["1", "0.7"], "_ierfcx": ["1", "0.7"], "_digamma_drop": ["1", "0.7", "0.4"], "_zeta": ["2", "1.7"],
    "_sech2": ["0.7"],
    "lgamma": ["2.7"], "gamma": ["2.7"], "digamma": ["2.7"],
}  # fmt: skip
SYMBOLS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "floordiv": "//", "mod": "%"}


def public(name: str) -> str:
    """Rows that only rules and formulas use get a name that a model can call, for the time of a test."""
    return f"probe{name}" if name.startswith("_") and name not in COLUMNS else name


def carrying(name: str) -> bool:
    return TABLE[name].rule is not None and any(carries(name, arity(name)))


def plain_rows() -> list[str]:
    """Rows with a rule and a gradient over numbers; those without a rule are made of these."""
    named = {p.name for p in callable_rows().values()} | set(SYMBOLS) | {"neg"}
    inner = {n for n in TABLE if n.startswith("_") and n not in ("_taint", "_number")}
    return [n for n in TABLE if n in named | inner and not TABLE[n].reduction and carrying(n)]


def column_rows() -> list[str]:
    return [n for n in TABLE if TABLE[n].reduction and carrying(n)]


def arity(name: str) -> int:
    return len(TABLE[name].arguments)


def is_flat(name: str) -> bool:
    return name in ("floor", "ceil", "round", "trunc", "sign", "step", "floordiv")


def text_of(name: str) -> str:
    """A model of one call, each argument a leaf of its own."""
    count = arity(name)
    given = ARGUMENTS.get(name, ["0.7", "0.4", "0.3"][:count])
    letters = "abc"[:count]
    leaves = [f"{x} = {v}" for x, v in zip(letters, given, strict=True)]
    if name.startswith("_") and TABLE[name].arguments[0] == "n":  # an order is a number of the formula
        call = f"{public(name)}({', '.join((given[0], *letters[1:]))})"
        leaves = leaves[1:]
    elif name.startswith("_"):
        call = f"{public(name)}({', '.join(letters)})"
    elif name in SYMBOLS:
        call = f"a {SYMBOLS[name]} b"
    else:
        call = "-a" if name == "neg" else f"{name}({', '.join(letters)})"
    return "\n".join([*leaves, f"y = {call}"])


def wrong_rule(name: str, factor: float):
    """The rule of a row with each of its cotangents multiplied, or 1e-6 added where the slope is 0."""
    right = TABLE[name].rule

    def rule(g, y, *arguments):
        found = right(g, y, *arguments)
        if is_flat(name):
            return tuple(None if part is None else g * 1e-6 for part in found)
        return tuple(None if part is None else part * factor for part in found)

    return rule


def register(monkeypatch, name: str, **changes) -> None:
    """Put a changed row into the table; one that only rules use under a name of its own, its formula with it."""
    row = TABLE[name]._replace(name=public(name), **changes)
    monkeypatch.setitem(TABLE, row.name, row)


@pytest.fixture
def spoilt(monkeypatch):
    def spoil(name: str, factor: float) -> None:
        register(monkeypatch, name, rule=wrong_rule(name, factor))

    return spoil


def found_out(text: str) -> None:
    checks = gradcli.check(gradcli.parse(text), points=3)
    assert checks
    wrong = [c for c in checks if c.verdict == "wrong"]
    assert wrong, [c.verdict for c in checks]
    assert all("engine's rule is the odd one out" in (c.hint or "") for c in wrong), [c.hint for c in wrong]


def accepted(text: str) -> None:
    assert {c.verdict for c in gradcli.check(gradcli.parse(text), points=3)} == {"agrees"}


CASES = [(n, f) for n in plain_rows() for f in (["0"] if is_flat(n) else FACTORS)]


@pytest.mark.parametrize("name", plain_rows())
def test_right_rule_is_accepted(name, monkeypatch):
    register(monkeypatch, name)
    accepted(text_of(name))


@pytest.mark.parametrize(("name", "factor"), CASES)
def test_wrong_rule_is_found_out(name, factor, spoilt):
    spoilt(name, FACTORS[factor])
    found_out(text_of(name))


COLUMNS = {
    "softmax": "x = [0.3, -0.7, 1.1]\ny = sum(softmax(x)*[1, 2, 3])",
    "gather": "x = [0.3, -0.7, 1.1]\ny = sum(x)",
    "min_rows": "x = [0.3, -0.7, 1.1]\ny = min(x)",
    "max_rows": "x = [0.3, -0.7, 1.1]\ny = max(x)",
    "prod_rows": "x = [0.3, -0.7, 1.1]\ny = prod(x)",
    "_others": "x = [0.3, -0.7, 1.1]\ny = sum(d(prod(x), x)*[1, 2, 3])",
    "logsumexp_rows": "x = [0.3, -0.7, 1.1]\ny = logsumexp(x)",
}


@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize("name", column_rows())
def test_wrong_rule_over_rows_is_found_out(name, factor, spoilt):
    text = COLUMNS.get(name, f"x = [0.3, -0.7, 1.1]\ny = {name}(x)")
    accepted(text)
    spoilt(name, FACTORS[factor])
    found_out(text)


# ---- the traps of other checkers -----------------------------------------------------------------------------------


def verdicts(text: str) -> list[str]:
    return [c.verdict for c in gradcli.check(gradcli.parse(text))]


def test_small_slope_of_the_wrong_sign_is_wrong():
    assert verdicts("x = 1\ny = 1e-6*x\nclaim d(y, x) = -1e-6") == ["agrees", "wrong"]


def test_nine_hundredths_of_a_percent_are_wrong():
    assert verdicts("x = 1\ny = 1e-6*x\nclaim d(y, x) = 1.0009e-6") == ["agrees", "wrong"]


@pytest.mark.parametrize("text", ["x = 1e10\ny = sin(x)", "x = 1e-5\ny = sqrt(x)", "x = 1\ny = x^2 + 1e12"])
def test_right_gradient_is_accepted_where_a_step_would_fail(text):
    assert verdicts(text) == ["agrees"]


@pytest.mark.parametrize("function", ["abs(x)", "max(x, 0)", "relu(x)", "relu6(x)", "clip(x, 0, 1)"])
def test_kink_at_the_own_point_is_accepted_and_named(function):
    (check,) = gradcli.check(gradcli.parse(f"x = 0\ny = {function}"))
    assert check.verdict == "agrees"
    assert "a kink at x=0.0" in check.note


def test_side_that_is_not_defined_is_wrong():
    assert verdicts("x = 1\ny = x\nclaim d(abs(x), x) = sqrt(x)/sqrt(x)")[-1] == "wrong"
    assert verdicts("x = 1\ny = x\nclaim d(abs(x), x) = sqrt(x)/sqrt(x) if x > 0")[-1] == "agrees"
