"""Matrix products."""

from __future__ import annotations

import torch
from torch.autograd.function import once_differentiable

from ._instances import UNIT, Instances, addressable, typed

_PRODUCT = Instances("many_tiles")


def linear(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """`x @ weight.T`, as `torch.nn.functional.linear` without bias: `x` of `[.., k]` and `weight` of `[n, k]`, both with rows of multiples of 8 elements.

    Its gradients are torch's products: those read their operands the other way round.
    """
    x, weight = typed("linear", x, weight)
    if x.dim() == 0 or weight.dim() != 2 or x.shape[-1] != weight.shape[1]:
        raise ValueError(f"linear: x has shape {tuple(x.shape)} and weight {tuple(weight.shape)}; they must be (.., k) and (n, k)")
    if weight.shape[0] % UNIT or weight.shape[1] % UNIT:
        raise ValueError(f"linear: weight has shape {tuple(weight.shape)}; both extents must be multiples of {UNIT}: pad them")
    return _Linear.apply(x.reshape(-1, x.shape[-1]), weight).view(*x.shape[:-1], weight.shape[0])


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        x, weight = addressable(x), addressable(weight)
        ctx.save_for_backward(x, weight)
        return product(x, weight)

    @staticmethod
    @once_differentiable
    def backward(ctx, dout):
        x, weight = ctx.saved_tensors
        dx = dout @ weight if ctx.needs_input_grad[0] else None
        dweight = dout.T @ x if ctx.needs_input_grad[1] else None
        return dx, dweight


def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """`a @ b.T`, without gradients."""
    out = a.new_empty(a.shape[0], b.shape[0])
    if a.shape[0]:
        _instance(a.dtype, *out.shape)(a, b, out)
    return out


def _instance(dtype: torch.dtype, m: int, n: int):
    """The instance with the fewest tiles that do not fill a wave: tiles of 128 x 256 but for small products."""
    found = _PRODUCT.typed(dtype)
    groups, rows, columns, stages = (2, 64, 256, 4) if m * n >= 1 << 21 else (2, 64, 128, 6)
    for numbers, kernel in found:
        if numbers == (groups, rows, columns, stages):
            return kernel
    raise TypeError(f"linear: there is no product of {dtype} in tiles of {groups * rows} x {columns}")
