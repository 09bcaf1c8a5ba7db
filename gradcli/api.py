"""The front door: read a model, compile it for an output, run it.

>>> import gradcli
>>> model = gradcli.parse("x = 2; w = -3; b = 6.88; o = tanh(x*w + b)")
>>> sorted(model.gradient())
['b', 'w', 'x']
>>> model.compile(wrt=["x"]).run({"w": -3.5}).gradients["x"]
-3.4500799212767...
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from os import fsdecode
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from gradcli.compiled import Program, mixed_rows, no_gradient, some
from gradcli.errors import BindingError, Diagnostic, FileError, did_you_mean, not_utf8
from gradcli.language.lower import Name, Resolved, lower
from gradcli.results import Column, Number
from gradcli.source import Source, Span
from gradcli.values import as_number, evaluate_constants, literal_columns, read_only, several

if TYPE_CHECKING:
    from pathlib import Path

    from gradcli.verdicts import Explanation

__all__ = ["Model", "Program", "load", "match_names", "mixed_rows", "no_gradient", "parse", "read_source"]

Values = Mapping[str, Any]


def parse(text: str, name: str = "-e", **values: Any) -> Model:
    """Read a model from its text.

    Raises ModelError, which lists every error of the text with its place.

        >>> parse("y = x^2").outputs
        ('y',)
    """
    if not isinstance(text, str):
        raise TypeError(f"a model is a str, not {type(text).__name__}; `load` reads a file")
    return _model(Source.of(text, name), values)


def load(path: str | Path, **values: Any) -> Model:
    """Read a model from a UTF-8 file. Raises FileError and ModelError.

    >>> import tempfile
    >>> from pathlib import Path
    >>> path = Path(tempfile.mkdtemp(), "square.expr")
    >>> path.write_text("y = x^2")
    7
    >>> load(path, x=3).gradient()
    {'x': 6.0}
    """
    return _model(read_source(fsdecode(path)), values)


def _model(source: Source, values: Values) -> Model:
    """Names that are given a value are bound like those of the command line; the values themselves come by `Model`."""
    return Model(lower(source, dict.fromkeys(values, "nan")), values)


def read_source(path: str | Path) -> Source:
    """Read a file as a source. Raises FileError with the reason and, for bad UTF-8, the line."""
    try:
        return Source.read(path)
    except UnicodeDecodeError as fault:
        raise not_utf8(str(path), fault) from None
    except OSError as fault:
        raise FileError.of(f"cannot read {path}: {(fault.strerror or str(fault)).lower()}") from None


class Model:
    """A parsed model: names, outputs, retention. Immutable; values given here are defaults for every run."""

    def __init__(self, resolved: Resolved, values: Values | None = None) -> None:
        self.resolved = resolved
        self._given = dict(values or {})

    @property
    def source(self) -> Source:
        """The text, with the places of everything in it."""
        return self.resolved.source

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of `output`, or the last definition or bare expression."""
        return tuple(self.resolved.outputs)

    @property
    def notes(self) -> tuple[Diagnostic, ...]:
        """What a user should know and is no error, such as a built-in function that the text replaces."""
        return tuple(self.resolved.notes)

    @property
    def names(self) -> tuple[str, ...]:
        """Every name of the model, in the order of the file."""
        return tuple(self.resolved.names)

    @property
    def leaves(self) -> tuple[str, ...]:
        """Names with a value of their own that a gradient may be asked for."""
        return tuple(n.label for n in self.resolved.names.inputs() if n.kind != "const")

    @cached_property
    def point(self) -> Mapping[str, Number]:
        """The values that the text itself gives, by name: floats, or (rows,) arrays; all of it is read-only."""
        found = {n.label: n.default for n in self.resolved.names.inputs() if n.default is not None}
        values = dict(zip(found, evaluate_constants(self.resolved, found.values(), self.literals), strict=True))
        for label, value in self._given.items():
            values[self.find(label).label] = as_number(label, value)
        return MappingProxyType({n: v if isinstance(v, float) else read_only(v) for n, v in values.items()})

    @cached_property
    def literals(self) -> dict[str, Column]:
        """The columns written as lists in the text, by the label of their leaf."""
        return literal_columns(self.resolved)

    def __getstate__(self) -> dict[str, Any]:
        """What was computed from the text is computed again: a read-only mapping cannot be pickled."""
        return {"resolved": self.resolved, "_given": self._given}

    def __repr__(self) -> str:
        return f"<Model {self.source.name}: {some(self.outputs)} of {some(self.leaves)}>"

    def find(self, label: str, span: Span | None = None) -> Name:
        """A name by its label or alias. Raises BindingError with a near miss, TypeError for what is no str."""
        if not isinstance(label, str):
            raise TypeError(f"a name is a str, not {type(label).__name__}")
        name = self.resolved.find(label)
        if name is None:
            hint = did_you_mean(label, self.resolved.known()) or f"the model has {some(self.resolved.known())}"
            raise BindingError.of(f"no name `{label}` in {self.source.name}", span, hint)
        return name

    def compile(
        self,
        of: str | None = None,
        wrt: Iterable[str] | None = None,
        retain: Iterable[str] = (),
        engine: str = "auto",
        no_grad: Iterable[str] = (),
        show: Iterable[str] = (),
        hessian: bool = False,
    ) -> Program:
        """A program for the value of one output and its gradients.

        `of`: which output (default: the model's only or last one). `wrt`: the names to differentiate by, leaves or
        intermediates (default: every leaf that requires grad). `retain`: intermediates whose gradient is kept.
        `no_grad`: leaves that do not require grad. `show`: names whose value is wanted. `hessian`: second derivatives
        by every two of the names too; of columns those within a row. A str in place of several names is one name.
        `engine`: "numpy", "native", or what pays ("auto"); from 100,000 rows on their last bits may differ from those
        of a single point, which "pointwise" keeps.

            >>> parse("y = x^2").compile().run({"x": 3}).gradients
            {'x': 6.0}
        """
        if engine not in ("auto", "numpy", "native", "pointwise"):
            raise ValueError(f"engine must be auto, numpy, native or pointwise, not {engine}")
        return Program(self, of, wrt, retain, no_grad, show, hessian, engine)

    def gradient(self, **values: Any) -> dict[str, Number | None]:
        """The gradient of the output at a point: values of the text, unless given here.

        >>> parse("x = 1; y = x^2").gradient(x=3)
        {'x': 6.0}
        """
        return dict(self.compile().run(values).gradients)

    def explain(self, names: Iterable[str] = (), of: str | None = None, **values: Any) -> list[Explanation]:
        """For each name is_leaf, requires_grad, retained, gradient, and the reason.

        >>> parse("x = 2; n = x^2; o = n + 1").explain(["n"])[0].reason
        '`n` on line 1 is an intermediate and not retained'
        """
        from gradcli.explain import explain

        return explain(self, several(names, "names"), of, values)

    def derivative(self, of: str, *by: str) -> Model:
        """The model with one more definition, its output: the derivative of `of` by the names in turn.

        >>> parse("x = 3; y = x^3").derivative("y", "x", "x").compile().run({}).value
        18.0
        """
        resolved, graph = self.resolved, self.resolved.graph.copy()
        labels = [self.find(n).label for n in (of, *by)]
        node = resolved.names[labels[0]].node
        for label in labels[1:]:
            node = graph.add("d", node, resolved.names[label].node)
        name = f"d({', '.join(labels)})"
        record = Name(name, graph.name(node, name), "intermediate", resolved.names[labels[0]].span)
        return Model(replace(resolved, graph=graph, names=resolved.names.plus(record), outputs=[name]), self._given)


def match_names(pattern: str, names: Iterable[str]) -> list[str]:
    """The names that a glob matches."""
    from fnmatch import fnmatchcase

    return [n for n in names if fnmatchcase(n, pattern)]
