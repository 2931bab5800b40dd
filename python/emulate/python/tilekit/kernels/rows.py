"""Softmax and norms along the last dimension."""

from __future__ import annotations

import torch
from torch.autograd.function import once_differentiable

from ._instances import Instances, typed

_SOFTMAX = Instances("softmax")
_RMS, _RMS_BACKWARD = Instances("rmsnorm"), Instances("rmsnorm_backward")
_LAYER, _LAYER_BACKWARD = Instances("layernorm"), Instances("layernorm_backward")
_SUM = Instances("sum_partials")


def softmax(x: torch.Tensor) -> torch.Tensor:
    """Softmax along the last dimension, as `torch.softmax(x, -1)`."""
    (x,) = typed("softmax", x)
    _, kernel = _SOFTMAX.of_rows(x.dtype, _columns("softmax", x))
    return kernel.differentiable(x.reshape(-1, x.shape[-1])).view(x.shape)


def rms_norm(x: torch.Tensor, weight: torch.Tensor, epsilon: float = 1e-6) -> torch.Tensor:
    """`x / sqrt(mean(x², -1) + epsilon) * weight`, with gradients of `x` and `weight`."""
    x, weight = typed("rms_norm", x, weight)
    _check_affine("rms_norm", x, weight=weight)
    rows = x.reshape(-1, x.shape[-1]).contiguous()
    return _RmsNorm.apply(rows, weight.contiguous(), epsilon).view(x.shape)


def layer_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, epsilon: float = 1e-5) -> torch.Tensor:
    """`(x - mean) / sqrt(variance + epsilon) * weight + bias` along the last dimension, with gradients of all three tensors."""
    x, weight, bias = typed("layer_norm", x, weight, bias)
    _check_affine("layer_norm", x, weight=weight, bias=bias)
    rows = x.reshape(-1, x.shape[-1]).contiguous()
    return _LayerNorm.apply(rows, weight.contiguous(), bias.contiguous(), epsilon).view(x.shape)


class _RmsNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, epsilon):
        rows, cols = x.shape
        _, kernel = _RMS.of_rows(x.dtype, cols)
        out, rstd = torch.empty_like(x), _floats(x, rows)
        kernel(x, weight, out, rstd, epsilon)
        ctx.save_for_backward(x, weight, rstd)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, dout):
        x, weight, rstd = ctx.saved_tensors
        (most, _), kernel = _RMS_BACKWARD.of_rows(x.dtype, x.shape[1])
        dx, partial = torch.empty_like(x), _floats(x, _programs(x, most), x.shape[1])
        kernel(x, weight, rstd, dout.contiguous(), dx, partial)
        return dx, _sum(partial, weight), None


class _LayerNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, epsilon):
        rows, cols = x.shape
        _, kernel = _LAYER.of_rows(x.dtype, cols)
        out, mean, rstd = torch.empty_like(x), _floats(x, rows), _floats(x, rows)
        kernel(x, weight, bias, out, mean, rstd, epsilon)
        ctx.save_for_backward(x, weight, mean, rstd)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, dout):
        x, weight, mean, rstd = ctx.saved_tensors
        cols = x.shape[1]
        (most, _), kernel = _LAYER_BACKWARD.of_rows(x.dtype, cols)
        # Both partial sums lie beside each other, so that one launch adds them up.
        dx, partial = torch.empty_like(x), _floats(x, _programs(x, most), 2 * cols)
        kernel(x, weight, mean, rstd, dout.contiguous(), dx, partial[:, :cols], partial[:, cols:])
        total = _sum(partial, weight)
        return dx, total[:cols], total[cols:], None


def _floats(like: torch.Tensor, *shape: int) -> torch.Tensor:
    return torch.empty(shape, dtype=torch.float32, device=like.device)


def _programs(x: torch.Tensor, most: int) -> int:
    """CTAs or clusters of an instance for rows of up to `most` elements, each with a row of partial sums: no more than there are rows."""
    if x.device.type != "cuda":
        return min(x.shape[0], 4)
    size = most * x.element_size()
    # As many as were fastest (bench/results/training.md); beyond 16 KiB a row takes a cluster.
    per_multiprocessor = 8 if size <= 2048 else 2 if size <= 8192 else 1
    count = torch.cuda.get_device_properties(x.device).multi_processor_count
    return min(x.shape[0], count * per_multiprocessor // -(-size // 16384))


def _sum(partial: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    total = like.new_empty(partial.shape[1])
    _SUM.only(like.dtype)(partial, total)
    return total


def _columns(about: str, x: torch.Tensor) -> int:
    if x.dim() == 0:
        raise ValueError(f"{about}: x has no dimensions; it must have one at least")
    return x.shape[-1]


def _check_affine(about: str, x: torch.Tensor, **of_columns: torch.Tensor) -> None:
    cols = _columns(about, x)
    for name, tensor in of_columns.items():
        if tensor.shape != (cols,):
            raise ValueError(f"{about}: {name} has shape {tuple(tensor.shape)}; it must be ({cols},), the last dimension of x")
