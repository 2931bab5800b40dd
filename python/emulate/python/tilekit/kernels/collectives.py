"""Collectives among the GPUs of one host, over the process groups and the symmetric memory of torch.

    from tilekit.kernels.collectives import Collectives
    collectives = Collectives()  # of the default group, one process a GPU
    y = collectives.all_reduce(x)

They need the wheel of the exported collectives: `cargo tilekit -p tilekit-kernels export --to python collectives`. Sums are taken in float32 in the order of ranks and
rounded once, so that all ranks have the same bits in every run. Calls are put on the current stream and can be captured in a graph once one of their kind has run; the
number of the call lies in memory of the GPU.
"""

from __future__ import annotations

from typing import Any, Callable, NamedTuple

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symmetric_memory

from ._instances import TYPES, package

# Of `kernels/src/collectives/exchange.rs` and `plan.rs`, from which the kernels are made.
SLOTS, SLOT_BYTES, MOST_RANKS, MOST_CTAS = 4, 16384, 16, 264


class _Form(NamedTuple):
    """What an instance of `one_shot` is compiled for."""

    is_ragged: bool
    chunk_bytes: int
    kernel: Callable[..., None]


class _Staging(NamedTuple):
    """What kernels of one element type hand data over in."""

    chunks: torch.Tensor
    chunks_of: torch.Tensor
    counts: torch.Tensor
    counts_of: torch.Tensor
    epochs: torch.Tensor
    late: torch.Tensor
    # While they live, so does the memory of the other ranks.
    handles: tuple[Any, Any]


def _instances() -> dict[tuple[torch.dtype, bool, int], list[_Form]]:
    """By element type, whether they add, and ranks."""
    found: dict[tuple[torch.dtype, bool, int], list[_Form]] = {}
    for kernel in vars(package).values():
        native = getattr(kernel, "kernel", None)
        function, _, constants = repr(native).removeprefix("<kernel ").partition("<")
        if function != "one_shot":
            continue
        element, _, sums, form = constants.split(">")[0].split(", ")
        shape, *flags = form.split("+")
        ranks, warps, accesses = map(int, shape.split("x"))
        instance = _Form("ragged" in flags, warps * 32 * accesses * 16, kernel)
        found.setdefault((TYPES[element], sums == "true", ranks), []).append(instance)
    return found


_ONE_SHOT = _instances()


