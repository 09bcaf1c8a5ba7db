#!/usr/bin/env python3
"""A model file of many operations, from text to value and gradients: seconds of each step, and memory of each node.

    python benchmarks/large.py --terms 1e4,1e5

A term is a definition `a*sin(x*b + y)` and one that adds it to a running sum: five operations. Each size runs in a
process of its own; a linear tool takes ten times as long for ten times the terms.
"""

from __future__ import annotations

import argparse
import random
import resource
import subprocess
import sys
import time
from itertools import pairwise

LEAVES = 100


def text(terms: int) -> str:
    rng = random.Random(0)
    lines = [f"x{j} = {0.1 + 0.01 * j!r}" for j in range(LEAVES)] + ["s0 = 0*x0"]
    for i in range(terms):
        a, b = rng.uniform(-1, 1), rng.uniform(-1, 1)
        lines.append(f"t{i} = {a:.6f}*sin(x{i % LEAVES}*{b:.6f} + x{i * 7 % LEAVES})")
        lines.append(f"s{i + 1} = s{i} + t{i}")
    return "\n".join([*lines, f"total = s{terms}"])


def run(terms: int) -> None:
    import gradcli

    model_text, before = text(terms), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    marks = [time.perf_counter()]
    model = gradcli.parse(model_text)
    marks.append(time.perf_counter())
    program = model.compile()
    machine = program.machine(frozenset())
    marks.append(time.perf_counter())
    program.run()
    marks.append(time.perf_counter())
    del machine
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    read, compiled, ran = (b - a for a, b in pairwise(marks))
    total = marks[-1] - marks[0]
    print(f"{terms:>8d} terms  read {read:6.2f}  compile {compiled:6.2f}  run {ran:6.2f}  all {total:6.2f} s  "
          f"{total / terms / 5 * 1e6:5.1f} us and {grown / terms / 5:5.0f} bytes an operation", flush=True)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--terms", default="1e4,1e5")
    parser.add_argument("--one", type=float, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        run(int(options.one))
        return
    for terms in options.terms.split(","):
        subprocess.run([sys.executable, __file__, "--one", terms], check=True)


if __name__ == "__main__":
    main()
