"""Runs exported kernels on the CPU, on TileKit's emulator of PTX."""

from __future__ import annotations

import functools
import importlib.resources
import inspect
from typing import Any, Callable

from . import _emulator

__all__ = ["emulate"]


def emulate(kernel: Any, *, seed: int = 0) -> Callable[..., None]:
    """A function that runs `kernel`, one of an exported package, on the CPU.

    It takes what the kernel takes, with arrays of NumPy or tensors of torch on the CPU; both are changed in place when it returns. bf16
    and fp8, which NumPy does not have, may be passed as uint16 and uint8. Arguments are checked as for a launch. The emulator is
    strict: an access out of bounds, a race or a misuse of a barrier raises RuntimeError with the line of the kernel's source.

    Arguments:
        seed: the order of warps and of asynchronous work; 0 is round robin, others are adverse
    """
    native: Any = getattr(kernel, "kernel", None)
    if not inspect.isfunction(kernel) or not hasattr(native, "manifest"):
        raise TypeError(f"emulate: {kernel!r} is no kernel; pass a function of a package that `cargo tilekit export --to python` wrote")
    code = importlib.resources.files(kernel.__module__).joinpath(f"{native.__name__}.ptx")
    emulated = _emulator.Emulated(native.manifest, code.read_text(encoding="utf-8"))
    signature = inspect.signature(kernel)

    @functools.wraps(kernel)
    def run(*arguments: Any, **named: Any) -> None:
        bound = signature.bind(*arguments, **named)
        bound.apply_defaults()
        printed = emulated.run(bound.args, bound.arguments.get("grid"), seed)
        if printed:
            print(printed, end="")

    return run
