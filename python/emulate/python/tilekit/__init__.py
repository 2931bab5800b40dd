"""Runs exported kernels on the CPU, on TileKit's emulator of PTX."""

from __future__ import annotations

import contextlib
import functools
import importlib.resources
import inspect
from types import ModuleType
from typing import Any, Callable, Iterator

from . import _emulator

__all__ = ["emulate", "emulated"]


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
    decoded = _decoded(kernel)
    signature = inspect.signature(kernel)

    @functools.wraps(kernel)
    def run(*arguments: Any, **named: Any) -> None:
        bound = signature.bind(*arguments, **named)
        bound.apply_defaults()
        decoded.run(bound.args, bound.arguments.get("grid"), seed)

    return run


@contextlib.contextmanager
def emulated(package: ModuleType, *, seed: int = 0) -> Iterator[None]:
    """Has calls of all kernels of `package`, an exported one, run as by :func:`emulate` while it is open, with memory of the CPU.

    So a program that calls kernels, by itself or through `tilekit.kernels`, runs where there is no GPU. It concerns all threads.
    """
    kernels = {name: kernel for name, kernel in vars(package).items() if hasattr(getattr(kernel, "kernel", None), "manifest")}
    before = {name: (getattr(package, f"_launch_{name}"), getattr(package, f"_asks_{name}")) for name in kernels}

    def emulating(kernel: Any) -> Callable[..., None]:
        def launch(arguments: Any, stream: Any = None, grid: Any = None, overlap: bool = False) -> None:
            _decoded(kernel).run(tuple(arguments), grid, seed)

        return launch

    try:
        for name, kernel in kernels.items():
            setattr(package, f"_launch_{name}", emulating(kernel))
            # What torch traces is no launch of the package's while it is open.
            setattr(package, f"_asks_{name}", True)
        yield
    finally:
        for name, (launch, asks) in before.items():
            setattr(package, f"_launch_{name}", launch)
            setattr(package, f"_asks_{name}", asks)


@functools.cache
def _decoded(kernel: Any) -> Any:
    native = kernel.kernel
    code = importlib.resources.files(kernel.__module__).joinpath(f"{native.__name__}.ptx")
    return _emulator.Emulated(native.manifest, code.read_text(encoding="utf-8"))
