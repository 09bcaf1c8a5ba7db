"""Sympy's side note: in a child process, with a time limit, never a verdict."""

from __future__ import annotations

import pytest

import gradcli
from gradcli.calculus.specialise import specialise
from gradcli.checking import symbolic
from gradcli.checking.run import Options, check_model


def note(text):
    return [c.symbolic for c in check_model(gradcli.parse(text), Options(symbolic=20.0)) if c.kind == "claim"]


def test_zero_nonzero_and_unknown():
    text = "x = 0.3; y = sin(x)^2; claim d(y, x) = sin(2*x); claim d(y, x) = sin(2*x) + 1; claim y = x"
    assert note(text) == ["zero", "nonzero", "unknown"]


def test_positive_leaves_are_known_to_be():
    assert note("x = 2; y = x; domain x > 0; claim sqrt(x^2) = x") == ["zero"]
    assert note("x = 2; y = x; claim sqrt(x^2) = abs(x)") == ["zero"]


def test_names_are_never_read():
    assert note(
        "`__import__('os')` = 2; y = `__import__('os')`^2; claim y = `__import__('os')`*`__import__('os')`"
    ) == ["zero"]


def test_columns_have_no_opinion():
    assert note("x = [1, 2]; y = sum(x); claim y = x*0 + 3") == ["unknown"]


@pytest.fixture
def helper():
    made = symbolic.Helper(10.0)  # other jobs may keep the machine busy
    yield made
    made.end()


def sides(text):
    model = gradcli.parse(text)
    claim = model.resolved.claims[0]
    graph, at = specialise(model.resolved.graph, (), (claim.left, claim.right))
    return graph, at[claim.left], at[claim.right]


def test_one_child_for_many_questions(helper):
    question = sides("x = 0.3; y = x; claim (x + 1)^2 = x^2 + 2*x + 1")
    assert helper.ask(*question) == "zero"
    first = helper._child.pid
    assert helper.ask(*question) == "zero"
    assert helper._child.pid == first


def test_child_that_takes_too_long_is_ended(helper):
    helper.limit = 1.0
    terms = "+".join(f"sin({k}*x)^{k % 7 + 2}*cos({k + 1}*x+y)*exp(-x*{k})" for k in range(1, 61))
    question = sides(f"x = 0.3; y = 0.2; f = {terms}; claim f = cos(f)")
    assert helper.ask(*question) == "unknown"
    assert helper._child is None
    helper.limit = 10.0
    assert helper.ask(*sides("x = 0.3; y = x; claim 2*x = x + x")) == "zero"
