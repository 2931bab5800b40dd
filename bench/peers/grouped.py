#!/usr/bin/env python3
"""Products of groups of rows of the crate `kernels` in bf16 beside DeepGEMM, and of skewed groups beside even ones, interleaved in one process.

    python3 bench/peers/grouped.py ARTEFACTS [--shapes 4x8192x4096x7168,..] [--skews even,zipf,half] [--rounds N] [--singles N] [--json FILE] [--check]

ARTEFACTS is the folder that `cargo tilekit -p tilekit-kernels build grouped --emit cubin` names. Each shape is G x M x N x K: G groups of M rows on average, a matrix `[N, K]` for each.
`even` groups have M rows each; sizes of `zipf` groups fall as 1, 1/2, 1/3, ..; of `half` every other group is empty, the others have 2 M. All have G M rows in multiples of 128, as DeepGEMM
wants, so that work is the same. Groups stand in a random order. DeepGEMM is entered where it can be imported; it compiles its kernels at their first use.
Every result is compared with a product in float64, on poisoned outputs. Ratios: DeepGEMM's time over ours of the same groups, and the time of even groups over that of skewed ones of the same
contestant: medians over the rounds.
"""

import json
import random
import statistics
import sys
import time
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

PREFIX = "grouped-bf16-bf16-Plain-"
SHAPES = "4x8192x4096x7168,4x8192x7168x2048,8x4096x4096x7168,8x4096x7168x2048,32x256x4096x7168,16x1024x4096x7168"
SKEWS = ("even", "zipf", "half")
SMS, UNIT = 132, 128
MOST_ERROR = 4e-3


def rows_of(skew, groups, m, shuffle=random.shuffle):
    """The rows of each group: multiples of 128 that add up to `groups` times `m`."""
    units = groups * (-(-m // UNIT))
    if skew == "even":
        shares = [1.0] * groups
    elif skew == "zipf":
        shares = [1 / (i + 1) for i in range(groups)]
    else:
        shares = [float(i % 2 == 0) for i in range(groups)]
    whole = sum(shares)
    counts = [int(units * share / whole) for share in shares]
    # What is left after rounding goes to the largest, and to none that is empty on purpose.
    largest = [i for i, share in enumerate(shares) if share]
    for i in range(units - sum(counts)):
        counts[largest[i % len(largest)]] += 1
    shuffle(counts)
    return [UNIT * count for count in counts]


class Groups:
    """The tensors of one launch."""

    def __init__(self, counts, n, k):
        normal = lambda *shape: torch.randn(*shape, device="cuda", dtype=torch.bfloat16)
        ends = torch.tensor([0, *counts]).cumsum(0)
        self.ends, self.offsets = ends.tolist(), ends.to("cuda", torch.int32)
        self.a, self.b = normal(self.ends[-1], k), normal(len(counts), n, k)
        self.c = torch.empty(self.ends[-1], n, device="cuda", dtype=torch.bfloat16)
        self.whose = torch.arange(len(counts)).repeat_interleave(torch.tensor(counts)).to("cuda", torch.int32)
        # What the epilogue `Plain` does not read.
        self.out = self.source = self.bias = self.c
        self.a_scales = self.b_scales = torch.ones(1, device="cuda")

    def is_right(self, name):
        """Every element, a group at a time."""
        worst = 0.0
        for group, (first, end) in enumerate(zip(self.ends, self.ends[1:])):
            if end > first:
                want = self.a[first:end].double() @ self.b[group].double().t()
                worst = max(worst, relative_error(self.c[first:end], want))
        if not worst <= MOST_ERROR:
            print(f"WRONG {name}: relative error {worst:.1e}", flush=True)
        return worst <= MOST_ERROR


def programs_of(m, groups, n, tile):
    """As `plan` of kernels/src/products/grouped.rs: each group but one may end with a tile of one row."""
    of_warpgroup, rows, columns = tile[:3]
    tiles = (-(-m // (of_warpgroup * rows)) + groups) * -(-n // columns)
    return max(1, min(tiles, SMS))


def ours(folder, stem, sets):
    kernel = json.loads((folder / f"{stem}.json").read_text())
    (m, k), (groups, n) = sets[0].a.shape, sets[0].b.shape[:2]
    tile = [int(x) for x in stem[len(PREFIX):].split("-")[0].split("x")]
    numbers = {"pitch": n, "groups": groups, "m": m, "n": n, "k": k, "alpha": 1.0, "beta": 0.0, "source_pitch": n, "bias_of_group": n, "b_scales_of_group": n}
    spec = launch_spec(kernel, f"{stem}.cubin", [programs_of(m, groups, n, tile), 1, 1], numbers, {})
    function = Function(folder / spec["cubin"], spec["entry"], spec["shared_bytes"], spec["cluster"])
    return [Launch(function, spec, vars(s)) for s in sets]


def of_deep_gemm(sets):
    return [lambda s=s: deep_gemm.m_grouped_bf16_gemm_nt_contiguous(s.a, s.b, s.c, s.whose) for s in sets]


def entered(shape, skew, sets, options):
    """The contestants of these groups whose results are right."""
    stems = [p.stem for p in sorted(options.artefacts.glob(f"{PREFIX}*-b_batched.json"))]
    ways = [(stem[len(PREFIX):], lambda stem=stem: ours(options.artefacts, stem, sets)) for stem in stems]
    if deep_gemm and not options.check:
        ways.insert(0, ("deepgemm", lambda: of_deep_gemm(sets)))
    held = []
    for name, make in ways:
        named = f"{skew} {name}"
        contestant = enter(shape, named, lambda: Contestant(named, make(), options.batch_ms, graph_below_ms=20.0))
        if contestant:
            fill(sets[0].c)
            contestant.calls[0]()
            torch.cuda.synchronize()
            if sets[0].is_right(named):
                held.append(contestant)
    return held


def contest(shape, options):
    groups, m, n, k = [int(x) for x in shape.split("x")]
    nbytes = 2 * groups * (m * k + n * k + m * n)
    count = 1 if options.check else min(4, copies(nbytes))
    held = []
    for skew in options.skews.split(","):
        counts = rows_of(skew, groups, m)
        held += entered(shape, skew, [Groups(counts, n, k) for _ in range(count)], options)
    if options.check:
        print(f"{shape}: {len(held)} right", flush=True)
        return
    hold(held, options.rounds, 0.0, singles=options.singles)
    named = {c.name: c for c in held}
    for c in held:
        skew, way = c.name.split(" ", 1)
        one, many = statistics.median(c.single_us), statistics.median(c.back_to_back_us)
        rate = lambda us: 2 * groups * m * n * k / us / 1e6
        beside = [f"{title} {ratio(x.single_us, c.single_us):.3f} {ratio(x.back_to_back_us, c.back_to_back_us):.3f}"
                  for title, x in (("deepgemm over it", named.get(f"{skew} deepgemm")), ("even over it", named.get(f"even {way}"))) if x and x is not c]
        print(f"{shape:20s} {c.name:26s} {one:8.1f} us {rate(one):6.0f} TF | {many:8.1f} us {rate(many):6.0f} TF | {', '.join(beside)}", flush=True)
        record(options, c, case="grouped bf16", shape=shape)


def main():
    parser = parser_of(__doc__, SHAPES, 10.0)
    parser.add_argument("--skews", default=",".join(SKEWS))
    options = parser.parse_args()
    unknown = [skew for skew in options.skews.split(",") if skew not in SKEWS]
    if unknown:
        parser.error(f"--skews {unknown[0]}: {', '.join(SKEWS)}")
    each(options, contest)


if __name__ == "__main__":
    main()
