"""Attention."""

from __future__ import annotations

import math

import torch
from torch.autograd.function import once_differentiable

from ._attention_gradients import differentiate
from ._instances import Instances, addressable, typed

_FORWARD = Instances("forward")
#: As for gradients in kernels/src/attention/backward/check.rs.
_LEAST_SCALE = 1e-30


def scaled_dot_product_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *, is_causal: bool = False, scale: float | None = None
) -> torch.Tensor:
    """`softmax(scale * query @ key.T) @ value` of `[batch, heads, tokens, depth]`, as `torch.nn.functional.scaled_dot_product_attention` without mask and
    dropout, for as many keys as queries. Key and value may have fewer heads, each for a group of consecutive ones of query.

    Any strides of batches, heads and tokens are taken as they are, where rows are contiguous and begin at multiples of 16 bytes. Under
    `torch.use_deterministic_algorithms(True)` its gradients have the same bits in every run.
    """
    query, key, value = typed("scaled_dot_product_attention", query, key, value)
    _check(query, key, value)
    scale = 1.0 / math.sqrt(query.shape[-1]) if scale is None else scale
    if not _LEAST_SCALE <= scale < math.inf:
        raise ValueError(f"scaled_dot_product_attention: scale is {scale}; it must be a finite number, {_LEAST_SCALE} or more")
    return _Attention.apply(query, key, value, is_causal, scale)


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, query, key, value, is_causal, scale):
        batch, heads, tokens, depth = query.shape
        kernel = _instance(query.dtype, depth, is_causal)
        query, key, value = (addressable(tensor) for tensor in (query, key, value))
        out = torch.empty_like(query)
        lse = out.new_empty(batch, heads, tokens, dtype=torch.float32)
        kernel(query, key, value, out, lse, out.new_zeros(1, dtype=torch.int32), scale * math.log2(math.e))
        ctx.save_for_backward(query, key, value, out, lse)
        ctx.is_causal, ctx.scale = is_causal, scale
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, dout):
        return *differentiate(*ctx.saved_tensors, dout, ctx.is_causal, ctx.scale), None, None


def _check(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> None:
    about, shapes = "scaled_dot_product_attention", [tuple(tensor.shape) for tensor in (query, key, value)]
    said = f"{about}: query has shape {shapes[0]}, key {shapes[1]} and value {shapes[2]}; "
    if any(len(shape) != 4 for shape in shapes):
        raise ValueError(said + "they must be (batch, heads, tokens, depth)")
    if shapes[1] != shapes[2] or (shapes[0][0], *shapes[0][2:]) != (shapes[1][0], *shapes[1][2:]):
        raise ValueError(said + "all must be of one batch, as many tokens and one depth")
    if shapes[1][1] == 0 or shapes[0][1] % shapes[1][1] or 0 in shapes[0]:
        raise ValueError(said + "the heads of query must be a multiple of those of key, and none of the extents 0")


def _instance(dtype: torch.dtype, depth: int, is_causal: bool):
    found = [kernel for (of, *_), kernel in _FORWARD.typed(dtype) if of == depth and _is_causal(kernel) == is_causal]
    if found:
        return found[0]
    depths = sorted({of for (of, *_), kernel in _FORWARD.typed(dtype) if _is_causal(kernel) == is_causal})
    kind = "causal" if is_causal else "full"
    raise ValueError(f"scaled_dot_product_attention: depth is {depth} of {dtype}; there are {kind} kernels for {', '.join(map(str, depths))}")


def _is_causal(kernel) -> bool:
    """The first of the two flags at the end of an instance: `forward<bf16, 64, 3, 128, true, true>`."""
    return kernel.kernel.__name__.split("_")[-2] == "true"
