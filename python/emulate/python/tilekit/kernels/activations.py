"""Activations between two products of a block."""

from __future__ import annotations

import torch

from ._instances import Instances, typed

_GELU, _SWIGLU = Instances("gelu"), Instances("swiglu")


def gelu(x: torch.Tensor) -> torch.Tensor:
    """`x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x³))) / 2`, as `torch.nn.functional.gelu(x, approximate="tanh")`."""
    (x,) = typed("gelu", x)
    return _GELU.only(x.dtype).differentiable(x.reshape(-1)).view(x.shape)


def swiglu(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """`silu(gate) * up`, elementwise over tensors of one shape."""
    gate, up = typed("swiglu", gate, up)
    if gate.shape != up.shape:
        raise ValueError(f"swiglu: gate has shape {tuple(gate.shape)} and up {tuple(up.shape)}; they must be equal")
    return _SWIGLU.only(gate.dtype).differentiable(gate.reshape(-1), up.reshape(-1)).view(gate.shape)
