"""How the labels of `graph.Known` and the constants of the language are computed, over either exact namespace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

KNOWN: dict[str, Callable[[Any], Any]] = {
    "pi": lambda m: m.pi,
    "tau": lambda m: 2 * m.pi,
    "e": lambda m: m.exp(m.num(1)),
    "inf": lambda m: m.inf,
    "-inf": lambda m: -m.inf,
    "nan": lambda m: m.nan,
    "log(2)": lambda m: m.log(m.num(2)),
    "log(10)": lambda m: m.log(m.num(10)),
    "180/pi": lambda m: 180 / m.pi,
    "pi/180": lambda m: m.pi / 180,
    "2/sqrt(pi)": lambda m: 2 / m.sqrt(m.pi),
    "sqrt(pi)/2": lambda m: m.sqrt(m.pi) / 2,
    "1/sqrt(2*pi)": lambda m: 1 / m.sqrt(2 * m.pi),
}
