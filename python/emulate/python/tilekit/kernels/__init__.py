"""TileKit's tuned kernels as functions on tensors of torch, which torch differentiates.

    from tilekit.kernels import rms_norm
    y = rms_norm(x, weight)

They need torch and the wheel of the exported kernels (:mod:`tilekit_kernels_exported`). Tensors are on one NVIDIA GPU of compute capability 9.0;
on the CPU they are refused, unless `tilekit.emulated(tilekit_kernels_exported)` is open. Under autocast floating-point arguments are
converted to bfloat16. What no kernel takes is refused: TypeError for a type, ValueError for a shape.
"""

from ._instances import package
from .activations import gelu, swiglu
from .attention import scaled_dot_product_attention
from .dropout import dropout
from .embedding import embedding
from .loss import cross_entropy, linear_cross_entropy
from .optimizer import adamw_
from .optimizer_lists import adamw_list_, clip_factor
from .products import linear
from .rotary import rotary_embedding
from .routing import Routing, moe_combine, moe_gate, moe_permute, moe_routing
from .rows import layer_norm, rms_norm, softmax

__all__ = [
    "Routing", "adamw_", "adamw_list_", "clip_factor", "cross_entropy", "dropout", "embedding", "gelu", "layer_norm", "linear", "linear_cross_entropy",
    "moe_combine", "moe_gate", "moe_permute", "moe_routing", "package", "rms_norm", "rotary_embedding", "scaled_dot_product_attention", "softmax", "swiglu",
]
