#!/usr/bin/env python3
"""Attention to a cache of latent vectors (`decode_latent` of the crate `kernels`) beside FlashMLA, in one process.

    python3 bench/peers/attention_latent.py ARTEFACTS [--only SUBSTRING] [--check] [--json OUT]

ARTEFACTS is the folder that `cargo tilekit -p tilekit-kernels build --emit cubin` names. Needs torch 2.11 and `sgl_kernel.flash_mla` of sglang-kernel 0.4.4.
Random normal data, pages of 64 tokens in a random order; TFLOP/s count 2 * batch * heads * tokens * (576 + 512), TB/s are those of the cache. Both plans, FlashMLA's and ours, which
kernels of their own make, are made before; "with its plan" is a call that makes its own. `--check` compares ragged lengths and several query tokens with a reference in f64, and times nothing.
"""

import argparse
import json
import math
import statistics
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent))
from contest import Contestant, copies, enter, fill, hold
from cuda_driver import Function, Launch
from manifest import launch_spec

DEPTH, VALUES, PAGE, ROWS, SMS = 576, 512, 64, 64, 132
SCALE = 1 / math.sqrt(DEPTH)
SHAPES = [(128, 4096, 128), (128, 8192, 128), (64, 16384, 128), (128, 4096, 64), (128, 8192, 16), (1, 16384, 128), (1, 4096, 128), (4, 16384, 128), (8, 2048, 16)]
CHECKS = [([300], 1, 128), ([4099, 1, 0, 63, 64, 65, 127, 129, 2], 1, 16), ([65, 0, 1, 127, 64, 63, 129, 128, 300], 3, 16), ([1000, 30000], 4, 32), ([777] * 140, 1, 64),
          ([16384], 1, 128), ([5000] * 128, 1, 16), ([64, 3, 700], 2, 128)]


