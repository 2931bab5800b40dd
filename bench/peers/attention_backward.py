#!/usr/bin/env python3
"""Attention backward of the crate `kernels` beside FlashAttention-4 (its SM90 path) and cuDNN (by torch), in one process.

    python3 bench/peers/attention_backward.py ARTEFACTS [--only SUBSTRING] [--json OUT]
    python3 bench/peers/attention_backward.py ARTEFACTS --shapes 128:4x32/8x8192 --tokens-first

ARTEFACTS is the folder that `cargo tilekit -p tilekit-kernels build --emit cubin` names. Needs flash-attn-4 4.0.0b36 with
nvidia-cutlass-dsl 4.8.1, and torch 2.11. Random normal data; a call is all launches from the output's gradient to those of Q, K
and V. TFLOP/s count 10 * heads * tokens^2 * depth (with values of another depth, 6 and 4 of the two), half of it if causal. Ratios are
the peer's time over ours. `in order` is ours with sums of dQ in a fixed order; `--bits` compares its results over 8 runs.
`--shapes` and `--tokens-first` are as in attention.py; at depth 192 values have 128.
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
from attention import Shape
from contest import Contestant, enter, fill, hold, relative_error, report
from cuda_driver import Function, Launch
from manifest import launch_spec

# Plans of launches, without the package around them, which needs compiled kernels.
sys.path.append(str(Path(__file__).parents[2] / "python/emulate/python/tilekit/kernels"))
from _attention_plan import GROUPS, plan

SHAPES = tuple(map(Shape.of, ("128:16x16384", "128:64x4096", "128:128x2048", "64:32x16384", "64:128x4096", "96:16x16384", "192:16x16384", "256:8x16384", "256:32x4096")))
# Elements of the parts of LSE and delta of a row.
PARTS = 16
# Further than any key is.
FAR = 1 << 29


def depth_of_values(depth):
    """192 is the prefill of MLA."""
    return 128 if depth == 192 else depth


class Ours:
    """The three launches of a call."""

    def __init__(self, folder, tensors, causal, scale, variant):
        batch, heads, tokens, depth = tensors["q"].shape
        kv_heads, values = tensors["k"].shape[1], tensors["v"].shape[3]
        of = plan(batch, heads, kv_heads, tokens, (depth, values), causal, variant == "true")
        rows = batch * heads * of.blocks * of.queries
        none = torch.zeros(4, device="cuda", dtype=torch.int32)
        # Dimension 0 is one of concatenated sequences.
        blocked = {name: tensors[name].unsqueeze(0) for name in ("q", "k", "v", "dout", "dk", "dv")}
        self.tensors = dict(tensors, **blocked, delta=torch.empty(rows, device="cuda"), log2_sum=torch.empty(rows, device="cuda"),
                            parts=torch.empty(PARTS * rows, device="cuda", dtype=torch.bfloat16),
                            sums=torch.empty(rows * depth, device="cuda"), turns=torch.empty(1 + batch * heads * of.blocks * GROUPS, device="cuda", dtype=torch.int32),
                            progress=torch.empty(2 * batch * kv_heads, device="cuda", dtype=torch.int32),
                            query_offsets=none, key_offsets=none, data=none, dout_rows=tensors["dout"])
        numbers = {"query_heads": heads // kv_heads, "queries": tokens, "keys": tokens, "is_ragged": 0, "seed": 0, "dropped": 0, "left": FAR, "right": 0 if causal else FAR, "chunk": FAR,
                   "row_stride": tokens, "block_stride": of.blocks, "score_scale": 1.0, "scale": scale, "log2_scale": scale * math.log2(math.e)}
        numbers |= {"sections": [of.section, of.lead, of.ahead, int(causal)], "heads": heads, "counts": 2 * batch * kv_heads, "first_line": of.first_line}
        strides = {name: list(tensors[name].stride()[:3]) for name in ("out", "dout", "dq")}
        numbers |= {"out_strides": strides["out"], "dout_strides": strides["dout"], "strides": strides["dq"], "dq_strides": strides["dq"]}
        stems = ((f"backward_begin-bf16-{depth}-{values}-{of.queries}", [of.blocks, *of.lines]),
                 (f"backward-bf16-{depth}-{values}-{variant}-Plain", [of.key_blocks, kv_heads, batch]),
                 (f"backward_end-bf16-{depth}-{of.queries}", [of.blocks * GROUPS, *of.lines]))
        self.launches = [self.launch(folder, stem, grid, numbers) for stem, grid in stems]

    def launch(self, folder, stem, grid, numbers):
        kernel = json.loads((folder / f"{stem}.json").read_text())
        spec = launch_spec(kernel, f"{stem}.cubin", grid, numbers, {})
        function = Function(folder / spec["cubin"], spec["entry"], spec["shared_bytes"], spec["cluster"])
        return Launch(function, spec, self.tensors)

    def __call__(self):
        for launch in self.launches:
            launch()


def gradients_of(forward, shape, tokens_first):
    """Calls of a peer for the gradients of `forward`, of two sets of tensors `[batch, heads, tokens, depth]`."""
    calls = []
    for _ in range(2):
        q, k = (shape.random(heads, tokens_first).requires_grad_() for heads in (shape.heads, shape.kv_heads))
        v = of_values(shape).random(shape.kv_heads, tokens_first).requires_grad_()
        out = forward(q, k, v)
        out = out[0] if isinstance(out, tuple) else out
        grad = torch.randn_like(out)
        calls.append(lambda out=out, q=q, k=k, v=v, grad=grad: torch.autograd.grad(out, (q, k, v), grad, retain_graph=True))
    return calls


def of_values(shape):
    return shape._replace(depth=depth_of_values(shape.depth))


def cudnn(shape, causal, tokens_first):
    def forward(q, k, v):
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=shape.heads > shape.kv_heads)
    return gradients_of(forward, shape, tokens_first)


def fa4(shape, causal):
    """Its tensors have tokens first, whatever ours have."""
    from flash_attn.cute.interface import flash_attn_func

    return gradients_of(lambda q, k, v: flash_attn_func(*(x.transpose(1, 2) for x in (q, k, v)), causal=causal), shape, True)


def attend(q, k, v, scale, mask):
    """Output, in bf16, and LSE of one head in f32."""
    scores = q.float() @ k.float().T * scale
    scores = scores if mask is None else scores.masked_fill_(mask, -math.inf)
    lse = scores.logsumexp(-1)
    return (scores.sub_(lse[:, None]).exp_() @ v.float()).bfloat16(), lse


def wanted_of(tensors, scale, mask):
    """Gradients in f32 of the last head of Q, and of K and V, with the query heads of their group."""
    group = tensors["q"].shape[1] // tensors["k"].shape[1]
    q, dout = (tensors[name][-1, -group:].float() for name in ("q", "dout"))
    k, v = (tensors[name][-1, -1].float().requires_grad_() for name in ("k", "v"))
    sums = None
    for head in range(group):
        one = q[head].requires_grad_()
        scores = one @ k.T * scale
        scores = scores if mask is None else scores.masked_fill(mask, -math.inf)
        dq, dk, dv = torch.autograd.grad(scores.softmax(-1) @ v, (one, k, v), dout[head])
        sums = (dk, dv) if sums is None else (sums[0] + dk, sums[1] + dv)
        del scores
    return dq, *sums


def ours(folder, shape, causal, variant, tokens_first):
    """Two sets of buffers, and what f32 gives for the last head of the first."""
    scale, calls, wanted = 1 / math.sqrt(shape.depth), [], None
    mask = torch.ones(shape.tokens, shape.tokens, device="cuda", dtype=torch.bool).triu(1) if causal else None
    narrow, group = of_values(shape), shape.heads // shape.kv_heads
    for _ in range(2):
        q, k = (shape.random(heads, tokens_first) for heads in (shape.heads, shape.kv_heads))
        v, dout, out = (narrow.random(heads, tokens_first) for heads in (shape.kv_heads, shape.heads, shape.heads))
        lse = torch.empty(shape.batch, shape.heads, shape.tokens, device="cuda")
        for batch in range(shape.batch):
            for head in range(shape.heads):
                out[batch, head], lse[batch, head] = attend(q[batch, head], k[batch, head // group], v[batch, head // group], scale, mask)
        tensors = dict(q=q, k=k, v=v, dout=dout, out=out, lse=lse, dq=torch.empty_like(q), dk=torch.empty_like(k), dv=torch.empty_like(v))
        for name in ("dq", "dk", "dv"):
            fill(tensors[name])
        wanted = wanted or wanted_of(tensors, scale, mask)
        calls.append(Ours(folder, tensors, causal, scale, variant))
    calls[0]()
    errors = [relative_error(calls[0].tensors[name][-1, -1], want.double()) for name, want in zip(("dq", "dk", "dv"), wanted)]
    print(f"ours {shape.name(causal)} ordered={variant}: relative errors of dq, dk, dv {' '.join(f'{e:.1e}' for e in errors)}{' WRONG' if max(errors) > 1e-2 else ''}", flush=True)
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
    parser.add_argument("--shapes", type=Shape.of, nargs="+", default=SHAPES)
    parser.add_argument("--tokens-first", action="store_true")
    parser.add_argument("--bits", action="store_true")
    parser.add_argument("--ways", default="ours,in order,fa4,cudnn")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    for shape in options.shapes:
        for causal in (False, True):
            name = shape.name(causal)
            if options.only not in name:
                continue
            mine = lambda variant: ours(options.artefacts, shape, causal, variant, options.tokens_first)
            if options.bits:
                compare_bits(name, mine("true")[0])
                torch.cuda.empty_cache()
                continue
            ways = (("ours", lambda: mine("false")), ("in order", lambda: mine("true")), ("fa4", lambda: fa4(shape, causal)),
                    ("cudnn", lambda: cudnn(shape, causal, options.tokens_first)))
            ways = [way for way in ways if way[0] in options.ways.split(",")]
            held = [c for c in (enter(name, n, lambda: Contestant(n, make(), 30, graph_below_ms=0.0)) for n, make in ways) if c]
            hold(held, options.rounds, 0.0, singles=options.rounds)
            flops = (6 * shape.flops(causal) + 4 * of_values(shape).flops(causal)) / 4
            report(name, held, flops, options.json, prefix="backward ")
            del held
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
