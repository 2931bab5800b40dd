"""Rotary position embedding."""

from __future__ import annotations

import torch
from torch.autograd.function import once_differentiable

from ._instances import UNIT, Instances, typed

_ROTARY = Instances("rotary")


def rotary_embedding(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotates the pairs of columns `(j, j + depth / 2)` of each head of `x`, `[.., tokens, heads, depth]`, by the angle of the token, whose cosine
    and sine are `cos` and `sin`, float32 of `[tokens, depth / 2]`. It has a gradient of `x`."""
    (x,) = typed("rotary_embedding", x)
    if x.dim() < 3 or cos.shape != (x.shape[-3], x.shape[-1] // 2) or sin.shape != cos.shape:
        raise ValueError(
            f"rotary_embedding: x has shape {tuple(x.shape)}, cos {tuple(cos.shape)} and sin {tuple(sin.shape)}; they must be "
            "(.., tokens, heads, depth) and twice (tokens, depth / 2)"
        )
    tokens = x.numel() // max(1, x.shape[-1] * x.shape[-2])
    times = tokens // max(1, cos.shape[0])
    if times > 1:
        cos, sin = cos.repeat(times, 1), sin.repeat(times, 1)
    flat = x.reshape(tokens, x.shape[-2], x.shape[-1])
    return _Rotary.apply(flat, cos.contiguous(), sin.contiguous()).view(x.shape)


class _Rotary(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, cos, sin):
        ctx.save_for_backward(cos, sin)
        return _rotated(x, cos, sin, 1.0)

    @staticmethod
    @once_differentiable
    def backward(ctx, dout):
        cos, sin = ctx.saved_tensors
        return _rotated(dout, cos, sin, -1.0), None, None


def _rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, direction: float) -> torch.Tensor:
    found = _ROTARY.typed(x.dtype)
    for (half,), kernel in found:
        if 2 * half == x.shape[2]:
            if x.stride(2) != 1 or x.stride(0) % UNIT or x.stride(1) % UNIT:
                x = x.contiguous()
            out = x.new_empty(x.shape)
            kernel(x, cos, sin, out, direction)
            return out
    depths = ", ".join(str(2 * half) for (half,), _ in found)
    raise ValueError(f"rotary_embedding: heads have {x.shape[2]} columns of {x.dtype}; there are kernels for {depths}")
