#!/usr/bin/env python3
"""How near each engine comes to what the machine can do: value and all gradients of the Feynman equations.

    python benchmarks/roofline.py --rows 1e6 --equations ../shared/external/feynman.csv

The least time of a row is the larger of
  memory      as many inputs read and outputs written with nothing computed between (the GB/s are printed)
  arithmetic  what its operations and function calls take when the data is in the nearest cache, over the cores
Both are measured here, first. A share of 100 % is the roofline. On a machine shared with others read the shares of one
run against each other.
"""

from __future__ import annotations

import argparse
import csv
import math
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

import gradcli

NEAR = 2048  # rows of a column in the nearest cache
TERMS = 8


def equations(path: Path) -> Iterator[tuple[str, str, dict[str, tuple[float, float]]]]:
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            if row["set"] == "main":
                bounds = [v.split(":") for v in row["variables"].split(";")]
                yield row["name"], row["formula"], {n: (float(low), float(high)) for n, low, high in bounds}


def fastest(run: Callable[[], object], repeat: int) -> float:
    best = math.inf
    for _ in range(repeat):
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    return best


def prepared(
    text: str, columns: dict[str, np.ndarray], engine: str, gradients: bool, **options
) -> Callable[[], object]:
    program = gradcli.parse(text).compile(engine=engine, wrt=None if gradients else ())
    program.run(columns, **options)
    return lambda: program.run(columns, **options)


def stream(inputs: int, outputs: int, rows: int) -> Callable[[], object]:
    """As many columns read and written with nothing to compute: the sum of all inputs, and gradients that are 1."""
    columns = {f"x{i}": np.ones(rows) for i in range(inputs)}
    return prepared(" + ".join(columns), columns, "native", outputs > 1)


def sums(pattern: str) -> Callable[[], object]:
    """A sum of eight terms over a column in the nearest cache, on one core."""
    text = " + ".join(pattern.format(x=f"(x*{1 + i / 64!r})") for i in range(TERMS))
    return prepared(text, {"x": np.linspace(0.3, 0.7, NEAR)}, "native", False, threads=1)


def all_costs() -> dict[str, float]:
    """Nanoseconds of each operation: a sum of terms with it, less the same sum without it."""
    runs = {op: sums(text) for op, text in CALLS.items()} | {"": sums("{x}")}
    best = dict.fromkeys(runs, math.inf)
    for _ in range(40):
        for op, run in runs.items():
            best[op] = min(best[op], fastest(run, 20))
    return {op: max(0.0, best[op] - best[""]) / TERMS / NEAR * 1e9 for op in CALLS}


CALLS = {
    "sincos": "sin({x})*cos({x})", "sin": "sin({x})", "cos": "cos({x})", "exp": "exp({x})", "log": "log({x})",
    "tanh": "tanh({x})", "asin": "asin({x})", "sqrt": "sqrt({x})", "div": "(1/{x})", "mul": "{x}*x",
}  # fmt: skip


def arithmetic(program: object, labels: frozenset[str], costs: dict[str, float]) -> float:
    """Nanoseconds a row on one core. The sine and cosine of one angle are one call."""
    columns = program.machine(labels).phases[0].columns
    counts = Counter(op for op, _, _ in columns)
    angles = Counter({op: len({a for o, _, a in columns if o == op}) for op in ("sin", "cos")})
    both = min(angles["sin"], angles["cos"])
    counts["sin"], counts["cos"], counts["sincos"] = counts["sin"] - both, counts["cos"] - both, both
    return sum(n * costs.get(op, costs["mul"]) for op, n in counts.items())


def geometric_mean(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def measure(options: argparse.Namespace) -> list[dict[str, float | str]]:
    rows, cores = int(options.rows), os.cpu_count() or 1
    costs = all_costs()
    print("on one core, in cache, ns:", ", ".join(f"{op} {ns:.2f}" for op, ns in costs.items()))
    rng = np.random.default_rng(0)
    streams: dict[tuple[int, int], Callable[[], object]] = {}
    found = []
    for name, formula, bounds in list(equations(options.equations))[: options.limit]:
        columns = {n: rng.uniform(low, high, rows) for n, (low, high) in bounds.items()}
        program = gradcli.parse(formula).compile()
        shape = (len(columns), program.machine(frozenset(columns)).output_count)
        if shape not in streams:
            streams[shape] = stream(*shape, rows)
        runs = {engine: prepared(formula, columns, engine, True) for engine in options.engines.split(",")}
        runs["memory"] = streams[shape]
        best = dict.fromkeys(runs, math.inf)
        for _ in range(options.repeat):  # in turn: a busy machine is busy for all
            for engine, run in runs.items():
                best[engine] = min(best[engine], fastest(run, 1))
        line: dict[str, float | str] = {engine: seconds / rows * 1e9 for engine, seconds in best.items()}
        line |= {"name": name, "columns": sum(shape)}
        line["arithmetic"] = arithmetic(program, frozenset(columns), costs) / cores
        found.append(line)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=float, default=1e6)
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--limit", type=int, default=100, help="how many equations")
    parser.add_argument("--engines", default="native,numpy")
    parser.add_argument("--equations", type=Path, default=Path("feynman.csv"))
    options = parser.parse_args()
    engines = options.engines.split(",")
    found = measure(options)
    print(
        f"{'equation':12s} {'memory':>8s} {'arithm.':>8s}"
        + "".join(f" {e:>8s}  share" for e in engines)
        + "  (ns a row)"
    )
    shares: dict[str, list[float]] = {engine: [] for engine in engines}
    speeds = [8 * float(line["columns"]) / float(line["memory"]) for line in found]
    for line in found:
        least = max(float(line["memory"]), float(line["arithmetic"]))
        text = f"{line['name']:12s} {line['memory']:8.2f} {line['arithmetic']:8.2f}"
        for engine in engines:
            shares[engine].append(least / float(line[engine]))
            text += f" {line[engine]:8.2f} {shares[engine][-1]:6.0%}"
        print(text)
    print(f"bandwidth {min(speeds):.1f} to {max(speeds):.1f} GB/s, geometric mean {geometric_mean(speeds):.1f}")
    for engine in engines:
        nanoseconds = geometric_mean([float(line[engine]) for line in found])
        share = geometric_mean(shares[engine])
        print(f"{engine}: {nanoseconds:.2f} ns a row, {share:.0%} of the roofline, geometric means")


if __name__ == "__main__":
    main()
