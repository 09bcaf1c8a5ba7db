"""What this machine offers: llvmlite, the vectors of its processor, the functions of its C library and of scipy."""

from __future__ import annotations

import ctypes
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from gradcli.engine.native.emit import Body, Value

# Vector widths in doubles, the letter of the vector ABI, and what the processor must have for it.
_X86 = ((8, "e", ("avx512f", "avx512dq", "avx512vl")), (4, "d", ("avx2", "fma")))
_ARM = ((2, "n", ("neon",)),)
_WIDEST = 8
_MATH_LIBRARIES = ("libm.so.6", "libmvec.so.1")
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")


@dataclass(frozen=True)
class Host:
    """The vectors to compile for, and which library functions of a name exist."""

    width: int
    letter: str
    processor: str
    features: str


@cache
def binding() -> Any:
    """llvmlite's binding, ready for this machine. Raises ImportError or OSError where there is none."""
    llvm = import_module("llvmlite.binding")
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    for library in _MATH_LIBRARIES:
        try:
            llvm.load_library_permanently(library)
        except RuntimeError:
            continue  # its functions are then looked for in the process, and else not used
    return llvm


@cache
def refusal() -> str | None:
    """Why this machine cannot run native code, or None."""
    try:
        binding()
    except (ImportError, OSError) as fault:
        if isinstance(fault, ModuleNotFoundError):
            return "llvmlite is not installed (pip install 'gradcli[native]')"
        return f"llvmlite does not load: {fault}"
    if sys.byteorder != "little" or sys.maxsize < 2**32:
        return "it needs a 64-bit little-endian processor"
    if host() is None:
        return "it needs a processor with AVX2 and FMA, or a 64-bit ARM"
    return None


@cache
def host(widest: int = _WIDEST) -> Host | None:
    """The widest vectors that the processor has, up to a width; None if it has none that are wide enough."""
    llvm = binding()
    features: Mapping[str, bool] = llvm.get_host_cpu_features()
    arm = llvm.get_default_triple().startswith(("aarch64", "arm64"))
    for width, letter, needed in _ARM if arm else _X86:
        if width <= widest and all(features.get(f, arm) for f in needed):
            return Host(width, letter, llvm.get_host_cpu_name(), features.flatten())  # type: ignore[attr-defined]
    return None


@cache
def last_cache() -> int:
    """Bytes of the cache before memory; 0 where the system does not say."""
    sizes = []
    for file in _CACHES.glob("index*/size"):
        try:
            size = re.fullmatch(r"(\d+)([KM]?)\s*", file.read_text())
        except OSError:
            continue
        if size:
            sizes.append(int(size[1]) << {"": 0, "K": 10, "M": 20}[size[2]])
    return max(sizes, default=0)


def vector_function(code: Body, name: str, *arguments: Value) -> Value | None:
    """A call of the vector function of the C library, None if it has none of this name and width."""
    machine = host(code.module.width)
    assert machine is not None
    symbol = f"_ZGV{machine.letter}N{code.module.width}{'v' * len(arguments)}_{name}"
    if not has_symbol(symbol):
        return None
    return code.call(code.module.declare(symbol, len(arguments)), *arguments)


def lanes(code: Body, name: str, *arguments: Value) -> Value | None:
    """A call of the scalar function of the C library for each lane, None if it has none of this name."""
    if not has_symbol(name):
        return None
    return code.call(code.module.each(name, len(arguments)), *arguments)


@cache
def has_symbol(name: str) -> bool:
    return binding().address_of_symbol(name) is not None


def special_function(code: Body, name: str, *arguments: Value) -> Value | None:
    """A call of the C function behind a ufunc of scipy.special for each lane, None if scipy does not offer it."""
    symbol, extra = _special_symbol(name, len(arguments))
    if not symbol:
        return None
    kinds, given = (", i32", ", i32 0") if extra else ("", "")
    return code.call(code.module.each(symbol, len(arguments), kinds, given), *arguments)


@cache
def _special_symbol(name: str, arguments: int) -> tuple[str, bool]:
    """The symbol under which LLVM finds scipy's function, and whether that takes Cython's extra integer."""
    offered: Mapping[str, Any] = import_module("scipy.special.cython_special").__pyx_capi__
    signature = ctypes.pythonapi.PyCapsule_GetName
    signature.restype, signature.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    wanted = f"double ({', '.join(['double'] * arguments)}"
    for key, capsule in offered.items():
        if re.sub(r"^__pyx_fuse_(\d_?)+", "", key) == name:
            kind = signature(capsule)
            text = kind.decode()
            if text in (wanted + ")", wanted + ", int __pyx_skip_dispatch)"):
                binding().add_symbol(f"scipy.{name}", pointer(capsule, kind))
                return f"scipy.{name}", "skip" in text
    return "", False
