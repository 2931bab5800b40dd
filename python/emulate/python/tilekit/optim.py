"""Optimizers of torch over :mod:`tilekit.kernels`."""

from __future__ import annotations

from typing import Any, Callable

import torch

from . import kernels

__all__ = ["AdamW"]


class AdamW(torch.optim.Optimizer):
    """`torch.optim.AdamW`, a launch for each parameter. The moments are float32, or of `moments`."""

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        moments: torch.dtype = torch.float32,
    ) -> None:
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, moments=moments))

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for param in group["params"]:
                if param.grad is not None:
                    self._step(group, param)
        return loss

    def _step(self, group: dict[str, Any], param: torch.Tensor) -> None:
        state = self.state[param]
        if not state:
            state["step"] = 0
            for name in ("exp_avg", "exp_avg_sq"):
                state[name] = torch.zeros_like(param, dtype=group["moments"], memory_format=torch.contiguous_format)
        state["step"] += 1
        kernels.adamw_(
            param, param.grad.contiguous(), state["exp_avg"], state["exp_avg_sq"], state["step"],
            rate=group["lr"], betas=group["betas"], epsilon=group["eps"], decay=group["weight_decay"],
        )
