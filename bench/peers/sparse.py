#!/usr/bin/env python3
"""2:4 sparse products of the crate `kernels` beside cuSPARSELt after its search, by torch, and beside the dense products of the same matrix by cuBLAS and by the crate, interleaved in one process.

    python3 bench/peers/sparse.py ARTEFACTS [--shapes 8192x8192x8192,..] [--type bf16|f16|e4m3|i8] [--ours TEXT,TEXT] [--rounds N] [--singles N] [--json FILE] [--check]

ARTEFACTS is the folder that `cargo tilekit -p tilekit-kernels build sparse_product sparse_few dense --emit cubin` names. Each shape is M x N x K: a sparse A `[M, K]`, B as rows `[N, K]`, C `[M, N]`. Every result is
compared with a product in float64, ours on poisoned outputs. cuSPARSELt returns new tensors, and its search chooses algorithm and splits for each shape. TFLOP/s are counted dense.
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

SMS, STRIP, BLOCK = 132, 64, 64
SHAPES = "8192x8192x8192,4096x4096x4096,8192x2048x8192,4096x16x14336,8192x16x8192,8192x64x8192"
# Type of operands, of results, the name of an instance, and the largest relative error.
TYPES = {
    "bf16": (torch.bfloat16, torch.bfloat16, "bf16-bf16", 6e-3),
    "f16": (torch.float16, torch.float16, "f16-f16", 1e-3),
    "e4m3": (torch.float8_e4m3fn, torch.bfloat16, "E4m3-bf16", 1e-2),
    "i8": (torch.int8, torch.int32, "i8-i32", 0.0),
}


def pruned(whole):
    """The two largest of each four kept: their indices in ascending order, and the elements."""
    fours = whole.float().abs().view(whole.shape[0], -1, 4)
    at = fours.topk(2, -1).indices.sort(-1).values
    return at, whole.view(torch.uint8 if whole.element_size() == 1 else torch.int16).view(*fours.shape).gather(-1, at)


def numbers(at, element_bytes):
    """Where kept elements were, in blocks as the crate has them. K is a multiple of whole stages here."""
    m, fours, _ = at.shape
    nibbles = (at[..., 0] | at[..., 1] << 2).view(m, fours // 4, 4)
    rows = (nibbles << (4 * torch.arange(4, device=at.device))).sum(-1)
    rows = torch.nn.functional.pad(rows, (0, 0, 0, -m % STRIP), value=0x4444)
    if element_bytes == 2:
        # Strip, warp, which of both rows, row of a lane, block, column.
        rows = rows.view(-1, 4, 2, 8, rows.shape[1] // 4, 4).permute(0, 4, 1, 3, 5, 2)
    else:
        # Strip, warp, which of both rows, row of a lane, block, pair of columns, which of both.
        rows = rows.view(-1, 4, 2, 8, rows.shape[1] // 4, 2, 2).permute(0, 4, 1, 3, 5, 2, 6)
    rows = rows.reshape(-1)
    return (rows - ((rows >> 15) << 16)).to(torch.int16)


class Set:
    """The tensors of one launch."""

    def __init__(self, m, n, k, operand, result):
        def random_matrix(rows):
            if operand == torch.int8:
                return torch.randint(-128, 128, (rows, k), device="cuda", dtype=torch.int8)
            return torch.randn(rows, k, device="cuda").to(operand)

        whole = random_matrix(m)
        at, kept = pruned(whole)
        self.kept = kept.reshape(m, -1).view(operand)
        self.places = numbers(at, whole.element_size())
        bits = torch.zeros_like(whole.view(kept.dtype)).view(m, -1, 4)
        self.a = bits.scatter_(-1, at, kept).view(m, k).view(operand)
        self.b = random_matrix(n)
        self.c = torch.empty(m, n, device="cuda", dtype=result)
        self.out = self.data_source = self.data_bias = self.data_scales_0 = self.data_scales_1 = self.c

    def reference(self):
        return self.a.double() @ self.b.double().t()


def persistent_grid(m, n, rows, columns):
    """The fewest programs with as many waves."""
    tiles = -(-m // rows) * -(-n // columns)
    return [-(-tiles // -(-tiles // SMS)), 1, 1]


def ours(folder, stem, sets, grid):
    """Launches of one of our kernels, whichever of the parameters named here it has."""
    kernel = json.loads((folder / f"{stem}.json").read_text())
    m, n = sets[0].c.shape
    numbers_of = {"m": m, "n": n, "k": sets[0].a.shape[1], "stride": n, "data": {"alpha": 1.0, "beta": 0.0, "source_pitch": n, "source_batch": 0}}
    spec = launch_spec(kernel, f"{stem}.cubin", grid, {**numbers_of, "batches": 1}, {})
    function = Function(folder / spec["cubin"], spec["entry"], spec["shared_bytes"], spec["cluster"])
    launches = [Launch(function, spec, vars(s)) for s in sets]

    def call(launch, own):
        launch()
        return own.c

    return [lambda launch=launch, s=s: call(launch, s) for launch, s in zip(launches, sets)]


def of_cusparselt(sets, result):
    """cuSPARSELt by the algorithm that its search finds."""
    compressed = [torch._cslt_compress(s.a) for s in sets]
    out = {} if result == sets[0].b.dtype else {"out_dtype": result}
    found = torch._C._cusparselt.mm_search(compressed[0], sets[0].b.t(), None, None, out.get("out_dtype"), False)
    algorithm, split, mode = found[:3]
    print(f"# cuSPARSELt {torch.backends.cusparselt.version()}: algorithm {algorithm} of {found[3]}, splits {split}, mode {mode}", flush=True)
    chosen = {"alg_id": algorithm, "split_k": split, "split_k_mode": mode, **out}
    return [lambda x=x, s=s: torch._cslt_sparse_mm(x, s.b.t(), **chosen) for x, s in zip(compressed, sets)]


def of_cublas(sets, result):
    if sets[0].a.dtype == torch.int8:
        return [lambda s=s: torch._int_mm(s.a, s.b.t()) for s in sets]
    if sets[0].a.element_size() == 1:
        one = torch.ones((), device="cuda")
        return [lambda s=s: torch._scaled_mm(s.a, s.b.t(), scale_a=one, scale_b=one, out_dtype=result) for s in sets]
    return [lambda s=s: torch.matmul(s.a, s.b.t(), out=s.c) for s in sets]


def checked(contestant, first, want, most):
    """Whether the first set's result is right."""
    fill(first.c)
    got = contestant.calls[0]()
    torch.cuda.synchronize()
    error = relative_error(got, want)
    if not error <= most:
        print(f"WRONG {contestant.name}: relative error {error:.1e}", flush=True)
    return error <= most


