#!/usr/bin/env python3
"""`gradcli batch` over each format beside a polars pass-through that writes as many columns. Whole processes, in turn.

    GRADCLI='python -m gradcli' python benchmarks/batch.py --rows 1e6 csv ndjson parquet wide

`wide` is a CSV of 50 columns with quoted text and 5 % missing, of which the model uses 5. Printed: the median of
--repeat
runs in seconds, the ratio, and the peak memory of gradcli.
"""

from __future__ import annotations

import argparse
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

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
    getattr(
        frame, {"csv": "write_csv", "wide": "write_csv", "ndjson": "write_ndjson", "parquet": "write_parquet"}[kind]
    )(path)


def measure(kind: str, rows: int, repeat: int) -> str:
    with tempfile.TemporaryDirectory() as folder:
        source, target, model = (str(Path(folder, n)) for n in (f"in.{SUFFIX[kind]}", f"out.{SUFFIX[kind]}", "m.expr"))
        Path(model).write_text(MODEL, encoding="utf-8")
        make(kind, rows, source)
        commands = {"gradcli": [*COMMAND, "batch", model, source, "-o", target, "-q"],
                    "pass": [sys.executable, "-c", MORE + PASS[kind], source, target]}  # fmt: skip
        seconds: dict[str, list[float]] = {n: [] for n in commands}
        peak = 0.0
        for _ in range(repeat):
            for name, command in commands.items():
                start = time.perf_counter()
                process = subprocess.Popen(command)
                _, status, usage = os.wait4(process.pid, 0)
                seconds[name].append(time.perf_counter() - start)
                if status:
                    sys.exit(f"{name} failed")
                peak = max(peak, usage.ru_maxrss / 1024) if name == "gradcli" else peak
        ours, theirs = (statistics.median(seconds[n]) for n in ("gradcli", "pass"))
        size = Path(source).stat().st_size / 1e6
        times = f"gradcli {ours:6.2f} s  pass {theirs:6.2f} s  ratio {ours / theirs:.2f}"
        return f"{kind:8s} {rows:>9d} rows {size:6.0f} MB  {times}  {peak:.0f} MB"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", default=list(SUFFIX))
    parser.add_argument("--rows", type=float, default=1e6)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    for kind in options.kinds:
        rows = int(options.rows / (10 if kind == "wide" else 1))
        print(measure(kind, rows, options.repeat), flush=True)


if __name__ == "__main__":
    main()
