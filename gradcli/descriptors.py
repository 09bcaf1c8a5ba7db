"""Paths that mean an open descriptor, such as `/dev/stdout`: what is behind one is written to, never replaced."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

_DESCRIPTORS = ("/dev/fd", "/proc/self/fd", "/proc/thread-self/fd")
_LINKS = 40  # that are followed one after the other, as the system does


def descriptor_of(name: str) -> int | None:
    """The number of the open descriptor that a path means, also through links; None for any other path."""
    path = Path(name)
    descriptors = {"/dev/fd", *map(os.path.realpath, _DESCRIPTORS)}
    for _ in range(_LINKS):
        folder, last = os.path.realpath(path.parent), path.name
        if last.isascii() and last.isdigit() and folder in descriptors:
            return int(last)
        path = Path(folder, last)
        if not path.is_symlink():
            return None
        path = Path(folder, path.readlink())
    return None


def duplicate(number: int) -> int:
    """A descriptor of our own for the same open file. Raises OSError, also where it was opened for reading only."""
    if fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
        raise OSError(errno.EBADF, "it is open for reading only")
    return fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, 3)
