"""What the words of a command line name: models, and values for their names."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING
from unicodedata import normalize

import click

from gradcli.cli.output import Console, terminal
from gradcli.errors import BindingError, Diagnostic, FileError, GradcliError, did_you_mean, not_utf8, shown

if TYPE_CHECKING:
    from gradcli.api import Model
    from gradcli.source import Source

_BINDING = re.compile(r"\s*(?:`([^`\n]+)`|([^\s`=@]+))(@[1-9][0-9]*)?\s*=(?!=)(.*)", re.DOTALL)
_ITEM = r"\s*(?:`([^`]*)`(@[0-9]+)?|([^,`]*))\s*(?:,|\Z)"
_HEAD = 4096  # bytes of a file that show whether it is a table
_DATA = (".csv", ".tsv", ".ndjson", ".jsonl", ".parquet", ".gz", ".zst", ".xlsx")
_PACKED = (b"PAR1", b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"BZh", b"\xfd7zXZ", b"PK\x03\x04", b"ARROW1")
_CELL = rb"\s*\"?[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\"?\s*"
_MANY = 1000  # files of a folder that are looked through for a name that is near
_CMD = "in cmd.exe an unquoted `^` gets lost: quote it, or write `**`, which works as well"


class Request:
    """What the command line names: models by path, their sources, and values by name."""

    def __init__(self) -> None:
        self.sources: list[tuple[str, Source]] = []
        self.bindings: dict[str, str] = {}


def binding(word: str) -> tuple[str, str] | None:
    """Name and value of `NAME=VALUE`, the name normalised; None for any other word."""
    found = _BINDING.fullmatch(word)
    if not found:
        return None
    quoted, plain, number, value = found.groups()
    name = normalize("NFC", quoted or plain)
    if quoted is None and not name.isidentifier():
        return None
    return name + (number or ""), value


def split_names(texts: Sequence[str]) -> list[str]:
    """`a,b` and backquoted names, in order."""
    found = []
    for text in texts:
        for quoted, number, plain in re.findall(_ITEM, text):
            name = quoted + number if quoted else plain.strip()
            if name:
                found.append(normalize("NFC", name))
    return found


def gather(ctx: click.Context, words: Sequence[str], expressions: Sequence[str], console: Console) -> Request:
    """Sort words into models and bindings and read the models. One that cannot be read is reported, the others stay."""
    from gradcli.source import Source

    request, paths = Request(), []
    for word in words:
        given = binding(word)
        if given:
            request.bindings[given[0]] = given[1]
        else:
            paths.append(word)
    if not paths and not expressions:
        remedy = next(filter(None, map(_file_instead, words)), None)
        remedy = remedy or "name a file, `-` for standard input, or give an expression with -e"
        raise click.UsageError(f"no model\nhelp: {remedy}", ctx)
    data = (*(ctx.params.get("data") or ()), ctx.params.get("against"))
    if "-" in paths and (paths.count("-") > 1 or "-" in data):
        raise click.UsageError("standard input can be read once\nhelp: name `-` once", ctx)
    text = "\n".join(expressions)
    if not paths:
        request.sources.append(("-e", Source.of(text)))
    for path in paths:
        try:
            for name, source in _read(path, ctx):
                request.sources.append((name, source.plus(text) if expressions else source))
        except GradcliError as fault:
            console.fail(fault)
    return request


def files(names: Sequence[str]) -> list[str]:
    """The files among the names of models: an expression is none."""
    return [name for name in names if name != "-e"]


def exists(word: str) -> bool:
    """Whether there is a file of this name; a word that no file could be called is none."""
    return os.path.exists(_place(word))


def _file_instead(word: str) -> str | None:
    """For a word that gives a value and is the name of a file as well."""
    if not exists(word):
        return None
    import shlex

    return f"{shown(word)} gives a value; the file of that name is `{shlex.quote(f'./{word}')}`"


def unused(name: str, value: str, known: Collection[str]) -> str:
    """What may be meant by a binding that no model uses: a file, or a name that is near."""
    return _file_instead(f"{name}={value}") or _instead(name, list(known))


def _place(word: str) -> str:
    """The path of a word; under a locale without its letters, as the bytes of UTF-8."""
    try:
        os.fsencode(word)
    except UnicodeEncodeError:
        return os.fsdecode(word.encode("utf-8", "surrogateescape"))
    return word


def _read(path: str, ctx: click.Context) -> Iterator[tuple[str, Source]]:
    from gradcli.api import read_source

    if path == "-":
        yield "-", _standard_input(ctx)
        return
    if not exists(path):
        raise FileError.of(f"{shown(path)} is neither a file nor a NAME=VALUE", help=_absent(path))
    place = _place(path)
    if not os.path.isdir(place):
        _refuse_data(path, _head(place), ctx)
        yield path, _named(read_source(place), path)
        return
    from pathlib import Path

    found = sorted(p for p in Path(place).rglob("*.expr") if p.is_file())
    if not found:
        raise FileError.of(f"no *.expr files in {shown(path)}", help="name a folder with models, or a file")
    for file in found:
        yield str(file), read_source(file)


def _named(source: Source, name: str) -> Source:
    """The same text under the name that the user gave."""
    from gradcli.source import Part, Source

    return Source([Part(name, source.text)])


def _absent(word: str) -> str:
    """What may be meant by a word that names nothing."""
    import shlex

    name, equals, value = word.partition("=")
    if equals and value.startswith("=") and name.strip().isidentifier():
        return f"a value is given with one `=`: `{name.strip()}{value.strip()}`"
    if equals and name.strip() and not set(name) & set("/\\(^*+"):
        return f"a name with other characters goes in backquotes: {shlex.quote(f'`{name.strip()}`={value}')}"
    if word.endswith(".expr") or (os.sep in word and " " not in word and "(" not in word):
        return _near_file(word) or "check the path; an expression is given with -e"
    return f"an expression is given with -e: `-e {shlex.quote(word)}`"


def _near_file(word: str) -> str | None:
    try:
        with os.scandir(os.path.dirname(_place(word)) or ".") as entries:
            files = [entry.name for entry, _ in zip(entries, range(_MANY), strict=False)]
    except (OSError, ValueError):
        return None
    return did_you_mean(os.path.basename(word), files)


def _head(place: str) -> bytes:
    """How a file begins; nothing of a pipe, which can be read once."""
    try:
        if not os.path.isfile(place):
            return b""
        with open(place, "rb", buffering=0) as file:
            return file.read(_HEAD)
    except OSError:
        return b""


def _refuse_data(path: str, head: bytes, ctx: click.Context) -> None:
    """Raises FileError for a table where a model is expected: the parser would find a mistake in every row of it."""
    if not _is_data(path, head):
        return
    takes = {option for parameter in ctx.command.params for option in parameter.opts}
    flag = next((f for f in ("--data", "--against") if f in takes), None)
    remedy = "name a model, or give an expression with -e"
    if flag:
        import shlex

        remedy = f"`{flag} {shlex.quote(path)}` reads it; {remedy}"
    elif ctx.info_name == "batch":
        remedy = "the model comes first: `gradcli batch MODEL DATA`, or is given with -e"
    raise FileError.of(f"{shown(path)} holds data, not a model", help=remedy)


def _is_data(path: str, head: bytes) -> bool:
    """By its name, unless it defines something; by bytes that are no text; by an object, or a header and numbers."""
    if path.lower().endswith(_DATA) and b"=" not in head:
        return True
    if head.startswith(_PACKED):
        return True
    lines = [line for line in head.split(b"\n", 16)[:16] if line.strip()][:2]
    if not lines or lines[0].lstrip().startswith((b"{", b"[{")):
        return bool(lines)
    mark = next((m for m in (b",", b"\t") if m in lines[0].strip()), None)
    if mark is None or len(lines) < 2 or any(c in line for c in (b"=", b"(", b"[", b"#") for line in lines):
        return False
    cells = lines[1].split(mark)
    return len(cells) == lines[0].count(mark) + 1 and any(re.fullmatch(_CELL, c) for c in cells)


def _standard_input(ctx: click.Context) -> Source:
    from gradcli.source import Part, Source

    if sys.stdin is None or sys.stdin.closed:
        raise FileError.of("standard input is closed", help="pipe a model into `-`, or name a file")
    if terminal(sys.stdin):
        raise FileError.of("standard input is a terminal", help="pipe a model into `-`, or name a file")
    try:
        data = sys.stdin.buffer.read()
        _refuse_data("-", data[:_HEAD], ctx)
        return Source([Part("-", data.decode().removeprefix("\ufeff"))])
    except UnicodeDecodeError as fault:
        raise not_utf8("-", fault) from None
    except OSError as fault:
        raise FileError.of(f"cannot read standard input: {(fault.strerror or str(fault)).lower()}") from None


def read_models(request: Request, console: Console) -> list[tuple[str, Model]]:
    """Parse every model. Broken ones are reported and left out; a binding that no model uses is an error for all.

    Raises BindingError.
    """
    from gradcli.api import Model
    from gradcli.language.lower import lower

    found: list[tuple[str, Model]] = []
    for path, source in request.sources:
        try:
            found.append((path, Model(lower(source, request.bindings))))
        except BindingError:
            raise
        except GradcliError as fault:
            console.fail(fault)
    used = set().union(*(model.resolved.used for _, model in found))
    idle = {name: value for name, value in request.bindings.items() if name not in used}
    if idle and found and len(found) == len(request.sources):
        known = dict.fromkeys(label for _, model in found for label in model.resolved.known())
        where = "the model uses" if len(found) == 1 else "any model uses"
        raise BindingError(
            *[Diagnostic(f"{shown(n)} is no name that {where}", None, unused(n, v, known)) for n, v in idle.items()]
        )
    return found


def _instead(name: str, known: Sequence[str]) -> str:
    """For a binding that nothing uses: a near name, or a power sign that the shell took away."""
    if any(label.startswith(name) and label.removeprefix(name).isdecimal() for label in known):
        power = next(n for n in known if n.startswith(name) and n.removeprefix(name).isdecimal())
        return f"did you mean {shown(power)}? If a power of {shown(name)} is meant: {_CMD}"
    return did_you_mean(name, known) or "leave it out"
