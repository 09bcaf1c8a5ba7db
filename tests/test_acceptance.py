"""A small slice of the acceptance cases in process; all of them run in `.ci/run`."""

from __future__ import annotations

import csv
import os
import re
from pathlib import Path

import numpy as np
import pytest

import gradcli

SHARED = Path(os.environ.get("GRADCLI_SHARED") or Path(__file__).parents[2] / "shared")
CASES = SHARED / "cases" / "gradients.tsv"
EVERY = 2


def cases() -> list[dict[str, str]]:
    if not CASES.is_file():
        return []
    with CASES.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    return [row for row in rows if "[hard" not in row["note"]][::EVERY]


def numbers(text: str):
    """`x=1,y=[1,2]` by name."""
    found = re.findall(r"([^\W\d]\w*)=(\[[^\]]*\]|[^,]+)", text)
    return {name: number(value) for name, value in found}


def number(text: str):
    return [float(v) for v in text.strip("[]").split(",")] if text.startswith("[") else float(text)


def assert_close(got, want, tolerance: float) -> None:
    got, want = np.asarray(got, dtype=float), np.asarray(want, dtype=float)
    np.testing.assert_allclose(
        got, np.broadcast_to(want, got.shape), rtol=tolerance, atol=tolerance * (want == 0).any()
    )


@pytest.mark.skipif(not CASES.is_file(), reason=f"no {CASES}")
@pytest.mark.parametrize("row", cases(), ids=lambda row: row["id"])
def test_a_case_of_a_public_report(row):
    result = gradcli.parse(row["expression"]).compile().run(numbers(row["point"]))
    tolerance = float(row["tolerance_rel"])
    assert_close(result.value, number(row["want_value"]), tolerance)
    honest_nan = re.search(r"\[[^\]]*(accept[^\]]*\bnan\b|nan is)", row["note"])
    for name, want in numbers(row["want_gradients"]).items():
        got = result.gradients[name]
        if got is None:
            assert np.all(np.equal(want, 0))
        elif not (honest_nan and np.isnan(got).all()):
            assert_close(got, want, tolerance)


@pytest.mark.skipif(not CASES.is_file(), reason=f"no {CASES}")
def test_the_slice_is_not_empty():
    assert len(cases()) > 30
