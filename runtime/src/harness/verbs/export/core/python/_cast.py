"""Arguments of functions that torch differentiates, as kernels take them."""

import torch


def inputs(*arguments):
    """Each tensor without gaps, and under autocast of the type that the kernel takes."""
    tensors = []
    for tensor, wanted in arguments:
        if tensor.is_floating_point() and tensor.dtype != wanted and torch.is_autocast_enabled(tensor.device.type):
            tensor = tensor.to(wanted)
        tensors.append(tensor.contiguous())
    return tensors
