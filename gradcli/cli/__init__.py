"""The command. Click lives here and nowhere else; the library raises its own errors, this floor prints them.

Nothing heavy is imported before a command needs it: `--help` loads click alone.
"""

from gradcli.cli.group import main

__all__ = ["main"]
