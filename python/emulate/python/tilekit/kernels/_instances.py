"""Which compiled instance of a kernel takes a tensor."""

from __future__ import annotations

from typing import Callable, Sequence

import torch

try:
    import tilekit_kernels_exported as package
except ModuleNotFoundError as error:
    if error.name != "tilekit_kernels_exported":
        raise
    raise ModuleNotFoundError(
        "tilekit.kernels calls compiled kernels, which are not installed: install the wheel `tilekit-kernels-exported`, or make it by "
        "`cargo tilekit -p tilekit-kernels export --to python training many_tiles attention::forward attention::backward::kernel attention::backward::passes` in TileKit's repository, and maturin",
        name=error.name,
    ) from None

TYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}
#: Elements of which rows are multiples, and a constant of the instances that rely on it.
UNIT = 8
_NAMES = {dtype: name for name, dtype in TYPES.items()}


class Instances:
    """The instances of one kernel, `name<type, number, ..>`."""

    def __init__(self, name: str) -> None:
        self.name = name
        # Keyed by types; of each the numbers, ascending, and the functions.
        self.of: dict[tuple[str, ...], list[tuple[tuple[int, ...], Callable[..., None]]]] = {}
        for kernel in vars(package).values():
            native = getattr(kernel, "kernel", None)
            if native is None or not native.__name__.startswith(name):
                continue
            shown = repr(native).removeprefix("<kernel ").split(": ")[0]
            function, _, constants = shown.partition("<")
            if function != name:
                continue
            words = constants.rstrip(">").split(", ")
            types = tuple(word for word in words if word in TYPES)
            numbers = tuple(int(word) for word in words if word.isdecimal())
            self.of.setdefault(types, []).append((numbers, kernel))
        for found in self.of.values():
            found.sort(key=lambda instance: instance[0])

    def typed(self, *dtypes: torch.dtype) -> list[tuple[tuple[int, ...], Callable[..., None]]]:
        """Those of these types."""
        found = self.of.get(tuple([_NAMES.get(dtype, "") for dtype in dtypes]))
        if found is None:
            known = " or ".join(", ".join(str(TYPES[name]) for name in types) for types in sorted(self.of))
            raise TypeError(f"{self.name}: elements are of {', '.join(str(dtype) for dtype in dtypes)}; there are kernels of {known}")
        return found

    def only(self, *dtypes: torch.dtype) -> Callable[..., None]:
        """That of these types, where it has no numbers."""
        return self.typed(*dtypes)[0][1]

    def of_rows(self, dtype: torch.dtype, cols: int) -> tuple[tuple[int, ...], Callable[..., None]]:
        """The least that takes rows of so many elements: its numbers, of which the first is the most elements, and it."""
        found = self.typed(dtype)
        check_columns(self.name, cols)
        for numbers, kernel in found:
            if numbers[-1] == UNIT and cols <= numbers[0]:
                return numbers, kernel
        most = max(numbers[0] for numbers, _ in found if numbers[-1] == UNIT)
        raise ValueError(f"{self.name}: rows have {cols} elements of {dtype}; there are kernels for up to {most}")


def check_columns(about: str, cols: int) -> None:
    """Rows without gaps begin at multiples of what a thread takes at a time."""
    if cols % UNIT:
        raise ValueError(f"{about}: rows have {cols} elements; their number must be a multiple of {UNIT}: pad them")


def typed(about: str, *tensors: torch.Tensor) -> Sequence[torch.Tensor]:
    """Floating-point tensors as a kernel takes them: under autocast of its type, and all of one."""
    if torch.is_autocast_enabled(tensors[0].device.type):
        wanted = torch.get_autocast_dtype(tensors[0].device.type)
        tensors = tuple([tensor.to(wanted) for tensor in tensors])
    for tensor in tensors:
        if tensor.dtype != tensors[0].dtype:
            raise TypeError(f"{about}: tensors are of {tensors[0].dtype} and {tensor.dtype}; they must be of one type")
    return tensors


def addressable(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor, or a contiguous copy where a tensor map cannot describe it: rows are contiguous, and begin at multiples of 16 bytes."""
    unit = 16 // tensor.element_size()
    between = [stride for stride, extent in zip(tensor.stride()[:-1], tensor.shape[:-1]) if extent > 1]
    fits = tensor.stride(-1) == 1 and tensor.data_ptr() % 16 == 0 and all(stride > 0 and stride % unit == 0 for stride in between)
    return tensor if fits else tensor.contiguous()
