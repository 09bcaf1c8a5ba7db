"""The Lennard-Jones potential with a gradient written by hand in numpy: as a program, and as a function.

gradcli check potential.expr --against-command 'python potential.py'
python potential.py --check
"""

import sys

import numpy as np


def potential(r, epsilon, sigma):
    """The value, and the gradients by r, epsilon and sigma."""
    s6 = (sigma / r) ** 6
    s12 = s6 * s6
    gradients = {
        "r": 24 * epsilon / r * (s6 - 2 * s12),
        "epsilon": 4 * (s12 - s6),
        "sigma": 24 * epsilon / sigma * (2 * s12 - s6),
    }
    return 4 * epsilon * (s12 - s6), gradients


def main():
    points = np.genfromtxt(sys.stdin, delimiter=",", names=True)
    value, gradients = potential(points["r"], points["epsilon"], points["sigma"])
    print("v", *(f"dv_d{name}" for name in gradients), sep=",")
    for row in zip(value, *gradients.values(), strict=True):
        print(*map(repr, map(float, row)), sep=",")


def check():
    from pathlib import Path

    import gradcli

    model = gradcli.load(Path(__file__).with_name("potential.expr"))
    for found in gradcli.check(model, potential):
        print(found.text, found.verdict, found.hint or "")


if __name__ == "__main__":
    check() if "--check" in sys.argv else main()
