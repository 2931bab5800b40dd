#!/usr/bin/env python3
"""Products with weights of 4 bits of the crate `kernels` beside torch's, of bf16 by cuBLAS and of 4 bits (`_weight_int4pack_mm`), and of many rows beside its product of bf16, interleaved in one
process.

    python3 bench/peers/weight_only.py ARTEFACTS [--shapes 16x4096x14336,..] [--ours TEXT,TEXT] [--rounds N] [--singles N] [--json FILE] [--check]

ARTEFACTS is the folder that `cargo tilekit -p tilekit-kernels build weight_only dense --emit cubin` names. Each shape is M x N x K, of groups of 128 without zeros. Every result is compared with
a product in float64 of the decoded weights, on poisoned outputs. The bound is the bytes of weights, scales, activations and results at 4.6 TB/s, and 1.7 us.
"""

import json
import statistics
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent))
from contest import Contestant, copies, enter, fill, hold, ratio, relative_error
from cuda_driver import Function, Launch
from manifest import launch_spec
from shapes import each, parser_of, record

PREFIX = "weight_only_few-bf16-bf16-Plain-"
MANY_PREFIX = "weight_only_many-bf16-bf16-Plain-"
DENSE = "dense-bf16-bf16-Plain-2x64x256x4"
SMS = 132
SHAPES = ",".join(f"{m}x{n}" for n in ("4096x14336", "8192x8192") for m in (1, 8, 16, 32, 64))
STRIP, STEP, GROUP, BASE = 64, 128, 128, 128


