"""All checks of one model, in the order of the file; many models in several processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any

from gradcli.api import Model
from gradcli.calculus.specialise import specialise
from gradcli.checking.against import Tolerance, check_table
from gradcli.checking.claims import ClaimCheck
from gradcli.checking.derivatives import DerivativeCheck
from gradcli.checking.expects import check_expect
from gradcli.checking.points import domain_of
from gradcli.checking.program import check_callable, check_command
from gradcli.checking.symbolic import helper
from gradcli.checking.table import Table
from gradcli.errors import Diagnostic, GradcliError
from gradcli.language.lower import ClaimLine, lower
from gradcli.source import Source
from gradcli.verdicts import Check

POINTS = 8


@dataclass(frozen=True)
class Options:
    """`points` a check; `seed` moves them all; `only` names or globs of checks, `exactly` one name of them; `of`
    outputs; `table` or `program` to judge; `symbolic`: seconds that sympy may take for a side note to each claim (None:
    no note)."""

    points: int = POINTS
    seed: int = 0
    only: tuple[str, ...] = ()
    of: tuple[str, ...] = ()
    symbolic: float | None = None
    table: Table | None = None
    program: str | None = None
    limit: float = 60.0
    tolerance: Tolerance = field(default_factory=Tolerance)
    exactly: str | None = None

    def wants(self, *names: str) -> bool:
        """Whether a check of one of these names is asked for."""
        if self.exactly is not None:
            return self.exactly in names
        return not self.only or any(n == p or fnmatchcase(n, p) for p in self.only for n in names if n)


def check(model: Model, callable: Callable[..., Any] | None = None, *, points: int = POINTS, seed: int = 0,
          rtol: float | None = None, atol: float | None = None) -> list[Check]:  # fmt: skip
    """Every derivative of every output, every claim and every expectation; with `callable` its gradients instead.

    `callable(**values)` returns the gradients, as a mapping by name or in the order of the leaves, or a pair of the
    value and these. Raises GradcliError: a domain without a valid point, names without a value, sides with
    different rows.

        >>> import gradcli
        >>> [c.verdict for c in check(gradcli.parse("x = 3; y = x^2; claim d(y, x) = 2*x"))]
        ['agrees', 'agrees']
        >>> [c.verdict for c in check(gradcli.parse("x = 3; y = x^2"), lambda x: {"x": 3*x})]
        ['wrong']
    """
    if callable is None:
        return check_model(model, Options(points, seed))
    how = Tolerance(rtol, atol)
    return [c for output in model.outputs for c in check_callable(model, output, callable, points, seed, how)]


def check_model(model: Model, options: Options | None = None) -> list[Check]:
    """All checks of a model. Raises GradcliError with all faults."""
    checks, faults = collect(model, options or Options())
    if faults:
        raise GradcliError(*faults)
    return checks


def collect(model: Model, options: Options) -> tuple[list[Check], list[Diagnostic]]:
    """The verdicts in order, and what prevented others."""
    checks: list[Check] = []
    faults: dict[Diagnostic, None] = {}
    for job in _jobs(model, options):
        try:
            checks += job()
        except GradcliError as fault:
            faults.update(dict.fromkeys(fault.diagnostics))
    return [c for c in checks if options.wants(c.name, f"line {c.line}" if c.kind == "claim" else "")], list(faults)


def names_of(model: Model) -> list[tuple[str, int]]:
    """What `--only` can name, and the line of each: derivatives, claims, expectations."""
    resolved = model.resolved
    found = []
    for output in model.outputs:
        program = model.compile(output)
        line = resolved.names[program.output].span.line
        found += [(f"d({program.output}, {n})", line) for n in program.wanted if n in program.filled - {program.output}]
    found += [(c.name or f"line {c.span.line}", c.span.line) for c in resolved.claims]
    found += [(e.left_span.text, e.span.line) for e in resolved.expects]
    return list(dict(reversed(found)).items())[::-1]


def _jobs(model: Model, options: Options) -> Iterator[Callable[[], list[Check]]]:
    outputs = [model.find(o).label for o in options.of] or model.outputs
    for output in outputs:
        leaves = [f"d({output}, {n})" for n in model.leaves]
        wanted = frozenset(n for n in leaves if options.wants(n))
        if wanted:
            yield DerivativeCheck(model, output, options.points, options.seed, wanted).run
    for claim in model.resolved.claims:
        if options.wants(claim.name or "", f"line {claim.span.line}"):
            yield lambda claim=claim: [_claim(model, claim, options)]  # type: ignore[misc]
    for line in model.resolved.expects:
        if options.wants(line.left_span.text):
            yield lambda line=line: [check_expect(model, line)]  # type: ignore[misc]
    for output in outputs:
        yield lambda output=output: _others(model, output, outputs, options)  # type: ignore[misc]


def _others(model: Model, output: str, outputs: Sequence[str], options: Options) -> list[Check]:
    """What other programs say of an output."""
    found: list[Check] = []
    if options.table is not None and options.table.rows and output in _answered(model, outputs, options.table):
        found += check_table(model, output, options.table, options.tolerance)
    if options.program is not None:
        given = options.points, options.seed, options.tolerance, options.limit
        found += check_command(model, output, options.program, *given)
    return found


def _answered(model: Model, outputs: Sequence[str], table: Table) -> Sequence[str]:
    """The outputs that a table has columns for; the last where it has none, which will say so."""
    columns = table.columns
    found = [o for o in outputs if o in columns or any(f"d{o}_d{n}" in columns for n in model.leaves)]
    return found or outputs[-1:]


def _claim(model: Model, claim: ClaimLine, options: Options) -> Check:
    found = ClaimCheck(model, claim, options.points, options.seed).run()
    if options.symbolic is None:
        return found
    text = model.resolved.graph
    graph, at = specialise(text, {text.labels[n] for n in text.lists}, (claim.left, claim.right))
    positive = [n for n, (low, _) in domain_of(model.resolved).bounds.items() if low >= 0]
    return replace(found, symbolic=helper(options.symbolic).ask(graph, at[claim.left], at[claim.right], positive))


@dataclass(frozen=True)
class Outcome:
    """What checking one source gave: verdicts in order, the errors that prevented others, and the names it used."""

    checks: tuple[Check, ...]
    faults: tuple[Diagnostic, ...] = ()
    notes: tuple[Diagnostic, ...] = ()
    used: frozenset[str] = frozenset()
    known: tuple[str, ...] = ()


def check_source(source: Source, bindings: Mapping[str, str], options: Options) -> Outcome:
    """Read and check one model; errors are part of the outcome, so that a folder goes on."""
    try:
        model = Model(lower(source, bindings))
    except GradcliError as fault:
        return Outcome((), fault.diagnostics)
    used, known = frozenset(model.resolved.used), tuple(model.resolved.known())
    try:
        checks, faults = collect(model, options)
    except GradcliError as fault:
        return Outcome((), fault.diagnostics, model.notes, used, known)
    return Outcome(tuple(checks), tuple(faults), model.notes, used, known)


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
