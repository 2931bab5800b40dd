"""Collectives among the GPUs of one host, over the process groups and the symmetric memory of torch.

    from tilekit.kernels.collectives import Collectives
    collectives = Collectives()  # of the default group, one process a GPU
    y = collectives.all_reduce(x)

They need the wheel of the exported collectives: `cargo tilekit -p tilekit-kernels export --to python collectives`. Sums are taken in float32 in the order of ranks and
rounded once, so that all ranks have the same bits in every run. Few bytes go without signals, many in one step, or in two among more than two ranks, by the model of the Rust functions. Calls are put on the current stream and can be captured in a graph once one of their kind has run; the
number of the call lies in memory of the GPU.
"""

from __future__ import annotations

from typing import Any, Callable, NamedTuple

import torch
import torch.distributed as dist

from ._instances import TYPES, package
from ._ranks import MOST_RANKS, Ranks, RanksLate, shared

__all__ = ["Collectives", "RanksLate"]

# Of `kernels/src/collectives/exchange.rs`, `packets.rs`, `sentinel.rs` and `plan.rs`, from which the kernels are made.
SLOTS, SLOT_BYTES, MOST_CTAS = 4, 16384, 264
PACKETS, PACKET_SLOTS, MOST_PACKET_CTAS = 512, 2, 528
WORDS, SENTINEL_SLOTS = 512, 4
# Microseconds before the first byte of packets, one shot, two shots and sentinels in one step and in two, and bytes that a rank sends in one of them.
START_US, BYTES_PER_US = (2.6, 5.0, 9.0, 2.2, 3.2), 335000.0


class _Form(NamedTuple):
    """An instance of a kernel: what it is compiled for."""

    function: str
    is_two_shot: bool
    is_ragged: bool
    warps: int
    accesses: int
    kernel: Callable[..., None]

    @property
    def chunk_bytes(self) -> int:
        return self.warps * 32 * self.accesses * 16

    @property
    def packets(self) -> int:
        return self.warps * 32 * self.accesses


class _Plan(NamedTuple):
    """How a call is computed."""

    form: _Form
    ctas: int
    modelled_us: float


class _Staging(NamedTuple):
    """What kernels of one element type transfer data through."""

    chunks: torch.Tensor
    chunks_of: torch.Tensor
    counts: torch.Tensor
    counts_of: torch.Tensor
    epochs: torch.Tensor
    # While they live, so does the memory of the other ranks.
    handles: tuple[Any, ...]


class _Packets(NamedTuple):
    """The same of packets and sentinels, for all element types."""

    packets: torch.Tensor
    packets_of: torch.Tensor
    epochs: torch.Tensor
    handles: tuple[Any, ...]


def _instances() -> dict[tuple[torch.dtype, bool, int], list[_Form]]:
    """By element type, whether they add, and ranks."""
    found: dict[tuple[torch.dtype, bool, int], list[_Form]] = {}
    for kernel in vars(package).values():
        native = getattr(kernel, "kernel", None)
        function, _, constants = repr(native).removeprefix("<kernel ").partition("<")
        if function not in ("packets", "one_shot", "two_shot", "sentinel_sum"):
            continue
        element, _, *flag, form = constants.split(">")[0].split(", ")
        adds = function != "packets" and (function, flag) != ("one_shot", ["false"])
        shape, *flags = form.split("+")
        ranks, warps, accesses = map(int, shape.split("x"))
        is_two_shot = function == "two_shot" or (function, flag) == ("sentinel_sum", ["true"])
        instance = _Form(function, is_two_shot, "ragged" in flags, warps, accesses, kernel)
        found.setdefault((TYPES[element], adds, ranks), []).append(instance)
    return found


_FORMS = _instances()


