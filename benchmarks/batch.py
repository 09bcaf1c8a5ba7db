#!/usr/bin/env python3
"""`gradcli batch` over each format beside what else a user might run. Whole processes, in turn.

    python benchmarks/batch.py --rows 1e3,1e6 --peers pass,jax,duckdb,mlr csv ndjson parquet wide

`pass` reads the same and writes as many columns with polars and computes nothing; the other peers compute the same
value and gradients. `wide` is a CSV of 50 columns with quoted text and 5 % missing, of which the model uses 5. GRADCLI
names the command where it is not `gradcli`, PEERS the Python that has jax and duckdb where it is not this one.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from processes import in_turn

PYTHON = os.environ.get("PEERS", sys.executable)
COMMAND = shlex.split(os.environ.get("GRADCLI", "gradcli"))
MODEL = "o = tanh(x1*w1 + x2*w2 + b)\n"
NAMES = ("x1", "x2", "w1", "w2", "b")
SUFFIX = {"csv": "csv", "ndjson": "ndjson", "parquet": "parquet", "wide": "csv"}

PASS = {
    "csv": """
with open(target, "wb") as out:
    for i, frame in enumerate(pl.scan_csv(source).collect_batches(chunk_size=65536, maintain_order=True)):
        more(frame).write_csv(out, include_header=i == 0)
""",
    "wide": """
with open(target, "wb") as out:
    for i, frame in enumerate(pl.scan_csv(source).collect_batches(chunk_size=16384, maintain_order=True)):
        more(frame).write_csv(out, include_header=i == 0)
""",
    "ndjson": """
with open(target, "wb") as out:
    for frame in pl.scan_ndjson(source).collect_batches(chunk_size=65536, maintain_order=True):
        more(frame).write_ndjson(out)
""",
    "parquet": "more(pl.scan_parquet(source)).sink_parquet(target, compression_level=1)\n",
}
MORE = """
import sys, polars as pl
source, target = sys.argv[1:]
def more(frame):
    again = [pl.col(c).alias(c + ".again") for c in ("x1", "x2", "w1", "w2", "b")]
    return frame.with_columns([*again, pl.col("b").alias("o")])
"""

READ = {"csv": "pl.read_csv", "wide": "pl.read_csv", "ndjson": "pl.read_ndjson", "parquet": "pl.read_parquet"}
WRITE = {"csv": "write_csv", "wide": "write_csv", "ndjson": "write_ndjson", "parquet": "write_parquet"}
JAX = """
import sys, jax, jax.numpy as jnp, numpy as np, polars as pl
jax.config.update("jax_enable_x64", True)
source, target = sys.argv[1:]
frame, names = {read}(source), ("x1", "x2", "w1", "w2", "b")
def both(*a):
    o, pull = jax.vjp(lambda x1, x2, w1, w2, b: jnp.tanh(x1*w1 + x2*w2 + b), *a)
    return o, pull(jnp.ones_like(o))
o, g = jax.jit(both)(*[jnp.asarray(frame[c].fill_null(float("nan")).to_numpy()) for c in names])
columns = [pl.Series("o", np.asarray(o))] + [pl.Series("do_d" + n, np.asarray(v)) for n, v in zip(names, g)]
frame.with_columns(columns).{write}(target)
"""
DUCKDB = """
import sys, duckdb
source, target = sys.argv[1:]
duckdb.sql("set enable_progress_bar = false")
duckdb.sql(f\"\"\"copy (with t as (select *, x1*w1 + x2*w2 + b as n from '{source}'),
u as (select * exclude n, (exp(2*n) - 1)/(exp(2*n) + 1) as o from t)
select *, (1-o*o)*w1 as g1, (1-o*o)*w2 as g2, (1-o*o)*x1 as g3, (1-o*o)*x2 as g4, 1-o*o as g5 from u)
to '{target}'\"\"\")
"""
MILLER = "$o=tanh($x1*$w1+$x2*$w2+$b); $g=1-$o*$o; $p=$g*$w1; $q=$g*$w2; $r=$g*$x1; $s=$g*$x2"
MILLER_FORMAT = {"csv": "--csv", "wide": "--csv", "ndjson": "--jsonl"}


def commands(kind: str, model: str, source: str, target: str) -> dict[str, list[str]]:
    """What each contender runs; Miller has no Parquet, and may not be installed."""
    jax = JAX.replace("{read}", READ[kind]).replace("{write}", WRITE[kind])
    found = {
        "gradcli": [*COMMAND, "batch", model, source, "-o", target, "-q"],
        "pass": [PYTHON, "-c", MORE + PASS[kind], source, target],
        "jax": [PYTHON, "-c", jax, source, target],
        "duckdb": [PYTHON, "-c", DUCKDB, source, target],
    }
    if kind in MILLER_FORMAT and shutil.which("mlr"):
        words = ["mlr", MILLER_FORMAT[kind], "put", MILLER, source]
        found["mlr"] = ["sh", "-c", f"{shlex.join(words)} > {shlex.quote(target)}"]
    return found


def make(kind: str, rows: int, path: str) -> None:
    """The data, a part at a time."""
    import numpy as np
    import polars as pl

    rng = np.random.default_rng(0)
    frame = pl.DataFrame({c: rng.uniform(-2, 2, rows) for c in NAMES})
    if kind == "wide":
        texts = pl.Series("text", ['a "quoted" text, with a comma', "plain", "two\nlines"] * (rows // 3 + 1))[:rows]
        holes = {c: pl.Series(np.where(rng.random(rows) < 0.05, np.nan, frame[c])).fill_nan(None) for c in NAMES}
        more: dict[str, Any] = {f"t{i}": texts for i in range(15)}
        more |= {f"n{i}": pl.Series(rng.integers(0, 10**9, rows)) for i in range(30)}
        frame = pl.DataFrame(holes | more)
    getattr(frame, WRITE[kind])(path)


def measure(kind: str, rows: int, repeat: int, peers: list[str]) -> str:
    with tempfile.TemporaryDirectory() as folder:
        source, target, model = (str(Path(folder, n)) for n in (f"in.{SUFFIX[kind]}", f"out.{SUFFIX[kind]}", "m.expr"))
        Path(model).write_text(MODEL, encoding="utf-8")
        subprocess.run([sys.executable, __file__, "--make", kind, str(rows), source], check=True)
        run = {n: c for n, c in commands(kind, model, source, target).items() if n == "gradcli" or n in peers}
        taken = in_turn(run, repeat)
        ours, size = taken["gradcli"], Path(source).stat().st_size / 1e6
        line = f"{kind:8s} {rows:>9d} rows {size:6.0f} MB  gradcli {ours.seconds:6.2f} s {ours.megabytes:4.0f} MB"
        others = [
            f"  {n} {t.seconds:6.2f} s ratio {ours.seconds / t.seconds:.2f}" for n, t in taken.items() if n != "gradcli"
        ]
        return line + "".join(others)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", default=list(SUFFIX))
    parser.add_argument("--rows", default="1e6")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--peers", default="pass")
    parser.add_argument("--make", nargs=3, help=argparse.SUPPRESS)  # elsewhere: a child inherits the peak of its parent
    options = parser.parse_args()
    if options.make:
        kind, rows, path = options.make
        make(kind, int(rows), path)
        return
    for kind in options.kinds:
        for rows in options.rows.split(","):
            print(measure(kind, int(float(rows)), options.repeat, options.peers.split(",")), flush=True)


if __name__ == "__main__":
    main()
