"""Matrix products over the GPUs of one host, each in one kernel with the collective in front of it or behind, over the process groups and the symmetric memory of torch.

    from tilekit.kernels.parallel import Parallel
    parallel = Parallel()                            # of the default group, one process a GPU
    h = parallel.all_gather_matmul(x, up)            # x[m, k] of each rank, up[n, k]: [ranks * m, n]
    y = parallel.matmul_reduce_scatter(h, down)      # h[ranks * m, k], down[n, k]: the rows [m, n] of this rank of the sum
    z = parallel.matmul_all_reduce(h, down)          # h[m, k], down[n, k]: the whole sum [m, n], for few rows in one kernel
    h = parallel.all_gather_matmul(x, up, bias=b, activation="gelu")
    y = parallel.matmul_reduce_scatter(h, down, residual=r)

They need the wheel of the exported products: `cargo tilekit -p tilekit-kernels export --to python parallel`. Elements are bfloat16 or float16. A weight is as `torch.nn.Linear` has it, `[n, k]`. Results are `activation(sum + bias + residual)`,
once for the sum over all ranks: `bias` has n numbers, `residual` the shape of the result, and the activation is "relu", "gelu" (by tanh) or "silu". Calls are put on the current stream, and can be captured
in a graph once one of their shapes has run; the number of the launch lies in memory of the GPU. No gradients are recorded.
"""

from __future__ import annotations

from typing import Any, Callable, NamedTuple

import torch
import torch.distributed as dist

from ._instances import TYPES, UNIT, package
from ._ranks import MOST_RANKS, Ranks, RanksLate, shared
from .collectives import BYTES_PER_US

__all__ = ["Parallel", "RanksLate"]

# Of `kernels/src/parallel`: elements of K in a step, steps that a flag stands for, rows of a tile that packets go for, slots of packets, rows and columns of a wave of tiles.
DEPTH, SEGMENT, PACKET_ROWS, PACKET_SLOTS = 64, 8, 64, 2
# The activations of the epilogue `Chosen`, by their numbers.
_ACTIVATIONS = ("none", "relu", "gelu", "silu")
# Of the time until it is needed, the part over which sending is spread and the part in which all has to be sent, microseconds of a piece besides, and operations in a microsecond.
_SENDING, _LATEST, _PIECE_US, _OPERATIONS_PER_US = 0.6, 0.9, 1.3, 650e6


class _Tile(NamedTuple):
    """An instance of a kernel: warpgroups, or CTAs of a cluster, rows of each, columns and stages of its tile."""

    groups: int
    rows: int
    columns: int
    stages: int
    kernel: Callable[..., None]


class _Memory(NamedTuple):
    """What all ranks access."""

    parts: list[torch.Tensor]
    of_ranks: list[torch.Tensor]
    handles: tuple[Any, ...]


class _Added(NamedTuple):
    """What an epilogue does with a sum."""

    bias: torch.Tensor | None
    residual: torch.Tensor | None
    activation: str | None

    @property
    def is_plain(self) -> bool:
        return self.bias is None and self.residual is None and self.activation is None


def _instances() -> dict[tuple[str, torch.dtype, int, bool], list[_Tile]]:
    """By kernel, element type, of one shot ranks, and whether results are the sums as they are; otherwise bias, residual and activation are what the call says (`Chosen`)."""
    found: dict[tuple[str, torch.dtype, int, bool], list[_Tile]] = {}
    for kernel in vars(package).values():
        native = getattr(kernel, "kernel", None)
        function, _, constants = repr(native).removeprefix("<kernel ").partition("<")
        words = constants.split(">")[0].split(", ")
        if function not in ("gather_product", "product_scatter", "product_one_shot") or words[1] not in ("Plain", "Chosen"):
            continue
        shape, *flags = words[-1].split("+")
        of_ranks = [int(flag.removesuffix("_ranks")) for flag in flags if flag.endswith("_ranks")]
        # Operands are contiguous along K.
        if any("along" in flag for flag in flags):
            continue
        name = function + ("_to_all" if "true" in words else "")
        key = (name, TYPES[words[0]], of_ranks[0] if of_ranks else 0, words[1] == "Plain")
        found.setdefault(key, []).append(_Tile(*map(int, shape.split("x")), kernel))
    return found


_TILES = _instances()


