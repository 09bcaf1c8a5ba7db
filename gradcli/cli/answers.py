"""What `gradcli grad` prints for one model: a table, JSON, or the bare values that were asked for."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from unicodedata import normalize

from gradcli.cli.output import FAILED, Console, json_line, json_number, number, table, terminal
from gradcli.cli.selection import Selection
from gradcli.errors import BindingError, Diagnostic, did_you_mean, shown

if TYPE_CHECKING:
    from gradcli.api import Model, Program
    from gradcli.results import Result

_MOST_SHOWN = 20  # intermediates listed without -v
_ATTRIBUTES = ("grad", "is_leaf", "requires_grad", "retains_grad")
_ITEM = r"(?s)\s*(?:`([^`]+)`((?:@[0-9]+)?)|(.*?))(?:\.(\w*))?\s*"


class Item(NamedTuple):
    """A --print: the label of a name, and an attribute, or None for its value."""

    label: str
    attribute: str | None


class Answer(NamedTuple):
    """One output of a model at the point."""

    program: Program
    result: Result
    values: dict[str, Any]
    materialize: bool

    def value(self, label: str) -> Any:
        if label == self.result.output:
            return self.result.value
        found = self.result.values.get(label, self.values.get(label))
        return self.program.model.point.get(label) if found is None else found

    def gradient(self, label: str) -> Any:
        """The gradient of a name as far as it was filled: asked for, or retained."""
        found = self.result.gradients.get(label, self.result.retained.get(label))
        if found is None and self.materialize and (label in self.result.gradients or label in self.result.retained):
            value = self.value(label)
            return 0.0 if value is None or isinstance(value, float) else value.clip(0.0, 0.0)
        return found

    def lines(self, style: str | None) -> Iterator[tuple[str, str, str]]:
        """`name, value, gradient`, the output first; then second derivatives by every two names."""
        result = self.result
        for label in (result.output, *(n for n in self.program.model.names if n != result.output)):
            known = label in result.values or label in self.values or label == result.output
            if known or label in result.gradients or label in result.retained:
                yield label, number(self.value(label), style), number(self.gradient(label), style)
        order = list(result.hessian)
        for x, by in result.hessian.items():
            for y in order[order.index(x) :]:
                yield f"d2{result.output}_d{x}_d{y}", number(by[y], style), ""

    def record(self, path: str) -> dict[str, Any]:
        """The JSON of design section 4, without its warnings."""
        from gradcli.explain import reason

        program, result = self.program, self.result
        names = program.model.resolved.names
        gradients = {n: self.gradient(n) for n in (*result.gradients, *result.retained)}
        record = {
            "schema": 1,
            "model": path,
            "output": result.output,
            "value": json_number(result.value),
            "point": {n: json_number(self.values[n]) for n in program.needed},
            "gradients": {n: json_number(gradients[n]) for n in result.gradients},
            "retained": {
                n: {"value": json_number(self.value(n)), "gradient": json_number(gradients[n])} for n in result.retained
            },
            "reasons": {n: reason(program, names[n], None)[0] for n, g in gradients.items() if g is None},
        }
        if result.hessian:
            record["hessian"] = {x: {y: json_number(v) for y, v in by.items()} for x, by in result.hessian.items()}
        return record


class Questions(NamedTuple):
    """The flags of one run, put to each model in turn."""

    console: Console
    selection: Selection
    items: Sequence[str]
    hessian: bool
    materialize: bool
    ofmt: str | None
    as_json: bool
    digits: int | None = None

    def answer(self, path: str, model: Model) -> list[str]:
        """What a model prints, complete before the first line is written."""
        console = self.console
        console.heard.clear()
        console.tell(*model.notes)
        outputs = self.selection.outputs(model)
        retained = self.selection.retained(model, console)
        items = [find_item(model, item) for item in self.items]
        if items and not any(item.attribute == "grad" for item in items):
            outputs = outputs[:1]  # values and flags are the same for all of them
        common = list(console.heard)
        blocks = []
        for output in outputs:
            console.heard[:] = common
            found = self.evaluate(model, output, retained, items)
            if items:
                blocks.append("\n".join(self.item(found, item) for item in items))
            elif self.as_json:
                warnings = list(dict.fromkeys(d.sentence() for d in console.heard))
                blocks.append(json_line({**found.record(path), "warnings": warnings}))
            else:
                rows = table(found.lines(self.ofmt), terminal(sys.stdout))
                blocks.append("\n".join(line.rstrip("\t") for line in rows))
        return blocks

    def evaluate(self, model: Model, output: str, retained: Sequence[str], items: Sequence[Item]) -> Answer:
        """One output at the point, and a note where a number is not finite."""
        program = model.compile(
            output,
            self.selection.by(model),
            retained,
            no_grad=self.selection.off(model),
            show=self.shown(model, output, retained, items),
            hessian=self.hessian,
        )
        values, _, _ = program.values({})
        result = program.run({})
        if not result.finite and (self.as_json or not self.console.quiet):
            from gradcli.origins import trouble

            self.console.tell(*trouble(program, result, values))
        if self.digits:
            from gradcli.digits import exact_result

            result = exact_result(program, result, values, self.digits)
        return Answer(program, result, values, self.materialize)

    def shown(self, model: Model, output: str, retained: Sequence[str], items: Sequence[Item]) -> list[str]:
        """The intermediates whose values are wanted."""
        names = model.resolved.names
        if items:
            wanted = [item.label for item in items if item.attribute is None]
            return [n for n in wanted if names[n].kind == "intermediate"]
        if self.as_json:
            return list(retained)
        reach = model.resolved.graph.reachable((names[output].node,))
        inner = [n.label for n in names.values() if n.kind == "intermediate" and reach[n.node] and n.label != output]
        asked = {*retained, *(self.selection.by(model) or ())}
        if len(inner) > _MOST_SHOWN and not self.console.verbose:
            hidden = len(inner)
            inner = [n for n in inner if n in asked]
            fact = f"{hidden - len(inner)} intermediates are not listed"
            self.console.tell(Diagnostic(fact, None, "-v lists them", "note"))
        return list(dict.fromkeys([*inner, *(n for n in asked if names[n].kind == "intermediate")]))

    def item(self, found: Answer, item: Item) -> str:
        """One bare value; reading the number of a gradient that is none fails, as `.grad.item()` does."""
        program, label = found.program, item.label
        name = program.model.resolved.names[label]
        requires = bool(program.requires[name.node])
        if item.attribute is None:
            return number(found.value(label), self.ofmt)
        if item.attribute == "is_leaf":
            return number(name.kind != "intermediate" or not requires)
        if item.attribute == "requires_grad":
            return number(requires)
        if item.attribute == "retains_grad":
            return number(label in program.retained)
        gradient = found.gradient(label)
        if gradient is None:
            from gradcli.explain import reason

            why, remedy, span = reason(program, name, None)
            warning = Diagnostic(f"`{label}.grad` is none: {why}", span or name.span, remedy, "warning")
            if warning not in self.console.heard:
                self.console.tell(warning)
            self.console.worst(FAILED)
        return number(gradient, self.ofmt)


def find_item(model: Model, text: str) -> Item:
    """`n.grad` -> the label of n, and `grad`. A name with dots goes in backquotes. Raises BindingError."""
    found = re.fullmatch(_ITEM, text)
    quoted, counted, plain, attribute = found.groups() if found else (None, "", text, None)
    name = normalize("NFC", plain if quoted is None else quoted + counted)
    if attribute is None or (quoted is None and model.resolved.find(f"{name}.{attribute}")):
        return Item(model.find(name if attribute is None else f"{name}.{attribute}").label, None)
    if attribute not in _ATTRIBUTES:
        hint = did_you_mean(attribute, _ATTRIBUTES) or f"attributes are {', '.join(_ATTRIBUTES)}"
        raise BindingError.of(f"{shown(text)} asks for no attribute that there is", help=hint)
    return Item(model.find(name).label, attribute)
