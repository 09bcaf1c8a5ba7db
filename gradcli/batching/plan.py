"""What a run computes and writes: programs, names of result columns, what passes through."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from gradcli.api import Model, Program
from gradcli.batching.bind import Bound, reduces
from gradcli.errors import BindingError, Diagnostic, GradcliError, did_you_mean
from gradcli.formats.headers import match_key
from gradcli.primitives import TABLE
from gradcli.source import Source

NAMES = "d{output}_d{input}"
_OVER_ROWS = frozenset(name for name, row in TABLE.items() if row.reduction)


@dataclass(frozen=True)
class Asked:
    """What the user wants of each output."""

    outputs: Sequence[str]
    wrt: Sequence[str] | None = None
    retained: Sequence[str] = ()
    off: Sequence[str] = ()
    names: str = NAMES
    keep: str = "all"
    domain: bool = False


@dataclass(frozen=True)
class Column:
    """One result column: of which program, and which of its numbers (`value`, `gradient`, `shown`)."""

    name: str
    program: int
    kind: str
    label: str


@dataclass
class Plan:
    """Everything that is the same for all chunks. `domains` are the conditions that rows must meet."""

    bound: Bound
    programs: list[Program]
    results: list[Column]
    kept: list[int]
    whole: bool
    domains: list[Program] = field(default_factory=list)
    domain_texts: list[str] = field(default_factory=list)
    notes: list[Diagnostic] = field(default_factory=list)

    @property
    def needed(self) -> list[int]:
        """The columns that must be numbers: of the leaves that outputs or domains are computed from."""
        labels = {n for p in (*self.programs, *self.domains) for n in p.needed}
        return [i for label, i in self.bound.columns.items() if label in labels]

    @property
    def result_names(self) -> list[str]:
        return [c.name for c in self.results]

    @property
    def kept_names(self) -> list[str]:
        return [self.bound.header[i] for i in self.kept]

    @property
    def columns(self) -> dict[str, str]:
        """The column that gives each name its values."""
        used = set(self.needed)
        return {n: self.bound.header[i] for n, i in self.bound.columns.items() if i in used}

    @property
    def values(self) -> dict[str, Any]:
        """The numbers of names without a column."""
        model = self.bound.model
        fixed = {n for p in (*self.programs, *self.domains) for n in p.needed if n not in self.bound.columns}
        return {n: model.point[n] for n in model.names if n in fixed}

    def record(self) -> dict[str, Any]:
        """The plan for programs."""
        return {
            "schema": 1,
            "columns": self.columns,
            "values": self.values,
            "passes": self.kept_names,
            "results": self.result_names,
        }

    def describe(self) -> list[str]:
        """The plan for people, a line a fact."""
        lines = [f"column `{column}` -> `{n}`" for n, column in self.columns.items()]
        lines += [f"`{n}` = {value!r} in every row" for n, value in self.values.items()]
        lines += ["passes through: " + (", ".join(f"`{n}`" for n in self.kept_names) or "nothing")]
        return [*lines, "results: " + ", ".join(f"`{n}`" for n in self.result_names)]


def plan(bound: Bound, asked: Asked) -> Plan:
    """Raises GradcliError: no output, a reduction over data, a clash of names, a column to keep that is not there."""
    model = bound.model
    if not asked.outputs:
        raise BindingError.of(
            f"{model.source.name} defines nothing that can be an output",
            help="end it with a definition or an expression",
        )
    _refuse_reductions(bound, asked.outputs)
    kept, whole = _kept(asked.keep, bound)
    programs = [
        model.compile(o, asked.wrt, asked.retained, no_grad=asked.off, show=asked.retained, engine="pointwise")
        for o in asked.outputs
    ]
    made = Plan(bound, programs, [], kept, whole)
    made.results = _columns(made, asked)
    if asked.domain:
        _add_domains(made)
    _refuse_clashes(made)
    for program in (*programs, *made.domains):
        _check_values(program, bound)
    return made


def _columns(made: Plan, asked: Asked) -> list[Column]:
    found: list[Column] = []
    titles = set(map(_title, made.programs))
    for number, program in enumerate(made.programs):
        output = _title(program)
        found.append(Column(output, number, "value", program.output))
        for label in program.wanted:
            if label in program.filled:
                found.append(Column(_named(asked.names, output, label), number, "gradient", label))
            elif asked.wrt is not None:
                fact = f"`{program.output}` does not depend on `{label}`: there is no column for its gradient"
                made.notes.append(Diagnostic(fact, None, "`gradcli explain` says why", "note"))
        for label in program.retained:
            if label not in titles and not any(c.label == label and c.kind == "shown" for c in found):
                found.append(Column(label, number, "shown", label))
            if label in program.filled and label not in program.wanted:
                found.append(Column(_named(asked.names, output, label), number, "gradient", label))
    return found


def _title(program: Program) -> str:
    """What the output is called. `y = x` and a bare `x` are the leaf itself, whose column has that name already."""
    record = program.model.resolved.names[program.output]
    if record.kind == "intermediate":
        return program.output
    return record.aliases[-1] if record.aliases else "value"


def _named(template: str, output: str, label: str) -> str:
    return template.replace("{output}", output).replace("{input}", label)


def check_template(template: str) -> None:
    """Raises BindingError unless both the output and the input are in it."""
    odd = [w for w in re.findall(r"\{([^}]*)\}", template) if w not in ("output", "input")]
    if odd or "{input}" not in template:
        fact = f"`{{{odd[0]}}}` means nothing" if odd else "it lacks {input}"
        raise BindingError.of(f"`--names {template}`: {fact}", help=f"the default is `{NAMES}`")


def _refuse_reductions(bound: Bound, outputs: Sequence[str]) -> None:
    model = bound.model
    graph, names = model.resolved.graph, model.resolved.names
    roots = [names[o].node for o in outputs]
    node = reduces(graph, roots, [names[n].node for n in bound.columns], _OVER_ROWS)
    if node is not None:
        span = model.resolved.node_span(node)
        name = graph.ops[node].removesuffix("_rows").replace("gather", "sum")
        raise BindingError.of(
            f"`{name}` goes over all rows of the data, `batch` answers row by row",
            span,
            f"`gradcli grad {_words(model.source)} --data FILE` gives one number for the whole file",
        )
    marks = graph.reachable(roots)
    lists = [n for n in graph.lists if marks[n]]
    if lists:
        raise BindingError.of(
            "a list has rows of its own, here the rows come from the data",
            model.resolved.node_span(lists[0]),
            "put its numbers into a column",
        )


def _words(source: Source) -> str:
    """A model as the command line names it."""
    from shlex import quote

    return " ".join(f"-e {quote(part.text)}" if part.name == "-e" else quote(part.name) for part in source.parts)


def _kept(keep: str, bound: Bound) -> tuple[list[int], bool]:
    count = len(bound.header) - len(bound.absent)
    if keep == "all":
        return list(range(count)), True
    if keep == "none":
        return [], False
    by_key = {match_key(n): i for i, n in enumerate(bound.header[:count])} | {
        n: i for i, n in enumerate(bound.header[:count])
    }
    found = []
    for name in split(keep):
        if name not in by_key:
            hint = did_you_mean(name, bound.header) or "`--keep all`, `--keep none`, or names with commas between"
            raise BindingError.of(f"`--keep`: no column `{name}`", help=hint)
        found.append(by_key[name])
    return list(dict.fromkeys(found)), False


def split(text: str) -> list[str]:
    """Names between commas; in backquotes a name may have a comma itself."""
    return [a or b.strip() for a, b in re.findall(r"`([^`]*)`|([^,`]+)", text) if a or b.strip()]


def _refuse_clashes(made: Plan) -> None:
    seen: dict[str, Column | None] = {match_key(n): None for n in made.kept_names}
    for column in made.results:
        if column.name in seen:
            other = seen[column.name]
            remedies = ["`--keep` chooses what passes through"] if other is None else []
            if "gradient" in (column.kind, other.kind if other is not None else None):
                remedies.insert(0, "`--names` spells gradients otherwise, with both {output} and {input}")
            raise BindingError.of(
                f"two columns of the output are called `{column.name}`",
                help="; ".join(remedies) or "ask for each output once",
            )
        seen[column.name] = column


def _add_domains(made: Plan) -> None:
    """Each `domain` line as a program of its own over the same columns."""
    resolved = made.bound.model.resolved
    for condition in resolved.domains:
        text = condition.span.text.strip()
        made.domains.append(_condition(made.bound.model, condition.node))
        made.domain_texts.append(text.removeprefix("domain").strip())


def _condition(model: Model, node: int) -> Program:
    """A program whose value is a node without a name of its own."""
    from copy import copy
    from dataclasses import replace

    from gradcli.language.lower import Name

    resolved = model.resolved
    label = f"\ndomain {node}"
    span = resolved.node_span(node)
    assert span is not None
    inner = copy(model)
    inner.resolved = replace(resolved, names=resolved.names.plus(Name(label, node, "intermediate", span)))
    return inner.compile(label, wrt=(), engine="pointwise")


def _check_values(program: Program, bound: Bound) -> None:
    """All values are there, and they are numbers: lists have rows of their own."""
    values = {n: 0.0 for n in program.needed if n in bound.columns}
    used, _, columns = program.values(values)
    odd = [n for n in columns if n in program.needed]
    if odd:
        span = program.needed[odd[0]].span
        raise BindingError.of(f"`{odd[0]}` is a list, here the rows come from the data", span, "give it one number")
    if not all(isinstance(v, float) for v in used.values()):
        raise GradcliError.of(
            "the model has a list, here the rows come from the data", help="put its numbers into a column"
        )
