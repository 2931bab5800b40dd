"""Optimizers of torch over :mod:`tilekit.kernels`."""

from __future__ import annotations

from typing import Any, Callable

import torch

from . import kernels

__all__ = ["AdamW"]


class AdamW(torch.optim.Optimizer):
    """`torch.optim.AdamW`, in one launch for each group and type of parameters. The moments are float32, or of `moments`.

    `max_norm` clips the norm of all gradients together, as `torch.nn.utils.clip_grad_norm_` before the step does, without writing them; `norm` is then that of the last
    step, on the GPU.
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        moments: torch.dtype = torch.float32,
        max_norm: float | None = None,
    ) -> None:
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, moments=moments))
        self.max_norm = max_norm
        self.norm: torch.Tensor | None = None

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        lists: dict[tuple, list[torch.Tensor]] = {}
        for at, group in enumerate(self.param_groups):
            for param in group["params"]:
                if param.grad is not None:
                    # A parameter that has had fewer steps than others has another correction of its moments.
                    lists.setdefault((at, param.dtype, param.device, self._counted(group, param)), []).append(param)
        scale = self._clipped([param.grad for params in lists.values() for param in params])
        for (at, _, _, step), params in lists.items():
            self._step(self.param_groups[at], params, step, scale)
        return loss

    def _counted(self, group: dict[str, Any], param: torch.Tensor) -> int:
        """The number of this step of the parameter."""
        state = self.state[param]
        if not state:
            state["step"] = 0
            for name in ("exp_avg", "exp_avg_sq"):
                state[name] = torch.zeros_like(param, dtype=group["moments"], memory_format=torch.contiguous_format)
        state["step"] += 1
        return state["step"]

    def _clipped(self, grads: list[torch.Tensor]) -> torch.Tensor | None:
        if self.max_norm is None or not grads:
            return None
        of_type: dict[torch.dtype, list[torch.Tensor]] = {}
        for grad in grads:
            of_type.setdefault(grad.dtype, []).append(grad.contiguous())
        if len(of_type) == 1:
            self.norm, factor = kernels.clip_factor(next(iter(of_type.values())), self.max_norm)
            return factor
        norms = [kernels.clip_factor(of_one, self.max_norm)[0] for of_one in of_type.values()]
        self.norm = torch.cat(norms).square().sum().sqrt().view(1)
        return (self.max_norm / (self.norm + 1e-6)).clamp(max=1.0)

    def _step(self, group: dict[str, Any], params: list[torch.Tensor], step: int, scale: torch.Tensor | None) -> None:
        kernels.adamw_list_(
            params, [param.grad.contiguous() for param in params], [self.state[param]["exp_avg"] for param in params],
            [self.state[param]["exp_avg_sq"] for param in params], step,
            rate=group["lr"], betas=group["betas"], epsilon=group["eps"], decay=group["weight_decay"], scale=scale,
        )
