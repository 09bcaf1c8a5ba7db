"""Write what a program can say better than a person: outputs, the list of functions, the options.

    python docs/generate.py              README.md and docs/*.md
    python docs/generate.py samples      samples/*.out and samples/errors/*.message
    python docs/generate.py --fresh ...  also what differs in the last digits of its numbers only

In a `console` block each line that begins with `$ ` is run in the project's folder, and the lines below it are what a
terminal shows; `> ` carries a command on. A command must end with status 0, the last one with N where the block is
marked `console exit=N`, and any one that `$ echo $?` follows with what is printed there. A block marked `needs=NAME` is
left as it is where there is no such program or module. `pycon` blocks are sessions of Python. What stands between
`<!-- NAME -->` and `<!-- end NAME -->` comes from the function of that name below.

Processors differ in the last bit of exp and its like. An output is kept where only last digits differ, so that
the files are the same on every machine; but not what takes arithmetic alone, which has the same bits everywhere.
"""

from __future__ import annotations

import contextlib
import difflib
import doctest
import importlib.util
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from math import inf
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
TRANSCRIPTS = sorted((ROOT / "samples").glob("*.out"))
MISTAKES = sorted((ROOT / "samples" / "errors").glob("*.expr"))
WIDTH = "100"

_FENCE = re.compile(r"^```(console|pycon)\b([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_MARKED = re.compile(r"(<!-- ([a-z ]+) -->\n)(.*?)(<!-- end \2 -->)", re.DOTALL)
_NUMBER = re.compile(r"-?(?:\d+\.\d+(?:e[+-]?\d+)?|\d+e[+-]?\d+)")
_BEGINS = re.compile(r"^(?=\$ |>>> |```|\|)", re.MULTILINE)  # a command, an example, a block, a line of a table
_ROUNDED_RIGHT = re.compile(r"abs|clip|d|detach|dot|max|mean|min|norm|sqrt|std|sum|var|where")
_SHELL = re.compile(r"[|<>&;`$]")


class Terminal(io.StringIO):
    """Both streams of a command, in order, as a person sees them."""

    def isatty(self) -> bool:
        return True


@dataclass
class Answer:
    text: str
    status: int


@contextlib.contextmanager
def surroundings() -> Iterator[None]:
    """The project's folder, a fixed width and no colour."""
    before, folder = os.environ.copy(), Path.cwd()
    os.environ.update(COLUMNS=WIDTH, NO_COLOR="1")
    os.environ.pop("GRADCLI_DEBUG", None)
    os.chdir(ROOT)
    try:
        yield
    finally:
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(before)


def run(command: str) -> Answer:
    """One command line: `gradcli ...` and `cat FILE` in this process, all else by the shell."""
    words = [] if _SHELL.search(re.sub(r"'[^']*'", "", command)) else shlex.split(command)
    if words[:1] == ["gradcli"] and words[1:2] != ["batch"]:  # batch takes signals and memory as its own
        return run_gradcli(words[1:])
    if words[:1] == ["cat"]:
        return Answer("".join(Path(name).read_text(encoding="utf-8") for name in words[1:]), 0)
    return run_shell(command)


def run_gradcli(arguments: list[str]) -> Answer:
    from gradcli.cli import group

    screen = Terminal()
    with contextlib.redirect_stdout(screen), contextlib.redirect_stderr(screen):
        status = group.run(arguments)
    return Answer(screen.getvalue(), status)


def run_shell(command: str) -> Answer:
    with tempfile.TemporaryDirectory() as folder:
        for name, module in (("gradcli", "-m gradcli"), ("python", "")):
            script = Path(folder, name)
            script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {module} "$@"\n', encoding="utf-8")
            script.chmod(0o755)
        path = os.pathsep.join([folder, os.environ.get("PATH", os.defpath)])
        settings = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
        done = subprocess.run(command, shell=True, env=settings, text=True, encoding="utf-8", check=False,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # fmt: skip
    return Answer(done.stdout, done.returncode)


def transcript(body: str, last: int = 0, where: str = "") -> str:
    """The same commands, each with its output of now. Raises SystemExit when one ends with another status than said.

    What they write to /tmp goes to a folder of its own: two runs on one machine do not meet.
    """
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        return _transcript(body, last, where, partial(_in_folder, folder))


def _in_folder(folder: str, command: str) -> Answer:
    answer = run(command.replace("/tmp/", f"{folder}/"))
    return Answer(answer.text.replace(f"{folder}/", "/tmp/"), answer.status)


def _transcript(body: str, last: int, where: str, run: Callable[[str], Answer]) -> str:
    commands: list[str] = []
    for line in body.splitlines():
        if line.startswith("$ "):
            commands.append(line[2:])
        elif line.startswith("> ") and commands:
            commands[-1] += "\n" + line[2:]
    written, status = [], 0
    for number, command in enumerate(commands):
        written.append("$ " + command.replace("\n", "\n> "))
        if command == "echo $?":
            written.append(str(status))
            continue
        answer = run(command)
        status = answer.status
        told = number + 1 < len(commands) and commands[number + 1] == "echo $?"
        wanted = last if number + 1 == len(commands) else 0
        if not told and status != wanted:
            sys.exit(f"{where}: status {status} instead of {wanted} of: {command}\n{answer.text}")
        if answer.text:
            written += [line.rstrip() for line in answer.text.rstrip("\n").split("\n")]
    return "\n".join(written) + "\n"


def session(body: str, names: dict[str, object]) -> str:
    """The same Python examples, each with what it prints now."""
    written = []
    for example in doctest.DocTestParser().get_examples(body):
        first, *rest = example.source.rstrip("\n").split("\n")
        written.append(">>> " + first)
        written += ["... " + line if line else "..." for line in rest]
        screen = io.StringIO()
        with contextlib.redirect_stdout(screen), contextlib.redirect_stderr(screen):
            try:
                exec(compile(example.source, "<example>", "single"), names)  # noqa: S102  our own pages
            except Exception as fault:  # noqa: BLE001  an example may show how it fails
                print("Traceback (most recent call last):")
                print("    ...")
                module = type(fault).__module__
                print(f"{'' if module == 'builtins' else module + '.'}{type(fault).__name__}: {fault}")
        written += screen.getvalue().rstrip("\n").split("\n") if screen.getvalue() else []
    return "\n".join(written) + "\n"


def same_numbers(old: str, new: str, relative: float = 1e-12, absolute: float = 1e-14) -> bool:
    """Whether two texts are equal but for the last digits of their decimals."""
    if old == new:
        return True
    if re.sub(r" +", " ", _NUMBER.sub("#", old)) != re.sub(r" +", " ", _NUMBER.sub("#", new)):
        return False
    pairs = zip(map(float, _NUMBER.findall(old)), map(float, _NUMBER.findall(new)), strict=True)
    return all(abs(a - b) <= max(relative * max(abs(a), abs(b)), absolute) for a, b in pairs)


def page(text: str, where: str = "") -> str:
    """A page with every block made anew."""
    names: dict[str, object] = {}

    def fenced(found: re.Match[str]) -> str:
        kind, mark, body = found.groups()
        said = re.fullmatch(r"\s*(?:exit=(\d+))?\s*(?:needs=(\w+))?\s*", mark)
        assert said, f"{where}: {mark}"
        if said[2] and not (shutil.which(said[2]) or importlib.util.find_spec(said[2])):
            return found[0]
        made = transcript(body, int(said[1] or 0), where) if kind == "console" else session(body, names)
        return f"```{kind}{mark}\n{made}```"

    def marked(found: re.Match[str]) -> str:
        return found[1] + GENERATORS[found[2]]() + found[4]

    with kept_table():
        return _FENCE.sub(fenced, _MARKED.sub(marked, text))


@contextlib.contextmanager
def kept_table() -> Iterator[None]:
    """An example may add a row to the table: it must not stay there."""
    from gradcli.primitives import TABLE

    before = dict(TABLE)
    try:
        yield
    finally:
        for name in TABLE.keys() - before.keys():
            del TABLE[name]


def message(path: Path) -> Answer:
    """What `gradcli grad` says of a file with a mistake; `# arguments: ...` in the file goes behind its name."""
    found = re.search(rb"^# arguments: (.*)$", path.read_bytes(), re.MULTILINE)
    arguments = shlex.split(found[1].decode()) if found else []
    return run_gradcli(["grad", path.relative_to(ROOT).as_posix(), *arguments])


# ---- what is generated between marks -------------------------------------------------------------------------------


def functions() -> str:
    """The table, one line a function."""
    from gradcli.reports.functions import describe

    lines = ["", "| function | meaning and conventions | derivatives | arguments |", "|---|---|---|---|"]
    for row in describe():
        also = f" Also `{'`, `'.join(row.aliases)}`." if row.aliases else ""
        slopes = "<br>".join(f"`d/d{by}` `{formula}`" for by, formula in row.derivatives.items())
        lines.append("| " + " | ".join(
            cell.replace("|", "\\|") for cell in (f"`{row.signature}`", row.doc + also, slopes or "–", ranges(row))
        ) + " |")  # fmt: skip
    return "\n".join([*lines, "", ""])


def ranges(row: object) -> str:
    """The domain in words: only what is not the whole line."""
    from gradcli.primitives import BOOL

    found = []
    for name, (low, high) in zip(row.arguments, row.domain, strict=False):  # type: ignore[attr-defined]
        if (low, high) == BOOL and name not in row.derivatives:  # type: ignore[attr-defined]
            continue  # a condition
        if low > -inf and high < inf:
            found.append(f"{low:g} ≤ {name} ≤ {high:g}")
        elif low > -inf:
            found.append(f"{name} ≥ {low:g}")
        elif high < inf:
            found.append(f"{name} ≤ {high:g}")
    return ", ".join(found) or "all numbers"


def options() -> str:
    """`--help` of the program and of each command."""
    from gradcli.cli.group import _COMMANDS

    parts = []
    for words in ([], *([name] for name in _COMMANDS)):
        title = " ".join(["gradcli", *words])
        parts.append(f"\n## {title}\n\n```text\n{run_gradcli([*words, '--help']).text.rstrip()}\n```\n")
    return "".join(parts) + "\n"


def row() -> str:
    """One row of the table as the diff that added it."""
    lines = (ROOT / "gradcli" / "primitives.py").read_text(encoding="utf-8").splitlines()
    found = next(line for line in lines if line.startswith('row("softsign"'))
    return f"\n```diff\n+{re.sub(r' {2,}', '  ', found)}\n```\n\n"


def statuses() -> str:
    """The exit statuses as `--help` has them."""
    from gradcli.cli.group import STATUSES

    lines = ["", "| status | meaning |", "|---|---|"]
    for status, meaning in STATUSES.items():
        said = re.sub(r"--[a-z-]+", r"`\g<0>`", meaning)
        lines.append(f"| {status} | {said} |")
    return "\n".join([*lines, "", ""])


def messages() -> str:
    """The kinds of mistake with the first line of what is said."""
    lines = ["", "| sample | says |", "|---|---|"]
    for path in MISTAKES:
        first = message(path).text.split("\n")[0]
        said = re.sub(r"^\S+?(:\d+:\d+)?: (error|warning): ", "", first).replace("|", "\\|")
        lines.append(f"| [{path.stem}](../samples/errors/{path.name}) | {said} |")
    return "\n".join([*lines, "", ""])


def conventions(section: str) -> str:
    """The special points of one section of conventions.tsv, evaluated."""
    lines = ["", "| expression | at | value | slopes | PyTorch | JAX |", "|---|---|---|---|---|---|"]
    for line in (ROOT / "docs" / "conventions.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        where, expression, at, torch, jax = line.split("\t")
        if where == section:
            value, slopes = evaluated(expression, at.split())
            cells = (f"`{expression}`", f"`{at}`", value, slopes, torch, jax)
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join([*lines, "", ""])


def evaluated(expression: str, point: list[str]) -> tuple[str, str]:
    record = json.loads(run_gradcli(["grad", "-q", "-e", expression, *point, "--json"]).text)
    slopes = [record["gradients"][word.split("=")[0]] for word in point]
    return spelled(record["value"]), ", ".join(map(spelled, slopes))


def spelled(number: object) -> str:
    """Six digits, which are the same on every machine; halves as one reads them."""
    if isinstance(number, list):
        return ", ".join(map(spelled, number))
    if isinstance(number, float):
        return "½" if number == 0.5 else f"{number:.6g}"
    return {"NaN": "nan", "Infinity": "inf", "-Infinity": "-inf", None: "none"}[number]  # type: ignore[index]


SECTIONS = ("ties and corners", "powers", "roots norms logarithms", "branches", "tails")
GENERATORS: dict[str, Callable[[], str]] = {
    **{name: partial(conventions, name) for name in SECTIONS},
    "functions": functions,
    "options": options,
    "row": row,
    "messages": messages,
    "statuses": statuses,
}


# ---- writing -------------------------------------------------------------------------------------------------------


def settled(old: str, made: str) -> str:
    """The new text, with each old output that differs from its new one in last digits only.

    An output is kept or replaced as a whole: columns are as wide as their longest number.
    """
    before, after = _BEGINS.split(old), _BEGINS.split(made)
    masked = [[re.sub(r" +", " ", _NUMBER.sub("#", part)) for part in parts] for parts in (before, after)]
    for a, b, size in difflib.SequenceMatcher(None, *masked, autojunk=False).get_matching_blocks():
        for k in range(size):
            if same_numbers(before[a + k], after[b + k]) and not is_arithmetic(after[b + k]):
                after[b + k] = before[a + k]
    return "".join(after)


def is_arithmetic(part: str) -> bool:
    """Whether an output has the same bits on every machine: what an expression on the line needs is rounded as IEEE 754
    says, or is a sum in the one order."""
    line = part.partition("\n")[0]
    called = re.findall(r"(\w+)\(", line)
    powers = re.search(r"\^(?!2(?![.\w]))|\*\*", line)
    return line.startswith("$ gradcli grad -e ") and not powers and all(map(_ROUNDED_RIGHT.fullmatch, called))


def keep(path: Path, made: str, fresh: bool) -> bool:
    """Write a file unless it says the same already."""
    old = path.read_text(encoding="utf-8") if path.exists() else ""
    made = made if fresh else settled(old, made)
    if made == old:
        return False
    path.write_text(made, encoding="utf-8")
    return True


def main(words: list[str]) -> None:
    fresh = "--fresh" in words
    made: dict[Path, str] = {}
    with surroundings():
        if "samples" in words:
            for path in TRANSCRIPTS:
                made[path] = transcript(path.read_text(encoding="utf-8"), where=path.name)
            for path in MISTAKES:
                made[path.with_suffix(".message")] = message(path).text
        else:
            for path in PAGES:
                made[path] = page(path.read_text(encoding="utf-8"), path.name)
    for path, text in made.items():
        if keep(path, text, fresh):
            print(f"wrote {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main(sys.argv[1:])
