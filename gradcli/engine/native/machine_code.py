"""A program becomes machine code: for each phase one function over rows, all its registers values of LLVM.

    rows(columns, scalars, low, high)   rows low to high, a multiple of the vector width

`columns` points to the addresses of the inputs, the outputs and the columns to be reduced, `scalars` to the scalar
registers. It runs without the interpreter lock.
"""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from gradcli.engine.native import host
from gradcli.engine.native.emit import Body, Module, Value
from gradcli.engine.native.operations import Missing, apply
from gradcli.engine.program import Phase, Program

Rows = Callable[[int, int, int, int], None]
MOST_OPERATIONS = 20_000  # two seconds of compiling
# LLVM's levels: 2 and 3 find nothing more in a straight line than 1. The time of level 1 grows faster than the code, at
# 500 operations it takes twice that of level 0, at 3000 twenty times, for code that is a quarter faster.
_OPTIMISED = 500
LLVM = threading.Lock()  # LLVM's context is used by one thread at a time
_HOW = "HOW"  # stands in the text for the way in which outputs are stored

_ROWS = """define void @rows{n}(ptr %columns, ptr %scalars, i64 %low, i64 %high) {{
start:
{entry}
  br label %loop
loop:
  %i = phi i64 [%low, %start], [%next, %{label}]
{body}
  %next = add i64 %i, {width}
  %more = icmp ult i64 %next, %high
  br i1 %more, label %loop, label %done
done:
  fence seq_cst
  ret void
}}
"""


class _Writer:
    """The function of one phase."""

    def __init__(self, module: Module, program: Program, phase: Phase) -> None:
        self.module, self.program, self.phase = module, program, phase
        self.code = Body(module, "loop")
        self.entry: list[str] = []
        self.body: list[str] = []
        self.registers: dict[int, Value] = {}
        self.tainted: set[int] = set()
        self.first_output = program.scalar_count + len(program.column_inputs)

    def text(self, number: int) -> str:
        outputs: dict[int, Value] = {}
        for op, out, arguments in self.phase.columns:
            self.registers[out] = value = apply(self.code, op, [self.read(a) for a in arguments])
            if 0 <= out - self.first_output < self.program.output_count:
                outputs[out - self.first_output] = value
        for source, output in self.phase.stores:
            outputs[output] = self.read(source)
        self._taint(outputs)
        for output, value in outputs.items():
            self._store(len(self.program.column_inputs) + output, value, _HOW)
        place = len(self.program.column_inputs) + self.program.output_count
        for i, (_, source, _) in enumerate(self.phase.reductions):
            self._store(place + i, self.read(source), "align 1")
        return _ROWS.format(
            n=number,
            entry="\n".join(self.entry),
            body="\n".join(self.code.lines),
            label=self.code.label,
            width=self.module.width,
        )

    def read(self, register: int) -> Value:
        found = self.registers.get(register)
        if found is None:
            inputs = register - self.program.scalar_count
            found = self.registers[register] = self._load(inputs) if inputs >= 0 else self._scalar(register)
        return found

    def _taint(self, outputs: dict[int, Value]) -> None:
        """Where an output is nan, its gradients of the same phase are nan."""
        plain = dict(outputs)
        for (column, number), source in zip(self.program.roots, self.program.taints, strict=True):
            if source < 0 or not column or number not in plain:
                continue
            from_column, output = self.program.roots[source]
            if from_column and output in plain:
                outputs[number] = apply(self.code, "_taint", [plain[number], plain[output]])
                self.tainted.add(number)

    def _scalar(self, register: int) -> Value:
        width, name = self.module.width, f"%s{register}"
        self.entry += [
            f"  {name}.p = getelementptr double, ptr %scalars, i64 {register}",
            f"  {name}.x = load double, ptr {name}.p",
            f"  {name}.v = insertelement <{width} x double> undef, double {name}.x, i64 0",
            f"  {name} = shufflevector <{width} x double> {name}.v, <{width} x double> undef, "
            f"<{width} x i32> zeroinitializer",
        ]
        return Value(self.code, name, "f")

    def _address(self, column: int) -> str:
        """The address of a column in row i."""
        self.entry += [
            f"  %c{column}.p = getelementptr ptr, ptr %columns, i64 {column}",
            f"  %c{column} = load ptr, ptr %c{column}.p",
        ]
        return f"getelementptr double, ptr %c{column}, i64 %i"

    def _load(self, column: int) -> Value:
        address = self._address(column)
        self.code.lines += [
            f"  %c{column}.i = {address}",
            f"  %c{column}.v = load {self.module.types['f']}, ptr %c{column}.i, align 1",
        ]
        return Value(self.code, f"%c{column}.v", "f")

    def _store(self, column: int, value: Value, how: str) -> None:
        address = self._address(column)
        self.code.lines += [
            f"  %c{column}.i = {address}",
            f"  store {self.module.types['f']} {value.name}, ptr %c{column}.i, {how}",
        ]


