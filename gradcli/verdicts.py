"""What is said about names and derivatives, and reports and commands print."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gradcli.results import Number


@dataclass(frozen=True)
class Explanation:
    """One name as PyTorch would describe it, and why its gradient is what it is."""

    name: str
    is_leaf: bool
    requires_grad: bool
    retains_grad: bool
    gradient: Number | None
    reason: str
    help: str | None = None
    line: int | None = None


@dataclass(frozen=True)
class Check:
    """The verdict on one derivative, claim, expectation, or gradient of another program: agrees, wrong or undecided.

    `digits`: for a derivative, how many digits of the float64 gradient are right at the worst point; for a claim to how
    many it was judged. `conditioning`: how many digits the rounding of the inputs alone would leave there, where some
    are lost. `points`: how many points, or rows of another program's table, counted. `counterexample`: values by
    name at a point that decides, numbers or lists of them. `symbolic`: what a simplification of the difference gave.
    `bound`: what another program's numbers were held to. `row`: the first wrong data row, from 1. `part`: the file that
    the line is in, or `-e`.
    """

    kind: str
    name: str
    text: str
    line: int
    column: int
    verdict: str
    points: int
    digits: float | None = None
    seed: int | None = None
    symbolic: str = "unknown"
    output: str | None = None
    by: str | None = None
    counterexample: Mapping[str, float | list[float]] | None = None
    left: str | None = None
    right: str | None = None
    hint: str | None = None
    replay: str | None = None
    note: str | None = None
    branches: tuple[int, int] | None = None
    end_column: int | None = None
    conditioning: float | None = None
    bound: str | None = None
    row: int | None = None
    part: str = ""
