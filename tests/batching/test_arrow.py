"""The function from record batch to record batch: the numbers of `gradcli batch`, on any cut, in any worker."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")
pl = pytest.importorskip("polars")

from gradcli.batching.arrow import arrow_function  # noqa: E402
from gradcli.batching.run import DataError  # noqa: E402
from gradcli.errors import BindingError  # noqa: E402

MODEL = "a = 2; n = a*x; retain n; o = where(x > 0, log(x), y) + n*y"


@pytest.fixture(scope="module")
def batch() -> Any:
    rng = np.random.default_rng(2)
    x = [None if i % 17 == 0 else float(v) for i, v in enumerate(rng.normal(0, 1, 3000))]
    text = pa.array([("a", "b", None)[i % 3] for i in range(3000)]).dictionary_encode()
    y = pa.array(rng.normal(0, 1, 3000))
    return pa.record_batch({"id": pa.array(range(3000), pa.int32()), "x": pa.array(x), "text": text, "y": y})


def test_numbers_are_those_of_batch(tmp_path: Path, batch: Any) -> None:
    frame = pl.from_arrow(batch)
    frame.write_parquet(tmp_path / "d.parquet")
    command = [sys.executable, "-m", "gradcli", "batch", "-e", MODEL, "d.parquet", "-o", "o.parquet"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=100)
    want = pl.read_parquet(tmp_path / "o.parquet")
    found = pl.from_arrow(arrow_function(MODEL)(batch))
    assert found.columns == want.columns
    for name in ("o", "do_da", "do_dx", "do_dy", "n", "do_dn"):
        assert found[name].null_count() == want[name].null_count() > 0
        assert found[name].fill_null(7).to_numpy().tobytes() == want[name].fill_null(7).to_numpy().tobytes()


def test_any_cut_gives_the_same(batch: Any) -> None:
    function = arrow_function(MODEL)
    whole = function(batch)
    for size in (1, 7, 1000):
        cuts = range(0, 3000 if size > 1 else 50, size)
        parts = pa.Table.from_batches([function(batch.slice(at, size)) for at in cuts])
        assert parts.equals(pa.Table.from_batches([whole]).slice(0, len(parts)))
    with ThreadPoolExecutor(4) as pool:
        parts = pa.Table.from_batches(pool.map(function, [batch.slice(at, 500) for at in range(0, 3000, 500)]))
    assert parts.equals(function.table(pa.Table.from_batches([batch])))


def test_types_pass_and_the_schema_is_known(batch: Any) -> None:
    function = arrow_function(MODEL)
    schema = function.schema(batch.schema)
    assert schema.names == ["id", "x", "text", "y", "o", "do_da", "do_dx", "do_dy", "n", "do_dn"]
    assert function(batch).schema.equals(schema)
    assert schema.field("id").type == pa.int32()
    assert schema.field("text").type == batch.schema.field("text").type
    assert function(batch.slice(0, 0)).schema.equals(schema)


def test_it_travels_as_plain_data(batch: Any) -> None:
    import pickle

    function = arrow_function(MODEL, values={"a": 3}, rename={"x": "y", "y": "x"})
    want = function(batch)
    again = pickle.loads(pickle.dumps(function))  # noqa: S301  our own
    assert not again._made
    assert again == function
    assert again(batch).equals(want)


def test_options() -> None:
    batch = pa.record_batch({"t": [1.0, 2.0], "spare": ["p", "q"]})
    function = arrow_function("f = a*x; g = f^2; output f, g", of=["g"], wrt=["x"], values={"a": "1/2"},
                              rename={"x": "t"}, keep="spare", names="slope_{output}_{input}")  # fmt: skip
    assert function(batch).to_pydict() == {"spare": ["p", "q"], "g": [0.25, 1.0], "slope_g_x": [0.5, 1.0]}


def test_missing_and_nan_stay_apart() -> None:
    batch = pa.record_batch({"x": pa.array([1.0, None, float("nan"), float("inf")])})
    values = arrow_function("2*x")(batch).column("value").to_pylist()
    assert values[:2] == [2.0, None]
    assert values[2] != values[2]
    assert values[3] == float("inf")
    with pytest.raises(DataError, match="row 2 of the batch, column `x`"):
        arrow_function("2*x", missing="error")(batch)


def test_texts_and_faults() -> None:
    batch = pa.record_batch({"x": ["1", "oops", "", " 3 "]})
    with pytest.raises(DataError, match="row 2 of the batch, column `x`: `oops` is not a number"):
        arrow_function("2*x")(batch)
    assert arrow_function("2*x", on_error="null")(batch).column("value").to_pylist() == [2.0, None, None, 6.0]
    skipped = arrow_function("2*x", on_error="skip")(batch)
    assert skipped.to_pydict() == {"x": ["1", "", " 3 "], "value": [2.0, None, 6.0], "dvalue_dx": [2.0, None, 2.0]}
    limited = arrow_function("domain x < 2; y = 2*x", domain=True, on_error="skip")
    assert limited(batch).column("x").to_pylist() == ["1", ""]


@pytest.mark.parametrize(
    ("model", "options", "said"),
    [
        ("w1*x", {}, "--rename w1=W1"),
        ("sum(x)*w1", {"values": {"w1": 1}}, "goes over all rows"),
        ("x", {"values": {"z": 1}}, "`z` is no name that the model uses"),
        ("x", {"rename": {"x": "q"}}, "no column `q`"),
    ],
)
def test_what_does_not_fit(model: str, options: dict[str, Any], said: str) -> None:
    batch = pa.record_batch({"x": [1.0], "W1": [2.0]})
    with pytest.raises(BindingError, match=said):
        arrow_function(model, **options)(batch)
    with pytest.raises(BindingError, match="two columns are called `x`"):
        arrow_function("x")(pa.RecordBatch.from_arrays([pa.array([1.0])] * 2, ["x", "x"]))


def test_numbers_without_a_column() -> None:
    batch = pa.record_batch({"name": ["p", "q"]})
    assert arrow_function("3*a", values={"a": 2}, wrt=[])(batch).column("value").to_pylist() == [6.0, 6.0]


def test_duckdb_calls_it(batch: Any) -> None:
    duckdb = pytest.importorskip("duckdb")
    function = arrow_function(MODEL)
    reader = duckdb.sql("SELECT * FROM batch").to_arrow_reader(700)
    made = pa.Table.from_batches(map(function, reader))
    assert made.num_rows == 3000
    assert duckdb.sql("SELECT count(o), count(*) FROM made").fetchall() == [(3000 - 177, 3000)]
