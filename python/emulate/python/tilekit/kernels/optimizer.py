"""The step of AdamW."""

from __future__ import annotations

import torch

from ._instances import Instances

_ADAMW = Instances("adamw")


@torch.no_grad()
def adamw_(
    param: torch.Tensor,
    grad: torch.Tensor,
    m: torch.Tensor,
    v: torch.Tensor,
    step: int,
    *,
    rate: float,
    betas: tuple[float, float] = (0.9, 0.999),
    epsilon: float = 1e-8,
    decay: float = 1e-2,
    scale: float = 1.0,
) -> None:
    """Step number `step`, from 1 on, of AdamW in place: of `param` and its moments `m` and `v`, contiguous tensors of one shape, with `scale * grad`."""
    for name, tensor in (("grad", grad), ("m", m), ("v", v)):
        if tensor.shape != param.shape:
            raise ValueError(f"adamw_: {name} has shape {tuple(tensor.shape)} and param {tuple(param.shape)}; they must be equal")
    for name, tensor in (("param", param), ("grad", grad), ("m", m), ("v", v)):
        if not tensor.is_contiguous():
            raise ValueError(f"adamw_: {name} has gaps or another order of dimensions; it must be contiguous")
    if step < 1:
        raise ValueError(f"adamw_: step is {step}; steps are counted from 1")
    if grad.dtype != param.dtype or v.dtype != m.dtype:
        raise TypeError(f"adamw_: param and grad are of {param.dtype} and {grad.dtype}, m and v of {m.dtype} and {v.dtype}; each two must be equal")
    kernel = _ADAMW.only(param.dtype, m.dtype)
    beta1, beta2 = betas
    param, grad, m, v = (tensor.view(-1) for tensor in (param, grad, m, v))
    keep, root = 1.0 - rate * decay, (1.0 - beta2**step) ** -0.5
    kernel(param, grad, m, v, param, m, v, keep, beta1, beta2, rate / (1.0 - beta1**step), root, epsilon, scale)