class Collectives:
    """Collectives of a process group whose ranks have a GPU of one host each. All ranks make the same calls in the same order, on one stream each.

    A kernel that waits for another rank for longer than `limit_seconds` ends by an error, and keeps no GPU.
    """

    def __init__(self, group: dist.ProcessGroup | None = None, limit_seconds: float = 5.0) -> None:
        self._limit = int(limit_seconds * 1e9)
        self.group = dist.group.WORLD if group is None else group
        self.rank, self.ranks = dist.get_rank(self.group), dist.get_world_size(self.group)
        self._staging: dict[torch.dtype, _Staging] = {}

    def all_reduce(self, x: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
        """The sum of `x` over all ranks, which may be written over `x`."""
        return self._call("all_reduce", x, x.shape if out is None else out, True, x.numel(), 0)

    def reduce_scatter(self, x: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
        """Of the sum of `x` over all ranks the part of this rank, along the first dimension."""
        shape = self._part("reduce_scatter", x)
        return self._call("reduce_scatter", x, shape if out is None else out, True, shape.numel(), shape.numel())

    def all_gather(self, x: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
        """`x` of all ranks, one after the other along the first dimension."""
        shape = torch.Size([x.shape[0] * self.ranks, *x.shape[1:]])
        return self._call("all_gather", x, shape if out is None else out, False, x.numel(), 0)

    def all_to_all(self, x: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
        """Part r of `x` of rank s becomes part s on rank r, along the first dimension."""
        part = self._part("all_to_all", x).numel()
        return self._call("all_to_all", x, x.shape if out is None else out, False, part, part)

    def _part(self, about: str, x: torch.Tensor) -> torch.Size:
        if x.dim() == 0 or x.shape[0] % self.ranks:
            raise ValueError(f"{about}: the first extent of {tuple(x.shape)} is not a multiple of the {self.ranks} ranks")
        return torch.Size([x.shape[0] // self.ranks, *x.shape[1:]])

    def _call(self, about: str, x: torch.Tensor, out: torch.Tensor | torch.Size, sums: bool, piece: int, x_step: int) -> torch.Tensor:
        if not x.is_contiguous():
            raise ValueError(f"{about}: x has gaps; pass x.contiguous()")
        if isinstance(out, torch.Size):
            out = torch.empty(out, dtype=x.dtype, device=x.device)
        wanted = piece if sums else piece * self.ranks
        if out.dtype != x.dtype or out.numel() != wanted or not out.is_contiguous():
            raise ValueError(f"{about}: out is {out.dtype} of {tuple(out.shape)}, and {wanted} elements of {x.dtype} without gaps are written")
        if out.device != x.device:
            raise ValueError(f"{about}: out is on {out.device}, and x on {x.device}")
        may_share = about == "all_reduce" and out.data_ptr() == x.data_ptr()
        if not may_share and out.untyped_storage().data_ptr() == x.untyped_storage().data_ptr():
            raise ValueError(f"{about}: out shares memory with x; only all_reduce may overwrite what it reads, and then all of it")
        form = self._form(about, x.dtype, sums, piece * x.element_size(), x_step == 0 and sums)
        staging = self._staging.get(x.dtype) or self._made(x)
        if piece:
            sms = torch.cuda.get_device_properties(x.device).multi_processor_count
            ctas = min(-(-piece * x.element_size() // form.chunk_bytes), MOST_CTAS, 2 * sms)
            s = staging
            form.kernel(x, out, s.chunks, s.chunks_of, s.counts, s.counts_of, s.epochs, self._limit, s.late, self.rank, piece, x_step, piece, grid=ctas)
        return out

    def _form(self, about: str, dtype: torch.dtype, sums: bool, piece_bytes: int, is_one_piece: bool) -> _Form:
        forms = _ONE_SHOT.get((dtype, sums, self.ranks), [])
        fitting = [form for form in forms if form.is_ragged or is_one_piece or piece_bytes % 16 == 0]
        if not fitting:
            known = sorted({(str(kind), ranks) for kind, adds, ranks in _ONE_SHOT if adds == sums})
            raise TypeError(f"{about}: pieces have {piece_bytes} bytes of {dtype} on {self.ranks} ranks; there are kernels of {known}")
        return max(fitting, key=lambda form: (not form.is_ragged, form.chunk_bytes))

    def _made(self, x: torch.Tensor) -> _Staging:
        """Memory of all ranks, which is zeros before any of them uses it."""
        elements = MOST_CTAS * SLOTS * self.ranks * SLOT_BYTES // x.element_size()
        chunks, counts = (
            symmetric_memory.empty(count, dtype=dtype, device=x.device) for count, dtype in ((elements, x.dtype), (MOST_CTAS * MOST_RANKS, torch.int32))
        )
        chunks.zero_()
        counts.zero_()
        handles = tuple(symmetric_memory.rendezvous(tensor, self.group) for tensor in (chunks, counts))
        chunks_of, counts_of = (torch.tensor(list(handle.buffer_ptrs), dtype=torch.uint64, device=x.device) for handle in handles)
        epochs = torch.zeros(MOST_CTAS, dtype=torch.int32, device=x.device)
        late = torch.zeros(1, dtype=torch.int64, device=x.device)
        torch.cuda.synchronize(x.device)
        dist.barrier(self.group)
        self._staging[x.dtype] = _Staging(chunks, chunks_of, counts, counts_of, epochs, late, handles)
        return self._staging[x.dtype]
