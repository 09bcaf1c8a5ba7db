"""Whole processes in turn, so that a busy moment of the machine meets all of them."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Taken:
    """The median of wall seconds, and the most memory that a run took, in MB."""

    seconds: float
    megabytes: float


def in_turn(commands: Mapping[str, Sequence[str]], repeat: int) -> dict[str, Taken]:
    """Each command once, then each again. What they print is thrown away; one that fails ends the benchmark."""
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    most = dict.fromkeys(commands, 0.0)
    for _ in range(repeat):
        for name, command in commands.items():
            start = time.perf_counter()
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
            _, status, usage = os.wait4(process.pid, 0)
            seconds[name].append(time.perf_counter() - start)
            if status:
                sys.exit(f"{name} failed")
            most[name] = max(most[name], usage.ru_maxrss / 1024)
    return {name: Taken(statistics.median(seconds[name]), most[name]) for name in commands}