@dataclass(frozen=True)
class Code:
    """The functions of the phases that pass over rows, by number of the phase, and where they are."""

    rows: dict[int, Rows]
    places: dict[int, int]
    engine: Any  # keeps the code alive


class Native:
    """A program in LLVM's text, compiled when it first runs.

    `rest` says which nans are yet to be shared by outputs, if any; `plain`: one pass over the rows is all there is.
    """

    def __init__(self, program: Program, width: int) -> None:
        self.width = width
        self.text, tainted = source(program, width)
        self.level = int(sum(len(phase.columns) for phase in program.phases) <= _OPTIMISED)
        self.phases = [k for k, phase in enumerate(program.phases) if has_columns(phase)]
        taints = tuple(
            -1 if column and number in tainted else taint
            for (column, number), taint in zip(program.roots, program.taints, strict=True)
        )
        self.rest = replace(program, taints=taints) if max(taints, default=-1) >= 0 else None
        first = program.phases[0] if program.phases else None
        alone = first is not None and len(program.phases) == 1 and not first.scalars and not first.reductions
        self.plain = alone and bool(self.phases) and not self.rest
        self._code: dict[bool, Code] = {}

    def code(self, streaming: bool) -> Code:
        """`streaming`: outputs go past the cache to memory; they must begin at whole vectors."""
        found = self._code.get(streaming)
        if found is None:
            with LLVM:
                found = self._code.get(streaming) or self._code.setdefault(streaming, self._compiled(streaming))
        return found

    def _compiled(self, streaming: bool) -> Code:
        how = f"align {8 * self.width}, !nontemporal !1" if streaming else "align 1"
        made = engine(self.text.replace(_HOW, how), self.level)
        places = {k: made.get_function_address(f"rows{k}") for k in self.phases}
        signature = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 2)
        return Code({k: signature(place) for k, place in places.items()}, places, made)


def engine(text: str, level: int) -> Any:
    """Machine code from LLVM's text. Call it with the lock `LLVM`."""
    llvm, machine = host.binding(), host.host()
    assert machine is not None
    module = llvm.parse_assembly(text)
    target = llvm.Target.from_default_triple()
    made = llvm.create_mcjit_compiler(  # takes the target machine over, so that each needs its own
        module, target.create_target_machine(cpu=machine.processor, features=machine.features, opt=level)
    )
    made.finalize_object()
    return made


def has_columns(phase: Phase) -> bool:
    return bool(phase.columns or phase.stores or phase.reductions)


def source(program: Program, width: int) -> tuple[str, set[int]]:
    """The LLVM text of a program, and the outputs that share their nans within it. Raises Missing."""
    module, functions, tainted = Module(width), [], set()
    for k, phase in enumerate(program.phases):
        if has_columns(phase):
            writer = _Writer(module, program, phase)
            functions.append(writer.text(k))
            tainted |= writer.tainted
    return module.text(functions), tainted


class Programs:
    """The native form of programs, each made once and kept as long as its program lives."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._found: dict[int, tuple[weakref.ref[Program], Native | str]] = {}

    def get(self, program: Program) -> Native | str:
        """The native form of a program, or why it has none."""
        key = id(program)
        found = self._found.get(key)
        if found is None or found[0]() is not program:
            with self._lock:
                found = self._found.get(key)
                if found is None or found[0]() is not program:
                    found = (weakref.ref(program, lambda _: self._forget(key)), _native(program))
                    self._found[key] = found
        return found[1]

    def _forget(self, key: int) -> None:
        with self._lock:
            entry = self._found.get(key)
            if entry is not None and entry[0]() is None:
                del self._found[key]


def _native(program: Program) -> Native | str:
    operations = sum(len(phase.columns) for phase in program.phases)
    if operations > MOST_OPERATIONS:
        return f"{operations} operations take too long to compile"
    machine = host.host()
    assert machine is not None
    try:
        return Native(program, machine.width)
    except Missing as fault:
        return f"`{fault}` has no native form here"


PROGRAMS = Programs()
