"""A program is immutable, compiled once for a set of columns, and keeps no adjoint that was not asked for."""

from __future__ import annotations

import dataclasses
import pickle
import re

import numpy as np
import pytest

import gradcli
from gradcli.engine import program as engine


def chain(step: str, length: int) -> str:
    """n1 = step(x), n2 = step(n1), ... with `n` for what the step is applied to."""
    previous = ["x", *(f"n{i}" for i in range(1, length))]
    lines = [f"n{i} = " + re.sub(r"\bn\b", p, step) for i, p in enumerate(previous, 1)]
    return "\n".join(lines)


def slots(text: str, columns=(), **options) -> int:
    return gradcli.parse(text).compile(**options).slots(columns)


@pytest.mark.parametrize("columns", [(), ("x",), ("x", "w")], ids=["numbers", "x", "x and w"])
@pytest.mark.parametrize("step", ["n*w", "n + w", "-n/w", "n*w - w", "where(w > 0, n, -n)"])
def test_a_chain_of_any_length_takes_the_same_slots(step, columns):
    few, many = (slots(chain(step, length), columns, wrt=["x"]) for length in (20, 400))
    assert many == few


@pytest.mark.parametrize("step", ["n*w", "n + w", "-n"])
def test_the_value_of_a_chain_takes_the_same_slots(step):
    few, many = (slots(chain(step, length), ("x",), wrt=[]) for length in (20, 400))
    assert many == few <= 3


@pytest.mark.parametrize("columns", [(), ("x",)], ids=["numbers", "x"])
def test_adjoints_that_are_not_retained_have_no_slot(columns):
    text = chain("sin(n)*w", 60)
    free = slots(text, columns, wrt=["x"])
    assert free <= 3 * 60  # forward values that the backward pass needs, and a few


def test_retaining_adds_a_slot_for_each_adjoint():
    text = chain("n*w", 100)
    names = [f"n{i}" for i in range(1, 100)]
    bare = slots(text, wrt=["x"])
    assert slots(text, wrt=["x"], retain=names[:10]) >= bare + 8
    assert slots(text, wrt=["x"], retain=names) >= bare + 90


def test_retaining_in_the_middle_does_not_change_a_bit():
    text = chain("sin(n)*w", 30)
    x = np.linspace(0.1, 1, 5000)
    model = gradcli.parse(text)
    bare = model.compile().run({"x": x, "w": 1.1})
    kept = model.compile(retain=[f"n{i}" for i in range(1, 30)]).run({"x": x, "w": 1.1})
    for name in ("x", "w"):
        assert bare.gradients[name].tobytes() == kept.gradients[name].tobytes()


def test_a_program_cannot_be_changed():
    machine = gradcli.parse("o = sum(x*w)").compile().machine(frozenset(("x",)))
    field = dataclasses.fields(machine)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(machine, field, ())
    hash(machine)  # tuples and bytes all the way down


def test_instructions_on_scalars_are_read_back_from_flat_arrays():
    machine = gradcli.parse("o = where(x < y, sin(x), y)*x").compile(wrt=[]).machine(frozenset())
    code = machine.phases[0].scalars
    assert [op for op, _, _ in code] == ["lt", "sin", "where", "mul"]
    assert [len(operands) for _, _, operands in code] == [2, 1, 3, 2]
    assert len(code) == 4
    assert machine.roots == ((False, list(code)[-1][1]),)


def test_running_leaves_the_program_as_it_was():
    compiled = gradcli.parse("n = x*w; o = sum(tanh(n))").compile(retain=["n"])
    machine = compiled.machine(frozenset(("x",)))
    before = repr(machine)
    compiled.run({"x": np.linspace(0, 1, 10_000), "w": 2.0}, threads=3)
    assert repr(machine) == before


def test_a_program_is_plain_data_that_travels():
    machine = gradcli.parse("n = x*w; o = sum(erf(n))").compile().machine(frozenset(("x",)))
    assert pickle.loads(pickle.dumps(machine)) == machine  # noqa: S301  our own bytes


def test_a_program_is_compiled_once_for_each_set_of_columns():
    compiled = gradcli.parse("o = x*w").compile()
    sets = [frozenset(), frozenset("x"), frozenset("w"), frozenset("xw")]
    machines = [compiled.machine(s) for s in sets]
    assert len({id(m) for m in machines}) == 4
    compiled.run({"x": 1.0, "w": [1.0, 2.0]})
    assert [compiled.machine(s) for s in sets] == machines
    assert all(compiled.machine(s) is m for s, m in zip(sets, machines, strict=True))


def test_the_shape_of_each_run_is_its_own():
    compiled = gradcli.parse("o = x*w").compile()
    assert compiled.run({"x": 2.0, "w": 3.0}).value == 6.0
    np.testing.assert_array_equal(compiled.run({"x": [2.0, 4.0], "w": 3.0}).value, [6, 12])
    np.testing.assert_array_equal(compiled.run({"x": [2.0, 4.0, 6.0], "w": 3.0}).value, [6, 12, 18])
    assert compiled.run({"x": 2.0, "w": 3.0}).value == 6.0


def test_what_nothing_needs_is_not_computed():
    plain = gradcli.parse("y = x^2").compile()
    busy = gradcli.parse("a = erf(x); b = exp(a); y = x^2; c = y*b").compile("y")
    assert busy.slots() == plain.slots()
    assert busy.machine(frozenset()).operations == plain.machine(frozenset()).operations


def test_memory_does_not_grow_with_the_phases_of_a_chain_of_reductions():
    def machine(n):
        lines = ["c0 = x*w"] + [f"c{i} = c{i - 1} - mean(c{i - 1})*0.5" for i in range(1, n + 1)]
        return gradcli.parse("\n".join(lines) + f"\no = sum(c{n}^2)").compile(wrt=[]).slots(("x",))

    assert machine(8) - machine(4) <= 4 * 3


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        (chain("n*w - sin(n)*x", 40), ()),
        (chain("where(n > w, n*n, n/x)", 40), ()),
        (chain("n*w + sum(z*n)", 8), ("z",)),
        ("x = 2; y = x*x; z = 3*y - y^x; o = z*z + y", ()),
        ("a = mean(x*w)*w; b = sin(a)*w + sum(x*a - w); o = sin(b)*a - b", ("x",)),
    ],
)
def test_a_long_code_has_the_registers_of_a_short_one(text, columns, monkeypatch):
    """From whole arrays and one instruction at a time."""
    programs = []
    for many in (10**9, 1):
        monkeypatch.setattr(engine, "_MANY", many)
        programs.append(gradcli.parse(text).compile().machine(frozenset(columns)))
    assert programs[0] == programs[1]
