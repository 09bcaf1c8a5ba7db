"""The top of the command: the list of commands, errors to exit statuses, streams that cannot fail on a letter."""

from __future__ import annotations

import os
import re
import sys
from importlib import import_module
from typing import Any

import click

from gradcli import __version__
from gradcli.cli.options import flag, not_an_option
from gradcli.cli.output import CLOSED, INTERNAL, WRONG, Console, drop_stdout, interrupted, whisper
from gradcli.errors import Diagnostic, GradcliError, bounded, did_you_mean, shown
from gradcli.source import visible

_COMMANDS = {
    "grad": "Value and gradients at a point.",
    "diff": "The derivative as a formula: text, LaTeX, Python, C, SQL.",
    "check": "Verify derivatives, claims, expectations: the CI command.",
    "batch": "Rows in, values and gradients out: CSV, TSV, NDJSON, Parquet.",
    "explain": "For each name: leaf, requires_grad, retained, gradient, and why.",
    "functions": "The table of functions: arguments, domain, convention.",
}
_COMPLETE = "_GRADCLI_COMPLETE"  # set by the shell that completes a word, or asks how to
_LONGEST = 300  # characters of the user's own words that a usage error repeats

STATUSES = {
    0: "fine",
    1: "a check failed, a gradient asked for by --print is none, more bad rows than --max-errors or --max-nonfinite, "
    "or a warning under --strict",
    2: "wrong usage, unreadable file, bad expression or data, unwritable output",
    3: "internal error",
    4: "nothing was checked",
    129: "hung up",
    130: "interrupted",
    141: "closed pipe",
    143: "terminated",
}
EXIT = f"Exit status: {'; '.join(f'{status} {meaning}' for status, meaning in STATUSES.items())}."


class Lazy(click.Group):
    """Commands are imported when they are run; the list with their one-line help stands above."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in _COMMANDS:
            return None
        command: click.Command = import_module(f"gradcli.cli.{name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args and not ctx.resilient_parsing:
            raise click.UsageError(f"no command\nhelp: {self._some(ctx)}", ctx)
        try:
            return super().parse_args(ctx, list(args))
        except click.NoSuchOption as fault:
            raise not_an_option(ctx, self, fault, args) from None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in _COMMANDS:
            if ctx.resilient_parsing:
                return None, None, args
            hint = did_you_mean(args[0], _COMMANDS) or self._some(ctx)
            raise click.UsageError(f"no command {shown(args[0])}\nhelp: {hint}", ctx)
        return super().resolve_command(ctx, args)

    def _some(self, ctx: click.Context) -> str:
        return f"commands are {', '.join(_COMMANDS)}; for an expression: `gradcli grad -e 'EXPRESSION'`"


@click.group(cls=Lazy, epilog=EXIT)
@flag("-V", "--version", help="Show the version and exit.", answer=lambda ctx: f"gradcli {__version__}")
@flag("-h", "--help", help="Show this message and exit.", answer=click.Context.get_help)
def group() -> None:
    """Derivatives you can trust, from a shell.

    \b
    gradcli grad -e 'tanh(x*w + b)' x=2 w=-3 b=6.88
    gradcli grad samples/neuron.expr --retain n
    gradcli explain samples/neuron.expr n
    """


def unicode_streams() -> None:
    """A console that lacks a letter shows its escape; lines end in LF everywhere."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace", newline="\n")


def utf8(word: str) -> str:
    """An argument as UTF-8, whatever the locale says."""
    if word.isascii():
        return word
    try:
        return os.fsencode(word).decode("utf-8")
    except UnicodeError:
        return word


def run(arguments: list[str]) -> int:
    """One run, without leaving the process; every failure becomes a message and a status."""
    try:
        result = group.main(arguments, prog_name="gradcli", standalone_mode=False, windows_expand_args=False)
        if sys.stdout is not None:
            sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except click.ClickException as fault:
        return _usage(fault)
    except GradcliError as fault:
        Console().fail(fault)
        return WRONG
    except (KeyboardInterrupt, click.Abort):
        return interrupted()
    except (BrokenPipeError, SystemExit) as stop:
        if _COMPLETE in os.environ and isinstance(stop, SystemExit):
            return stop.code if isinstance(stop.code, int) else 0
        drop_stdout()  # click leaves when its own help meets a closed pipe
        return CLOSED
    except OSError as fault:
        drop_stdout()
        return _say(Diagnostic(f"cannot write: {(fault.strerror or str(fault)).lower()}"))
    except MemoryError:
        return _say(Diagnostic("out of memory", help="fewer rows at a time, or a smaller model"))
    except Exception as fault:  # noqa: BLE001  the last resort: say what to report, status 3
        return _internal(fault)


def _usage(fault: click.ClickException) -> int:
    message, own, remedy = fault.format_message().partition("\nhelp: ")
    if not own:  # click's words, in this house's spelling
        message = re.sub(r"'([^']*)'", r"`\1`", message[:1].lower() + message[1:].rstrip("."))
    context = fault.ctx if isinstance(fault, click.UsageError) else None
    remedy = remedy or f"see `{context.command_path if context else 'gradcli'} --help`"
    if context:
        whisper(visible(" ".join(context.get_usage().split())))
    return _say(Diagnostic(bounded(visible(message), _LONGEST), help=bounded(visible(remedy), _LONGEST)))


def _say(diagnostic: Diagnostic) -> int:
    Console().tell(diagnostic)
    return WRONG


def _internal(fault: Exception) -> int:
    import traceback

    if os.environ.get("GRADCLI_DEBUG"):
        traceback.print_exception(fault)
    last: Any = traceback.extract_tb(fault.__traceback__)[-1]
    place = f"{os.path.basename(last.filename)}:{last.lineno}"
    remedy = "please report it with the command and the model; GRADCLI_DEBUG=1 shows the whole trace"
    _say(Diagnostic(f"internal error: {type(fault).__name__} at {place}: {str(fault)[:200]}", help=remedy))
    return INTERNAL
