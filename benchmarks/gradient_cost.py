#!/usr/bin/env python3
"""What gradients cost: the time of the value with all gradients over the time of the value alone.

    python benchmarks/gradient_cost.py --rows 1e5 --equations ../shared/external/feynman.csv

Reverse mode needs a small multiple of the value's time whatever the number of variables: 3 to 4 times in the model of
cost of Griewank and Walther, Evaluating Derivatives, second edition, 2008 (the cheap gradient principle).
Beside the ratio of times stand the ratios of what makes it up: operations of the compiled programs, and columns that
are read and written. The two programs of an equation run in turn and the fastest run of each counts, so the ratios
hold on a busy machine too.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
from roofline import equations, fastest, geometric_mean, prepared

import gradcli


def work(formula: str, labels: frozenset[str], gradients: bool) -> tuple[int, int]:
    """Operations of the columns, and how many columns are read and written."""
    machine = gradcli.parse(formula).compile(wrt=None if gradients else ()).machine(labels)
    operations = sum(len(phase.columns) + len(phase.stores) for phase in machine.phases)
    return operations, len(machine.column_inputs) + machine.output_count


def times(runs: dict[str, Callable[[], object]], repeat: int, inner: int) -> dict[str, float]:
    best = dict.fromkeys(runs, math.inf)
    for _ in range(repeat):
        for what, run in runs.items():
            best[what] = min(best[what], fastest(run, inner))
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=float, default=1e5)
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--limit", type=int, default=100, help="how many equations")
    parser.add_argument("--engines", default="numpy,native")
    parser.add_argument("--equations", type=Path, default=Path("feynman.csv"))
    options = parser.parse_args()
    rows, engines = int(options.rows), options.engines.split(",")
    rng = np.random.default_rng(0)
    ratios: dict[str, list[float]] = {what: [] for what in (*engines, "operations", "columns")}
    print(f"{'equation':12s}" + "".join(f"{e:>8s}: value  with ratio" for e in engines) + "  operations   columns")
    for name, formula, bounds in list(equations(options.equations))[: options.limit]:
        columns = {n: rng.uniform(low, high, rows) for n, (low, high) in bounds.items()}
        line = f"{name:12s}"
        for engine in engines:
            runs = {what: prepared(formula, columns, engine, what == "with") for what in ("value", "with")}
            best = times(runs, options.repeat, max(1, int(1e6) // rows))
            ratios[engine].append(best["with"] / best["value"])
            line += f"{best['value'] / rows * 1e9:15.2f} {best['with'] / rows * 1e9:5.2f} {ratios[engine][-1]:5.2f}"
        value, both = (work(formula, frozenset(columns), gradients) for gradients in (False, True))
        for what, a, b in zip(("operations", "columns"), value, both, strict=True):
            ratios[what].append(b / a)
        print(f"{line}   {value[0]:3d} -> {both[0]:3d}  {value[1]:2d} -> {both[1]:2d}")
    print(f"value with all gradients / value, {rows} rows, geometric mean (worst):")
    for what, found in ratios.items():
        print(f"  {what:10s} {geometric_mean(found):5.2f} ({max(found):.2f})")


if __name__ == "__main__":
    main()
