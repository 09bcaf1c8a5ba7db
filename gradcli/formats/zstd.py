"""Zstandard as a stream: of the standard library (3.14), of the package zstandard, or of the system's libzstd."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from typing import Any

from gradcli.errors import FileError


def decompressed(blocks: Iterator[bytes], name: str) -> Iterator[bytes]:
    """The content of all frames. Raises FileError when nothing here can read it, or when it is damaged or cut."""
    decoder = _decoder()
    if decoder is None:
        raise FileError.of(f"{name} is zstd and nothing here reads that", help="`pip install zstandard`, or `zstd -dc`")
    feed, finished = decoder()
    for block in blocks:
        if not block:
            yield b""
            continue
        try:
            yield from feed(block)
        except (ValueError, ArithmeticError, OSError) as fault:
            raise FileError.of(f"{name} is damaged: {fault}", help="it begins as zstd does") from None
    if not finished():
        raise FileError.of(f"{name} ends in the middle of its zstd data", help="it was cut: copy it again")


Decoder = tuple[Callable[[bytes], Iterator[bytes]], Callable[[], bool]]


def _decoder() -> Callable[[], Decoder] | None:
    for module, make in (("compression.zstd", "ZstdDecompressor"), ("zstandard", "ZstdDecompressor")):
        try:
            found: Any = getattr(import_module(module), make)
        except (ImportError, AttributeError):
            continue
        if module == "zstandard":
            return partial(_frames, partial(_object, found))
        return partial(_frames, found)
    library = _library()
    return partial(_system, library) if library else None


def _library() -> str | None:
    from ctypes.util import find_library  # 7 ms, for its own needs

    return find_library("zstd")


def _object(make: Any) -> Any:
    return make().decompressobj()


def _frames(make: Callable[[], Any]) -> Decoder:
    """Objects that decode one frame each, in the manner of the standard library."""
    state: list[Any] = [None]

    def feed(block: bytes) -> Iterator[bytes]:
        while block:
            if state[0] is None:
                state[0] = make()
            try:
                text = state[0].decompress(block)
            except Exception as fault:  # noqa: BLE001  each package has its own class of error
                raise ValueError(str(fault)) from None
            if text:
                yield text
            block = b""
            if state[0].eof:
                block, state[0] = state[0].unused_data, None

    return feed, lambda: state[0] is None


class _Buffer(ctypes.Structure):
    _fields_ = (("at", ctypes.c_void_p), ("size", ctypes.c_size_t), ("pos", ctypes.c_size_t))


def _system(library: str) -> Decoder:
    """libzstd's streaming decoder; it releases the interpreter lock and goes on over the end of a frame."""
    lib = ctypes.CDLL(library)
    lib.ZSTD_createDStream.restype = ctypes.c_void_p
    lib.ZSTD_decompressStream.restype = ctypes.c_size_t
    lib.ZSTD_decompressStream.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    lib.ZSTD_isError.argtypes = [ctypes.c_size_t]
    lib.ZSTD_getErrorName.restype = ctypes.c_char_p
    lib.ZSTD_getErrorName.argtypes = [ctypes.c_size_t]
    handle = lib.ZSTD_createDStream()
    room = ctypes.create_string_buffer(1 << 20)
    left = [0]

    def feed(block: bytes) -> Iterator[bytes]:
        source = _Buffer(ctypes.cast(ctypes.c_char_p(block), ctypes.c_void_p), len(block), 0)
        while True:
            target = _Buffer(ctypes.cast(room, ctypes.c_void_p), len(room), 0)
            left[0] = lib.ZSTD_decompressStream(handle, ctypes.byref(target), ctypes.byref(source))
            if lib.ZSTD_isError(left[0]):
                raise ValueError(lib.ZSTD_getErrorName(left[0]).decode())
            if target.pos:
                yield ctypes.string_at(room, target.pos)
            if source.pos == len(block) and target.pos < len(room):
                return

    return feed, lambda: left[0] == 0


def compressed(data: bytes, level: int = 3) -> bytes:
    """One frame. Raises FileError when nothing here writes zstd."""
    for module in ("compression.zstd", "zstandard"):
        try:
            return bytes(import_module(module).compress(data, level))
        except ImportError:
            continue
    library = _library()
    if not library:
        raise FileError.of("nothing here writes zstd", help="`pip install zstandard`, or write .gz")
    lib = ctypes.CDLL(library)
    lib.ZSTD_compressBound.restype = lib.ZSTD_compress.restype = ctypes.c_size_t
    lib.ZSTD_compressBound.argtypes = [ctypes.c_size_t]
    lib.ZSTD_compress.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int]
    room = ctypes.create_string_buffer(lib.ZSTD_compressBound(len(data)))
    size = lib.ZSTD_compress(room, len(room), data, len(data), level)
    return ctypes.string_at(room, size)
