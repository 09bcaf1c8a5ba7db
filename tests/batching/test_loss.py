"""`grad --data`: the sums of squares that NIST certifies, from CSV, and the same bits however the rows come."""

from __future__ import annotations

import csv
import gzip
import json
import os
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gradcli.cli.group import run
from gradcli.formats import reader

SHARED = Path(os.environ.get("GRADCLI_SHARED") or Path(__file__).parents[3] / "shared")
NIST = SHARED / "external" / "nist_strd.json"


def sets() -> list[dict[str, Any]]:
    return json.loads(NIST.read_text(encoding="utf-8")) if NIST.is_file() else []


def write(path: Path, item: dict[str, Any]) -> None:
    names = [*item["predictors"], "y"]
    with path.open("w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow(names)
        out.writerows(zip(*[map(repr, item[n]) for n in names], strict=True))


def answer(capfd: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert run(["grad", "--json", *words]) == 0, capfd.readouterr().err
    found: dict[str, Any] = json.loads(capfd.readouterr().out)
    return found


@pytest.mark.skipif(not NIST.is_file(), reason=f"no {NIST}")
@pytest.mark.parametrize("item", sets(), ids=lambda item: item["name"])
def test_nist_certifies_the_sum_of_squares(
    item: dict[str, Any], tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the certified parameters the sum is the certified one, and its gradient vanishes beside that of one row."""
    write(tmp_path / "rows.csv", item)
    given = dict(zip(item["parameters"], item["certified"], strict=True))
    model = [*(f"{n} = {v!r}" for n, v in given.items()), f"rss = sum(({item['response']} - ({item['formula']}))^2)"]
    (tmp_path / "fit.expr").write_text("\n".join(model), encoding="utf-8")
    words = [str(tmp_path / "fit.expr"), "--data", str(tmp_path / "rows.csv")]
    whole = answer(capfd, *words)
    if item["name"] != "Lanczos1":  # its residuals are the rounding of the data
        assert whole["value"] == pytest.approx(item["rss"], rel=1e-4 if item["rss"] < 1e-10 else 1e-9)
    assert whole["rows"] == len(item["y"])
    monkeypatch.setattr(reader, "Options", partial(reader.Options, chunk_rows=7))
    assert answer(capfd, *words) == whole
    with gzip.open(tmp_path / "rows.csv.gz", "wb") as file:
        file.write((tmp_path / "rows.csv").read_bytes())
    packed = answer(capfd, *words[:2], str(tmp_path / "rows.csv.gz"))
    assert (packed["value"], packed["gradients"]) == (whole["value"], whole["gradients"])


@pytest.mark.parametrize("loss", ["sum(r^2)", "mean(r^2)", "norm(r)", "sqrt(mean(r^2))", "dot(r, x)/sum(x)"])
def test_one_pass_needs_no_copy_of_the_rows(
    loss: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "d.csv").write_text("x,y\n" + "".join(f"{i},{2.5 * i + i % 3}\n" for i in range(5000)))
    monkeypatch.setattr("tempfile.TemporaryFile", None)
    found = answer(capfd, "-e", f"a = 2; r = a*x - y; f = {loss}", "--of", "f", "--data", str(tmp_path / "d.csv"))
    assert found["rows"] == 5000
    assert found["gradients"]["a"]
