"""Runs of lines that are written alike: the same model as when each definition is read by itself."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradcli import parse
from gradcli.errors import GradcliError, ModelError
from gradcli.language import alike, bulk, parser
from gradcli.language.alike import Run, stretches
from gradcli.language.inline import Inliner
from gradcli.language.lower import lower
from gradcli.language.resolved import Resolved
from gradcli.language.templates import kind_of
from gradcli.source import Part, Source


@pytest.fixture
def eager(monkeypatch):
    """Short texts and short runs are read at once too."""
    for module, name, value in ((parser, "_MANY", 3), (alike, "_ALIKE", 2), (alike, "_RUN", 2), (bulk, "_FEW", 1)):
        monkeypatch.setattr(module, name, value)
    return monkeypatch


def read(text: str, bindings: dict[str, str] | None = None) -> Resolved | list[str]:
    """The model, or the messages."""
    try:
        return lower(Source.of(text), bindings)
    except GradcliError as fault:
        return [f"{d.span and (d.span.start, d.span.end)} {d.message} {d.help}" for d in fault.diagnostics]


def one_by_one(text: str, bindings: dict[str, str] | None = None) -> Resolved | list[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parser, "_MANY", len(text) + 1)
        return read(text, bindings)


def described(model: Resolved | list[str]) -> object:
    """All that is known of a model, whatever the numbers of its nodes."""
    if isinstance(model, list):
        return model
    graph, texts, numbers = model.graph, [], set()
    for node, op in enumerate(graph.ops):
        arguments = graph.arguments(node)
        place: tuple[int, ...] = graph.starts[node], graph.ends[node]
        if op != "leaf" and numbers.issuperset(arguments):  # of several the same any may give the place
            numbers.add(node)
            place = ()
        what = graph.numbers.get(node) or graph.labels.get(node) or ""
        texts.append((op, what, place, tuple(hash(texts[a]) for a in arguments)))
    assert sorted(graph.labels) == [n for n, op in enumerate(graph.ops) if op in ("leaf", "name")]
    for node, op in enumerate(graph.ops):
        if op not in ("leaf", "name", "constant"):
            assert graph.find(op, tuple(graph.arguments(node))) == node
    names = [(n.label, texts[n.node], n.kind, n.span[1:], n.default and texts[n.default]) for n in model.names.values()]
    said = [(d.message, d.help, d.span and d.span[1:]) for d in model.notes]
    return names, sorted(texts), model.outputs, model.aliases, model.counts, said, [s for s, _ in model.retained]


def same(text: str, bindings: dict[str, str] | None = None) -> None:
    expected = described(one_by_one(text, bindings))
    assert described(read(text, bindings)) == expected


def runs(text: str) -> list[Run]:
    return [stretch for stretch in stretches(text) if isinstance(stretch, Run)]


LINES = [
    "a{i} = {n}*sin(x*{m} + y)",
    "a{i} = a{j} + x",
    "a{i} = a{j} + a{k}*{n}",
    "a{i} = -{n}*x + a{j}",
    "a{i} = (x - {n})/(y + {m})^2",
    "a{i} = {n}/{m}*x",
    "a{i} = -{n}/{m}*x",
    "a{i} = x^-{n}",
    "a{i} = exp(-{n})*x",
    "a{i} = -x",
    "a{i} = --{n}*x",
    "a{i} = hypot(x, a{j})",
    "a{i} = max(x, {n})",
    "s = s + {n}*x",
    "s = a{j}*s",
    "a{i} = 2*pi*x + e",
    "a{i} = where(x > {n}, a{j}, y) + where(x, {m}, a{k})",
    "a{i} = clip(x, {n}, {m})*max(x, y, a{j}, {n})",
    "a{i} = where(0 < x <= {n} and not y == {m}, {n}, y)",
    "# a comment on a{i} = {n}",
    "a{i} = sum(x)*a{j}  # of rows {n}",
    "a{i} = sin(x*{n}) + sin(x*{n})",
]
ODD = [
    "a{i} = {n}",
    "a{i} = a{j}",
    "a{i} = z{j} + x",
    "a{i} = 2*pi",
    "a{i} = inf*x",
    "a{i} = max(x, {n}, y, a{j}, 1)",
    "pi = {n}",
    "s = {n}",
    "s = x",
    "# comment \\",
    "a{i} = f(x) + {n}",
    "a{i} = d(a{j}, x)",
    "a{j} = {n}*sin(x*{m} + y)",
    "a{i} = a{i} + x",
    "a{i} = b + (x\n  + {n})",
    "a{i} = x + \\\n{n}",
    "a{i} = x +",
    "a{i} = (x + {n}",
    "a{i} = {n}x",
    "a{i} = x.y + a{j}",
    "a{i} = `a{j}` + x",
    "a{i} = not x and a{j} < {n}",
    "a{i} = where(0 < x <= {m}, {n}, y)",
    "a{i} = [{n}, {m}]",
    "a{i} = f()",
    "x + {n}",
    "f(t) = t*{n}",
    "const c{i} = {n}",
    "output a{i}",
    "retain a{j}",
    "claim x + {n} = {n} + x",
    "# a{i} = a{j} + x",
    "",
    "   ",
    "a{i} = nosuch(x)*{n}",
    "a{i} = sin(x, {n})",
    "a{i} = x; b{i} = y*{n}",
    "\ta{i}\t=\ta{j} + x",
    "a{i} = a{j} + x\r",
    "a{i} = \u00e4*a{j}",
    "if = 3*x + {n}",
]
NUMBERS = [
    "2",
    "0.5",
    "0.123",
    "1e-05",
    "1.5e3",
    "3.",
    ".25",
    "2.0",
    "1_000",
    "0",
    "0.0",
    "1e400",
    "2e",
    "1.2.3",
    "7E+2",
]


def filled(line: str, i: int, rng: random.Random) -> str:
    words = {"i": i, "j": rng.randrange(max(1, i)), "k": rng.randrange(max(1, i)),
             "n": rng.choice(NUMBERS[:8]), "m": rng.choice(NUMBERS)}  # fmt: skip
    return line.format(**words)


@given(seed=st.integers(0, 2**32), count=st.integers(3, 40), odd=st.sampled_from([0.0, 0.05, 0.3]))
@settings(max_examples=300, deadline=None)
def test_the_model_is_the_one_that_is_read_line_by_line(seed, count, odd):
    rng = random.Random(seed)
    forms = rng.sample(LINES, rng.randint(1, 4))
    lines = ["x = 2", "y = 3", "b = 1", "s = 2*x", "a0 = x*0.75"]
    lines += [filled(rng.choice(ODD if rng.random() < odd else forms), i, rng) for i in range(1, count)]
    bindings = {rng.choice(["a2", "s", "s@2", "pi", "x"]): "5"} if rng.random() < 0.2 else None
    with pytest.MonkeyPatch.context() as patch:
        for module, name, value in ((parser, "_MANY", 3), (alike, "_ALIKE", 2), (alike, "_RUN", 2), (bulk, "_FEW", 1)):
            patch.setattr(module, name, value)
        patch.setattr(bulk, "_FIRST", rng.choice([2, 5, 1024]))
        same("\n".join(lines) + rng.choice(["", "\n"]), bindings)


def test_a_long_text_is_read_at_once(monkeypatch):
    lines = ["x = 2", "s0 = 0*x"]
    for i in range(500):
        lines += [f"t{i} = {i}.25*sin(x*0.{i} + x)", f"s{i + 1} = s{i} + t{i}"]
    text = "\n".join([*lines, "output s500"])
    expected = described(one_by_one(text))
    seen = []
    by_itself = Inliner.expression
    monkeypatch.setattr(
        Inliner, "expression", lambda self, e, placed=True: seen.append(e) or by_itself(self, e, placed)
    )
    assert described(read(text)) == expected
    assert len(seen) < 10


def test_a_definition_that_is_not_plain_is_read_by_itself_between_others(eager):
    lines = ["x = 2", *[f"y{i} = x*{i + 2}" for i in range(40)]]
    lines[20] = "y19 = q*2"
    lines[30] = "y29 = pi*2"
    text = "\n".join(lines)
    assert [len(run) for run in runs(text)] == [40 - 1]
    same(text)
    model = lower(Source.of(text))
    assert model.names["q"].kind == "free"
    assert model.outputs == ["y39"]


@pytest.mark.parametrize(
    "text",
    [
        "x = 1\ny = x*2\nz = y*3\nw = z*(4\nv = w*5\nu = v*6",
        "x = 1\ny = x*2\nz = y*3 +\nw = z*4\nv = w*5\nu = v*6",
        "x = 1\ny = x*2\nz = y*3 \\\n*4\nw = z*4\nv = w*5\nu = v*6",
        "x = 1\nx*2\ny = x*2\nz = y*3\nw = z*4",
        "x = 1\ny = x*2\nz = y*3\nw = z*4\nx*5",
        "x = 1\ny = z*2\nz = y*3\nw = q*4\nq = w*5",
        "x = 1\ny = x*2\ny = y*3\ny = y*4\ny = y*5",
        "sin = 2\ny = sin*2\nz = sin(y)\nw = cos(z)\nv = sin(w)",
        "\ufeffx = 1\ny = x*2\nz = y*3\nw = z*4\r\nv = w*5\r\nu = v*6\r\n",
        "pi = 3\ny = pi*2\nz = y*e\nw = z*4",
        "x = 1\ny = x*2;\nz = y*3;\nw = z*4;",
        "x = 1\n\n\ny = x*2\n\t\nz = y*3\n(\nw = z*4\n)\nv = w*5",
        "x=1\ny=x*2e5\nz=x*2e+5\nw=y*2e-5\nx2e=4\nv=x2e-3\nu=x2e-5",
    ],
)
def test_what_stands_around_a_run_counts(eager, text):
    same(text)
    for size in (1, 7, 64):
        eager.setattr(alike, "_PIECE", size)
        same(text)


def test_parts_of_a_text_are_told_apart(eager):
    parts = [Part("m.expr", "x = 1\ny = x*2\nx*3"), Part("-e", "z = x*4\nw = x*5\nv = x*6\nx*7")]
    together = described(lower(Source(parts)))
    eager.setattr(parser, "_MANY", 10**6)
    assert described(lower(Source(parts))) == together
    with pytest.raises(ModelError, match="has no effect"):
        lower(Source([Part("m.expr", "x = 1\nx*3\nz = x*4\nw = x*5\nv = x*6")]))


def test_a_model_is_the_same_whatever_the_runs(eager):
    text = "\n".join(["x = 2", "y = 3", *[f"a{i} = -{i}.5*x^2 + y*{i}" for i in range(30)], "a = a3*a4 + a5"])
    whole = parse(text).gradient()
    eager.setattr(parser, "_MANY", 10**6)
    assert parse(text).gradient() == whole


def test_each_of_many_names_used_too_early_is_looked_up_once(monkeypatch):
    text = "\n".join([f"t{i} = t{i + 1}*0.5" for i in range(3000)] + ["t3000 = 1"])
    made = []
    anew = Run.__getitem__
    monkeypatch.setattr(Run, "__getitem__", lambda self, number: made.append(number) or anew(self, number))
    with pytest.raises(ModelError, match="used on line 1 but defined on line 2"):
        lower(Source.of(text))
    assert len(made) < 5 * 3000


def test_the_kinds_of_many_words_are_those_of_each():
    words = ["x", "t12", "and", "or", "not", "nota", "order", "1", "1.", ".5", "12.5", "1..2", "1.2.3", ".", "...", "_"]
    words += ["_1", "1_000", "1e5", "1e-5", "1.e+5", "x1e+5", "a.b", "a.", "1x", "0", "E", "abcd1", "x_1", "1__0"]
    widths = np.array([len(word) for word in words])
    assert alike._kinds(words, widths).tolist() == [kind_of(word) for word in words]


def test_the_used_words_are_the_same_of_a_long_text_and_of_a_short_one():
    ids = np.array([7, 2, 7, 7, 30, 2])
    long, short = (bulk._used(ids, size) for size in (1000, 31))
    assert [a.tolist() for a in long] == [a.tolist() for a in short] == [[2, 7, 30], [1, 0, 1, 1, 2, 0]]
