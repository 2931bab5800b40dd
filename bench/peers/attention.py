#!/usr/bin/env python3
"""Attention forward of the crate `kernels` beside FlashAttention-4 (its SM90 path) and cuDNN (by torch), in one process.

    python3 bench/peers/attention.py ARTEFACTS [--only SUBSTRING] [--json OUT]
    python3 bench/peers/attention.py ARTEFACTS --shapes 128:4x32/8x8192 --tokens-first

ARTEFACTS is the folder that `cargo tilekit -p tilekit-kernels build --emit cubin` names. Needs flash-attn-4 4.0.0b36 with
nvidia-cutlass-dsl 4.8.1, and torch 2.11. Random normal data; TFLOP/s count 4 * heads * tokens^2 * depth, half of it if causal.
Ratios are the peer's time over ours. `--shapes` has others, `DEPTH:[BATCHx]HEADS[/HEADS OF K AND V]xTOKENS`; with `--tokens-first` tensors are `[batch, tokens, heads, depth]`
in memory.
"""

import argparse
import json
import math
import re
import sys
from pathlib import Path
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

sys.path.insert(0, str(Path(__file__).parent))
from contest import Contestant, copies, enter, fill, hold, relative_error, report
from cuda_driver import Function, Launch
from manifest import launch_spec


class Shape(NamedTuple):
    """Sizes of a call."""

    depth: int
    batch: int
    heads: int
    kv_heads: int
    tokens: int

    @classmethod
    def of(cls, text):
        found = re.fullmatch(r"(\d+):(?:(\d+)x)?(\d+)(?:/(\d+))?x(\d+)", text)
        if not found:
            raise argparse.ArgumentTypeError(f"`{text}` is no DEPTH:[BATCHx]HEADS[/KV_HEADS]xTOKENS")
        depth, batch, heads, kv_heads, tokens = found.groups()
        return cls(int(depth), int(batch or 1), int(heads), int(kv_heads or heads), int(tokens))

    def __str__(self):
        batch = f"{self.batch}x" if self.batch > 1 else ""
        group = f"/{self.kv_heads}" if self.kv_heads < self.heads else ""
        return f"{batch}{self.heads}{group}x{self.tokens}"

    def name(self, causal):
        return f"d{self.depth} {'causal' if causal else 'full'} {self}"

    def random(self, heads, tokens_first=False):
        """A tensor of so many heads: `[batch, heads, tokens, depth]`, in this order in memory or tokens first."""
        if tokens_first:
            return torch.randn(self.batch, self.tokens, heads, self.depth, device="cuda", dtype=torch.bfloat16).transpose(1, 2)
        return torch.randn(self.batch, heads, self.tokens, self.depth, device="cuda", dtype=torch.bfloat16)

    def sets(self, tokens_first=False):
        """Q, K, V and the output, as often as exceeds L2."""
        count = max(2, copies(4 * self.batch * (self.heads + self.kv_heads) * self.tokens * self.depth))
        heads = self.heads, self.kv_heads, self.kv_heads, self.heads
        return [tuple(self.random(of, tokens_first) for of in heads) for _ in range(count)]

    def flops(self, causal):
        return 4 * self.batch * self.heads * self.tokens**2 * self.depth * (0.5 if causal else 1)


SHAPES = tuple(map(Shape.of, ("128:16x16384", "128:64x4096", "128:128x2048", "64:32x16384", "64:128x4096", "256:8x16384")))
# Consumer warpgroups, keys of a block, turns.
INSTANCES = {(128, False): ((2, 176, "true"),), (128, True): ((2, 128, "true"),), (64, False): ((3, 128, "true"),), (64, True): ((3, 128, "true"),),
             (256, False): ((2, 80, "false"),), (256, True): ((2, 64, "false"),)}
L2_OF_SECTION = 32 << 20


def ours(folder, stem, sets, groups, causal, scale):
    batch, heads, tokens, depth = sets[0][0].shape
    kv_heads = sets[0][1].shape[1]
    kernel = json.loads((folder / f"{stem}.json").read_text())
    lines = batch * heads
    tiles = -(-tokens // (64 * groups)) * lines
    # As `section_of` in kernels/src/attention/plan.rs.
    bytes_of_section, most = (4 * L2_OF_SECTION, 16) if depth == 256 else (L2_OF_SECTION, lines)
    section = max(1, min(lines, most, bytes_of_section // (4 * tokens * depth))) if causal else 1
    numbers = {"batch": batch, "heads": heads, "query_heads": heads // kv_heads, "tokens": tokens, "section": section, "log2_scale": scale * math.log2(math.e)}
    spec = launch_spec(kernel, f"{stem}.cubin", [min(tiles, 132), 1, 1], numbers, {})
    function = Function(folder / spec["cubin"], spec["entry"], spec["shared_bytes"], spec["cluster"])
    counter = torch.zeros(1, device="cuda", dtype=torch.int32)
    lse = torch.empty(batch, heads, tokens, device="cuda")
    return [Launch(function, spec, dict(q=q, k=k, v=v, out=o, lse=lse, counter=counter), False) for q, k, v, o in sets]


def fa4(sets, causal):
    from flash_attn.cute.interface import flash_attn_func

    turned = [tuple(x.transpose(1, 2) for x in s) for s in sets]
    return [lambda s=s: flash_attn_func(s[0], s[1], s[2], causal=causal) for s in turned]


def cudnn(sets, causal):
    def call(q, k, v, _):
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=q.shape[1] > k.shape[1])
    return [lambda s=s: call(*s) for s in sets]


def check(contestant, sets, causal, scale):
    q, k, v, o = sets[0]
    fill(o)
    contestant.calls[0]()
    q, k, v, o = (x[-1, -1:] for x in (q, k, v, o))
    scores = q.float() @ k.float().transpose(1, 2) * scale
    if causal:
        scores.masked_fill_(torch.ones(scores.shape[1:], device="cuda", dtype=torch.bool).triu(1), -math.inf)
    error = relative_error(o, (scores.softmax(-1) @ v.float()).double())
    print(f"{contestant.name}: relative error {error:.1e}", flush=True)
    return error < 1e-2


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("artefacts", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--shapes", type=Shape.of, nargs="+", default=SHAPES)
    parser.add_argument("--tokens-first", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    for shape in options.shapes:
        for causal in (False, True):
            name = shape.name(causal)
            if options.only not in name:
                continue
            scale = 1 / math.sqrt(shape.depth)
            sets = shape.sets(options.tokens_first)
            ways = []
            for groups, keys, turns in INSTANCES[shape.depth, causal]:
                stem = f"forward-bf16-{shape.depth}-{groups}-{keys}-{str(causal).lower()}-{turns}"
                if (options.artefacts / f"{stem}.json").exists():
                    ways.append((f"ours {64 * groups}x{keys}", lambda stem=stem, groups=groups: ours(options.artefacts, stem, sets, groups, causal, scale)))
            mine = len(ways)
            ways += [("fa4", lambda: fa4(sets, causal)), ("cudnn", lambda: cudnn(sets, causal))]
            held = [c for c in (enter(name, n, lambda: Contestant(n, make(), 30, graph_below_ms=0.0)) for n, make in ways) if c]
            for c in held[:mine]:
                if not check(c, sets, causal, scale):
                    print(f"WRONG {name} {c.name}")
            hold(held, options.rounds, 0.0, singles=options.rounds)
            report(name, held, shape.flops(causal), options.json)
            del held, sets
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
