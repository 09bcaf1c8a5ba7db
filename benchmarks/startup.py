#!/usr/bin/env python3
"""Short commands beside the import of the libraries that they cannot do without. Whole processes, in turn.

    python benchmarks/startup.py

GRADCLI names the command where it is not `gradcli`; the Python of this script should be the one it runs on.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys

from processes import in_turn

COMMAND = shlex.split(os.environ.get("GRADCLI", "gradcli"))
PAIRS = {
    "--help": "import click",
    "grad -e 'tanh(x*w + b)' x=2 w=-3 b=6.88": "import numpy, click",
    "grad samples/neuron.expr": "import numpy, click",
    "diff -e 'x^2*sin(x)'": "import sympy, click",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=15)
    options = parser.parse_args()
    for words, imports in PAIRS.items():
        both = {"ours": [*COMMAND, *shlex.split(words)], "floor": [sys.executable, "-c", imports]}
        taken = in_turn(both, options.repeat)
        ours, floor = taken["ours"].seconds, taken["floor"].seconds
        print(f"{words:42s} {ours * 1e3:5.0f} ms   {imports:20s} {floor * 1e3:5.0f} ms   ratio {ours / floor:.2f}")


if __name__ == "__main__":
    main()
