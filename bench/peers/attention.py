#!/usr/bin/env python3
"""Attention forward of the crate `kernels` beside FlashAttention-4 (its SM90 path) and cuDNN (by torch), in one process.

    python3 bench/peers/attention.py ARTEFACTS [--only SUBSTRING] [--json OUT]

ARTEFACTS is the folder that `cargo tilekit -p tilekit-kernels build --emit cubin` names. Needs flash-attn-4 4.0.0b36 with
nvidia-cutlass-dsl 4.8.1, and torch 2.11. Random normal data; TFLOP/s count 4 * heads * tokens^2 * depth, half of it if causal.
Ratios are the peer's time over ours.
"""

import argparse
import json
import math
import sys
from pathlib import Path

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

sys.path.insert(0, str(Path(__file__).parent))
from contest import Contestant, copies, enter, fill, hold, relative_error, report
from cuda_driver import Function, Launch
from manifest import launch_spec

SHAPES = ((128, 16, 16384), (128, 64, 4096), (128, 128, 2048), (64, 32, 16384), (64, 128, 4096), (256, 8, 16384))
# Consumer warpgroups, keys of a block, turns.
INSTANCES = {(128, False): ((2, 176, "true"),), (128, True): ((2, 128, "true"),), (64, False): ((3, 128, "true"),), (64, True): ((3, 128, "true"),),
             (256, False): ((2, 80, "false"),), (256, True): ((2, 64, "false"),)}
L2_OF_SECTION = 32 << 20


def ours(folder, stem, sets, groups, causal, scale):
    heads, tokens, depth = sets[0][0].shape
    kernel = json.loads((folder / f"{stem}.json").read_text())
    tiles = -(-tokens // (64 * groups)) * heads
    bytes_of_section = (4 if depth == 256 else 1) * L2_OF_SECTION
    section = max(1, min(heads, bytes_of_section // (4 * tokens * depth))) if causal else 1
    numbers = {"heads": heads, "query_heads": 1, "tokens": tokens, "section": section, "log2_scale": scale * math.log2(math.e)}
    spec = launch_spec(kernel, f"{stem}.cubin", [min(tiles, 132), 1, 1], numbers, {})
    function = Function(folder / spec["cubin"], spec["entry"], spec["shared_bytes"], spec["cluster"])
    counter = torch.zeros(1, device="cuda", dtype=torch.int32)
    lse = torch.empty(heads, tokens, device="cuda")
    return [Launch(function, spec, dict(q=q, k=k, v=v, out=o, lse=lse, counter=counter), False) for q, k, v, o in sets]


def fa4(sets, causal):
    from flash_attn.cute.interface import flash_attn_func

    turned = [tuple(x.transpose(0, 1)[None] for x in s) for s in sets]
    return [lambda s=s: flash_attn_func(s[0], s[1], s[2], causal=causal) for s in turned]


def cudnn(sets, causal):
    def call(q, k, v, _):
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return F.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=causal)
    return [lambda s=s: call(*s) for s in sets]


def check(contestant, sets, causal, scale):
    q, k, v, o = sets[0]
    fill(o)
    contestant.calls[0]()
    scores = q[:1].float() @ k[:1].float().transpose(1, 2) * scale
    if causal:
        scores.masked_fill_(torch.ones(scores.shape[1:], device="cuda", dtype=torch.bool).triu(1), -math.inf)
    error = relative_error(o[:1], (scores.softmax(-1) @ v[:1].float()).double())
    print(f"{contestant.name}: relative error {error:.1e}", flush=True)
    return error < 1e-2


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("artefacts", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    for d, h, t in SHAPES:
        for causal in (False, True):
            name = f"d{d} {'causal' if causal else 'full'} {h}x{t}"
            if options.only not in name:
                continue
            scale = 1 / math.sqrt(d)
            new = lambda: torch.randn(h, t, d, device="cuda", dtype=torch.bfloat16)
            sets = [(new(), new(), new(), torch.empty_like(new())) for _ in range(max(2, copies(8 * h * t * d)))]
            ways = []
            for groups, keys, turns in INSTANCES[d, causal]:
                stem = f"forward-bf16-{d}-{groups}-{keys}-{str(causal).lower()}-{turns}"
                if (options.artefacts / f"{stem}.json").exists():
                    ways.append((f"ours {64 * groups}x{keys}", lambda stem=stem, groups=groups: ours(options.artefacts, stem, sets, groups, causal, scale)))
            mine = len(ways)
            ways += [("fa4", lambda: fa4(sets, causal)), ("cudnn", lambda: cudnn(sets, causal))]
            held = [c for c in (enter(name, n, lambda: Contestant(n, make(), 30, graph_below_ms=0.0)) for n, make in ways) if c]
            for c in held[:mine]:
                if not check(c, sets, causal, scale):
                    print(f"WRONG {name} {c.name}")
            hold(held, options.rounds, 0.0, singles=options.rounds)
            flops = 4 * h * t * t * d * (0.5 if causal else 1)
            report(name, held, flops, options.json)
            del held, sets
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
