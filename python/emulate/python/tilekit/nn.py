"""Modules of torch over :mod:`tilekit.kernels`, with the parameters and names of torch's own: what `torch.nn.RMSNorm` saved is loaded here."""

from __future__ import annotations

import torch

from . import kernels
from .kernels import scaled_dot_product_attention as scaled_dot_product_attention

__all__ = ["CrossEntropyLoss", "Dropout", "Embedding", "GELU", "LayerNorm", "Linear", "RMSNorm", "Softmax", "SwiGLU"]


class RMSNorm(torch.nn.Module):
    """`torch.nn.RMSNorm` over the last dimension."""

    def __init__(self, normalized_shape: int, eps: float = 1e-6, device=None, dtype=None) -> None:
        super().__init__()
        self.eps = eps
        self.weight = torch.nn.Parameter(torch.ones(normalized_shape, device=device, dtype=dtype))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return kernels.rms_norm(x, self.weight, self.eps)


class LayerNorm(torch.nn.Module):
    """`torch.nn.LayerNorm` over the last dimension, with weight and bias."""

    def __init__(self, normalized_shape: int, eps: float = 1e-5, device=None, dtype=None) -> None:
        super().__init__()
        self.eps = eps
        self.weight = torch.nn.Parameter(torch.ones(normalized_shape, device=device, dtype=dtype))
        self.bias = torch.nn.Parameter(torch.zeros(normalized_shape, device=device, dtype=dtype))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return kernels.layer_norm(x, self.weight, self.bias, self.eps)


class Linear(torch.nn.Linear):
    """`torch.nn.Linear` without bias."""

    def __init__(self, in_features: int, out_features: int, device=None, dtype=None) -> None:
        super().__init__(in_features, out_features, bias=False, device=device, dtype=dtype)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return kernels.linear(x, self.weight)


class Embedding(torch.nn.Embedding):
    """`torch.nn.Embedding` with a dense gradient, without `max_norm` and `scale_grad_by_freq`."""

    def __init__(self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None, device=None, dtype=None) -> None:
        super().__init__(num_embeddings, embedding_dim, padding_idx, device=device, dtype=dtype)

    def forward(self, index: torch.Tensor) -> torch.Tensor:
        return kernels.embedding(index, self.weight, self.padding_idx)


class Dropout(torch.nn.Module):
    """`torch.nn.Dropout`, which keeps a seed and no mask for the backward pass."""

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return kernels.dropout(x, self.p, self.training)


class Softmax(torch.nn.Module):
    """`torch.nn.Softmax` along the last dimension."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return kernels.softmax(x)


class GELU(torch.nn.Module):
    """`torch.nn.GELU(approximate="tanh")`."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return kernels.gelu(x)


class SwiGLU(torch.nn.Module):
    """`silu(gate) * up`, without products."""

    def forward(self, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
        return kernels.swiglu(gate, up)


class CrossEntropyLoss(torch.nn.Module):
    """`torch.nn.CrossEntropyLoss` of class numbers, without weights or smoothing."""

    def __init__(self, ignore_index: int = -100, reduction: str = "mean") -> None:
        super().__init__()
        self.ignore_index, self.reduction = ignore_index, reduction

    def forward(self, logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return kernels.cross_entropy(logits, target, self.ignore_index, self.reduction)