def ways_for(sets, options):
    operand, result, name, _ = TYPES[options.type]
    asked = [x for x in options.ours.split(",") if x]
    m, n = sets[0].c.shape
    # Tiles of which B fills less than half are left out, and those of which it has very many.
    fits = lambda columns: min(n, 2048) / 16 <= columns < 2 * max(n, 16)
    ways = []
    for kind in ("sparse_product", "sparse_few"):
        prefix = f"{kind}-{name}-Plain-"
        for stem in [p.stem for p in sorted(options.artefacts.glob(f"{prefix}*.json"))]:
            tile = stem[len(prefix):]
            if "-" in tile or asked and not any(x in tile for x in asked):
                continue
            numbers = [int(x) for x in tile.split("x")]
            columns = numbers[-2]
            if kind == "sparse_few":
                ctas, groups = numbers[:2]
                grid = [-(-m // (groups * STRIP)) * ctas, -(-n // columns), 1]
            else:
                grid = persistent_grid(m, n, numbers[0] * STRIP, columns)
            if fits(columns) and (kind == "sparse_product" or 24 * columns >= n):
                ways.append((tile, lambda stem=stem, grid=grid: ours(options.artefacts, stem, sets, grid)))
    if options.check:
        return ways
    dense = sorted(options.artefacts.glob(f"dense-{name}-Plain-2x64x256x[0-9].json"))
    if n >= 128 and dense:
        ways.append(("our dense", lambda: ours(options.artefacts, dense[0].stem, sets, persistent_grid(m, n, 128, 256))))
    return ways + [("cublas dense", lambda: of_cublas(sets, result)), ("cusparselt", lambda: of_cusparselt(sets, result))]


def contestant(name, make, options):
    """In a graph if its calls can be captured."""
    try:
        return Contestant(name, make(), options.batch_ms, graph_below_ms=20.0)
    except Exception as error:  # what allocates or waits is launched one by one instead
        print(f"# {name} in no graph: {str(error)[:200]}", flush=True)
        torch.cuda.synchronize()
        return Contestant(name, make(), options.batch_ms, graph_below_ms=0.0)


def contest(shape, options):
    m, n, k = [int(x) for x in shape.split("x")]
    operand, result, _, most = TYPES[options.type]
    nbytes = (m * k // 2 + n * k) * operand.itemsize + m * k // 8 + m * n * result.itemsize
    sets = [Set(m, n, k, operand, result) for _ in range(1 if options.check else min(12, copies(nbytes)))]
    want = sets[0].reference()
    ways = ways_for(sets, options)
    case = f"{options.type} {shape}"
    held = [c for c in (enter(case, name, lambda: contestant(name, make, options)) for name, make in ways) if c]
    held = [c for c in held if checked(c, sets[0], want, most)]
    if options.check:
        print(f"{case}: {len(held)} of {len(ways)} right", flush=True)
        return
    hold(held, options.rounds, 0.0, singles=options.singles)
    last = next((c for c in held if c.name == "cusparselt"), held[-1])
    for c in held:
        one, many = statistics.median(c.single_us), statistics.median(c.back_to_back_us)
        beside = f"{ratio(last.single_us, c.single_us):.3f} {ratio(last.back_to_back_us, c.back_to_back_us):.3f}"
        rate = 2e-6 * m * n * k
        print(f"{case:24s} {c.name:14s} {one:8.2f} us, {rate / one:6.0f} TFLOP/s | {many:8.2f} us, {rate / many:6.0f} | {last.name} over it {beside}", flush=True)
        record(options, c, type=options.type, shape=shape)


def main():
    parser = parser_of(__doc__, SHAPES, 10.0)
    parser.add_argument("--type", choices=TYPES, default="bf16")
    parser.add_argument("--ours", default="", help="tiles whose name contains one of these comma-separated texts")
    options = parser.parse_args()
    each(options, contest)


if __name__ == "__main__":
    main()
