"""From flags to names: which gradients are retained, differentiated by, switched off."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from gradcli.cli.inputs import split_names
from gradcli.cli.output import Console
from gradcli.errors import BindingError, Diagnostic, shown
from gradcli.source import Span

if TYPE_CHECKING:
    from gradcli.api import Model
    from gradcli.language.lower import Name


class Selection(NamedTuple):
    """The flags of `options.choice` as given."""

    of: Sequence[str]
    wrt: Sequence[str]
    retain: Sequence[str]
    retain_all: bool
    no_retain: Sequence[str]
    no_grad: Sequence[str]

    def outputs(self, model: Model) -> list[str]:
        """The labels of `--of`, or of the model itself. Raises BindingError where there is none."""
        found = [model.find(n).label for n in split_names(self.of)] or list(model.outputs)
        if not found:
            fact = f"{model.source.name} defines nothing that can be an output"
            raise BindingError.of(fact, help="end it with a definition or an expression")
        return list(dict.fromkeys(found))

    def by(self, model: Model) -> list[str] | None:
        """The labels of `--wrt`; a glob means those that require grad."""
        if not self.wrt:
            return None
        requires = self._requires(model)
        return matching(model, split_names(self.wrt), lambda name: bool(requires[name.node]))

    def off(self, model: Model) -> list[str]:
        """The labels of `--no-grad`: leaves. Raises BindingError for an intermediate."""
        labels = matching(model, split_names(self.no_grad), lambda name: name.kind != "intermediate")
        for label in labels:
            name = model.find(label)
            if name.kind == "intermediate":
                fact = f"{shown(label)} is computed: only a leaf's requires_grad can be switched off"
                raise BindingError.of(fact, name.span, f"cut the graph there with `detach({label})`")
        return labels

    def retained(self, model: Model, console: Console) -> list[str]:
        """What to retain: the text's less --no-retain, and --retain. A leaf by name gets a note, a glob skips it."""
        names, requires = model.resolved.names, self._requires(model)
        cancelled = set(matching(model, split_names(self.no_retain)))
        kept: list[str] = []
        for label, span in model.resolved.retained:
            if label not in cancelled and self._keeps(model, names[label], f"`retain {label}`", span, console):
                kept.append(label)
        for pattern in split_names(self.retain):
            if is_glob(model, pattern):
                kept += matching(model, [pattern], lambda n: n.kind == "intermediate" and bool(requires[n.node]))
                continue
            name = model.find(pattern)
            if self._keeps(model, name, f"`--retain {name.label}`", None, console):
                kept.append(name.label)
        if self.retain_all:
            kept += [n.label for n in names.values() if n.kind == "intermediate" and requires[n.node]]
        return [n for n in dict.fromkeys(kept) if n not in cancelled]

    def _requires(self, model: Model) -> bytearray:
        from gradcli.leaves import requires_grad

        return requires_grad(model.resolved, self.off(model))

    def _keeps(self, model: Model, name: Name, flag: str, span: Span | None, console: Console) -> bool:
        """Whether there is something to retain. Raises GradientError, at the `retain`, for a name without grad."""
        from gradcli.api import no_gradient

        if name.kind != "intermediate":
            gives = "its gradient is kept anyway" if name.kind != "const" else "a const, which has no gradient"
            note = f"{shown(name.label)} is a leaf: {gives}, {flag} has no effect"
            console.tell(Diagnostic(note, span or name.span, severity="note"))
            return False
        if not self._requires(model)[name.node]:
            fault = no_gradient(model, name.label, self.off(model))
            raise type(fault)(*[Diagnostic(d.message, span or d.span, d.help) for d in fault.diagnostics])
        return True


def is_glob(model: Model, pattern: str) -> bool:
    return any(c in pattern for c in "*?[") and model.resolved.find(pattern) is None


def matching(model: Model, patterns: Sequence[str], fits: Callable[[Name], bool] | None = None) -> list[str]:
    """The labels that names and globs mean; of a glob those that fit.

    Raises BindingError for a name or glob that means nothing.
    """
    from gradcli.api import match_names

    found: list[str] = []
    for pattern in patterns:
        if not is_glob(model, pattern):
            found.append(model.find(pattern).label)
            continue
        labels = match_names(pattern, model.names)
        if not labels:
            fact = f"{shown(pattern)} matches no name of {model.source.name}"
            raise BindingError.of(fact, help=f"it has {', '.join(map(shown, model.names[:8]))}")
        found += [n for n in labels if fits is None or fits(model.find(n))]
    return list(dict.fromkeys(found))
