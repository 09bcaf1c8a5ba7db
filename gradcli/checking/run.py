"""All checks of one model, in the order of the file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from gradcli.checking.claims import ClaimCheck, check_expect
from gradcli.checking.derivatives import DerivativeCheck
from gradcli.errors import Diagnostic, GradcliError
from gradcli.language.lower import lower
from gradcli.results import Check
from gradcli.source import Source

if TYPE_CHECKING:
    from gradcli.api import Model

POINTS = 8


@dataclass(frozen=True)
class Options:
    """`points` a check; `seed` moves them all; `only` names or globs of checks; `of` outputs."""

    points: int = POINTS
    seed: int = 0
    only: tuple[str, ...] = ()
    of: tuple[str, ...] = ()
    min_digits: float | None = None


def check_model(model: Model, options: Options | None = None) -> list[Check]:
    """Every derivative of every output, every claim and every expectation.

    Raises GradcliError: an empty domain, names without a value, sides with different rows.
    """
    options = options or Options()
    found: list[Check] = []
    for output in options.of or model.outputs:
        if not options.only or _chosen(options.only, "d(*") or any(o.startswith("d(") for o in options.only):
            found += DerivativeCheck(model, output, options.points, options.seed).run()
    for claim in model.resolved.claims:
        if not options.only or _chosen(options.only, claim.name or "") or _chosen(options.only, f"line {claim.span.line}"):
            found.append(ClaimCheck(model, claim, options.points, options.seed).run())
    for line in model.resolved.expects:
        if not options.only or _chosen(options.only, line.left_span.text):
            found.append(check_expect(model, line))
    if options.only:
        found = [c for c in found if _chosen(options.only, c.name)]
    return found


def _chosen(patterns: Iterable[str], name: str) -> bool:
    return any(name == p or fnmatchcase(name, p) for p in patterns)


@dataclass(frozen=True)
class Outcome:
    """What checking one source gave: verdicts in order, or the errors that prevented them, and the names it used."""

    checks: tuple[Check, ...]
    faults: tuple[Diagnostic, ...] = ()
    notes: tuple[Diagnostic, ...] = ()
    used: frozenset[str] = frozenset()
    known: tuple[str, ...] = ()


def check_source(source: Source, bindings: Mapping[str, str], options: Options) -> Outcome:
    """Read and check one model; errors are part of the outcome, so that a folder goes on."""
    from gradcli.api import Model

    try:
        model = Model(lower(source, bindings))
    except GradcliError as fault:
        return Outcome((), fault.diagnostics)
    used, known = frozenset(model.resolved.used), tuple(model.resolved.known())
    try:
        return Outcome(tuple(check_model(model, options)), (), model.notes, used, known)
    except GradcliError as fault:
        return Outcome((), fault.diagnostics, model.notes, used, known)


def check_all(sources: Sequence[Source], bindings: Mapping[str, str], options: Options, jobs: int) -> Iterator[Outcome]:
    """The outcomes of many models in order; several processes when there is work for them."""
    if jobs <= 1 or len(sources) < 2:
        for source in sources:
            yield check_source(source, bindings, options)
        return
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    with ProcessPoolExecutor(min(jobs, len(sources)), mp_context=get_context("spawn")) as pool:
        size = max(1, min(16, len(sources) // (4 * jobs)))
        work = [(source, dict(bindings), options) for source in sources]
        yield from pool.map(_one, work, chunksize=size)


def _one(work: tuple[Source, dict[str, str], Options]) -> Outcome:
    return check_source(*work)
