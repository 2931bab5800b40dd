"""Cross entropy, whose gradient is computed with it, also behind a linear layer."""

from __future__ import annotations

import torch
from torch.autograd.function import once_differentiable

from ._instances import UNIT, Instances, check_columns, typed
from .products import product

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
    _check_target("cross_entropy", target)
    counts, label = _labels(target, ignore_index, logits.shape[1])
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


def _check_target(about: str, target: torch.Tensor) -> None:
    if target.is_floating_point() or target.dtype == torch.bool:
        raise TypeError(f"{about}: target is of {target.dtype}; it must be integers, the numbers of classes")


def _labels(target: torch.Tensor, ignore_index: int, classes: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Which rows count, and class numbers as the kernel takes them: -1 for those that do not."""
    counts = (target != ignore_index) & (target >= 0) & (target < classes)
    return counts, torch.where(counts, target, -1).to(torch.int32)


def linear_cross_entropy(
    x: torch.Tensor, weight: torch.Tensor, target: torch.Tensor, ignore_index: int = -100, reduction: str = "mean", rows_at_once: int | None = None
) -> torch.Tensor:
    """`cross_entropy(x @ weight.T, target)` without all logits in memory: those of `rows_at_once` rows at a time, 64 MiB of them where it is not given.

    The gradients of `x`, `[rows, k]`, and `weight`, `[classes, k]`, are computed with the loss and kept until the backward pass; that of `weight` is summed in
    float32.
    """
    x, weight = typed("linear_cross_entropy", x, weight)
    if x.dim() != 2 or weight.dim() != 2 or x.shape[1] != weight.shape[1] or target.shape != x.shape[:1]:
        raise ValueError(
            f"linear_cross_entropy: x has shape {tuple(x.shape)}, weight {tuple(weight.shape)} and target {tuple(target.shape)}; they must be (rows, k), "
            "(classes, k) and (rows,)"
        )
    if reduction not in ("mean", "sum"):
        raise ValueError(f"linear_cross_entropy: reduction is {reduction!r}; it must be mean or sum")
    _check_target("linear_cross_entropy", target)
    counts, label = _labels(target, ignore_index, weight.shape[0])
    if rows_at_once is None:
        rows_at_once = max(128, (1 << 26) // (weight.shape[0] * weight.element_size()) // 128 * 128)
    loss = _LinearCrossEntropy.apply(x.contiguous(), weight.contiguous(), label, rows_at_once)
    return loss / counts.sum() if reduction == "mean" else loss


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, label, rows_at_once):
        rows, classes = x.shape[0], weight.shape[0]
        kernel = _instance(x.dtype, classes)
        losses, dx = torch.empty(rows, dtype=torch.float32, device=x.device), torch.empty_like(x)
        dweight = torch.zeros_like(weight, dtype=torch.float32)
        for first in range(0, rows, rows_at_once):
            part = slice(first, first + rows_at_once)
            logits = product(x[part], weight)
            # The gradient takes the place of the logits.
            kernel(logits, label[part], losses[part], logits, 1.0)
            torch.mm(logits, weight, out=dx[part])
            dweight += logits.T @ x[part]
        ctx.save_for_backward(dx, dweight)
        return losses.sum()

    @staticmethod
    @once_differentiable
    def backward(ctx, dloss):
        dx, dweight = ctx.saved_tensors
        return dx * dloss.to(dx.dtype), (dweight * dloss).to(dx.dtype), None, None


def _instance(dtype: torch.dtype, cols: int):
    """The instance with the fewest CTAs whose shared memory holds a row."""
    found = _CROSS_ENTROPY.typed(dtype)
    check_columns("cross_entropy", cols)
    for (part, ctas, _, divisor), kernel in found:
        if divisor == UNIT and cols <= part * ctas:
            return kernel
    most = max(part * ctas for (part, ctas, _, divisor), _ in found if divisor == UNIT)
    raise ValueError(f"cross_entropy: there are {cols} classes of {dtype}; there are kernels for up to {most}")