def packed(q):
    """Words of weights `[N, K]` from 0 to 15, as the crate packs them."""
    n, k = q.shape
    q = torch.nn.functional.pad(q, (0, -k % STEP, 0, -n % STRIP)).to(torch.int64)
    # Rows: strip, warp, half, row of a lane. Along K: block, chunk, part, half, pair, element.
    q = q.view(-1, 4, 2, 8, q.shape[1] // STEP, 2, 4, 2, 4, 2).permute(0, 4, 5, 1, 3, 8, 6, 9, 7, 2)
    nibbles = q.reshape(*q.shape[:7], 8)
    words = (nibbles << (4 * torch.arange(8, device=q.device))).sum(-1)
    return (words - ((words >> 31) << 32)).to(torch.int32).reshape(-1)


def packed_scales(scales):
    """Scales `[N, groups]`, as the crate packs them."""
    n = scales.shape[0]
    scales = torch.nn.functional.pad(scales, (0, 0, 0, -n % STRIP))
    return scales.view(-1, 4, 2, 8, scales.shape[1]).permute(0, 4, 1, 3, 2).contiguous().view(-1)


class Set:
    """The tensors of one launch."""

    def __init__(self, m, n, k):
        self.x = torch.randn(m, k, device="cuda", dtype=torch.bfloat16)
        self.q = torch.randint(0, 16, (n, k), device="cuda", dtype=torch.uint8)
        self.own = (torch.rand(n, -(-k // GROUP), device="cuda") / 64 + 1 / 64).to(torch.bfloat16)
        self.words, self.scales = packed(self.q), packed_scales(self.own)
        self.out = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
        self.data_source = self.data_bias = self.data_scales_0 = self.data_scales_1 = self.y = self.c = self.out
        self.a = self.x

    def decoded(self, dtype):
        spread = self.own.to(dtype).repeat_interleave(GROUP, 1)[:, :self.q.shape[1]]
        return (self.q.to(dtype) - 8) * spread

    def reference(self):
        return self.x.double() @ self.decoded(torch.float64).t()


def ours(folder, stem, sets):
    kernel = json.loads((folder / f"{stem}.json").read_text())
    (m, k), n = sets[0].x.shape, sets[0].q.shape[0]
    ctas, groups, _, columns, _ = [int(x) for x in stem[len(PREFIX):].split("-")[0].split("x")]
    numbers = {"m": m, "n": n, "k": k, "stride": n, "data": {"alpha": 1.0, "beta": 0.0, "source_pitch": n, "source_batch": 0}}
    grid = [-(-n // (groups * STRIP)) * ctas, -(-m // columns), 1]
    spec = launch_spec(kernel, f"{stem}.cubin", grid, numbers, {})
    function = Function(folder / spec["cubin"], spec["entry"], spec["shared_bytes"], spec["cluster"])
    return [Launch(function, spec, vars(s)) for s in sets]


def programs_of(m, n, rows, columns):
    """The fewest with as many waves, as the plan says."""
    tiles = -(-n // rows) * -(-m // columns)
    return -(-tiles // -(-tiles // SMS))


def launches(folder, stem, sets, rows, columns):
    """Those of a persistent kernel."""
    kernel = json.loads((folder / f"{stem}.json").read_text())
    (m, k), n = sets[0].x.shape, sets[0].q.shape[0]
    numbers = {"m": m, "n": n, "k": k, "batches": 1, "data": {"alpha": 1.0, "beta": 0.0, "source_pitch": n, "source_batch": 0}}
    spec = launch_spec(kernel, f"{stem}.cubin", [programs_of(m, n, rows, columns), 1, 1], numbers, {})
    function = Function(folder / spec["cubin"], spec["entry"], spec["shared_bytes"], spec["cluster"])
    return [Launch(function, spec, vars(s)) for s in sets]


def many(folder, stem, sets):
    groups, columns, _ = [int(x) for x in stem[len(MANY_PREFIX):].split("-")[0].split("x")]
    return launches(folder, stem, sets, groups * STRIP, columns)


def dense(folder, sets):
    """Our product of bf16."""
    for s in sets:
        s.b = s.decoded(torch.bfloat16)
    return launches(folder, DENSE, sets, 256, 128)


def of_cublas(sets):
    weights = [s.decoded(torch.bfloat16).t() for s in sets]
    return [lambda s=s, w=w: torch.matmul(s.x, w, out=s.out) for s, w in zip(sets, weights)]


def of_torch(sets):
    """torch's own product with weights of 4 bits; its results are new tensors."""
    calls = []
    for s in sets:
        both = (s.q[:, ::2] << 4 | s.q[:, 1::2]).contiguous()
        weights = torch._convert_weight_to_int4pack(both, 8)
        scales_and_zeros = torch.stack([s.own, torch.zeros_like(s.own)], -1).transpose(0, 1).contiguous()
        calls.append(lambda s=s, w=weights, z=scales_and_zeros: s.out.copy_(torch._weight_int4pack_mm(s.x, w, GROUP, z)))
    return calls


def checked(contestant, first, want):
    """Whether the first set's result is right."""
    fill(first.out)
    contestant.calls[0]()
    torch.cuda.synchronize()
    error = relative_error(first.out, want)
    if not error < 6e-3:
        print(f"WRONG {contestant.name}: relative error {error:.1e}", flush=True)
    return error < 6e-3


def ways_for(m, sets, options):
    """Tiles for this number of rows: of few the narrowest that holds them all."""
    columns = next((c for c in (8, 16, 32) if m <= c), 64)
    asked = [x for x in options.ours.split(",") if x]
    prefix = PREFIX if m <= 128 else MANY_PREFIX
    stems = [p.stem for p in sorted(options.artefacts.glob(f"{prefix}*int4_of_128*.json"))]
    stems = [s for s in stems if "zeros" not in s and (m > 128 or int(s[len(PREFIX):].split("-")[0].split("x")[3]) == columns)]
    stems = [s for s in stems if not asked or any(x in s for x in asked)]
    make = ours if m <= 128 else many
    ways = [(stem[len(prefix):], lambda stem=stem: make(options.artefacts, stem, sets)) for stem in stems]
    if options.check:
        return ways
    ways += [("cublas bf16", lambda: of_cublas(sets))]
    return ways + [("torch int4", lambda: of_torch(sets))] if m <= 128 else ways + [("dense bf16", lambda: dense(options.artefacts, sets))]


def contest(shape, options):
    m, n, k = [int(x) for x in shape.split("x")]
    nbytes = n * k // 2 + 2 * n * k // GROUP + 2 * m * (n + k)
    bound = nbytes / 4.6e6 + 1.7
    sets = [Set(m, n, k) for _ in range(1 if options.check else min(12, copies(nbytes)))]
    want = sets[0].reference()
    ways = ways_for(m, sets, options)
    held = [c for c in (enter(shape, name, lambda: Contestant(name, make(), options.batch_ms, graph_below_ms=20.0)) for name, make in ways) if c]
    held = [c for c in held if checked(c, sets[0], want)]
    if options.check:
        print(f"{shape}: {len(held)} of {len(ways)} right", flush=True)
        return
    hold(held, options.rounds, 0.0, singles=options.singles)
    last = next((c for c in held if c.name == "dense bf16"), next((c for c in held if c.name == "cublas bf16"), held[-1]))
    for c in held:
        one, many = statistics.median(c.single_us), statistics.median(c.back_to_back_us)
        beside = f"{ratio(last.single_us, c.single_us):.2f} {ratio(last.back_to_back_us, c.back_to_back_us):.2f}"
        print(f"{shape:16s} {c.name:36s} {one:7.2f} us, {one / bound:.2f} of the bound | {many:7.2f} us, {many / bound:.2f} | {last.name} over it {beside}", flush=True)
        record(options, c, shape=shape)


def main():
    parser = parser_of(__doc__, SHAPES, 10.0)
    parser.add_argument("--ours", default="", help="tiles whose file name contains one of these comma-separated texts")
    options = parser.parse_args()
    each(options, contest)


if __name__ == "__main__":
    main()