class Collectives(Ranks):
    """Collectives of a process group whose ranks have a GPU of one host each. All ranks make the same calls in the same order, on one stream each.

    A kernel that waits for another rank for longer than `limit_seconds` ends by an error, and keeps no GPU: `synchronize` says for which rank. A call that is new on some ranks alone is an error on these after as long.
    """

    def __init__(self, group: dist.ProcessGroup | None = None, limit_seconds: float = 5.0) -> None:
        super().__init__("Collectives", group, limit_seconds)
        self._staging: dict[torch.dtype, _Staging] = {}
        self._packets: dict[tuple[str, bool], _Packets] = {}

    def waited_for(self, slot: int, missing: int) -> str:
        return f"rank {slot % MOST_RANKS} has not sent"

    def all_reduce(self, x: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
        """The sum of `x` over all ranks, which may be written over `x`."""
        return self._call("all_reduce", x, x.shape if out is None else out, True, x.numel(), 0)

    def reduce_scatter(self, x: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
        """Of the sum of `x` over all ranks the part of this rank, along the first dimension."""
        shape = self._part("reduce_scatter", x)
        return self._call("reduce_scatter", x, shape if out is None else out, True, shape.numel(), shape.numel())

    def all_gather(self, x: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
        """`x` of all ranks in their order, along the first dimension."""
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
        if not piece:
            return out
        bytes_ = piece * x.element_size()
        plan = self._plan(about, x, sums, bytes_, x_step == 0 and sums)
        self.agree(about, (x.numel(), str(x.dtype)))
        form = plan.form
        if form.function in ("packets", "sentinel_sum"):
            p = self._packets.get((form.function, form.is_two_shot)) or self._made_packets(form, x.device)
            words = [step * x.element_size() // 4 for step in (piece, x_step, piece)]
            words = words if form.function == "packets" else words[:2]
            form.kernel(x, out, p.packets, p.packets_of, p.epochs, self.limit_ns, self.late, self.rank, *words, grid=plan.ctas)
            return out
        s = self._staging.get(x.dtype) or self._made(x)
        memory = (s.chunks, s.chunks_of, s.counts, s.counts_of, s.epochs, self.limit_ns, self.late)
        steps = (piece, x_step, piece) if form.function == "one_shot" else (piece,)
        form.kernel(x, out, *memory, self.rank, *steps, grid=plan.ctas)
        return out

    def _plan(self, about: str, x: torch.Tensor, sums: bool, piece_bytes: int, is_one_piece: bool) -> _Plan:
        """Of the instances that take it, that with the least time by the model of the Rust functions (`kernels/src/collectives/plan.rs`)."""
        forms = _FORMS.get((x.dtype, sums, self.ranks), [])
        multiprocessors = torch.cuda.get_device_properties(x.device).multi_processor_count
        plans = [plan for form in forms if (plan := self._planned(about, form, piece_bytes, is_one_piece, multiprocessors))]
        if not plans:
            known = sorted({(str(kind), ranks) for kind, adds, ranks in _FORMS if adds == sums})
            raise TypeError(f"{about}: pieces have {piece_bytes} bytes of {x.dtype} on {self.ranks} ranks; there are kernels of {known}")
        # Of equal ones that which sends the most at once.
        return min(plans, key=lambda plan: (plan.modelled_us, plan.form.is_ragged, -plan.form.chunk_bytes))

    def _planned(self, about: str, form: _Form, piece_bytes: int, is_one_piece: bool, multiprocessors: int) -> _Plan | None:
        if not (form.is_ragged or is_one_piece or piece_bytes % 16 == 0):
            return None
        others = self.ranks - 1
        if form.is_two_shot and (about != "all_reduce" or self.ranks < 2):
            return None
        sent = 2 * piece_bytes * others / self.ranks if form.is_two_shot else piece_bytes * others
        if form.function in ("packets", "sentinel_sum"):
            is_sum = form.function == "sentinel_sum"
            of_cta = (8 if is_sum else 4) * form.packets * (self.ranks if form.is_two_shot else 1)
            ctas = -(-piece_bytes // of_cta)
            # Sums of words of 64 bits also end at a multiple of 16 bytes where they are not ragged.
            is_whole = piece_bytes % (16 if is_sum and not form.is_ragged else 4) == 0
            if not is_whole or ctas > min(MOST_PACKET_CTAS, 4 * multiprocessors):
                return None
            start, sent = (START_US[4 if form.is_two_shot else 3], sent) if is_sum else (START_US[0], 2 * sent)
            return _Plan(form, ctas, start + sent / BYTES_PER_US)
        most = min(MOST_CTAS, 2 * multiprocessors)
        if form.function == "one_shot":
            ctas = min(-(-piece_bytes // form.chunk_bytes), most)
            return _Plan(form, ctas, START_US[1] + sent / BYTES_PER_US)
        if self.ranks < 3:
            return None
        ctas = min(-(-piece_bytes // (form.chunk_bytes * self.ranks)), most)
        return _Plan(form, ctas, START_US[2] + sent / BYTES_PER_US)

    def _made(self, x: torch.Tensor) -> _Staging:
        """Memory of all ranks, which is zeros before any of them uses it."""
        elements = MOST_CTAS * SLOTS * self.ranks * SLOT_BYTES // x.element_size()
        own, of_ranks, handles = shared(self.group, x.device, (elements, x.dtype), (MOST_CTAS * MOST_RANKS, torch.int32))
        epochs = torch.zeros(MOST_CTAS, dtype=torch.int32, device=x.device)
        self._staging[x.dtype] = _Staging(own[0], of_ranks[0], own[1], of_ranks[1], epochs, handles)
        return self._staging[x.dtype]

    def _made_packets(self, form: _Form, device: torch.device) -> _Packets:
        if form.function == "packets":
            count, epochs = MOST_PACKET_CTAS * PACKET_SLOTS * self.ranks * PACKETS, MOST_PACKET_CTAS
        else:
            steps = 2 if form.is_two_shot else 1
            count, epochs = MOST_PACKET_CTAS * SENTINEL_SLOTS * self.ranks * steps * WORDS, MOST_PACKET_CTAS * WORDS
        own, of_ranks, handles = shared(self.group, device, (count, torch.int64))
        made = _Packets(own[0].view(torch.uint64), of_ranks[0], torch.zeros(epochs, dtype=torch.int32, device=device), handles)
        self._packets[form.function, form.is_two_shot] = made
        return made
