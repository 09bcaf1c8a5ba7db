"""Streaming gives the bits of whole columns, for any pieces."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import gradcli
from gradcli.engine import stream

ROWS = 3 * 65536 + 4097


@pytest.mark.parametrize("piece", [1000, 4096, 65_537, ROWS])
@pytest.mark.parametrize(
    "loss", ["sum(r^2)", "mean(r^2)", "norm(r)", "dot(r, x)", "std(r)", "logsumexp(r)", "max(r)", "mean(r) + sum(r^2)"]
)
def test_pieces_give_the_same_bits(loss: str, piece: int) -> None:
    rng = np.random.default_rng(1)
    columns = {"x": rng.uniform(0, 2, ROWS), "y": rng.normal(0, 1, ROWS)}
    program = gradcli.parse(f"a = 1; b = -1; r = y - a*exp(b*x); f = {loss}").compile(wrt=["a", "b"])
    want = program.run(columns)
    machine = program.machine(frozenset(columns))

    def pieces() -> Iterator[list[np.ndarray]]:
        for low in range(0, ROWS, piece):
            yield [columns[n][low : low + piece] for n in machine.column_inputs]

    found = stream.run(machine, {"a": 1.0, "b": -1.0}, ROWS if stream.counts_first(machine) else 0, pieces)
    assert found == [want.value, *want.gradients.values()]
    assert (stream.passes(machine) == 1) == (loss not in ("std(r)", "logsumexp(r)", "max(r)"))
    assert stream.counts_first(machine) == (loss == "mean(r) + sum(r^2)")


def test_a_mean_of_several_passes_keeps_its_count() -> None:
    program = gradcli.parse("a = 2; m = mean(a*x); f = mean((x - m)^2)/mean(abs(x - m))").compile(wrt=["a"])
    x = np.random.default_rng(2).normal(0, 1, 10_000)
    want = program.run({"x": x})
    machine = program.machine(frozenset("x"))
    found = stream.run(machine, {"a": 2.0}, len(x), lambda: [[x[:5000]], [x[5000:]]])
    assert stream.passes(machine) > 1
    assert found == [want.value, want.gradients["a"]]


def test_no_rows() -> None:
    machine = gradcli.parse("a = 1; f = sum(a*x)").compile(wrt=["a"]).machine(frozenset("x"))
    assert stream.run(machine, {"a": 1.0}, 0, list) == [0.0, 0.0]
