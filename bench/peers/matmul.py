#!/usr/bin/env python3
"""Our matrix products beside cuBLAS (by torch), Triton and Gluon, interleaved in one process on one GPU.

    python3 bench/peers/matmul.py ARTEFACTS [--shapes 8192x8192x8192,4096x4096x4096] [--ours TEXT,TEXT] [--rounds N]
                                  [--sustained SECONDS] [--peers triton,gluon] [--json FILE] [--no-pdl]

ARTEFACTS is the folder that `cargo tilekit build --emit cubin` names, with a .cubin and a .json for each variant. Each shape is
M x N x K of `C[M, N] = A[M, K] · B[N, K]ᵀ`, bf16, N(0, 1). Triton and Gluon (matmul_triton.py, matmul_gluon.py) enter with the
fastest of a small sweep, and all of ours that are named in OURS.

Two columns as in bench/README.md: single launches after a rest and behind a kernel that spins, and slices back to back (from a
CUDA graph, sets of buffers in turn); `--sustained` adds a third. Ratios are the median over the rounds of cuBLAS's time to a
contestant's: more than 1 is faster than cuBLAS. Every result is compared with a product in float64 on poisoned outputs.
"""

import argparse
import json
import random
import statistics
import sys
import time
from pathlib import Path

import torch

from contest import Contestant, copies, enter, fill, hold, ratio, relative_error, rough_ms
from cuda_driver import Function, Launch
from manifest import launch_spec

SHAPES = ("8192x8192x8192", "4096x4096x4096", "4096x14336x4096", "4096x4096x14336", "4096x28672x4096", "2048x2048x2048", "1024x1024x1024")


