#!/usr/bin/env python3
"""fp8 products with scales of 1x128 and 128x128 of the crate `kernels` beside DeepGEMM and cublasLt (one scale a tensor), interleaved in one process.

    python3 bench/peers/block_scaled.py ARTEFACTS [--shapes 8192x8192x8192,..] [--ours TEXT,TEXT] [--rounds N] [--singles N] [--json FILE] [--check]

ARTEFACTS is the folder that `cargo tilekit -p tilekit-kernels build block_scaled --emit cubin` names. DeepGEMM is entered where it can be imported; it
compiles its kernels at their first use (`--warm` does that alone). Each shape is M x N x K; factors are N(0, 1), quantised. Every result is compared with a
product in float64 of the dequantised factors, on poisoned outputs. Ratios are DeepGEMM's time over ours: the median over the rounds. A shape of four numbers, G x M x N x K, is
a product of G groups of M rows each, which are contiguous. DeepGEMM is entered a second time with its launches overlapped (`set_pdl`), as ours are. Tiles whose steps along K a cluster shares are
entered up to 256 rows.
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

try:
    import deep_gemm
except Exception as error:  # a peer that is not there leaves ours
    deep_gemm = None
    print(f"no DeepGEMM: {type(error).__name__} {str(error)[:200]}", flush=True)

PREFIX = "block_scaled-E4m3-bf16-"
FEW_PREFIX = "block_scaled_few_tiles-E4m3-bf16-"
GROUPED_PREFIX = "block_scaled_grouped-E4m3-bf16-"
FEW_ROWS = 256
SHAPES = "8192x8192x8192,4096x7168x16384,4096x4096x7168,4096x24576x1536,4096x32768x512,4096x7168x2048,4096x2112x7168"
BLOCK = 128
SMS = 132
LARGEST = 448.0


def blocks_of(x, rows):
    """`x` in blocks of `rows` by 128, padded with zeros: values in e4m3 and a scale for each block."""
    m, k = x.shape
    padded = torch.nn.functional.pad(x.float(), (0, -k % BLOCK, 0, -m % rows))
    cut = padded.view(padded.shape[0] // rows, rows, -1, BLOCK)
    scale = (cut.abs().amax(dim=(1, 3), keepdim=True).clamp(1e-4) / LARGEST)
    values = (cut / scale).view_as(padded)[:m, :k]
    return values.to(torch.float8_e4m3fn).contiguous(), scale[:, 0, :, 0].contiguous()


def scaled(values, scales, rows):
    """In float64, what the values stand for."""
    m, k = values.shape
    spread = scales.double().repeat_interleave(rows, 0)[:m].repeat_interleave(BLOCK, 1)[:, :k]
    return values.double() * spread


class Set:
    """The tensors of one launch. Scales of A lie along M, as both want them."""

    def __init__(self, m, n, k):
        normal = lambda rows: torch.randn(rows, k, device="cuda", dtype=torch.bfloat16)
        self.a, of_a = blocks_of(normal(m), 1)
        self.b, self.b_scales = blocks_of(normal(n), BLOCK)
        room = torch.zeros(of_a.shape[1], -(-m // 4) * 4, device="cuda")
        self.a_scales = room[:, :m]
        self.a_scales.copy_(of_a.t())
        self.c = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
        self.out = self.c

    def reference(self):
        return scaled(self.a, self.a_scales.t(), 1) @ scaled(self.b, self.b_scales, BLOCK).t()


class Groups:
    """The same of groups whose rows are contiguous, so many of each; of groups that end anywhere where `ragged`."""

    def __init__(self, groups, m, n, k, ragged=False):
        counts = [m] * groups if not ragged else [(m * (i % 3) + 37 * i) % (2 * m) for i in range(groups)]
        ends = torch.tensor([0] + counts).cumsum(0)
        one = Set(int(ends[-1]), n, k)
        self.a, self.a_scales, self.c = one.a, one.a_scales, one.c
        cut = [blocks_of(torch.randn(n, k, device="cuda", dtype=torch.bfloat16), BLOCK) for _ in range(groups)]
        self.b, self.b_scales = torch.stack([v for v, _ in cut]), torch.stack([x for _, x in cut])
        self.ends, self.rows = ends.tolist(), ends.to("cuda", torch.int32)
        self.whose = torch.arange(groups).repeat_interleave(torch.tensor(counts)).to("cuda", torch.int32)
        self.out = one.c

    def reference(self):
        a = scaled(self.a, self.a_scales.t(), 1)
        spans = zip(self.ends, self.ends[1:], self.b, self.b_scales)
        return torch.cat([a[first:end] @ scaled(b, scales, BLOCK).t() for first, end, b, scales in spans])


def tile_of(stem):
    """Rows and columns of a cluster's tiles by the name of a cubin, and its CTAs: groups, rows of each, columns, stages; CTAs along K, groups, columns, stages."""
    words = stem.split("-")
    first, second, columns = [int(x) for x in words[3].split("x")[:3]]
    if stem.startswith(FEW_PREFIX):
        return 64 * second, columns, first
    rows, columns = first * second * (2 if "columns" in words else 1), columns * (2 if "rows" in words else 1)
    return rows, columns, 2 if "rows" in words or "columns" in words else 1


