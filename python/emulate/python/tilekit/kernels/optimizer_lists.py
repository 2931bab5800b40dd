"""The step of AdamW over lists of tensors in one launch, and clipping by the norm of all gradients together."""

from __future__ import annotations

from itertools import chain
from typing import Sequence

import torch

from ._instances import Instances

_ADAMW, _SQUARES, _CLIP = Instances("adamw_list"), Instances("squares_list"), Instances("clip_factor")
#: Elements of a program, and bytes at multiples of which tensors begin.
_CHUNK, _UNIT = 4096, 16
#: Chunks of lists by their numbers of elements: they do not change from step to step.
_chunks: dict[tuple, torch.Tensor] = {}

Tensors = Sequence[torch.Tensor]


@torch.no_grad()
def adamw_list_(
    params: Tensors,
    grads: Tensors,
    ms: Tensors,
    vs: Tensors,
    step: int,
    *,
    rate: float,
    betas: tuple[float, float] = (0.9, 0.999),
    epsilon: float = 1e-8,
    decay: float = 1e-2,
    scale: torch.Tensor | None = None,
) -> None:
    """Step number `step`, from 1 on, of AdamW in place, of all `params` and their moments `ms` and `vs` in one launch; gradients are multiplied by `scale`, a float32 of
    one element on the GPU, such as the factor of :func:`clip_factor`, where it is given.

    Tensors are contiguous and begin at multiples of 16 bytes; those of a list are of one type.
    """
    lists = (params, grads, ms, vs)
    _check("adamw_list_", ("params", "grads", "ms", "vs"), lists)
    if step < 1:
        raise ValueError(f"adamw_list_: step is {step}; steps are counted from 1")
    if not params:
        return
    if grads[0].dtype != params[0].dtype or vs[0].dtype != ms[0].dtype:
        raise TypeError(
            f"adamw_list_: params and grads are of {params[0].dtype} and {grads[0].dtype}, ms and vs of {ms[0].dtype} and {vs[0].dtype}; each two must be equal"
        )
    kernel = _ADAMW.only(params[0].dtype, ms[0].dtype)
    if scale is None:
        scale = torch.ones(1, dtype=torch.float32, device=params[0].device)
    beta1, beta2 = betas
    keep, root = 1.0 - rate * decay, (1.0 - beta2**step) ** -0.5
    for part in _launches(lists):
        table, chunks = _tables(part)
        first = [tensors[0].view(-1) for tensors in part]
        kernel(*first, table, chunks, scale.view(1), keep, beta1, beta2, rate / (1.0 - beta1**step), root, epsilon)


@torch.no_grad()
def clip_factor(grads: Tensors, most: float) -> tuple[torch.Tensor, torch.Tensor]:
    """The norm of all `grads` together and the factor that clips it, `min(1, most / (norm + 1e-6))`: float32 of one element each, on the GPU, which nothing waits for.

    What `torch.nn.utils.clip_grad_norm_` computes; :func:`adamw_list_` takes the factor, so that gradients are read once more and written never.
    """
    _check("clip_factor", ("grads",), (grads,))
    if not grads:
        raise ValueError("clip_factor: there are no gradients")
    device, kernel = grads[0].device, _SQUARES.only(grads[0].dtype)
    partials = []
    for part, *_ in _launches((grads,)):
        table, chunks = _tables((part,) * 4)
        partials.append(torch.empty(chunks.shape[0], dtype=torch.float32, device=device))
        kernel(part[0].view(-1), table, chunks, partials[-1])
    norm, factor = (torch.empty(1, dtype=torch.float32, device=device) for _ in range(2))
    _CLIP.only()(partials[0] if len(partials) == 1 else torch.cat(partials), norm, factor, most)
    return norm, factor


def _check(about: str, names: Sequence[str], lists: Sequence[Tensors]) -> None:
    for name, tensors in zip(names, lists):
        if len(tensors) != len(lists[0]):
            raise ValueError(f"{about}: {name} has {len(tensors)} tensors and {names[0]} {len(lists[0])}; they must have as many")
        for at, tensor in enumerate(tensors):
            if tensor.shape != lists[0][at].shape:
                raise ValueError(f"{about}: {name}[{at}] has shape {tuple(tensor.shape)} and {names[0]}[{at}] {tuple(lists[0][at].shape)}; they must be equal")
            if tensor.dtype != tensors[0].dtype:
                raise TypeError(f"{about}: {name}[0] and {name}[{at}] are of {tensors[0].dtype} and {tensor.dtype}; a list has one type")
            if tensor.device != lists[0][0].device:
                raise ValueError(f"{about}: {name}[{at}] is on {tensor.device} and {names[0]}[0] on {lists[0][0].device}; all must be on one GPU")
            if not tensor.is_contiguous() or tensor.data_ptr() % _UNIT:
                raise ValueError(f"{about}: {name}[{at}] has gaps or begins at no multiple of {_UNIT} bytes; pass a contiguous copy")


def _launches(lists: Sequence[Tensors]) -> list[Sequence[Tensors]]:
    """The lists, whole; on the emulator, which knows the memory of arguments alone, tensor by tensor."""
    if lists[0][0].device.type == "cuda":
        return [lists]
    return [[[tensor] for tensor in tensors] for tensors in zip(*lists)]


def _tables(lists: Sequence[Tensors]) -> tuple[torch.Tensor, torch.Tensor]:
    """Of each tensor its offsets from the first of each list and its elements; and which tensor and chunk of it each program takes."""
    device = lists[0][0].device
    elements = [tensor.numel() for tensor in lists[0]]
    columns = [[(tensor.data_ptr() - tensors[0].data_ptr()) // tensor.element_size() for tensor in tensors] for tensors in lists]
    numbers = torch.tensor(list(zip(*columns, elements)), dtype=torch.int64)
    key = (device, tuple(elements))
    chunks = _chunks.get(key)
    if chunks is None:
        pairs = chain.from_iterable(((at, part) for part in range(-(-count // _CHUNK))) for at, count in enumerate(elements))
        chunks = _chunks[key] = torch.tensor(list(pairs), dtype=torch.int32).to(device)
    if device.type == "cuda":
        numbers = numbers.pin_memory()
    return numbers.to(device, non_blocking=True), chunks
