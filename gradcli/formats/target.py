"""Files that are whole or absent: written beside the target, synced, renamed; what killed runs left is removed."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

from gradcli.descriptors import descriptor_of, duplicate
from gradcli.errors import FileError

_MARK = ".gradcli-"
_AHEAD = 32 << 20  # bytes


def _why(fault: Exception) -> str:
    return (getattr(fault, "strerror", None) or str(fault)).lower()


class Target:
    """One output. A regular file gets a temporary neighbour; a device, a pipe or `-` is written as it is.

    So is a descriptor, such as `/dev/stdout`: it stays where it is when a file of that name is replaced.
    """

    def __init__(self, name: str) -> None:
        """Nothing is made yet: what `open` makes, `discard` finds, at whatever moment a signal comes."""
        self.name, self.descriptor = name, -1
        self.path: Path | None = None
        self.temporary: Path | None = None
        self.written = self.sent = 0  # bytes; sent: those that are on their way to the disk

    def open(self) -> Self:
        """Raises FileError when nothing can be written there; links are followed, so that they stay links."""
        name = self.name
        if name == "-":
            if sys.stdout is None:  # the number may belong to another file
                raise FileError.of("cannot write standard output: it is closed", help="`-o FILE` writes a file")
            self.descriptor = 1
            return self
        try:
            if (number := descriptor_of(name)) is not None:
                self.descriptor = duplicate(number)
                return self
            if Path(name).exists() and not stat.S_ISREG(Path(name).stat().st_mode):
                if Path(name).is_dir():
                    raise FileError.of(f"cannot write {name}: it is a folder", help="name a file in it")
                self.descriptor = _own(os.open(name, os.O_WRONLY))
                return self
            self.path = path = Path(os.path.realpath(name))
            sweep(path)
            self.temporary = path.with_name(f".{path.name[:200]}{_MARK}{os.getpid()}-{os.urandom(4).hex()}")
            self.descriptor = _own(os.open(self.temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666))
        except (OSError, ValueError) as fault:
            help = "make the folder first" if isinstance(fault, FileNotFoundError) else None
            raise FileError.of(f"cannot write {name[:200]}: {_why(fault)}", help=help) from None
        fcntl.flock(self.descriptor, fcntl.LOCK_EX)  # held while we live: `sweep` of another run leaves it alone
        if path.exists():
            with contextlib.suppress(OSError):
                os.fchmod(self.descriptor, stat.S_IMODE(path.stat().st_mode))
        return self

    @property
    def place(self) -> Any:
        """A path that something else may write to in our stead, or a file where a path would begin at its start."""
        if self.temporary:
            return str(self.temporary)
        if stat.S_ISREG(os.fstat(self.descriptor).st_mode):
            return open(self.descriptor, "wb", buffering=0, closefd=False)
        return f"/dev/fd/{self.descriptor}"

    def write(self, data: bytes | memoryview) -> None:
        """Raises FileError (a full disk), and BrokenPipeError as it is."""
        view = memoryview(data)
        try:
            while view:
                done = os.write(self.descriptor, view)
                self.written += done
                view = view[done:]
            self._send()
        except BrokenPipeError:
            raise
        except OSError as fault:
            raise self.failed(fault) from None

    def _send(self) -> None:
        """Let the disk begin with what is written, so that the sync at the end need not wait for all of it.

        Linux starts to write pages that it is told nobody needs, and keeps them as long as they are not on the disk.
        """
        if self.temporary is not None and self.written - self.sent >= _AHEAD and hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self.descriptor, self.sent, self.written - self.sent, os.POSIX_FADV_DONTNEED)
            self.sent = self.written

    def failed(self, fault: OSError) -> FileError:
        where = "standard output" if self.name == "-" else self.name
        kept = f"; {self.name} is as it was" if self.path is not None and self.path.exists() else ""
        return FileError.of(f"cannot write {where}: {_why(fault)}{kept}")

    def commit(self) -> None:
        """The temporary file becomes the target, once its bytes are on the disk: old or new, never half of it.

        The folder is not synced: after a power cut at this moment the name may still mean the old file.
        """
        if self.descriptor == 1:
            return
        try:
            if self.temporary is not None and self.path is not None:
                os.fsync(self.descriptor)
                self.temporary.replace(self.path)
                self.temporary = None
        except OSError as fault:
            raise self.failed(fault) from None
        finally:
            self.discard()

    def discard(self) -> None:
        """Leave the target as it was. Does nothing after `commit`."""
        if self.temporary is not None:
            with contextlib.suppress(OSError):
                self.temporary.unlink()
            self.temporary = None
        if self.descriptor > 2:
            descriptor, self.descriptor = self.descriptor, -1
            os.close(descriptor)


def _own(descriptor: int) -> int:
    """A descriptor that is none of the three standard ones, also where the shell has closed those."""
    if descriptor > 2:
        return descriptor
    try:
        return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)
    finally:
        os.close(descriptor)


def sweep(path: Path) -> None:
    """Remove temporary files of this target that no living run holds."""
    prefix = f".{path.name[:200]}{_MARK}"
    for stray in path.parent.iterdir() if path.parent.is_dir() else ():
        if not stray.name.startswith(prefix):
            continue
        with contextlib.suppress(OSError):
            descriptor = os.open(stray, os.O_WRONLY)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                stray.unlink()
            finally:
                os.close(descriptor)


def check_distinct(inputs: Iterable[str], outputs: Iterable[str | None]) -> None:
    """No output may be an input or another output, also through links and redirections. Raises FileError.

    Two descriptors may share a file, as in `>log 2>&1`: both write where the other has ended.
    """
    seen: dict[object, str] = {}
    for name in inputs:
        seen[_identity(name, 0)] = "standard input" if name == "-" else f"`{name}`"
    open_files: dict[object, str] = {}
    for name in [o for o in outputs if o is not None]:
        if not name:
            raise FileError.of("the name of an output is empty", help="a variable of the shell may be unset")
        shown = "standard output" if name == "-" else f"`{name}`"
        number = 1 if name == "-" else descriptor_of(name)
        file = _identity(name, 1)
        others = seen if number is not None else {**seen, **open_files}
        for what in {file, number} - {_NOTHING, None}:
            if what in others:
                one = others[what]
                both = f"{one} and {shown} are the same file" if one != shown else f"{one} is named twice"
                raise FileError.of(
                    f"{both}: one run cannot read and write it, or write it twice", help="write to another file"
                )
        if number is not None:
            seen[number] = open_files[file] = shown
        else:
            seen[file] = shown


_NOTHING = ""


def _identity(name: str, descriptor: int) -> object:
    """Device and number of a regular file, the path of one that is not there yet."""
    try:
        status = os.fstat(descriptor) if name == "-" else Path(name).stat()
    except FileNotFoundError:
        return os.path.realpath(name)
    except (OSError, ValueError):
        return _NOTHING
    return (status.st_dev, status.st_ino) if stat.S_ISREG(status.st_mode) else _NOTHING
