#!/usr/bin/env python3
"""Attention forward of 8-bit floats (e4m3) of the crate `kernels` beside ours of bf16, and cuDNN's of 8-bit floats, which its frontend offers.

    python3 bench/peers/attention_fp8.py ARTEFACTS [--only SUBSTRING] [--json OUT]

ARTEFACTS is the folder that `cargo tilekit -p tilekit-kernels build --emit cubin` names. Random normal data, a factor for each head;
TFLOP/s count 4 * heads * tokens^2 * depth, half of it if causal. Ratios are the time of bf16, or of the peer, over ours.
"""

import argparse
import json
import math
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent))
from attention import INSTANCES, SHAPES, check, ours
from contest import Contestant, copies, enter, fill, hold, relative_error, report
from cuda_driver import Function, Launch
from manifest import launch_spec

L2_OF_SECTION = 32 << 20


def narrow(folder, stem, sets, factors, groups, causal, scale):
    batch, heads, tokens, depth = sets[0][0].shape
    kernel = json.loads((folder / f"{stem}.json").read_text())
    lines = batch * heads
    tiles = -(-tokens // (64 * groups)) * lines
    section = max(1, min(lines, L2_OF_SECTION // (2 * tokens * depth))) if causal else 1
    numbers = {"batch": batch, "heads": heads, "query_heads": heads // sets[0][1].shape[1], "tokens": tokens, "section": section, "log2_scale": scale * math.log2(math.e)}
    spec = launch_spec(kernel, f"{stem}.cubin", [min(tiles, 132), 1, 1], numbers, {})
    function = Function(folder / spec["cubin"], spec["entry"], spec["shared_bytes"], spec["cluster"])
    counter = torch.zeros(1, device="cuda", dtype=torch.int32)
    lse = torch.empty(batch, heads, tokens, device="cuda")
    q_factors, k_factors, v_factors = factors
    return [Launch(function, spec, dict(q=q, k=k, v=v, out=o, lse=lse, counter=counter, q_factors=q_factors, k_factors=k_factors, v_factors=v_factors), False)
            for q, k, v, o in sets]


def cudnn(sets, causal, scale):
    """cuDNN's attention of 8-bit floats by its frontend (nvidia-cudnn-frontend 1.16.0): factors of tensors, a result in e4m3, the sums of rows."""
    import cudnn as frontend

    _, heads, tokens, depth = sets[0][0].shape
    handle = frontend.create_handle()
    frontend.set_stream(handle=handle, stream=torch.cuda.current_stream().cuda_stream)
    f32, e4m3 = frontend.data_type.FLOAT, frontend.data_type.FP8_E4M3
    graph = frontend.pygraph(io_data_type=e4m3, intermediate_data_type=f32, compute_data_type=f32, handle=handle)
    dim, stride = [1, heads, tokens, depth], [heads * tokens * depth, tokens * depth, depth, 1]
    inputs = [graph.tensor(name=name, dim=dim, stride=stride, data_type=e4m3) for name in "qkv"]
    names = ("descale_q", "descale_k", "descale_v", "descale_s", "scale_s", "scale_o")
    factors = {n: graph.tensor(name=n, dim=[1] * 4, stride=[1] * 4, data_type=f32) for n in names}
    out, stats, *largest = graph.sdpa_fp8(q=inputs[0], k=inputs[1], v=inputs[2], **factors, attn_scale=scale, use_causal_mask=causal, generate_stats=True)
    out.set_output(True).set_dim(dim).set_stride(stride).set_data_type(e4m3)
    stats.set_output(True).set_dim([1, heads, tokens, 1]).set_stride([heads * tokens, tokens, 1, 1]).set_data_type(f32)
    for one in largest:
        one.set_output(True).set_dim([1] * 4).set_stride([1] * 4).set_data_type(f32)
    graph.validate()
    graph.build_operation_graph()
    graph.create_execution_plans([frontend.heur_mode.A])
    graph.check_support()
    graph.build_plans()
    work = torch.empty(max(1, graph.get_workspace_size()), device="cuda", dtype=torch.uint8)
    beside = {x: torch.ones(1, 1, 1, 1, device="cuda") for x in [*factors.values(), *largest]}
    beside[stats] = torch.empty(1, heads, tokens, 1, device="cuda")

    def call(q, k, v, _):
        pack = {x: y.view(torch.uint8).view(dim) for x, y in zip(inputs, (q, k, v))}
        pack |= {out: torch.empty(dim, device="cuda", dtype=torch.uint8), **beside}
        return lambda: graph.execute(pack, work, handle=handle)
    return [call(*s) for s in sets]


def check_narrow(contestant, sets, factors, causal, scale):
    q, k, v, o = sets[0]
    fill(o)
    contestant.calls[0]()
    q, k, v = [x[0, :1].float() * f[0] for x, f in zip((q, k, v), factors)]
    scores = q @ k.transpose(1, 2) * scale
    if causal:
        scores.masked_fill_(torch.ones(scores.shape[1:], device="cuda", dtype=torch.bool).triu(1), -math.inf)
    error = relative_error(o[0, :1], (scores.softmax(-1) @ v).double())
    print(f"{contestant.name}: relative error {error:.1e}", flush=True)
    # P is rounded with an error of up to 2^-4.
    return error < 5e-2


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("artefacts", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    for shape in SHAPES:
        d, h = shape.depth, shape.heads
        for causal in (False, True):
            name = f"fp8 {shape.name(causal)}"
            if options.only not in name:
                continue
            scale = 1 / math.sqrt(d)
            sets = shape.sets()
            narrow_sets = [tuple(x.to(torch.float8_e4m3fn) for x in s[:3]) + (s[3],) for s in sets]
            factors = [torch.rand(h, device="cuda") + 0.5 for _ in range(3)]
            ways = []
            for path in sorted(options.artefacts.glob(f"forward_fp8-{d}-*-{str(causal).lower()}-*.json")):
                groups, keys = [int(x) for x in path.stem.split("-")[2:4]]
                turns = " in turns" if path.stem.endswith("true") else ""
                ways.append((f"fp8 {64 * groups}x{keys}{turns}", lambda stem=path.stem, groups=groups: narrow(options.artefacts, stem, narrow_sets, factors, groups, causal, scale)))
            for groups, keys, turns in INSTANCES[d, causal]:
                stem = f"forward-bf16-{d}-{groups}-{keys}-{str(causal).lower()}-{turns}"
                if (options.artefacts / f"{stem}.json").exists():
                    ways.append((f"bf16 {64 * groups}x{keys}", lambda stem=stem, groups=groups: ours(options.artefacts, stem, sets, groups, causal, scale)))
            ways.append(("cudnn fp8", lambda: cudnn(narrow_sets, causal, scale)))
            held = [c for c in (enter(name, n, lambda: Contestant(n, make(), 30, graph_below_ms=0.0)) for n, make in ways) if c]
            for c in held:
                if c.name.startswith("fp8") and not check_narrow(c, narrow_sets, factors, causal, scale):
                    print(f"WRONG {name} {c.name}")
                elif c.name.startswith("bf16") and not check(c, sets, causal, scale):
                    print(f"WRONG {name} {c.name}")
            hold(held, options.rounds, 0.0, singles=options.rounds)
            report(name, held, shape.flops(causal), options.json)
            del held, sets, narrow_sets
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