def tiles(m, n, bm, bn):
    return -(-m // bm) * -(-n // bn)


# Kernels of examples/, and the grid for M, N and the compile-time numbers of a variant, as their cases choose it.
OURS = {
    "matmul_warp_specialized": lambda m, n, bn, bk, stages: [min(tiles(m, n, 128, bn), 128), 1, 1],
    "matmul_cluster": lambda m, n, bn, half, bk, stages: [2 * min(tiles(m, n, 256, bn), 64), 1, 1],
    "matmul_small": lambda m, n, groups, bn, stages: [-(-m // (64 * groups)), -(-n // bn), 1],
}


def variants(folder, wanted):
    """Our bf16 variants with their descriptions."""
    for path in sorted(folder.glob("matmul_*.json")):
        name, *arguments = path.stem.split("-")
        if name in OURS and arguments[0] == "bf16" and (not wanted or any(t in path.stem for t in wanted)):
            yield path.stem, OURS[name], [int(a) for a in arguments[1:]], json.loads(path.read_text())


def our_contestants(folder, sets, args):
    """Names, and what makes each ready; those that wait for the launch before twice, unless that is not wanted."""
    (m, k), n = sets[0][0].shape, sets[0][1].shape[0]
    for name, grid_of, numbers, kernel in variants(folder, [t for t in args.ours.split(",") if t]):
        if name.startswith("matmul_small") and max(m, n) > 2048:
            continue
        spec = launch_spec(kernel, f"{name}.cubin", grid_of(m, n, *numbers), {"m": m, "n": n, "k": k}, {})

        def make(overlap, spec=spec):
            function = Function(folder / spec["cubin"], spec["entry"], spec["shared_bytes"], spec["cluster"])
            return [Launch(function, spec, dict(zip("abc", tensors)), overlap) for tensors in sets]

        if spec["overlaps"] and not args.no_pdl:
            yield f"{name} overlapping", lambda make=make: make(True)
        yield name, lambda make=make: make(False)


def fastest(case, kind, module, sets):
    """The calls of the fastest of a module's candidates by a short look, with its name."""
    best = None
    for name, prepare in module.candidates(*sets[0]):
        def look(prepare=prepare):
            calls = [prepare(*tensors) for tensors in sets]
            return rough_ms(calls, 3, 16), calls
        found = enter(case, f"{kind} {name}", look)
        if found and (best is None or found[0] < best[0]):
            best = *found, f"{kind} {name}"
    return best and (best[2], best[1])


def peers(case, sets, kinds):
    """Names, and what makes each ready."""
    yield "cuBLAS by torch", lambda: [lambda t=t: torch.mm(t[0], t[1].t(), out=t[2]) for t in sets]
    for kind in kinds:
        best = enter(case, kind, lambda: fastest(case, kind, __import__(f"matmul_{kind}"), sets))
        if best:
            yield best[0], lambda best=best: best[1]


def error_of(calls, sets, want):
    """The result of the first set on poison."""
    fill(sets[0][2])
    calls[0]()
    torch.cuda.synchronize()
    return relative_error(sets[0][2], want)


def time_shape(shape, args):
    m, n, k = (int(x) for x in shape.split("x"))
    new = lambda rows, columns: torch.empty(rows, columns, device="cuda", dtype=torch.bfloat16)
    count = max(2, min(24, copies(2 * (m * k + n * k + m * n))))
    sets = [(new(m, k).normal_(), new(n, k).normal_(), new(m, n)) for _ in range(count)]
    want = sets[0][0].double() @ sets[0][1].double().t()
    found = []
    for name, make in [*peers(shape, sets, [p for p in args.peers.split(",") if p]), *our_contestants(args.artefacts, sets, args)]:
        def entered(name=name, make=make):
            calls = make()
            return Contestant(name, calls, args.batch_ms, graph_below_ms=20.0), error_of(calls, sets, want)
        found.append(enter(shape, name, entered))
    found = [pair for pair in found if pair]
    hold([c for c, _ in found], args.rounds, args.sustained, singles=args.singles)
    return [row(shape, 2 * m * n * k, c, found[0][0], error, error_of(c.calls, sets, want)) for c, error in found]


def row(shape, flops, c, first, *errors):
    out = {"shape": shape, "contestant": c.name, "error": max(errors)}
    for mode in ("single", "back_to_back", "sustained"):
        mine, base = getattr(c, f"{mode}_us"), getattr(first, f"{mode}_us")
        if mine:
            median = statistics.median(mine)
            out[mode] = {"us": round(median, 3), "tflops": round(flops / median / 1e6, 1), "ratio": round(ratio(base, mine), 4), "samples_us": mine}
    return out


def line(r):
    cells = [f"{r[mode]['us']:9.2f} us {r[mode]['tflops']:6.1f} TFLOP/s {r[mode]['ratio']:.3f}"
             for mode in ("single", "back_to_back", "sustained") if mode in r]
    return f"{r['shape']:18s} {r['contestant']:46s} {' | '.join(cells)} | {r['error']:.1e}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("artefacts", type=Path)
    parser.add_argument("--shapes", default=",".join(SHAPES))
    parser.add_argument("--ours", default="", help="variants whose file name contains one of these comma-separated texts")
    parser.add_argument("--peers", default="triton,gluon", help="which stand beside cuBLAS")
    parser.add_argument("--rounds", type=int, default=8, help="slices back to back")
    parser.add_argument("--singles", type=int, default=21, help="single launches")
    parser.add_argument("--batch-ms", type=float, default=100.0)
    parser.add_argument("--sustained", type=float, default=0.0, help="seconds that each runs on at the end, twice")
    parser.add_argument("--tolerance", type=float, default=4e-3)
    parser.add_argument("--no-pdl", action="store_true", help="launch each kernel after the end of the one before")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    random.seed(1)
    torch.manual_seed(1)
    out = open(args.json, "w") if args.json else None
    failed = False
    print(f"# {torch.cuda.get_device_name()}, torch {torch.__version__}, {time.strftime('%Y-%m-%d')}")
    print("# shape, contestant: time, rate, cuBLAS's time over it (more than 1 is faster); single | back to back | sustained | error")
    for shape in args.shapes.split(","):
        rows = enter(shape, "all", lambda: time_shape(shape, args))
        failed |= rows is None
        for r in rows or []:
            is_wrong = not r["error"] <= args.tolerance
            failed |= is_wrong
            print(line(r) + (" WRONG" if is_wrong else ""), flush=True)
            if out:
                out.write(json.dumps(r) + "\n")
                out.flush()
        torch.cuda.empty_cache()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
