"""Arguments and options that mean the same in every command."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import click

from gradcli.cli.inputs import Request, gather, read_models, split_names
from gradcli.cli.output import CLOSED, WRONG, Console, drop_stdout, interrupted
from gradcli.errors import GradcliError, did_you_mean, shown

__all__ = ["Command", "Request", "check_format", "choice", "gather", "models", "read_models", "split_names", "talk"]

F = TypeVar("F", bound=Callable[..., Any])

_FILES = r"\b(FILE|MODEL|DATA|PROGRAM)\b"  # in a metavar
_FORMAT = r"(?a)%[-+ #0]{0,5}\d{0,3}(\.\d{1,3})?[eEfFgG]"


class Command(click.Command):
    """A word that begins with a minus and is no option is explained, since `-x^2` may well be an expression."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, _in_full(self, args))
        except click.NoSuchOption as fault:
            raise not_an_option(ctx, self, fault, args) from None
        except click.UsageError as fault:
            fault.ctx = fault.ctx or ctx
            raise

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """While a shell completes a word, what is called a file completes to files."""
        found = super().get_params(ctx)
        return [_of_files(p) for p in found] if ctx.resilient_parsing else found

    def invoke(self, ctx: click.Context) -> Any:
        """Failures of the whole run, with the colours that this command was asked for.

        What click would turn into words and statuses of its own is caught here.
        """
        try:
            result = super().invoke(ctx)
            if sys.stdout is not None:
                sys.stdout.flush()
            return result
        except GradcliError as fault:
            Console(color=ctx.params.get("color", "auto")).fail(fault)
            return WRONG
        except KeyboardInterrupt:
            return interrupted()
        except BrokenPipeError:
            drop_stdout()
            return CLOSED


def _of_files(parameter: click.Parameter) -> click.Parameter:
    if not re.search(_FILES, parameter.metavar or ""):
        return parameter
    from copy import copy

    found = copy(parameter)
    found.type = click.Path()
    return found


def not_an_option(
    ctx: click.Context, command: click.Command, fault: click.NoSuchOption, words: Sequence[str]
) -> click.UsageError:
    """What to say of a word that begins with a minus: click splits `-x^2` into letters, the user wrote one word."""
    word = _word_with(command, fault.option_name, words)
    if re.fullmatch(r"--[a-z][-a-z]*(=.*)?", word, re.DOTALL):
        known = [o for p in command.params for o in (*p.opts, *p.secondary_opts) if o.startswith("--")]
        near = did_you_mean(word.partition("=")[0], known)
        remedy = near or f"see `{ctx.command_path} --help`"
        return click.UsageError(f"no option {shown(word.partition('=')[0])}\nhelp: {remedy}", ctx)
    import shlex

    top = isinstance(command, click.Group)
    fact = f"{shown(word)} is {'no option' if top else 'neither an option nor a file'}"
    remedy = f"an expression is given with -e: `{'gradcli grad ' if top else ''}-e {shlex.quote(word)}`"
    return click.UsageError(f"{fact}\nhelp: {remedy}", ctx)


def _word_with(command: click.Command, option: str, words: Sequence[str]) -> str:
    """The word in which an unknown option stands: `-x^2` of `-x`, and `-q^2` of `-^`."""
    return next((words[at] for at, name in _options(command, words) if name == option), option)


def _in_full(command: click.Command, words: Sequence[str]) -> list[str]:
    """The words with `--expr` for `-e`, which click would try as a long option first: the failure takes it 2 ms.

    The last word stays, so that click's complaint of a missing value names what was written.
    """
    full = {p.opts[0]: p.opts[-1] for p in command.params}
    found = list(words)
    for at, _ in _options(command, words[:-1]):
        found[at] = full.get(words[at], words[at])
    return found


def _options(command: click.Command, words: Sequence[str]) -> Iterator[tuple[int, str | None]]:
    """Where options stand; with the name of a long one, or the first letter that is none in a word of short ones."""
    takes = {o: not getattr(p, "is_flag", True) for p in command.params for o in p.opts}
    skip = False
    for at, word in enumerate(words):
        if skip:
            skip = False
        elif word == "--":
            break
        elif word.startswith("--"):
            skip = takes.get(word, False)
            yield at, word.partition("=")[0]
        elif word.startswith("-") and word != "-":
            unknown, skip = _first_unknown(word, takes)
            yield at, unknown


def _first_unknown(word: str, takes: dict[str, bool]) -> tuple[str | None, bool]:
    """The first letter of a word of short options that is none, and whether the next word is a value."""
    for at, letter in enumerate(word[1:], 2):
        option = f"-{letter}"
        if option not in takes:
            return option, False
        if takes[option]:
            return None, at == len(word)
    return None, False


def _stack(*decorators: Callable[[Any], Any]) -> Callable[[F], F]:
    def apply(function: F) -> F:
        for decorator in reversed(decorators):
            function = decorator(function)
        return function

    return apply


def models(function: F) -> F:
    """MODEL ... NAME=VALUE ... and -e."""
    return _stack(
        click.argument("words", metavar="[MODEL | NAME=VALUE]...", nargs=-1),
        click.option(
            "-e",
            "--expr",
            "expressions",
            multiple=True,
            metavar="TEXT",
            help="A model of its own, or appended to each MODEL; repeatable, joined by newlines.",
        ),
    )(function)


def choice(function: F) -> F:
    """Which output, which names, which gradients are kept."""
    names = "Differentiate by these names only, leaves or intermediates; comma-separated or repeated."
    return _stack(
        click.option("--of", multiple=True, metavar="NAME", help="Which output; repeatable, answered in that order."),
        click.option("--wrt", multiple=True, metavar="NAMES", help=names),
        click.option(
            "--retain", multiple=True, metavar="NAME", help="Keep the gradient of an intermediate; globs are allowed."
        ),
        click.option("--retain-all", is_flag=True, help="Keep the gradient of every intermediate."),
        click.option("--no-retain", multiple=True, metavar="NAME", help="Cancel a `retain` of the file."),
        click.option("--no-grad", multiple=True, metavar="NAME", help="Switch requires_grad off for a leaf."),
    )(function)


def talk(function: F) -> F:
    """How much is said, and how."""
    return _stack(
        click.option("--json", "as_json", is_flag=True, help="Machine-readable: one JSON object a line."),
        click.option("--strict", is_flag=True, help="A warning becomes exit status 1."),
        click.option("-q", "--quiet", is_flag=True, help="No notes."),
        click.option("-v", "--verbose", is_flag=True, help="Say more."),
        click.option(
            "--color",
            type=click.Choice(["auto", "always", "never"]),
            default="auto",
            show_default=True,
            help="Colour in messages; NO_COLOR is respected.",
        ),
        flag("-h", "--help", help="Show this message and exit.", answer=click.Context.get_help),
    )(function)


def flag(*names: str, help: str, answer: Callable[[click.Context], str]) -> Callable[[F], F]:
    """A flag that prints a text and ends the run. Click translates the help of its own: `locale` takes 1 ms to load."""

    def show(ctx: click.Context, parameter: click.Parameter, given: bool) -> None:
        if given and not ctx.resilient_parsing:
            click.echo(answer(ctx), color=ctx.color)
            ctx.exit()

    return click.option(*names, is_flag=True, expose_value=False, is_eager=True, help=help, callback=show)


def check_format(ctx: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    if value is not None and not re.fullmatch(_FORMAT, value):
        raise click.BadParameter(f"`{value}` is not a format such as %.6g", ctx, parameter)
    return value
