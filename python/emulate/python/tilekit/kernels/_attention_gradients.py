"""Gradients of attention: row sums and zeros, the main loop, the rounding of dQ."""

from __future__ import annotations

import functools
import json
import math

import torch

from ._attention_plan import GROUPS, plan
from ._instances import Instances, addressable

_BEGIN, _MAIN, _END = Instances("backward_begin"), Instances("backward"), Instances("backward_end")
#: Elements of the parts of LSE and delta of a row.
_PARTS = 16
#: Further than any key is.
_FAR = 1 << 29


def differentiate(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, out: torch.Tensor, lse: torch.Tensor, dout: torch.Tensor, is_causal: bool, scale: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Gradients of query, key and value `[batch, heads, tokens, depth]`, from the output, its LSE and its gradient."""
    dout = addressable(dout)
    dquery, dkey, dvalue = (torch.empty_like(tensor) for tensor in (query, key, value))
    batch, heads, tokens, depth = query.shape
    kv_heads, is_ordered = key.shape[1], torch.are_deterministic_algorithms_enabled()
    of = plan(batch, heads, kv_heads, tokens, (depth, value.shape[3]), is_causal, is_ordered)
    begin, main, end = _instances(query.dtype, depth, of.queries, is_ordered)
    blocks = batch * heads * of.blocks
    rows = blocks * of.queries
    sums = query.new_empty(rows * depth, dtype=torch.float32)
    delta, log2_sum = (query.new_empty(rows, dtype=torch.float32) for _ in range(2))
    parts = query.new_empty(rows * _PARTS, dtype=torch.bfloat16)
    turns = query.new_empty(1 + blocks * GROUPS, dtype=torch.int32)
    progress = query.new_empty(2 * batch * kv_heads, dtype=torch.int32)
    # What calls of concatenated sequences and of modified scores pass.
    offsets, data = query.new_empty(2, dtype=torch.int32), query.new_empty(1, dtype=torch.float32)
    begin(
        out, dout, lse, delta, log2_sum, parts, sums, turns, progress, offsets, tokens, 0, tokens, of.blocks, heads, progress.numel(), scale, *_strides(out), *_strides(dout),
        grid=(of.blocks, *of.lines),
    )
    # Dimension 0 is one of concatenated sequences.
    blocked = (tensor.unsqueeze(0) for tensor in (query, key, value, dout, dkey, dvalue))
    main(
        *blocked, log2_sum, delta, parts, sums, turns, out, dout, lse, dquery, progress, offsets, offsets, data,
        heads // kv_heads, tokens, tokens, 0, _FAR, 0 if is_causal else _FAR, _FAR, of.blocks, of.section, of.lead, of.ahead, int(is_causal), tokens,
        scale * math.log2(math.e), 1.0, scale, *_strides(dquery), 0, 0,
        grid=(of.key_blocks, kv_heads, batch), **_overlapping(main),
    )
    end(sums, dquery, offsets, tokens, 0, of.blocks, heads, of.first_line, scale, *_strides(dquery), grid=(of.blocks * GROUPS, *of.lines), **_overlapping(end))
    return dquery, dkey, dvalue


@functools.cache
def _waits(kernel) -> bool:
    return json.loads(kernel.kernel.manifest)["waits_for_previous"]


def _overlapping(kernel) -> dict[str, bool]:
    """A launch begins beside the one in front of it where the kernel waits for that itself."""
    return {"overlap": True} if _waits(kernel) else {}


def _strides(tensor: torch.Tensor) -> tuple[int, ...]:
    """Elements from one batch, head and token to the next."""
    return tensor.stride()[:3]


def _instances(dtype: torch.dtype, depth: int, queries: int, is_ordered: bool):
    """The three kernels."""
    begin = [kernel for numbers, kernel in _BEGIN.typed(dtype) if numbers == (depth, depth, queries)]
    main = [kernel for numbers, kernel in _MAIN.typed(dtype) if numbers == (depth, depth) and _flags(kernel) == [str(is_ordered).lower(), "Plain"]]
    end = [kernel for numbers, kernel in _END.typed(dtype) if numbers == (depth, queries)]
    if begin and main and end:
        return begin[0], main[0], end[0]
    order = " in a fixed order (torch.use_deterministic_algorithms)" if is_ordered else ""
    known = sorted({numbers[0] for numbers, kernel in _MAIN.typed(dtype) if _flags(kernel) == [str(is_ordered).lower(), "Plain"]})
    depths = ", ".join(map(str, known)) or "none"
    raise ValueError(f"scaled_dot_product_attention: there are no gradients of depth {depth} of {dtype}{order}; there are kernels for {depths}")


def _flags(kernel) -> list[str]:
    """The last two words of an instance: `backward<bf16, 64, 64, false, Plain>`."""
    return kernel.kernel.__name__.split("_")[-2:]
