"""Routing of tokens to experts: the gate, rows sorted by expert, and their weighted sum."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch.autograd.function import once_differentiable

from ._instances import Instances
from .embedding import rows_of

_ROUTE, _ROUTE_BACKWARD = Instances("route"), Instances("route_backward")
_PLACE = Instances("place_by_expert")
_COMBINE, _COMBINE_BACKWARD = Instances("combine"), Instances("combine_backward")
#: Experts of a token.
MOST = 16


class Routing(NamedTuple):
    """Where choices stand when they are sorted by expert, and by token where experts are equal."""

    #: The token of each row, int64 `[tokens * k]`.
    token: torch.Tensor
    #: The row of each choice, int32 `[tokens, k]`; -1 for one without an expert.
    place: torch.Tensor
    #: The rows of expert `e` are `offsets[e]` to `offsets[e + 1]`, int32 `[experts + 1]`.
    offsets: torch.Tensor


def moe_gate(logits: torch.Tensor, k: int, normalize: bool = True) -> tuple[torch.Tensor, torch.Tensor]:
    """Weights, float32 `[tokens, k]`, and experts, int32 `[tokens, k]`, of the `k` largest of `logits`, `[tokens, experts]`, the largest first.

    Weights are the softmax over the chosen, or over all experts where `normalize` is false; they have a gradient of `logits`.
    """
    if logits.dim() != 2:
        raise ValueError(f"moe_gate: logits have shape {tuple(logits.shape)}; they must be (tokens, experts)")
    if not 1 <= k <= min(MOST, logits.shape[1]):
        raise ValueError(f"moe_gate: k is {k}; it must be from 1 to {min(MOST, logits.shape[1])}")
    return _Gate.apply(logits.contiguous(), k, int(normalize))


def moe_routing(chosen: torch.Tensor, experts: int) -> Routing:
    """Sorts the choices, int32 `[tokens, k]`, by expert, in one launch and without waiting for it. A choice outside of `0..experts` has no row: the last rows of `token`
    are then not written, those from `offsets[experts]` on."""
    if chosen.dim() != 2 or chosen.dtype != torch.int32:
        raise ValueError(f"moe_routing: chosen is {chosen.dtype} of shape {tuple(chosen.shape)}; it must be int32 of (tokens, k)")
    if experts < 1:
        raise ValueError(f"moe_routing: there are {experts} experts; there must be one at least")
    device = chosen.device
    token = torch.zeros(chosen.numel(), dtype=torch.int64, device=device)
    place = torch.empty(chosen.shape, dtype=torch.int32, device=device)
    offsets = torch.zeros(experts + 1, dtype=torch.int32, device=device)
    if chosen.numel():
        _PLACE.only()(chosen.contiguous(), token, place, offsets, experts)
    return Routing(token, place, offsets)


def moe_permute(x: torch.Tensor, routing: Routing) -> torch.Tensor:
    """The rows of `x`, `[tokens, cols]`, once for each choice, sorted by expert: `[tokens * k, cols]`, with a gradient of `x`."""
    _check("moe_permute", x, routing.place.shape[0])
    return _Permute.apply(x.contiguous(), routing.token, routing.place)


def moe_combine(x: torch.Tensor, weights: torch.Tensor, routing: Routing) -> torch.Tensor:
    """What :func:`moe_permute` sorted, back with its token: `out[t] = sum(weights[t, j] * x[place[t, j]])`, summed in float32, with gradients of both."""
    _check("moe_combine", x, routing.place.numel())
    if weights.shape != routing.place.shape or weights.dtype != torch.float32:
        raise ValueError(
            f"moe_combine: weights are {weights.dtype} of shape {tuple(weights.shape)}; they must be float32 of {tuple(routing.place.shape)}"
        )
    return _Combine.apply(x.contiguous(), weights.contiguous(), routing.place)


def _check(about: str, x: torch.Tensor, rows: int) -> None:
    if x.dim() != 2 or x.shape[0] != rows:
        raise ValueError(f"{about}: x has shape {tuple(x.shape)}; it must be ({rows}, cols)")


def _gate_instance(instances: Instances, logits: torch.Tensor):
    found = instances.typed(logits.dtype)
    for (most,), kernel in found:
        if logits.shape[1] <= most:
            return kernel
    raise ValueError(f"moe_gate: there are {logits.shape[1]} experts; there are kernels for up to {found[-1][0][0]}")


class _Gate(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, k, normalize):
        shape = (logits.shape[0], k)
        weights = torch.empty(shape, dtype=torch.float32, device=logits.device)
        chosen = torch.empty(shape, dtype=torch.int32, device=logits.device)
        _gate_instance(_ROUTE, logits)(logits, weights, chosen, normalize)
        ctx.save_for_backward(logits, weights, chosen)
        ctx.normalize = normalize
        ctx.mark_non_differentiable(chosen)
        return weights, chosen

    @staticmethod
    @once_differentiable
    def backward(ctx, dweights, _):
        logits, weights, chosen = ctx.saved_tensors
        dlogits = torch.empty_like(logits)
        _gate_instance(_ROUTE_BACKWARD, logits)(logits, weights, chosen, dweights.contiguous(), dlogits, ctx.normalize)
        return dlogits, None, None


class _Permute(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, token, place):
        ctx.save_for_backward(place)
        return rows_of(x, token)

    @staticmethod
    @once_differentiable
    def backward(ctx, dout):
        (place,) = ctx.saved_tensors
        ones = torch.ones(place.shape, dtype=torch.float32, device=place.device)
        return _combined(dout.contiguous(), ones, place), None, None


class _Combine(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weights, place):
        ctx.save_for_backward(x, weights, place)
        return _combined(x, weights, place)

    @staticmethod
    @once_differentiable
    def backward(ctx, dout):
        x, weights, place = ctx.saved_tensors
        _, kernel = _COMBINE_BACKWARD.of_rows(x.dtype, x.shape[1])
        # Rows that are nobody's place keep a gradient of 0.
        dx, dweights = torch.zeros_like(x), torch.empty_like(weights)
        kernel(x, place, weights, dout.contiguous(), dx, dweights)
        return dx, dweights, None


def _combined(x: torch.Tensor, weights: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
    _, kernel = _COMBINE.of_rows(x.dtype, x.shape[1])
    out = x.new_empty(place.shape[0], x.shape[1])
    kernel(x, place, weights, out)
    return out
