"""Threads over ranges of rows that never ask for the interpreter lock: they wait, take rows and end in machine code.

A thread of Python that waits at a lock is woken by the system, then waits for the interpreter lock and is woken again,
which takes as long as 50,000 rows of a short expression. These wait at a semaphore of the C library; the caller begins
at once, they join when they are awake. Each has a part of the rows, which it is likely to have near from the last run,
and who has done his own takes chunks of the others. The system often wakes a thread on the processor of the one that
woke it, where it waits until the other has done all the work: helpers keep off that processor.

    share(job, who)              chunks of rows, of one's own part first, until none is left
    together(job, desks, count)  the same, with the helpers at these desks
    open(desk), serve(desk)      a desk made ready; the life of a helper
    elsewhere(desk, processor)   its helper shall not run there

A job is the address of a function of rows, those of its columns and scalars, the rows, those of a chunk, how many parts
there are, the rows of a part, and for each part how many are taken.
A desk is two semaphores (work is offered, work is done), a state, the job, the helper's thread, the processor that it
keeps off, those that it may use, and the number of its part.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
import threading
from array import array
from typing import Any

from gradcli.engine.native import host
from gradcli.engine.native.machine_code import LLVM, engine
from gradcli.engine.threads import cores, in_threads

DESKS = 64  # helpers at most
DESK = 320  # bytes of a desk
THREAD, MASK = 144, 160  # where it has the number of the helper's thread, and the processors it may use: 1024 bits
SPINS = 2000  # looks at a helper that has work left, some 40 us in all, before the caller sleeps
_PAUSES = {"e": "llvm.x86.sse2.pause()", "d": "llvm.x86.sse2.pause()", "n": "llvm.aarch64.hint(i32 1)"}

_SHARE = """define void @share(ptr %job, i64 %who) {
start:
  %function = load ptr, ptr %job
  %columns.p = getelementptr i64, ptr %job, i64 1
  %columns = load ptr, ptr %columns.p
  %scalars.p = getelementptr i64, ptr %job, i64 2
  %scalars = load ptr, ptr %scalars.p
  %rows.p = getelementptr i64, ptr %job, i64 3
  %rows = load i64, ptr %rows.p
  %chunk.p = getelementptr i64, ptr %job, i64 4
  %chunk = load i64, ptr %chunk.p
  %parts.p = getelementptr i64, ptr %job, i64 5
  %parts = load i64, ptr %parts.p
  %part.p = getelementptr i64, ptr %job, i64 6
  %part = load i64, ptr %part.p
  br label %begin
begin:
  %n = phi i64 [0, %start], [%n.next, %over]
  %turn = add i64 %who, %n
  %which = urem i64 %turn, %parts
  %first = mul i64 %which, %part
  %after = add i64 %first, %part
  %short = icmp ult i64 %after, %rows
  %last = select i1 %short, i64 %after, i64 %rows
  %place = add i64 %which, 7
  %counter = getelementptr i64, ptr %job, i64 %place
  br label %take
take:
  %taken = atomicrmw add ptr %counter, i64 %chunk seq_cst
  %low = add i64 %first, %taken
  %end = add i64 %low, %chunk
  %beyond = icmp ugt i64 %end, %last
  %high = select i1 %beyond, i64 %last, i64 %end
  %left = icmp ult i64 %low, %last
  br i1 %left, label %work, label %over
work:
  call void %function(ptr %columns, ptr %scalars, i64 %low, i64 %high)
  br label %take
over:
  %n.next = add i64 %n, 1
  %more = icmp ult i64 %n.next, %parts
  br i1 %more, label %begin, label %done
done:
  ret void
}
"""
# The state of a desk: 0 nothing is offered, 1 a job is, 2 it is taken, 3 it is done, 4 taken, and the caller sleeps.
_TOGETHER = """%desk = type { [64 x i8], [64 x i8], i64, ptr, i64, i64, [16 x i64], i64, [24 x i8] }
@desks = global [DESKS x %desk] zeroinitializer, align 64
declare i32 @sem_init(ptr, i32, i32)
declare i32 @sem_post(ptr)
declare i32 @sem_wait(ptr)
declare i32 @sched_getcpu()
declare i32 @sched_setaffinity(i32, i64, ptr)
declare void @PAUSE
define void @open(ptr %desk) {
  %state = getelementptr %desk, ptr %desk, i64 0, i32 2
  %done = getelementptr %desk, ptr %desk, i64 0, i32 1
  %thread = getelementptr %desk, ptr %desk, i64 0, i32 4
  %avoids = getelementptr %desk, ptr %desk, i64 0, i32 5
  store i64 0, ptr %thread
  store i64 -1, ptr %avoids
  store atomic i64 0, ptr %state seq_cst, align 8
  %a = call i32 @sem_init(ptr %desk, i32 0, i32 0)
  %b = call i32 @sem_init(ptr %done, i32 0, i32 0)
  ret void
}
define void @serve(ptr %desk) {
start:
  %done = getelementptr %desk, ptr %desk, i64 0, i32 1
  %state = getelementptr %desk, ptr %desk, i64 0, i32 2
  %given = getelementptr %desk, ptr %desk, i64 0, i32 3
  %number = getelementptr %desk, ptr %desk, i64 0, i32 7
  br label %wait
wait:
  %woken = call i32 @sem_wait(ptr %desk)
  %seen = cmpxchg ptr %state, i64 1, i64 2 seq_cst seq_cst
  %mine = extractvalue { i64, i1 } %seen, 1
  br i1 %mine, label %work, label %wait
work:
  %job = load ptr, ptr %given
  %who = load i64, ptr %number
  call void @share(ptr %job, i64 %who)
  %before = atomicrmw xchg ptr %state, i64 3 seq_cst
  %sleeps = icmp eq i64 %before, 4
  br i1 %sleeps, label %wake, label %wait
wake:
  %told = call i32 @sem_post(ptr %done)
  br label %wait
}
define void @elsewhere(ptr %desk, i64 %processor) {
start:
  %thread.p = getelementptr %desk, ptr %desk, i64 0, i32 4
  %thread = load i64, ptr %thread.p
  %number = trunc i64 %thread to i32
  %unknown = icmp eq i64 %thread, 0
  %avoids = getelementptr %desk, ptr %desk, i64 0, i32 5
  %avoided = load i64, ptr %avoids
  %same = icmp eq i64 %avoided, %processor
  %beyond = icmp ugt i64 %processor, 1023
  %either = or i1 %same, %beyond
  %good = or i1 %either, %unknown
  br i1 %good, label %done, label %move
move:
  store i64 %processor, ptr %avoids
  %word = lshr i64 %processor, 6
  %place = and i64 %processor, 63
  %mask = getelementptr %desk, ptr %desk, i64 0, i32 6
  %part.p = getelementptr [16 x i64], ptr %mask, i64 0, i64 %word
  %part = load i64, ptr %part.p
  %bit = shl i64 1, %place
  %others = xor i64 %bit, -1
  %less = and i64 %part, %others
  store i64 %less, ptr %part.p
  %moved = call i32 @sched_setaffinity(i32 %number, i64 128, ptr %mask)
  store i64 %part, ptr %part.p
  br label %done
done:
  ret void
}
define void @together(ptr %job, ptr %desks, i64 %count) {
start:
  %cpu = call i32 @sched_getcpu()
  %processor = zext i32 %cpu to i64
  br label %offer
offer:
  %i = phi i64 [0, %start], [%i.next, %offer]
  %i.p = getelementptr ptr, ptr %desks, i64 %i
  %i.desk = load ptr, ptr %i.p
  %i.job = getelementptr %desk, ptr %i.desk, i64 0, i32 3
  %i.state = getelementptr %desk, ptr %i.desk, i64 0, i32 2
  call void @elsewhere(ptr %i.desk, i64 %processor)
  %i.number = getelementptr %desk, ptr %i.desk, i64 0, i32 7
  %i.next = add i64 %i, 1
  store ptr %job, ptr %i.job
  store i64 %i.next, ptr %i.number
  store atomic i64 1, ptr %i.state seq_cst, align 8
  %told = call i32 @sem_post(ptr %i.desk)
  %i.more = icmp ult i64 %i.next, %count
  br i1 %i.more, label %offer, label %own
own:
  call void @share(ptr %job, i64 0)
  br label %end
end:
  %k = phi i64 [0, %own], [%k.next, %ended]
  %k.p = getelementptr ptr, ptr %desks, i64 %k
  %desk = load ptr, ptr %k.p
  %state = getelementptr %desk, ptr %desk, i64 0, i32 2
  %done = getelementptr %desk, ptr %desk, i64 0, i32 1
  %seen = cmpxchg ptr %state, i64 1, i64 0 seq_cst seq_cst
  %off = extractvalue { i64, i1 } %seen, 1
  br i1 %off, label %ended, label %look
look:
  %n = phi i64 [0, %end], [%n.next, %again]
  %now = load atomic i64, ptr %state seq_cst, align 8
  %over = icmp eq i64 %now, 3
  br i1 %over, label %ended, label %again
again:
  call void @PAUSE
  %n.next = add i64 %n, 1
  %patient = icmp ult i64 %n.next, SPINS
  br i1 %patient, label %look, label %tired
tired:
  %late = cmpxchg ptr %state, i64 2, i64 4 seq_cst seq_cst
  %sleep = extractvalue { i64, i1 } %late, 1
  br i1 %sleep, label %wait, label %ended
wait:
  %failed = call i32 @sem_wait(ptr %done)
  %signal = icmp ne i32 %failed, 0
  br i1 %signal, label %wait, label %ended
ended:
  %k.next = add i64 %k, 1
  %k.more = icmp ult i64 %k.next, %count
  br i1 %k.more, label %end, label %done.all
done.all:
  ret void
}
"""


class _Machine:
    """The functions above, never freed: when the interpreter ends, a helper may just be waking."""

    def __init__(self) -> None:
        self.waits = sys.platform == "linux" and host.has_symbol("sem_wait")  # elsewhere semaphores need names
        machine = host.host()
        assert machine is not None
        text = _SHARE + _TOGETHER.replace("PAUSE", _PAUSES[machine.letter]) if self.waits else _SHARE
        with LLVM:
            made = engine(text.replace("SPINS", str(SPINS)).replace("DESKS", str(DESKS)), 1)
        self.share: Any = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(made.get_function_address("share"))
        if self.waits:
            of_desk = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
            self.open: Any = of_desk(made.get_function_address("open"))
            self.serve: Any = of_desk(made.get_function_address("serve"))
            of_job = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 2, ctypes.c_int64)
            self.together: Any = of_job(made.get_function_address("together"))
            self.desks = made.get_global_value_address("desks")
        made.detach()


def _help(machine: _Machine, desk: int) -> None:
    """The life of a helper. It notes where it may run, so that callers can keep it off their own processor."""
    mask = sum(1 << n for n in os.sched_getaffinity(0) if n < 1024)
    ctypes.memmove(desk + MASK, mask.to_bytes(128, "little"), 128)
    ctypes.memmove(desk + THREAD, struct.pack("=q", threading.get_native_id()), 8)
    machine.serve(desk)


class _Helpers:
    """The desks of those who wait. One for each core but that of the caller, made when they are first needed."""

    def __init__(self) -> None:
        self._machine: _Machine | None = None
        self.forget()

    def forget(self) -> None:
        """After a fork: threads do not go with it."""
        self._idle: list[int] = []
        self._made = 0
        self._lock = threading.Lock()

    def run(self, job: int, workers: int) -> None:
        machine = self._machine or self._prepared()
        if not machine.waits:
            in_threads(lambda number: machine.share(job, number), workers)
            return
        desks = self._take(machine, min(workers, cores()) - 1)
        if desks:
            places = array("q", desks)
            try:
                machine.together(job, places.buffer_info()[0], len(desks))
            finally:  # an interrupt comes when all rows are done
                self._idle += desks
        else:
            machine.share(job, 0)

    def _prepared(self) -> _Machine:
        with self._lock:
            self._machine = self._machine or _Machine()
            return self._machine

    def _take(self, machine: _Machine, count: int) -> list[int]:
        """As many desks, as far as their helpers are not busy."""
        found: list[int] = []
        while len(found) < count:
            try:
                found.append(self._idle.pop())
            except IndexError:
                desk = self._new(machine)
                if not desk:
                    break
                found.append(desk)
        return found

    def _new(self, machine: _Machine) -> int:
        with self._lock:
            if self._made >= min(cores() - 1, DESKS):
                return 0
            desk: int = machine.desks + DESK * self._made
            machine.open(desk)
            try:
                threading.Thread(target=_help, args=(machine, desk), daemon=True, name="gradcli rows").start()
            except RuntimeError:  # the interpreter ends, or the system has no more threads
                return 0
            self._made += 1
            return desk


HELPERS = _Helpers()


def over_rows(place: int, columns: int, scalars: int, rows: int, chunk: int, workers: int) -> None:
    """A function of rows over all rows, on so many threads, as far as they are not busy."""
    part = -(-rows // (workers * chunk)) * chunk
    job = array("q", (place, columns, scalars, rows, chunk, workers, part, *[0] * workers))
    HELPERS.run(job.buffer_info()[0], workers)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=HELPERS.forget)