def _cdiv(x: int, y: int) -> int:
    return -(-x // y)


class Parallel(Ranks):
    """Products of a process group whose ranks have a GPU of one host each. All ranks make the same calls, with the same shapes, in the same order, on one stream each.

    A kernel that waits for another rank for longer than `limit_seconds` ends by an error, and keeps no GPU: `synchronize` says for which rank. A call that is new on some ranks alone is an error on these after as long.
    """

    def __init__(self, group: dist.ProcessGroup | None = None, limit_seconds: float = 5.0) -> None:
        super().__init__("Parallel", group, limit_seconds)
        self._memory: dict[Any, _Memory] = {}
        self._launches: torch.Tensor | None = None
        # Biases of zeros with the number of an activation behind them, and rows of zeros.
        self._nothing: dict[Any, torch.Tensor] = {}

    def waited_for(self, slot: int, missing: int) -> str:
        if slot < MOST_RANKS:
            return f"rank {slot} has not begun the launch, or not sent its part of few rows ({missing} missing)"
        return f"a part of another rank has not arrived (flag {slot - MOST_RANKS}, {missing} missing)"

    def all_gather_matmul(
        self, x: torch.Tensor, weight: torch.Tensor, *, bias: torch.Tensor | None = None, residual: torch.Tensor | None = None, activation: str | None = None
    ) -> torch.Tensor:
        """`gathered(x) @ weight.T`: the rows of all ranks, in their order, times this rank's weight."""
        about, added = "all_gather_matmul", _Added(bias, residual, activation)
        m, n, k = self._check(about, x, weight)
        out = x.new_empty(self.ranks * m, n)
        added = self._finished(about, x, weight, added, out)
        if out.numel() == 0:
            return out
        tile = self._tile(about, "gather_product", x.dtype, added, [m, n])
        blocks, steps = _cdiv(m, tile.groups * tile.rows), _cdiv(k, DEPTH)
        others = self.ranks - 1
        elements = others * blocks * steps * tile.groups * tile.rows * DEPTH
        flags = MOST_RANKS + others * blocks * _cdiv(steps, SEGMENT)
        self._launch(tile, (x, x, weight), out.view(self.ranks, m, n), added, (elements, flags), (m, n, k), others * _cdiv(m, 64) * steps, 2 * others * m * k, True)
        return out

    def matmul_reduce_scatter(
        self, x: torch.Tensor, weight: torch.Tensor, *, bias: torch.Tensor | None = None, residual: torch.Tensor | None = None, activation: str | None = None
    ) -> torch.Tensor:
        """Of the sum of `x @ weight.T` over all ranks the rows of this rank."""
        about, added = "matmul_reduce_scatter", _Added(bias, residual, activation)
        rows, n, k = self._check(about, x, weight)
        m = self._divided(about, rows)
        out = x.new_empty(m, n)
        added = self._finished(about, x, weight, added, out)
        if out.numel():
            self._add("product_scatter", about, x, weight, out.view(1, m, n), added, 1)
        return out

    def matmul_all_reduce(
        self, x: torch.Tensor, weight: torch.Tensor, *, bias: torch.Tensor | None = None, residual: torch.Tensor | None = None, activation: str | None = None
    ) -> torch.Tensor:
        """The sum of `x @ weight.T` over all ranks: the same bits on all of them. Few rows are summed by one kernel without signals, for which there are kernels of 2, 4 and 8 ranks; more of them are copied where they are no multiple of the ranks."""
        about, added = "matmul_all_reduce", _Added(bias, residual, activation)
        rows, n, k = self._check(about, x, weight)
        out = x.new_empty(rows, n)
        added = self._finished(about, x, weight, added, out)
        if out.numel() == 0:
            return out
        tile = self._few(x, added, rows, n)
        if tile is None:
            m = _cdiv(rows, self.ranks)
            more = m * self.ranks - rows
            x = torch.nn.functional.pad(x, (0, 0, 0, more)) if more else x
            whole = x.new_empty(m * self.ranks, n) if more else out
            if more and added.residual is not None:
                added = added._replace(residual=torch.nn.functional.pad(added.residual, (0, 0, 0, more)))
            self._add("product_scatter_to_all", about, x, weight, whole.view(self.ranks, m, n), added, 2)
            return whole[:rows]
        tiles = _cdiv(n, PACKET_ROWS) * _cdiv(rows, tile.columns)
        needed = PACKET_SLOTS * self.ranks * tiles * (PACKET_ROWS // 2) * tile.columns
        memory = self._enough("packets", x.device, (needed, torch.int64))
        launches = self._count(x.device)
        packets = memory.parts[0]
        slot = packets.numel() // PACKET_SLOTS
        numbers = (self.limit_ns, self.late, self.rank, rows, n, k)
        tile.kernel(weight, x, out, n, *self._operands(added, out, n), packets.view(torch.uint64), memory.of_ranks[0], slot, launches, *numbers, grid=tiles * tile.groups)
        return out

    def _few(self, x: torch.Tensor, added: _Added, rows: int, n: int) -> _Tile | None:
        """The instance whose CTAs are resident at a time, for as few columns as hold all rows."""
        found = _TILES.get(("product_one_shot", x.dtype, self.ranks, self._is_plain(x.dtype, added)), [])
        multiprocessors = torch.cuda.get_device_properties(x.device).multi_processor_count
        fitting = [tile for tile in found if tile.groups == 1 and rows <= tile.columns and _cdiv(n, PACKET_ROWS) <= multiprocessors]
        return min(fitting, key=lambda tile: (tile.columns, -tile.stages), default=None)

    def _add(self, name: str, about: str, x: torch.Tensor, weight: torch.Tensor, out: torch.Tensor, added: _Added, times: int) -> None:
        (rows, k), n = x.shape, weight.shape[0]
        m = rows // self.ranks
        tile = self._tile(about, name, x.dtype, added, [m, n])
        tiles = (self.ranks - 1) * _cdiv(m, tile.groups * tile.rows) * _cdiv(n, tile.columns)
        sizes = (times * tiles * tile.groups * tile.rows * tile.columns, MOST_RANKS + times * tiles * tile.groups)
        self._launch(tile, (x.view(self.ranks, m, k), weight), out, added, sizes, (m, n, k), tiles * 8, 2 * times * (self.ranks - 1) * m * n, False)

    def _launch(self, tile: _Tile, factors: tuple[torch.Tensor, ...], out: torch.Tensor, added: _Added, sizes: tuple[int, int], size: tuple[int, int, int], rests: int, sent_bytes: int, is_gathered: bool) -> None:
        """As `Planned::best` of `kernels/src/parallel/plan.rs`: the fewest CTAs with as many waves, and rests that spread what is sent."""
        x, (m, n, k) = factors[0], size
        multiprocessors = torch.cuda.get_device_properties(x.device).multi_processor_count
        of_one = _cdiv(m, tile.groups * tile.rows) * _cdiv(n, tile.columns)
        waves = _cdiv(of_one * self.ranks, multiprocessors)
        ctas = _cdiv(of_one * self.ranks, waves)
        pause = 0
        if rests and of_one >= ctas:
            until_needed = 2 * (self.ranks - 1) * m * n * k / _OPERATIONS_PER_US
            link_us, of_cta = sent_bytes / BYTES_PER_US, _cdiv(rests, ctas)
            left = until_needed * _LATEST - link_us
            spread = min(until_needed * _SENDING, left) if of_one >= 2 * ctas else 0
            resting = max(spread, link_us - of_cta * _PIECE_US) if is_gathered else spread
            pause = int(max(resting, 0) * 1e3 / of_cta)
            # A link that is busy all the time: a warp waits until each piece of a sum is stored.
            pause = pause if is_gathered or left > 0 else -1
        memory = self._enough("tiles", x.device, (max(sizes[0], 1), x.dtype), (sizes[1], torch.int64))
        launches = self._count(x.device)
        (elements, flags), (elements_of, flags_of) = memory.parts, memory.of_ranks
        numbers = (self.limit_ns, self.late, self.rank, self.ranks, m, n, k, pause)
        tile.kernel(*factors, out, *self._operands(added, out, n), elements, elements_of, flags, flags_of, launches, *numbers, grid=ctas)

    def _tile(self, about: str, name: str, dtype: torch.dtype, added: _Added, shape: list[int]) -> _Tile:
        found = _TILES.get((name, dtype, 0, self._is_plain(dtype, added)), [])
        if not found:
            known = sorted({str(kind) for known, kind, _, _ in _TILES if known == name})
            raise TypeError(f"{about}: elements are of {dtype}; there are kernels of {known or 'no type: the wheel has no products over ranks'}")
        wide = shape[0] * shape[1] * self.ranks >= 1 << 21
        widest = [tile for tile in found if tile.groups == 2 and (tile.columns == 256) == wide and tile.columns > 64]
        return max(widest or found, key=lambda tile: (tile.columns * tile.groups, tile.stages))

    @staticmethod
    def _is_plain(dtype: torch.dtype, added: _Added) -> bool:
        """Sums of bfloat16 have kernels of their own; all others are finished as the call says, if only by adding zeros."""
        return added.is_plain and dtype == torch.bfloat16

    def _operands(self, added: _Added, out: torch.Tensor, n: int) -> tuple[torch.Tensor, int, torch.Tensor]:
        """Source, its pitch and bias as kernels take them: with the number of the activation behind the bias, and one row of zeros for what is not added."""
        if self._is_plain(out.dtype, added):
            return out, n, out  # nothing reads them
        number = _ACTIVATIONS.index(added.activation or "none")
        key = (out.dtype, n, number)
        if key not in self._nothing:
            zeros = torch.zeros(n + UNIT, dtype=out.dtype, device=out.device)
            zeros[n] = number
            self._nothing[key] = zeros
        nothing = self._nothing[key]
        bias = nothing if added.bias is None else torch.cat([added.bias, nothing[n:]])
        if added.residual is None:
            return self._operands_of_none(out, n), 0, bias
        return added.residual, n, bias

    def _operands_of_none(self, out: torch.Tensor, n: int) -> torch.Tensor:
        key = (out.dtype, n, None)
        if key not in self._nothing:
            self._nothing[key] = torch.zeros(n, dtype=out.dtype, device=out.device)
        return self._nothing[key]

    def _finished(self, about: str, x: torch.Tensor, weight: torch.Tensor, added: _Added, out: torch.Tensor) -> _Added:
        """Bias and residual as the result wants them, of a call on which all ranks agree."""
        for name, tensor, shape in (("bias", added.bias, out.shape[1:]), ("residual", added.residual, out.shape)):
            if tensor is None:
                continue
            if tensor.shape != shape or tensor.dtype != out.dtype or tensor.device != out.device:
                raise ValueError(f"{about}: {name} is {tensor.dtype} of {tuple(tensor.shape)} on {tensor.device}; it must be {out.dtype} of {tuple(shape)} on {out.device}")
        if added.activation is not None and added.activation not in _ACTIVATIONS:
            raise ValueError(f"{about}: activation is {added.activation!r}; it must be None or one of {', '.join(_ACTIVATIONS)}")
        finish = (added.bias is not None, added.residual is not None, added.activation or "none")
        self.agree(about, (tuple(x.shape), tuple(weight.shape), str(x.dtype), finish))
        bias, residual = (None if tensor is None else tensor.contiguous() for tensor in (added.bias, added.residual))
        return added._replace(bias=bias, residual=residual)

    def _divided(self, about: str, rows: int) -> int:
        if rows % self.ranks:
            raise ValueError(f"{about}: x has {rows} rows; their number must be a multiple of the {self.ranks} ranks")
        return rows // self.ranks

    def _check(self, about: str, x: torch.Tensor, weight: torch.Tensor) -> tuple[int, int, int]:
        if x.dim() != 2 or weight.dim() != 2 or x.shape[1] != weight.shape[1]:
            raise ValueError(f"{about}: x has shape {tuple(x.shape)} and weight {tuple(weight.shape)}; they must be (m, k) and (n, k)")
        if x.dtype != weight.dtype or x.device != weight.device:
            raise TypeError(f"{about}: x is {x.dtype} on {x.device}, and weight {weight.dtype} on {weight.device}; they must be alike")
        if not (x.is_contiguous() and weight.is_contiguous()):
            raise ValueError(f"{about}: x or weight has gaps; pass x.contiguous() and weight.contiguous()")
        (m, k), n = x.shape, weight.shape[0]
        if n % UNIT or k % UNIT or k == 0:
            raise ValueError(f"{about}: weight has shape {tuple(weight.shape)}; both extents must be multiples of {UNIT}: pad them")
        return m, n, k

    def _count(self, device: torch.device) -> torch.Tensor:
        """The number of launches."""
        if self._launches is None:
            self._launches = torch.zeros(1, dtype=torch.int64, device=device).view(torch.uint64)
        return self._launches

    def _enough(self, name: str, device: torch.device, *parts: tuple[int, torch.dtype]) -> _Memory:
        """Memory of so much or more. What is not enough is replaced, on all ranks together, since their shapes are the same; graphs keep what they were captured with."""
        key = (name, *(dtype for _, dtype in parts))
        known = self._memory.get(key)
        if known and all(tensor.numel() >= count for tensor, (count, _) in zip(known.parts, parts)):
            return known
        sizes = [count if not known else max(count, tensor.numel()) for tensor, (count, _) in zip(known.parts if known else [None] * len(parts), parts)]
        torch.cuda.synchronize(device)
        made = _Memory(*shared(self.group, device, *((size, dtype) for size, (_, dtype) in zip(sizes, parts))))
        self._memory.setdefault(("replaced", len(self._memory)), known) if known else None
        self._memory[key] = made
        return made
