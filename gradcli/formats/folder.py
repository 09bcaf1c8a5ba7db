"""A folder of part files that is whole or absent: workers fill a hidden neighbour, which takes the name at the end."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
from pathlib import Path
from typing import Self

from gradcli.errors import FileError

_MARK = ".gradcli-"


def part_name(index: int, format: str) -> str:
    """Names that sort as the parts do."""
    return f"part-{index:06d}.{format}"


class Folder:
    """One output folder, of the same shape as a `Target`; what is written to it, others write."""

    def __init__(self, name: str) -> None:
        self.name, self.path, self.lock = name, Path(os.path.realpath(name)), -1
        self.temporary = self.path.with_name(f".{self.path.name[:200]}{_MARK}{os.getpid()}-{secrets.token_hex(4)}")

    def open(self) -> Self:
        """Raises FileError when there is something already, or nothing can be made there."""
        name, path = self.name, self.path
        try:
            if path.exists() and (not path.is_dir() or any(path.iterdir())):
                fact = "it is a file" if not path.is_dir() else "the folder is not empty"
                raise FileError.of(f"cannot write {name}: {fact}", help="name a new folder, or remove that one")
            _sweep(path)
            self.temporary.mkdir()
            self.lock = os.open(self.temporary, os.O_RDONLY)
        except (OSError, ValueError) as fault:
            why = (getattr(fault, "strerror", None) or str(fault)).lower()
            help = "make the folder above it first" if isinstance(fault, FileNotFoundError) else None
            raise FileError.of(f"cannot write {name[:200]}: {why}", help=help) from None
        fcntl.flock(self.lock, fcntl.LOCK_EX)  # held while we live: another run's `_sweep` leaves it alone
        return self

    @property
    def place(self) -> str:
        """Where workers write."""
        return str(self.temporary)

    def write(self, data: bytes | memoryview) -> None:
        """Workers have written it."""

    def failed(self, fault: OSError) -> FileError:
        return FileError.of(f"cannot write {self.name}: {(fault.strerror or str(fault)).lower()}")

    def commit(self) -> None:
        """All parts take their place at once."""
        for stray in self.temporary.iterdir():
            if stray.name.startswith("."):  # of a worker that was killed
                stray.unlink()
        try:
            self.temporary.replace(self.path)
        except OSError as fault:
            raise self.failed(fault) from None
        finally:
            self.discard()

    def discard(self) -> None:
        """Leave nothing. Does nothing after `commit`."""
        shutil.rmtree(self.temporary, ignore_errors=True)
        if self.lock >= 0:
            lock, self.lock = self.lock, -1
            os.close(lock)


def _sweep(path: Path) -> None:
    """Remove what killed runs left."""
    prefix = f".{path.name[:200]}{_MARK}"
    for stray in path.parent.iterdir() if path.parent.is_dir() else ():
        if not stray.name.startswith(prefix):
            continue
        with contextlib.suppress(OSError):
            lock = os.open(stray, os.O_RDONLY | os.O_DIRECTORY)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(stray, ignore_errors=True)
            finally:
                os.close(lock)
