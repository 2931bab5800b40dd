"""Rows of a table by their numbers."""

from __future__ import annotations

import torch
from torch.autograd.function import once_differentiable

from ._instances import Instances

_EMBEDDING = Instances("embedding")
_BACKWARD, _JOIN = Instances("embedding_backward"), Instances("embedding_backward_join")
#: Sorted rows of a CTA of the gradient, and its rows of partial sums, as the kernels have them.
_PLACES, _PARTS = 32, 2


def embedding(index: torch.Tensor, table: torch.Tensor, padding_idx: int | None = None) -> torch.Tensor:
    """`table[index]`, as `torch.nn.functional.embedding`, for integers `index` of any shape; a number outside of the table gives a row of zeros.

    The gradient of `table`, `[entries, cols]`, is dense, summed in float32 in the order of the rows: the same from run to run. The row `padding_idx` gets none.
    """
    if table.dim() != 2:
        raise ValueError(f"embedding: table has shape {tuple(table.shape)}; it must be (entries, cols)")
    if index.dtype not in (torch.int64, torch.int32):
        raise TypeError(f"embedding: index is of {index.dtype}; it must be int64 or int32")
    if padding_idx is not None and not -table.shape[0] <= padding_idx < table.shape[0]:
        raise ValueError(f"embedding: padding_idx is {padding_idx}; it must be the number of one of the {table.shape[0]} entries")
    padding = None if padding_idx is None else padding_idx % table.shape[0]
    flat = index.reshape(-1).to(torch.int64)
    return _Embedding.apply(flat, table.contiguous(), padding).view(*index.shape, table.shape[1])


def rows_of(table: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """The rows of `table` that `index`, int64 of one dimension, names."""
    _, kernel = _EMBEDDING.of_rows(table.dtype, table.shape[1])
    out = table.new_empty(index.shape[0], table.shape[1])
    kernel(table, index, out)
    return out


class _Embedding(torch.autograd.Function):
    @staticmethod
    def forward(ctx, index, table, padding):
        ctx.save_for_backward(index)
        ctx.entries, ctx.padding = table.shape[0], padding
        return rows_of(table, index)

    @staticmethod
    @once_differentiable
    def backward(ctx, dout):
        (index,) = ctx.saved_tensors
        _, kernel = _BACKWARD.of_rows(dout.dtype, dout.shape[1])
        if ctx.padding is not None:
            index = torch.where(index == ctx.padding, -1, index)
        ascending, order = torch.sort(index, stable=True)
        dtable = dout.new_zeros(ctx.entries, dout.shape[1])
        parts = -(-index.shape[0] // _PLACES) * _PARTS
        partial = dout.new_empty(parts, dout.shape[1], dtype=torch.float32)
        kernel(dout.contiguous(), ascending, order, dtable, partial)
        _JOIN.only(dout.dtype)(ascending, partial, dtable)
        return None, dtable, None
