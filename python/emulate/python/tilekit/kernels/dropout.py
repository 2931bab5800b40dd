"""Dropout without a mask in memory."""

from __future__ import annotations

import torch
from torch.autograd.function import once_differentiable

from ._instances import Instances, typed

_DROPOUT = Instances("dropout")


def dropout(x: torch.Tensor, p: float = 0.5, training: bool = True, seed: int | None = None) -> torch.Tensor:
    """`x` with each element dropped with probability `p`, the others divided by `1 - p`, as `torch.nn.functional.dropout`, though other elements are.

    Which are dropped follows from `seed`, 64 bits, and their places (Philox 4x32-10): the gradient draws them again. Without `seed` one is drawn from torch's generator
    of the CPU; a captured graph drops what it dropped when it was captured.
    """
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout: p is {p}; it must be from 0 to 1")
    if seed is not None and not 0 <= seed < 2**64:
        raise ValueError(f"dropout: seed is {seed}; it must be from 0 to 2^64 - 1")
    if not training or p == 0.0:
        return x
    if p == 1.0:
        return x * 0.0
    (x,) = typed("dropout", x)
    if seed is None:
        seed = int(torch.randint(0, 2**63 - 1, ()))
    # The kernel's seed is a signed number of the same bits.
    signed = seed - 2**64 if seed >= 2**63 else seed
    return _Dropout.apply(x.contiguous(), signed, min(int(p * 2.0**32), 2**32 - 1))


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, seed, threshold):
        ctx.seed, ctx.threshold = seed, threshold
        return _dropped(x, seed, threshold)

    @staticmethod
    @once_differentiable
    def backward(ctx, dout):
        return _dropped(dout.contiguous(), ctx.seed, ctx.threshold), None, None


def _dropped(x: torch.Tensor, seed: int, threshold: int) -> torch.Tensor:
    kernel, out = _DROPOUT.only(x.dtype), torch.empty_like(x)
    kernel(x.view(-1), out.view(-1), seed, threshold)
    return out
