"""As much of torch as functions that it differentiates ask for, with memory of the CPU: tests run without torch."""

import ctypes
import sys
import types

from producers import Dlpack

TYPES = {"float32": ("f32", ctypes.c_float), "bfloat16": ("bf16", ctypes.c_uint16)}


class Tensor(Dlpack):
    """Numbers in memory of the CPU, 256 bytes from the beginning of what they are part of."""

    def __init__(self, shape, dtype="float32", values=None):
        kind, ctype = TYPES[dtype]
        count = 1
        for extent in shape:
            count *= extent
        self.room = (ctypes.c_uint8 * (ctypes.sizeof(ctype) * count + 512))()
        start = (ctypes.addressof(self.room) + 255) // 256 * 256
        self.content = (ctype * count).from_address(start)
        self.content[:] = values or [7] * count
        super().__init__(start, list(shape), kind, device=(1, 0))
        # `device` is what DLPack's test tensors have; torch's has a type.
        self.dtype, self.asked = dtype, []
        self.device = Device(1, 0)

    def is_floating_point(self):
        return True

    def contiguous(self):
        self.asked.append("contiguous")
        return self

    def to(self, dtype):
        made = Tensor(self.shape, dtype, [0] * len(self.content))
        made.asked.append(f"of {self.dtype}")
        return made


class Device(tuple):
    def __new__(cls, *numbers):
        return super().__new__(cls, numbers)

    type = "cpu"


class Context:
    def __init__(self):
        self.saved_tensors, self.constant = (), ()

    def save_for_backward(self, *tensors):
        self.saved_tensors = tensors

    def mark_non_differentiable(self, *tensors):
        self.constant = tensors


class Function:
    """Calls what a subclass defines, and keeps the context of the last call."""

    last = None

    @classmethod
    def apply(cls, *arguments):
        Function.last = cls, Context()
        return cls.forward(Function.last[1], *arguments)


def install():
    """Puts the stand-in where `import torch` finds it, once."""
    if "torch" in sys.modules:
        return sys.modules["torch"]
    torch = types.ModuleType("torch")
    torch.float32, torch.bfloat16 = "float32", "bfloat16"
    torch.empty = lambda shape, dtype, device: Tensor(shape, dtype)
    torch.empty_like = lambda tensor: Tensor(tensor.shape, tensor.dtype)
    torch.compiler = types.SimpleNamespace(is_compiling=lambda: False)
    torch.autograd = types.ModuleType("torch.autograd")
    torch.autograd.function = types.ModuleType("torch.autograd.function")
    torch.autograd.Function, torch.autograd.function.once_differentiable = Function, lambda method: method
    modules = {"torch": torch, "torch.autograd": torch.autograd, "torch.autograd.function": torch.autograd.function}
    sys.modules.update(modules)
    return torch
