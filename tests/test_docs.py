"""README.md and docs/ say what the program says: every command and session in them is run again."""

from __future__ import annotations

import importlib.util
import math
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent


def load_generator() -> ModuleType:
    """docs/generate.py as a module; tests/test_samples.py uses it too."""
    name = "docs_generate"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / "generate.py")
        assert spec
        assert spec.loader
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


generate = load_generator()
PAGES = {path.relative_to(ROOT).as_posix(): path for path in generate.PAGES}


def made_again(path: Path) -> str:
    with generate.surroundings():
        return generate.page(path.read_text(encoding="utf-8"), path.name)


@pytest.mark.parametrize("name", [n for n in PAGES if n != "docs/options.md"])
def test_page_shows_what_the_commands_print(name: str) -> None:
    old = PAGES[name].read_text(encoding="utf-8")
    assert generate.settled(old, made_again(PAGES[name])) == old, "run `make docs`"


def test_option_reference_is_what_help_says() -> None:
    """By words: versions of click break lines differently."""
    path = PAGES["docs/options.md"]
    assert made_again(path).split() == path.read_text(encoding="utf-8").split(), "run `make docs`"


def test_first_screen_is_one_file_one_command_one_answer() -> None:
    screen = "\n".join(PAGES["README.md"].read_text(encoding="utf-8").split("\n")[:35])
    assert "$ cat samples/neuron.expr" in screen
    assert "$ gradcli grad samples/neuron.expr" in screen
    assert "PyTorch" in screen


@pytest.mark.parametrize("name", PAGES)
def test_fenced_blocks_are_run_or_shown_by_a_generator(name: str) -> None:
    """`sh` is for what a test cannot run inside itself: make and pip."""
    text = PAGES[name].read_text(encoding="utf-8")
    kinds = re.findall(r"^```(\w*)", text, re.MULTILINE)[::2]
    assert set(kinds) <= {"console", "pycon", "sh", "text", "diff"}
    targets = (ROOT / "Makefile").read_text(encoding="utf-8")
    for block in re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        for line in block.splitlines():
            assert line.startswith(("make ", "pip install", "gradcli --help"))
            if line.startswith("make "):
                assert f"\n{line.split()[1]}:" in targets
    unmarked = re.sub(r"<!-- ([a-z ]+) -->\n.*?<!-- end \1 -->", "", text, flags=re.DOTALL)
    assert not re.search(r"^```(text|diff)", unmarked, re.MULTILINE)


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere(name: str) -> None:
    for target in re.findall(r"\]\(([^)]+)\)", PAGES[name].read_text(encoding="utf-8")):
        path, _, heading = target.partition("#")
        if "://" in target:
            continue
        page = PAGES[name].parent / path if path else PAGES[name]
        assert page.exists(), target
        if heading:
            headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
            assert heading in [re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-") for h in headings], target


def test_every_exit_status_is_in_the_tables_and_in_help() -> None:
    from gradcli.cli import output
    from gradcli.cli.group import EXIT, STATUSES

    known = {value for name, value in vars(output).items() if name.isupper() and isinstance(value, int)}
    assert set(STATUSES) == known | {129, 143}  # SIGHUP, SIGTERM
    for name in ("README.md", "docs/errors.md"):
        text = PAGES[name].read_text(encoding="utf-8")
        assert [int(s) for s in re.findall(r"^\| (\d+) \| ", text, re.MULTILINE)] == list(STATUSES)
    assert all(f"{status} {meaning}" in EXIT for status, meaning in STATUSES.items())


def test_every_command_and_option_has_a_page() -> None:
    import click

    from gradcli.cli.group import _COMMANDS, group

    text = PAGES["docs/options.md"].read_text(encoding="utf-8")
    for name in _COMMANDS:
        assert f"## gradcli {name}\n" in text
        command = group.get_command(click.Context(group), name)
        assert command
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                assert parameter.help, f"{name} {parameter.name} has no help"
                assert all(option in text for option in parameter.opts)


def test_every_function_has_a_line() -> None:
    from gradcli.primitives import callable_rows

    text = PAGES["docs/functions.md"].read_text(encoding="utf-8")
    for name in callable_rows():
        assert f"| `{name}(" in text or f"`{name}`" in text, name


def test_neuron_agrees_with_pytorch() -> None:
    """What README.md says: PyTorch 2.14 in float64, to 2 units in the last place."""
    import gradcli

    program = gradcli.load(ROOT / "samples" / "neuron.expr").compile(retain=["n"], show=["n"])
    result = program.run()
    pytorch = {
        "x1": -1.4999999999999998,
        "x2": 0.49999999999999994,
        "w1": 0.9999999999999998,
        "w2": 0.0,
        "b": 0.49999999999999994,
    }
    pairs = [(result.gradients[name], number) for name, number in pytorch.items()]
    pairs += [(result.retained["n"], 0.49999999999999994)]
    pairs += [(result.value, 0.7071067811865476), (result.values["n"], 0.8813735870195432)]
    for ours, theirs in pairs:
        assert abs(ours - theirs) <= 2 * math.ulp(theirs)


def test_last_digits_are_kept_and_changes_are_not() -> None:
    old = "$ one\na  1.0000000000000002  3\n$ two\nb  2.0\n"
    made = "$ one\na  1.0  3\n$ two\nb  2.5\n"
    assert generate.settled(old, made) == old.replace("2.0", "2.5")
    assert generate.settled(old, made.replace("  3", "  none")) == made.replace("  3", "  none")
    assert generate.settled("x  1.0\n", "x  1.00000000001\n") == "x  1.00000000001\n"
    assert generate.settled("x  1.0\n", "y  1.0\n") == "y  1.0\n"


def test_last_digits_of_arithmetic_are_not_kept() -> None:
    """They are the same on every machine: another number is another program."""
    for text, kept in (("mean((a*x - 1)^2)", False), ("std(x)/3", False), ("exp(x)", True), ("x^2.5", True)):
        old = f"$ gradcli grad -e '{text}'\nvalue  1.0000000000000002\n"
        made = old.replace("1.0000000000000002", "1.0")
        assert generate.settled(old, made) == (old if kept else made)


def test_a_command_that_ends_otherwise_is_found() -> None:
    with generate.surroundings(), pytest.raises(SystemExit, match="status 2 instead of 0"):
        generate.transcript("$ gradcli grad -e 2x\n")
