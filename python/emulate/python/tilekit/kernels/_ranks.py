"""What calls of several ranks share: memory that all of them access, agreement on what is called, and what a wait past its limit had waited for."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symmetric_memory

#: Ranks that a slot of a wait tells apart (`kernels/src/parallel/mail.rs`, `kernels/src/collectives/form.rs`).
MOST_RANKS = 16


class RanksLate(RuntimeError):
    """A rank has not come to a call within the limit, or a kernel has waited for it past the limit."""


def shared(group: dist.ProcessGroup, device: torch.device, *parts: tuple[int, torch.dtype]) -> tuple[list[torch.Tensor], list[torch.Tensor], tuple[Any, ...]]:
    """Zeros of each rank that all ranks of the group access: this rank's, the addresses of all ranks', and what keeps them. All ranks call it together."""
    own = [symmetric_memory.empty(count, dtype=dtype, device=device) for count, dtype in parts]
    for tensor in own:
        tensor.zero_()
    try:
        handles = tuple(symmetric_memory.rendezvous(tensor, group) for tensor in own)
    except RuntimeError as error:
        raise RuntimeError(f"the ranks of the process group have no symmetric memory, which takes one GPU of one host for each: {error}") from error
    addresses = [torch.tensor(list(handle.buffer_ptrs), dtype=torch.uint64, device=device) for handle in handles]
    torch.cuda.synchronize(device)
    dist.barrier(group)
    return own, addresses, handles


class _Word:
    """An int64 in pinned memory of the host, which outlives a context that a trap has ended. Kernels take it as memory of the GPU."""

    def __init__(self) -> None:
        self._word = torch.zeros(1, dtype=torch.int64, pin_memory=True)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        # The stream on which it may be used, 1 for the legacy default one.
        stream = torch.cuda.current_stream().cuda_stream or 1
        return {"data": (self._word.data_ptr(), False), "shape": (1,), "typestr": "<i8", "strides": None, "stream": stream, "version": 3}

    def read(self) -> int:
        return int(self._word[0])


class Ranks:
    """The ranks of a process group that make the same calls in the same order, through one object on each of them."""

    #: Objects that a group has, by its name: the next one has this number on all ranks.
    _counts: dict[str, int] = {}

    def __init__(self, about: str, group: dist.ProcessGroup | None, limit_seconds: float) -> None:
        self.group = dist.group.WORLD if group is None else group
        self.rank, self.ranks = dist.get_rank(self.group), dist.get_world_size(self.group)
        if self.ranks > MOST_RANKS:
            raise ValueError(f"{about}: the group has {self.ranks} ranks; there are kernels for up to {MOST_RANKS}")
        self.limit_seconds = limit_seconds
        self.late = _Word()
        number = self._counts.get(self.group.group_name, 0)
        self._counts[self.group.group_name] = number + 1
        self._store = dist.PrefixStore(f"tilekit/{about}/{self.group.group_name}/{number}", dist.distributed_c10d._get_default_store())
        self._agreed: set[Any] = set()
        #: Calls that were new, and so posted to the other ranks.
        self._posted = 0

    @property
    def limit_ns(self) -> int:
        return int(self.limit_seconds * 1e9)

    def agree(self, about: str, what: Any) -> None:
        """Compares what the ranks pass: each call that is new here is posted to all ranks, and has to be new on all of them."""
        if (about, what) in self._agreed:
            return
        if torch.cuda.is_current_stream_capturing():
            raise RuntimeError(f"{about}: a call of {what} is captured before one has run; make it once before")
        own, number = repr((about, what)), self._posted
        self._posted += 1
        self._store.set(f"{number}/{self.rank}", own)
        try:
            self._store.wait([f"{number}/{rank}" for rank in range(self.ranks)], timedelta(seconds=self.limit_seconds))
        except RuntimeError as error:
            absent = [rank for rank in range(self.ranks) if not self._store.check([f"{number}/{rank}"])]
            if not absent:
                raise
            raise RanksLate(
                f"{about}: rank {self.rank} passes {what} for the first time, and no call that is new there has come from {_listed(absent)} within {self.limit_seconds} s: it is late, "
                "or makes a call that it has made before; all ranks make the same calls"
            ) from error
        for rank in range(self.ranks):
            passed = self._store.get(f"{number}/{rank}").decode()
            if passed != own:
                raise ValueError(f"{about}: rank {rank} passes {passed}, and rank {self.rank} {own}; all ranks make the same calls")
        self._agreed.add((about, what))

    def synchronize(self) -> None:
        """Waits for the current stream, and says what a kernel had waited for that ended by its limit."""
        try:
            torch.cuda.current_stream().synchronize()
        except RuntimeError as error:
            word = self.late.read()
            if word == 0:
                raise
            slot, missing = word >> 32, word & 0xFFFF_FFFF
            raise RanksLate(f"rank {self.rank} waited past {self.limit_seconds} s: {self.waited_for(slot, missing)}{self._others()}. This process has no use of its GPU any more") from error

    def waited_for(self, slot: int, missing: int) -> str:
        """What a slot of a wait stands for."""
        raise NotImplementedError

    def _others(self) -> str:
        """Calls that are new on other ranks, and not here."""
        number = self._posted
        found = [(rank, f"{number}/{rank}") for rank in range(self.ranks) if rank != self.rank]
        told = [f"rank {rank} makes the call {self._store.get(key).decode()}, which this one has not made" for rank, key in found if self._store.check([key])]
        return "".join(f"; {each}" for each in told)


def _listed(ranks: list[int]) -> str:
    return ("rank " if len(ranks) == 1 else "ranks ") + ", ".join(map(str, ranks))
