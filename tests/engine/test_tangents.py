"""Sines and cosines by way of tangents: as accurate as the rest, in any blocks, and only where rows are many."""

from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
import pytest

import gradcli
from gradcli import compiled
from gradcli.engine import execute, tangents

RNG = np.random.default_rng(5)


def _near_quarters() -> Any:
    """Beside the zeros of sine and cosine, from a thousandth of an ulp to a hundredth."""
    with mpmath.workprec(200):
        return np.array(
            [
                float(k * mpmath.pi / 2 * (1 + s * mpmath.mpf(10) ** -e))
                for k in range(1, 40)
                for e in range(2, 18)
                for s in (-1, 1)
            ]
        )


POINTS = {
    "usual": RNG.uniform(-10, 10, 4000),
    "near 0": RNG.uniform(-1e-3, 1e-3, 1000),
    "tiny": 10.0 ** RNG.uniform(-307, -3, 1000),
    "far": RNG.uniform(-1e6, 1e6, 2000),
    "very far": 10.0 ** RNG.uniform(6, 300, 1000),
    "zeros": _near_quarters(),
}


def by_tangents(code: list[tuple[str, int, tuple[int, ...]]], x: Any) -> list[Any]:
    """Registers after the code: x, two more of the program, two to spare."""
    registers = [x.copy(), *(np.full(len(x), np.nan) for _ in range(4))]
    with np.errstate(all="ignore"):
        for function, out, arguments in tangents.calls(code, execute.kernel, 3):
            function(*[registers[a] for a in arguments], registers[out])
    return registers


def units(found: float, true: Any) -> float:
    """The error in units of the last place."""
    return float(abs(mpmath.mpf(found) - true) / mpmath.mpf(float(np.spacing(abs(float(true))))))


@pytest.mark.parametrize("name", POINTS)
def test_three_units_at_most(name: str) -> None:
    x = POINTS[name]
    _, sine, cosine, *_ = by_tangents([("sin", 1, (0,)), ("cos", 2, (0,))], x)
    with mpmath.workprec(1200 if name == "very far" else 200):
        exact = [mpmath.mpf(float(v)) for v in x]
        assert max(map(units, sine.tolist(), map(mpmath.sin, exact))) <= 3
        assert max(map(units, cosine.tolist(), map(mpmath.cos, exact))) <= 3


def test_special_values() -> None:
    x = np.array([0.0, -0.0, math.inf, -math.inf, math.nan])
    _, sine, cosine, *_ = by_tangents([("sin", 1, (0,)), ("cos", 2, (0,))], x)
    assert np.array_equal(sine, np.sin(x[:2]).tolist() + [math.nan] * 3, equal_nan=True)
    assert np.signbit(sine[:2]).tolist() == [False, True]
    assert np.array_equal(cosine, [1.0, 1.0, math.nan, math.nan, math.nan], equal_nan=True)


@pytest.mark.parametrize(
    "code",
    [
        [("cos", 1, (0,)), ("sin", 0, (0,))],
        [("sin", 1, (0,)), ("cos", 0, (0,))],
        [("sin", 0, (0,)), ("cos", 1, (0,))],  # the cosine of the sine: x is overwritten
        [("sin", 1, (0,)), ("exp", 0, (0,)), ("cos", 2, (0,))],
        [("sin", 1, (0,)), ("cos", 2, (1,)), ("cos", 1, (0,))],
    ],
)
def test_registers_may_be_used_again(code: list[tuple[str, int, tuple[int, ...]]]) -> None:
    x = RNG.uniform(-2, 2, 500)
    registers = [x.copy(), np.full(500, np.nan), np.full(500, np.nan)]
    for op, out, (a,) in code:
        execute.kernel(op)(registers[a], registers[out])
    for found, true in zip(by_tangents(code, x), registers, strict=False):
        assert np.allclose(found, true, rtol=1e-14, atol=1e-15, equal_nan=True)


@pytest.mark.parametrize("engine", ["numpy", "pointwise"])
def test_rows_do_not_depend_on_blocks_and_threads(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tangents, "pay", lambda: True)
    rows = compiled.LARGE + 1234
    columns = {"x": RNG.uniform(-9, 9, rows), "y": RNG.uniform(-9, 9, rows)}
    program = gradcli.parse("z = sin(x*y)*cos(y) + cos(x)^2").compile(engine=engine)
    whole = program.run(columns, threads=1, block=rows)
    for threads, block in ((2, 4096), (2, None), (3, 20000)):
        other = program.run(columns, threads=threads, block=block)
        assert np.array_equal(whole.value, other.value)
        assert all(np.array_equal(whole.gradients[n], other.gradients[n]) for n in columns)


def test_few_rows_and_pointwise_have_the_bits_of_a_point(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tangents, "pay", lambda: True)
    x = RNG.uniform(-9, 9, compiled.LARGE)
    model = gradcli.parse("sin(x)*cos(x)")
    steady = model.compile(engine="pointwise").run({"x": x}).gradients["x"]
    large = model.compile(engine="numpy").run({"x": x}).gradients["x"]
    few = model.compile(engine="numpy").run({"x": x[:500]}).gradients["x"]
    assert isinstance(steady, np.ndarray)
    assert few.tolist() == steady[:500].tolist() == [model.gradient(x=v)["x"] for v in x[:500]]
    assert not np.array_equal(steady, large)  # the tangents were taken
    assert np.allclose(steady, large, rtol=1e-14, atol=1e-15)


def test_what_numpy_says_of_itself_is_understood() -> None:
    found = tangents.pay()
    if hasattr(np.lib, "introspect"):
        assert np.lib.introspect.opt_func_info(func_name="^tan$", signature="^float64$")["tan"]
    assert isinstance(found, bool)