class Problem:
    def __init__(self, lengths, queries, heads):
        self.lengths, self.queries, self.heads = lengths, queries, heads
        self.row = max(1, -(-max(lengths) // PAGE))
        batch, pages = len(lengths), self.row * len(lengths)
        self.q = torch.randn(batch, queries, heads, DEPTH, device="cuda", dtype=torch.bfloat16)
        self.cache = torch.randn(pages, PAGE, DEPTH, device="cuda", dtype=torch.bfloat16)
        self.table = torch.randperm(pages, device="cuda").int().view(batch, -1).contiguous()
        self.of_lengths = torch.tensor(lengths, device="cuda", dtype=torch.int32)
        self.out = torch.empty(batch, queries, heads, VALUES, device="cuda", dtype=torch.bfloat16)
        self.lse = torch.empty(batch, heads, queries, device="cuda")

    def nbytes(self):
        return 2 * sum(self.lengths) * DEPTH

    def flops(self):
        return 2 * self.queries * self.heads * sum(self.lengths) * (DEPTH + VALUES)

    def reference(self, at):
        pages = self.cache[self.table[at].long()].view(-1, DEPTH)[:self.lengths[at]].double()
        scores = torch.einsum("thd,kd->htk", self.q[at].double(), pages) * SCALE
        place = torch.arange(self.queries, device="cuda") + self.lengths[at] - self.queries
        unseen = torch.arange(self.lengths[at], device="cuda")[None] > place[:, None]
        scores.masked_fill_(unseen[None], -math.inf)
        lse = torch.logsumexp(scores, -1) if self.lengths[at] else torch.full(scores.shape[:2], -math.inf, device="cuda", dtype=torch.float64)
        weights = torch.exp(scores - lse[..., None]).nan_to_num(0.0)
        return torch.einsum("htk,kd->thd", weights, pages[:, :VALUES]), lse


def stem_of(problem):
    """The instance that a call chooses: see call.rs."""
    tiles = -(-problem.queries * problem.q.shape[2] // ROWS)
    steps = len(problem.lengths) * -(-problem.row // 2) * tiles
    return f"decode_latent-bf16-{str(tiles > 1 and steps >= 8 * SMS).lower()}"


def ours(folder, problem, workspace, stem=None, is_planned=True):
    """Launches of a call: by a plan that is made here, as FlashMLA's is, or by one that each call makes."""
    stem = stem or stem_of(problem)
    batch, queries, heads = len(problem.lengths), problem.queries, problem.heads
    rows = queries * heads
    tiles = -(-rows // ROWS)
    parts = max(1, min(SMS // tiles, batch * -(-problem.row // 2)))
    sums, lse_of_pieces = workspace
    assert sums.numel() >= (parts + batch - 1) * rows * VALUES
    numbers = {"batch": batch, "heads": heads, "queries": queries, "row_order": [heads, 1], "table_row": problem.row, "parts": parts, "begins_early": int(not stem.endswith("true")), "page_stride": PAGE * DEPTH,
               "log2_scale": SCALE * math.log2(math.e), "out_strides": [rows * VALUES, VALUES, heads * VALUES]}
    q = problem.q.view(batch, rows, DEPTH)
    buffers = dict(q=q, q_rope=q, cache=problem.cache, cache_rope=problem.cache, cache_rows=problem.cache, out=problem.out, lse=problem.lse, sums=sums,
                   lse_of_pieces=lse_of_pieces, lengths=problem.of_lengths, table=problem.table,
                   plan=torch.full((12 * parts + batch,), -1, device="cuda", dtype=torch.int32))

    def launch_of(name, grid):
        kernel = json.loads((folder / f"{name}.json").read_text())
        spec = launch_spec(kernel, f"{name}.cubin", grid, numbers, {})
        function = Function(folder / spec["cubin"], spec["entry"], spec["shared_bytes"], spec["cluster"])
        taken = {p["name"]: buffers[p["name"]] for p in spec["params"] if "name" in p}
        return Launch(function, spec, taken, spec["overlaps"])

    plan = launch_of("plan_latent", [parts, 1, 1])
    columns = 128 if parts >= 32 * batch else VALUES
    merge = launch_of(f"merge_latent-bf16-{columns}", [min(batch * rows, 5 * SMS), VALUES // columns, 1])
    launches = [launch_of(stem, [tiles, parts, 1]), merge]
    if is_planned:
        plan()
    else:
        launches.insert(0, plan)
    return lambda: [launch() for launch in launches]


def flash_mla(problem):
    from sgl_kernel.flash_mla import flash_mla_with_kvcache, get_mla_metadata

    plan, splits = get_mla_metadata(problem.of_lengths, problem.queries * problem.heads, 1)
    cache = problem.cache.unsqueeze(2)
    return lambda: flash_mla_with_kvcache(problem.q, cache, problem.table, problem.of_lengths, VALUES, plan, splits, softmax_scale=SCALE, causal=True)


def workspace(most):
    return torch.empty(most * VALUES, device="cuda"), torch.empty(most, device="cuda")


def check(problem, call, name):
    fill(problem.out)
    call()
    torch.cuda.synchronize()
    worst = [0.0, 0.0]
    for at in range(min(len(problem.lengths), 12)):
        out, lse = problem.reference(at)
        worst[0] = max(worst[0], (problem.out[at].double() - out).abs().max().item())
        got = problem.lse[at].double()
        same = (got == lse) | ((got - lse).abs() < 1e-3)
        worst[1] = max(worst[1], 0.0 if bool(same.all()) else 1.0)
    finite = bool(torch.isfinite(problem.out.float()).all())
    good = worst[0] < 0.02 and worst[1] == 0.0 and finite
    lengths = sorted(set(problem.lengths))
    print(f"{'right' if good else 'WRONG'} {name} lengths {lengths} x{len(problem.lengths)} queries {problem.queries} heads {problem.heads}: out off by {worst[0]:.1e}, lse {'right' if worst[1] == 0 else 'wrong'}", flush=True)
    return good


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("artefacts", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--stems", default="", help="instances, by default the one that a call chooses")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    stems = options.stems.split(",") if options.stems else [None]
    room = workspace(300 * 256)
    if options.check:
        for lengths, queries, heads in CHECKS:
            for stem in stems:
                problem = Problem(lengths, queries, heads)
                # What lies behind the last key is not a number.
                for at, length in enumerate(lengths):
                    for page in range(length // PAGE, problem.row):
                        problem.cache[problem.table[at, page].item(), max(0, length - page * PAGE):] = math.nan
                call = enter(str(lengths[:4]), str(stem), lambda: ours(options.artefacts, problem, room, stem))
                if call:
                    check(problem, call, stem or stem_of(problem))
        return
    for batch, tokens, heads in SHAPES:
        name = f"b{batch} t{tokens} h{heads}"
        if options.only not in name:
            continue
        count = min(3, max(1, copies(2 * batch * tokens * DEPTH)))
        sets = [Problem([tokens] * batch, 1, heads) for _ in range(count)]
        ways = [(stem or "ours", lambda stem=stem: [ours(options.artefacts, p, room, stem) for p in sets]) for stem in stems]
        ways.append(("with its plan", lambda: [ours(options.artefacts, p, room, None, False) for p in sets]))
        ways.append(("FlashMLA", lambda: [flash_mla(p) for p in sets]))
        held = [c for c in (enter(name, n, lambda: Contestant(n, make(), 20, graph_below_ms=0.2)) for n, make in ways) if c]
        for c in held:
            if c.name != "FlashMLA":
                check(sets[0], c.calls[0], c.name)
        hold(held, options.rounds, 0.0, singles=7)
        for c in held:
            peer = held[-1]
            for mode in ("single", "back_to_back"):
                us, them = (sorted(getattr(x, f"{mode}_us")) for x in (c, peer))
                middle = statistics.median(us)
                print(f"{name:18s} {c.name:24s} {mode:12s} {middle:8.1f} us ({us[0]:.1f}..{us[-1]:.1f}) {sets[0].flops() / middle / 1e6:6.1f} TF {sets[0].nbytes() / middle / 1e6:5.2f} TB/s"
                      f"  {statistics.median(them) / middle:.3f} of {peer.name}", flush=True)
                if options.json:
                    with options.json.open("a") as file:
                        file.write(json.dumps({"shape": name, "way": c.name, "mode": mode, "us": us}) + "\n")
        del held, sets
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
