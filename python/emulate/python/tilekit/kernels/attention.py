"""Attention."""

from __future__ import annotations

import math

import torch
from torch.autograd.function import once_differentiable

from ._instances import Instances, typed

_FORWARD = Instances("forward")


def scaled_dot_product_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *, is_causal: bool = False, scale: float | None = None
) -> torch.Tensor:
    """`softmax(scale * query @ key.T) @ value` of `[batch, heads, tokens, depth]`, as `torch.nn.functional.scaled_dot_product_attention` without mask and
    dropout, for as many keys as queries. Key and value may have fewer heads, each for a group of consecutive ones of query.

    Its gradients are those of torch's flash attention, from the output and the sums of exponentials that this one gives; on a GPU alone.
    """
    query, key, value = typed("scaled_dot_product_attention", query, key, value)
    _check(query, key, value)
    scale = 1.0 / math.sqrt(query.shape[-1]) if scale is None else scale
    return _Attention.apply(query, key, value, is_causal, scale)


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, query, key, value, is_causal, scale):
        batch, heads, tokens, depth = query.shape
        kernel = _instance(query.dtype, depth, is_causal)
        flat = [tensor.reshape(-1, tokens, depth).contiguous() for tensor in (query, key, value)]
        out = torch.empty_like(flat[0])
        lse = out.new_empty(batch * heads, tokens, dtype=torch.float32)
        kernel(*flat, out, lse, out.new_zeros(1, dtype=torch.int32), scale * math.log2(math.e))
        out, lse = out.view(query.shape), lse.view(batch, heads, tokens)
        ctx.save_for_backward(query, key, value, out, lse)
        ctx.is_causal, ctx.scale = is_causal, scale
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, dout):
        query, key, value, out, lse = ctx.saved_tensors
        if query.device.type != "cuda":
            raise RuntimeError("scaled_dot_product_attention: its gradients are computed on a GPU alone; detach what requires them")
        group = query.shape[1] // key.shape[1]
        key, value = (tensor.repeat_interleave(group, 1) if group > 1 else tensor for tensor in (key, value))
        none = torch.zeros((), dtype=torch.int64, device=query.device)
        dquery, dkey, dvalue = torch.ops.aten._scaled_dot_product_flash_attention_backward(
            dout, query, key, value, out, lse, None, None, query.shape[2], key.shape[2], 0.0, ctx.is_causal, none, none, scale=ctx.scale
        )
        if group > 1:
            dkey, dvalue = (tensor.unflatten(1, (-1, group)).sum(2) for tensor in (dkey, dvalue))
        return dquery, dkey, dvalue, None, None


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