def grid_of(stem, first, m, n):
    """Programs: of several tiles the fewest with as many waves, as the plan says."""
    rows, columns, ctas = tile_of(stem)
    along_n = -(-n // columns)
    if stem.startswith(FEW_PREFIX):
        return [-(-m // rows) * ctas, along_n, 1]
    if isinstance(first, Groups):
        tiles = sum(-(-(end - begin) // rows) for begin, end in zip(first.ends, first.ends[1:])) * along_n
        return [min(tiles, SMS // ctas) * ctas, 1, 1]
    tiles = -(-m // rows) * along_n
    return [-(-tiles // -(-tiles // (SMS // ctas))) * ctas, 1, 1]


def ours(folder, stem, sets, allow_overlap=True):
    kernel = json.loads((folder / f"{stem}.json").read_text())
    first = sets[0]
    (m, k), n, of_scales = first.a.shape, first.b.shape[-2], first.b_scales.shape
    numbers = {"m": m, "n": n, "k": k, "pitch": n, "b_scales_of_columns": of_scales[-1], "b_scales_of_steps": 1}
    if isinstance(first, Groups):
        numbers |= {"groups": len(first.b), "b_scales_of_group": of_scales[-1] * of_scales[-2]}
    spec = launch_spec(kernel, f"{stem}.cubin", grid_of(stem, first, m, n), numbers, {})
    function = Function(folder / spec["cubin"], spec["entry"], spec["shared_bytes"], spec["cluster"])
    return [Launch(function, spec, vars(s), allow_overlap) for s in sets]


def of_deep_gemm(sets, overlaps=False):
    calls = calls_of_deep_gemm(sets)

    def launch(call):
        deep_gemm._C.set_pdl(overlaps)
        call()

    return [lambda call=call: launch(call) for call in calls]


def calls_of_deep_gemm(sets):
    if isinstance(sets[0], Groups):
        return [lambda s=s: deep_gemm.m_grouped_fp8_gemm_nt_contiguous((s.a, s.a_scales.t()), (s.b, s.b_scales), s.c, s.whose) for s in sets]
    return [lambda s=s: deep_gemm.fp8_gemm_nt((s.a, s.a_scales.t()), (s.b, s.b_scales), s.c) for s in sets]


def of_cublas(sets):
    one = torch.ones(1, device="cuda")
    return [lambda s=s: torch._scaled_mm(s.a, s.b.t(), one, one, out_dtype=torch.bfloat16, use_fast_accum=True) for s in sets]


def checked(contestant, first, want):
    """Whether the first set's result is right."""
    fill(first.c)
    contestant.calls[0]()
    error = relative_error(first.c, want)
    if not error < 4e-3:
        print(f"WRONG {contestant.name}: relative error {error:.1e}", flush=True)
    return error < 4e-3


def made(shape, options):
    """The tensors of one launch."""
    numbers = [int(x) for x in shape.split("x")]
    return Set(*numbers) if len(numbers) == 3 else Groups(*numbers, ragged=options.check)


def contest(shape, options):
    sets = [made(shape, options)]
    first = sets[0]
    (m, k), n, is_grouped = first.a.shape, first.b.shape[-2], isinstance(first, Groups)
    nbytes = first.a.numel() + first.b.numel() + 2 * first.c.numel()
    count = 1 if options.check else max(1 if is_grouped else 2, min(12, copies(nbytes)))
    sets += [made(shape, options) for _ in range(count - 1)]
    want = sets[0].reference()
    asked = [x for x in options.ours.split(",") if x]
    prefixes = [GROUPED_PREFIX] if is_grouped else [PREFIX] + [FEW_PREFIX] * (m <= FEW_ROWS)
    stems = [p.stem for prefix in prefixes for p in sorted(options.artefacts.glob(f"{prefix}*.json")) if not asked or any(x in p.stem for x in asked)]
    stems = [stem for stem in stems if "counted" not in stem]
    named = lambda stem: ("few-" if stem.startswith(FEW_PREFIX) else "") + stem.split("-", 3)[3]
    ways = [(named(stem), lambda stem=stem: ours(options.artefacts, stem, sets)) for stem in stems]
    apart = [x for x in options.apart.split(",") if x]
    ways += [(f"{named(stem)}-apart", lambda stem=stem: ours(options.artefacts, stem, sets, False)) for stem in stems if any(x in stem for x in apart)]
    if deep_gemm and not options.check:
        ways = [("deepgemm", lambda: of_deep_gemm(sets)), ("deepgemm-overlapped", lambda: of_deep_gemm(sets, True))] + ways
    if not options.check and not is_grouped:
        ways.append(("cublasLt", lambda: of_cublas(sets)))
    held = [c for c in (enter(shape, name, lambda: Contestant(name, make(), options.batch_ms, graph_below_ms=20.0)) for name, make in ways) if c]
    held = [c for c in held if c.name == "cublasLt" or checked(c, sets[0], want)]
    del want
    torch.cuda.empty_cache()
    if options.check:
        print(f"{shape}: {len(held)} of {len(ways)} right", flush=True)
        return
    hold(held, options.rounds, 0.0, singles=options.singles)
    first = held[0]
    for c in held:
        one, many = statistics.median(c.single_us), statistics.median(c.back_to_back_us)
        rate = lambda us: 2 * m * n * k / us / 1e6
        beside = f"{ratio(first.single_us, c.single_us):.3f} {ratio(first.back_to_back_us, c.back_to_back_us):.3f}"
        print(f"{shape:20s} {c.name:30s} {one:8.1f} us {rate(one):7.1f} TF | {many:8.1f} us {rate(many):7.1f} TF | {first.name} over it {beside}", flush=True)
        record(options, c, shape=shape)


def warm(shape, options):
    """Lets DeepGEMM compile."""
    of_deep_gemm([made(shape, options)])[0]()
    torch.cuda.synchronize()


def main():
    parser = parser_of(__doc__, SHAPES, 20.0)
    parser.add_argument("--ours", default="", help="tiles whose file name contains one of these comma-separated texts")
    parser.add_argument("--apart", default="", help="tiles, as for --ours, that are entered a second time without overlapped launches")
    parser.add_argument("--warm", action="store_true", help="let DeepGEMM compile only")
    options = parser.parse_args()
    each(options, warm if options.warm else contest)


if __name__ == "__main__":
    main()
