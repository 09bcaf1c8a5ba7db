"""Sines and cosines of large columns by way of tangents, where numpy computes those in vectors and these one by one.

On processors with AVX-512 numpy has a tangent of 1.2 ns a number on Linux, of at most 0.53 ulp over the whole range;
its sine and cosine are the C library's, 10.6 ns each. With t = tan(x/2) and u = tan(x) (DLMF 4.21)

    sin x = 2t / (1 + t^2),    |cos x| = 1 / sqrt(1 + u^2),    cos x has the sign of t u

and neither loses digits anywhere: an error of t counts |cos x| times in the sine, one of u sin(x)^2 times in the
cosine. Together at most 3 ulp, where the C library has 0.52; tests/engine/test_tangents.py holds it to that. Sine and
cosine of one column share t: together they take a third of the time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from gradcli.engine.program import Instruction

if TYPE_CHECKING:
    from gradcli.engine.execute import Call

SPARE = 2  # registers that it needs beside those of the program

_half = partial(np.multiply, np.array(0.5))
_one_more = partial(np.add, np.array(1.0))
_reciprocal = partial(np.divide, np.array(1.0))


@cache
def pay() -> bool:
    """Whether numpy has tangents in vectors of eight here, by the name of what it has chosen for this processor."""
    introspect = getattr(np.lib, "introspect", None)
    if introspect is None:  # an older numpy
        return False
    found = introspect.opt_func_info(func_name="^tan$", signature="^float64$")
    return any(kind["current"] in ("AVX512_SKX", "X86_V4") for kind in found.get("tan", {}).values())


def calls(code: Iterable[Instruction], kernel: Callable[[str], Callable[..., Any]], spare: int) -> Iterator[Call]:
    """What computes each instruction on columns, sines and cosines in the registers `spare` and `spare + 1`, of which
    the first keeps t until its x is overwritten."""
    t, u = spare, spare + 1
    held = -1
    for op, out, arguments in code:
        if op in ("sin", "cos"):
            (x,) = arguments
            if held != x:
                yield _half, t, (x,)
                yield np.tan, t, (t,)
                held = x
            yield from (_sine if op == "sin" else _cosine)(x, t, u, out)
        else:
            yield kernel(op), out, arguments
        if out == held:
            held = -1


def _sine(x: int, t: int, u: int, out: int) -> Iterator[Call]:
    yield np.multiply, out, (t, t)
    yield _one_more, out, (out,)
    yield np.add, u, (t, t)
    yield np.divide, out, (u, out)


def _cosine(x: int, t: int, u: int, out: int) -> Iterator[Call]:
    yield np.tan, u, (x,)  # first: `out` may be the register of x
    yield np.multiply, out, (t, u)
    yield np.multiply, u, (u, u)
    yield _one_more, u, (u,)
    yield np.sqrt, u, (u,)
    yield _reciprocal, u, (u,)
    yield np.copysign, out, (u, out)
