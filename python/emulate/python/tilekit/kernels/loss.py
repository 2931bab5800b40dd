"""Cross entropy, whose gradient is computed with it."""

from __future__ import annotations

import torch
from torch.autograd.function import once_differentiable

from ._instances import UNIT, Instances, check_columns, typed

_CROSS_ENTROPY = Instances("cross_entropy_gradient")
_REDUCTIONS = ("mean", "sum", "none")


def cross_entropy(logits: torch.Tensor, target: torch.Tensor, ignore_index: int = -100, reduction: str = "mean") -> torch.Tensor:
    """Cross entropy of rows of `logits` and class numbers, as `torch.nn.functional.cross_entropy`; the result is float32.

    Targets outside of the classes count for nothing, as those equal to `ignore_index` do.
    """
    (logits,) = typed("cross_entropy", logits)
    if reduction not in _REDUCTIONS:
        raise ValueError(f"cross_entropy: reduction is {reduction!r}; it must be one of {', '.join(_REDUCTIONS)}")
    if logits.dim() != 2 or target.shape != logits.shape[:1]:
        raise ValueError(
            f"cross_entropy: logits have shape {tuple(logits.shape)} and target {tuple(target.shape)}; they must be (rows, classes) and (rows,)"
        )
    if target.is_floating_point() or target.dtype == torch.bool:
        raise TypeError(f"cross_entropy: target is of {target.dtype}; it must be integers, the numbers of classes")
    counts = (target != ignore_index) & (target >= 0) & (target < logits.shape[1])
    label = torch.where(counts, target, -1).to(torch.int32)
    losses = _CrossEntropy.apply(logits.contiguous(), label)
    if reduction == "none":
        return losses
    return losses.sum() / counts.sum() if reduction == "mean" else losses.sum()


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, label):
        rows, cols = logits.shape
        kernel = _instance(logits.dtype, cols)
        loss, gradient = torch.empty(rows, dtype=torch.float32, device=logits.device), torch.empty_like(logits)
        kernel(logits, label, loss, gradient, 1.0)
        ctx.save_for_backward(gradient)
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx, dloss):
        (gradient,) = ctx.saved_tensors
        return gradient * dloss[:, None].to(gradient.dtype), None


def _instance(dtype: torch.dtype, cols: int):
    """The instance with the fewest CTAs whose shared memory holds a row."""
    found = _CROSS_ENTROPY.typed(dtype)
    check_columns("cross_entropy", cols)
    for (part, ctas, _, divisor), kernel in found:
        if divisor == UNIT and cols <= part * ctas:
            return kernel
    most = max(part * ctas for (part, ctas, _, divisor), _ in found if divisor == UNIT)
    raise ValueError(f"cross_entropy: there are {cols} classes of {dtype}; there are kernels for up to {most}")
