"""Threads that take rows without the interpreter lock: all rows are computed, whoever is busy."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import gradcli
from gradcli.engine import native

if native.available():
    pytest.skip(str(native.available()), allow_module_level=True)

from gradcli.engine.native import passes, together


def compiled(text: str) -> gradcli.Program:
    return gradcli.parse(text).compile(engine="native")


@pytest.fixture
def four_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(together, "cores", lambda: 4)
    monkeypatch.setattr(passes, "cores", lambda: 4)


def test_helpers_stay_and_each_row_is_computed_once(four_cores: None) -> None:
    program, rows = compiled("y = x + 1"), 100_001
    x, before = np.arange(rows, dtype=float), together.HELPERS._made
    for _ in range(200):
        assert (program.run({"x": x}, block=1).value == x + 1).all()
    assert together.HELPERS._made == max(before, 3)
    assert len(together.HELPERS._idle) == together.HELPERS._made


def test_many_callers_share_the_helpers(four_cores: None) -> None:
    program, rows = compiled("y = x*x"), 70_000

    def work(k: int) -> bool:
        x = np.linspace(k, k + 1, rows)
        return all(bool((program.run({"x": x}).value == x * x).all()) for _ in range(50))

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(work, range(6)))
    assert len(together.HELPERS._idle) == together.HELPERS._made


def test_without_semaphores_threads_of_python_take_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(together.HELPERS._prepared(), "waits", False)
    x = np.linspace(0, 1, 200_000)
    assert (compiled("y = x + 1").run({"x": x}, threads=2).value == x + 1).all()
