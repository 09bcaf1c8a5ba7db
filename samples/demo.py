"""What gradcli says of the samples: `make demo` runs this."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STATUS = {0: "fine", 1: "a gradient that was asked for is none", 2: "a mistake in the model"}


def gradcli(line: str) -> subprocess.CompletedProcess[str]:
    """Run `gradcli LINE` in the project's folder."""
    settings = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUTF8": "1"}
    return subprocess.run([sys.executable, "-m", "gradcli", *shlex.split(line)], cwd=ROOT, env=settings, text=True,
                          encoding="utf-8", capture_output=True, check=False)  # fmt: skip


def title(text: str) -> None:
    print(f"\n{text}\n{'-' * len(text)}")


def say(text: str = "") -> None:
    print(text)


def columns(text: str) -> str:
    """Tabs to columns, as a terminal shows them."""
    rows = [line.split("\t") for line in text.splitlines()]
    if len({len(row) for row in rows} - {1}) == 0:
        return text.rstrip("\n")
    widths = [max(len(row[k]) for row in rows if k < len(row)) for k in range(max(map(len, rows)))]
    return "\n".join("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=False)).rstrip() for row in rows)


def show(line: str, status: int = 0) -> str:
    """A command and what it says, messages first. Ends the demo when the status is another."""
    done = gradcli(line)
    print(f"$ gradcli {line}")
    for text in (done.stderr.rstrip("\n"), columns(done.stdout)):
        if text:
            print("\n".join(f"    {row}" for row in text.splitlines()))
    if done.returncode != status:
        sys.exit(f"demo: status {done.returncode} instead of {status}")
    if status:
        print(f"    (exit status {status}: {STATUS[status]})")
    return done.stdout


def file(name: str) -> None:
    print(f"samples/{name}")
    for line in (ROOT / "samples" / name).read_text(encoding="utf-8").splitlines():
        print(f"    {line}".rstrip())


def beside(names: list[str], found: list[str], published: list[str], source: str) -> None:
    """Results beside published figures."""
    width = max(map(len, names))
    print(f"    {'':{width}}  {'gradcli':22}  {source}")
    for row in zip(names, found, published, strict=True):
        print(f"    {row[0]:{width}}  {row[1]:22}  {row[2]}")


def main() -> None:
    title("A model, and its gradient")
    file("neuron.expr")
    say()
    say("Each line of the answer: a name, its value, and the gradient of o by it.")
    show("grad samples/neuron.expr")

    title("The gradient of an intermediate, four ways")
    say("n was computed on the way, so its gradient is not kept, as in PyTorch. Asking for it is a warning:")
    show("grad samples/neuron.expr --print n.grad", 1)
    say("Retained, it is there:")
    show("grad samples/neuron.expr --retain n --print n.grad")
    say("So it is as a name to differentiate by:")
    show("grad samples/neuron.expr --wrt n --print n.grad")
    say("And the leaves always have theirs:")
    show("grad samples/neuron.expr --print x1.grad --print b.grad")

    title("Greeks of an option beside a textbook")
    say("price is the Black-Scholes formula; delta = d(price, S), gamma = d(price, S, S), and so on.")
    greeks = ["delta", "gamma", "theta", "vega", "rho"]
    found = show("grad samples/black_scholes.expr " + " ".join(f"--print {name}" for name in greeks)).split()
    beside(greeks, found, ["0.522", "0.066", "-4.31", "0.121", "0.0891"], "Hull prints")

    title("A regression of NIST, its data as columns")
    say("At the certified parameters of Misra1a: the sum of squares, and the standard deviations of the parameters")
    say("from the derivatives of each row.")
    sums = ["rss", "residual_sd", "sd_b1", "sd_b2"]
    found = show("grad samples/misra1a.expr " + " ".join(f"--print {name}" for name in sums) + " --ofmt %.11g").split()
    beside(sums, found, ["1.2455138894E-01", "1.0187876330E-01", "2.7070075241E+00", "7.2668688436E-06"], "NIST prints")

    title("Second derivatives")
    say("Rosenbrock's valley at its usual start. By hand: 1330, 480 and 200.")
    show("grad samples/rosenbrock.expr --hessian")

    title("A branch that is not taken does not leak")
    say("x*log(x) only where x > 0. The nan and the infinity of the other rows never reach the gradient.")
    show("grad samples/guarded_where.expr")

    title("Why a gradient is what it is")
    show("explain samples/neuron.expr n w2")

    title("Where a nan came from")
    show("grad -e 'x = [4, 1, -1]' -e 'y = log(x)/x'")

    title("Mistakes, all of them in one run")
    show("grad samples/errors/several.expr", 2)

    title("Next")
    say("README.md is the short tour, docs/ the long one. `make test` runs all tests.")
    say("The command is .venv/bin/gradcli; try: .venv/bin/gradcli grad -e 'sin(x)^2' x=pi/4")


if __name__ == "__main__":
    main()
