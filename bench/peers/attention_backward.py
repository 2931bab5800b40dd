#!/usr/bin/env python3
"""Attention backward of the crate `kernels` beside FlashAttention-4 (its SM90 path) and cuDNN (by torch), in one process.

    python3 bench/peers/attention_backward.py ARTEFACTS [--only SUBSTRING] [--json OUT]

ARTEFACTS is the folder that `cargo tilekit -p tilekit-kernels build --emit cubin` names. Needs flash-attn-4 4.0.0b36 with
nvidia-cutlass-dsl 4.8.1, and torch 2.11. Random normal data; a call is all launches from the output's gradient to those of Q, K
and V. TFLOP/s count 10 * heads * tokens^2 * depth (with values of another depth, 6 and 4 of the two), half of it if causal. Ratios are
the peer's time over ours. `in order` is ours with sums of dQ in a fixed order; `--bits` compares its results over 8 runs.
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
from contest import Contestant, enter, fill, hold, relative_error, report
from cuda_driver import Function, Launch
from manifest import launch_spec

# Depth, that of the values, heads, tokens.
SHAPES = ((128, 128, 16, 16384), (128, 128, 64, 4096), (128, 128, 128, 2048), (64, 64, 32, 16384), (64, 64, 128, 4096), (96, 96, 16, 16384),
          (192, 128, 16, 16384), (256, 256, 8, 16384), (256, 256, 32, 4096))
GROUPS = 2
# Elements of the parts of LSE and delta of a row.
PARTS = 16
SECTION_BYTES, MOST_HEADS, SMS = 32 << 20, 8, 132
# Depths whose main loop has the passes of most heads.
WITH_PASSES = (64, 128)
# Further than any key is.
FAR = 1 << 29


def sections(heads, tokens, depth, values, keys, causal, is_ordered):
    """Heads of a section, and blocks of keys that one has begun when the next one begins, as kernels/src/attention/backward/sections.rs has them."""
    blocks = -(-tokens // keys)
    most_heads = min(MOST_HEADS, -(-SMS // blocks)) if is_ordered and causal and depth == 256 else MOST_HEADS
    most = max(1, min(most_heads, heads, SECTION_BYTES // (tokens * (2 * (depth + values) + 4 * depth))))
    return most if is_ordered or causal else 1, -(-blocks // 2) if is_ordered and causal else blocks


def heads_ahead(section, lead, heads, blocks):
    """Heads whose rows the first kernel begins, and whose dQ the last one rounds, as kernels/src/attention/backward/beside.rs has them."""
    return min(heads, section * (2 if lead < blocks else 1) + max(1, SMS // blocks))


class Ours:
    """The three launches of a call."""

    def __init__(self, folder, tensors, causal, scale, variant):
        _, heads, tokens, depth = tensors["q"].shape
        values = tensors["v"].shape[3]
        queries, keys = 128 if depth <= 64 else 64, 128 if depth <= 128 else 96 if depth <= 192 else 80
        blocks = -(-tokens // queries)
        rows = heads * blocks * queries
        none = torch.zeros(4, device="cuda", dtype=torch.int32)
        self.tensors = dict(tensors, delta=torch.empty(rows, device="cuda"), log2_sum=torch.empty(rows, device="cuda"),
                            parts=torch.empty(PARTS * rows, device="cuda", dtype=torch.bfloat16),
                            sums=torch.empty(rows * depth, device="cuda"), turns=torch.empty(1 + heads * blocks * GROUPS, device="cuda", dtype=torch.int32),
                            progress=torch.empty(2 * heads, device="cuda", dtype=torch.int32),
                            query_offsets=none, key_offsets=none, data=none, dk_rows=tensors["dk"], dv_rows=tensors["dv"], dout_rows=tensors["dout"])
        numbers = {"query_heads": 1, "queries": tokens, "keys": tokens, "is_ragged": 0, "seed": 0, "dropped": 0, "left": FAR, "right": 0 if causal else FAR, "chunk": FAR,
                   "row_stride": tokens, "block_stride": blocks, "score_scale": 1.0, "scale": scale, "log2_scale": scale * math.log2(math.e)}
        key_blocks = -(-tokens // keys)
        section, lead = sections(heads, tokens, depth, values, keys, causal, variant == "true")
        ahead = heads_ahead(section, lead, heads, key_blocks) if depth in WITH_PASSES else heads
        numbers |= {"sections": [section, lead, ahead, int(causal)], "heads": heads, "counts": 2 * heads, "first_line": heads - ahead}
        for name in ("out", "dout"):
            numbers[f"{name}_strides"] = [heads * tokens * values, tokens * values, values]
        numbers["strides"] = numbers["dq_strides"] = [heads * tokens * depth, tokens * depth, depth]
        numbers |= {"dk_strides": [tokens * depth, depth], "dv_strides": [tokens * values, values]}
        stems = ((f"backward_begin-bf16-{depth}-{values}-{queries}", [blocks, ahead, 1]),
                 (f"backward-bf16-{depth}-{values}-{variant}-Plain", [key_blocks, heads, 1]),
                 (f"backward_end-bf16-{depth}-{queries}", [blocks * GROUPS, ahead, 1]))
        self.launches = [self.launch(folder, stem, grid, numbers) for stem, grid in stems]

    def launch(self, folder, stem, grid, numbers):
        kernel = json.loads((folder / f"{stem}.json").read_text())
        spec = launch_spec(kernel, f"{stem}.cubin", grid, numbers, {})
        function = Function(folder / spec["cubin"], spec["entry"], spec["shared_bytes"], spec["cluster"])
        return Launch(function, spec, self.tensors)

    def __call__(self):
        for launch in self.launches:
            launch()


def gradients_of(forward, shape, values):
    calls = []
    for _ in range(2):
        q, k, v = (torch.randn(*shape, n, device="cuda", dtype=torch.bfloat16).requires_grad_() for n in values)
        out = forward(q, k, v)
        out = out[0] if isinstance(out, tuple) else out
        grad = torch.randn_like(out)
        calls.append(lambda out=out, q=q, k=k, v=v, grad=grad: torch.autograd.grad(out, (q, k, v), grad, retain_graph=True))
    return calls


def cudnn(d, dv, causal, h, t):
    def forward(q, k, v):
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    return gradients_of(forward, (1, h, t), (d, d, dv))


def fa4(d, dv, causal, h, t):
    from flash_attn.cute.interface import flash_attn_func

    return gradients_of(lambda q, k, v: flash_attn_func(q, k, v, causal=causal), (1, t, h), (d, d, dv))


def ours(folder, d, dv, causal, h, t, variant):
    """Two sets of buffers, and what f32 gives for one head of the first."""
    scale, calls, wanted = 1 / math.sqrt(d), [], None
    for _ in range(2):
        q, k, v, dout = (torch.randn(h, t, n, device="cuda", dtype=torch.bfloat16) for n in (d, d, dv, dv))
        out, lse = torch.empty_like(v), torch.empty(h, t, device="cuda")
        mask = torch.ones(t, t, device="cuda", dtype=torch.bool).triu(1) if causal else None
        for head in range(h):
            scores = q[head].float() @ k[head].float().T * scale
            scores = scores.masked_fill_(mask, -math.inf) if causal else scores
            lse[head] = scores.logsumexp(-1)
            out[head] = (scores.sub_(lse[head][:, None]).exp_() @ v[head].float()).bfloat16()
            del scores
        if wanted is None:
            wide = [x[:1].float().requires_grad_() for x in (q, k, v)]
            scores = wide[0] @ wide[1].transpose(1, 2) * scale
            scores = scores.masked_fill(mask, -math.inf) if causal else scores
            wanted = torch.autograd.grad(scores.softmax(-1) @ wide[2], wide, dout[:1].float())
            del scores
        tensors = dict(q=q, k=k, v=v, dout=dout, out=out, lse=lse, dq=torch.empty_like(q), dk=torch.empty_like(k), dv=torch.empty_like(v))
        for name in ("dq", "dk", "dv"):
            fill(tensors[name])
        calls.append(Ours(folder, {name: x if name == "lse" else x[None] for name, x in tensors.items()}, causal, scale, variant))
    calls[0]()
    errors = [relative_error(calls[0].tensors[name][0, :1], want.double()) for name, want in zip(("dq", "dk", "dv"), wanted)]
    print(f"ours d{d}/{dv} causal={causal} ordered={variant}: relative errors of dq, dk, dv {' '.join(f'{e:.1e}' for e in errors)}{' WRONG' if max(errors) > 1e-2 else ''}", flush=True)
    return calls


def compare_bits(name, call):
    """Whether the results of 8 runs have the same bits."""
    runs = []
    for _ in range(8):
        call()
        torch.cuda.synchronize()
        runs.append([call.tensors[name].view(torch.int16).clone() for name in ("dq", "dk", "dv")])
    same = [all(torch.equal(run[at], runs[0][at]) for run in runs) for at in range(3)]
    print(f"bits {name} in order: dq, dk, dv the same in 8 runs: {same}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("artefacts", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--bits", action="store_true")
    parser.add_argument("--ways", default="ours,in order,fa4,cudnn")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    for d, dv, h, t in SHAPES:
        for causal in (False, True):
            name = f"d{d} {'causal' if causal else 'full'} {h}x{t}"
            if options.only not in name:
                continue
            if options.bits:
                compare_bits(name, ours(options.artefacts, d, dv, causal, h, t, "true")[0])
                torch.cuda.empty_cache()
                continue
            ways = (("ours", lambda: ours(options.artefacts, d, dv, causal, h, t, "false")), ("in order", lambda: ours(options.artefacts, d, dv, causal, h, t, "true")),
                    ("fa4", lambda: fa4(d, dv, causal, h, t)), ("cudnn", lambda: cudnn(d, dv, causal, h, t)))
            ways = [way for way in ways if way[0] in options.ways.split(",")]
            held = [c for c in (enter(name, n, lambda: Contestant(n, make(), 30, graph_below_ms=0.0)) for n, make in ways) if c]
            hold(held, options.rounds, 0.0, singles=options.rounds)
            flops = h * t * t * (6 * d + 4 * dv) * (0.5 if causal else 1)
            report(name, held, flops, options.json, prefix="backward ")
            del held
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
