"""The command. Click lives here and nowhere else; the library raises its own errors, this floor prints them.

Nothing heavy is imported before a command needs it: `--help` loads click alone.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command and leave with its exit status."""
    gc.disable()  # one short run over large acyclic structures: collections would only walk them
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # nothing here multiplies matrices: its threads would only spin
    from gradcli.cli.group import run, unicode_streams, utf8

    unicode_streams()
    try:
        sys.exit(run([utf8(a) for a in (sys.argv[1:] if arguments is None else arguments)]))
    finally:
        gc.freeze()  # at its end the interpreter collects once more, whether or not anything is left to do
