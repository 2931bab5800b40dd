#!/usr/bin/env python3
"""Our memory-bound kernels beside torch and torch.compile, interleaved in one process on one GPU.

    python3 bench/peers/memory_bound.py MANIFEST.json [--only TEXT] [--rounds N] [--json FILE] [--no-pdl] [--no-triton]

MANIFEST.json is what manifest.py writes: for each case its buffers, its launches (cubin, entry, grid, block, cluster, shared
bytes, parameters, whether it may overlap the launch before) and the bytes it must move. The cubins are loaded into torch's own
context and launched on torch's stream, so that ours and theirs share clocks, memory and neighbours.

A kernel that waits for the launch before it overlaps with that (programmatic dependent launch) as `tilekit`, and is timed
without as `tilekit plain` too; `--no-pdl` leaves only the latter. Triton kernels (triton_rows.py) stand beside the row-wise ones,
each with the fastest of a small sweep.

Timing: inputs N(0, 1), each contestant rotates over enough sets of buffers to exceed four times the L2 cache, all over
the same inputs. torch allocates its outputs itself; `torch.compile into` writes into those that ours has. contest.py says how
visits are made. Reported: the median over the rounds, minimum and maximum, bandwidth of the compulsory bytes, and the
median of the per-round ratio of each contestant's time to ours. Each of our kernels is checked against torch in float64 on
poisoned outputs before and after it is timed, and every other contestant once.
"""

import argparse
import gc
import json
import random
import statistics
import sys
import time
from pathlib import Path

import torch
import torch.nn.functional as F

from contest import Contestant, copies, enter, fill, hold, ratio, relative_error, rough_ms
from cuda_driver import Function, Launch

DTYPES = {
    "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "f64": torch.float64,
    "i32": torch.int32, "i64": torch.int64, "i8": torch.int8, "u8": torch.uint8,
}


def fresh(buffer):
    dtype = DTYPES[buffer["dtype"]]
    tensor = torch.empty(*buffer["shape"], device="cuda", dtype=dtype)
    if buffer["role"] != "input":
        fill(tensor)
        return tensor
    return tensor.normal_() if dtype.is_floating_point else tensor.random_(0, 100)


# The peer of each kernel: a function of the case's inputs, in the order of its buffers, and one of the same in float64.
def softmax(x):
    return F.softmax(x, dim=-1)


def l2norm(x):
    return x / (x * x).sum(-1, keepdim=True).sqrt()


PEERS = {
    "vector_add": lambda x, y: x + y,
    "pdl_chain": lambda x, weight: x * weight * weight,
    "bulk_ring": lambda x: x * 0.5,
    "copy_1d": lambda x: x.clone(),
    "copy_2d": lambda x: x.clone(),
    "softmax": softmax,
    "rmsnorm": lambda x, w: F.rms_norm(x, w.shape, w, 1e-5),
    "layernorm": lambda x, w, b: F.layer_norm(x, w.shape, w, b, 1e-5),
    "fused_l2norm": l2norm,
    "gelu_bias": lambda x, b: F.gelu(x + b, approximate="tanh"),
    "row_sum": lambda x: x.sum(-1),
    "column_sum": lambda x: x.sum(0),
    "prefix_sum": lambda x: x.cumsum(0),
    "transpose": lambda x: x.t().contiguous(),
    "cross_entropy": lambda x, label: F.cross_entropy(x, label.long(), reduction="none"),
}


def peer_of(kernel):
    names = sorted((n for n in PEERS if kernel.startswith(n)), key=len)
    return PEERS[names[-1]] if names else None


def our_sets(case, base, allow_overlap):
    """Buffers of each set, and the launches over them: as they are meant, and each after the end of the one before."""
    functions = {}
    for spec in case["launches"]:
        key = spec["cubin"], spec["entry"]
        cluster = spec.get("cluster", [1, 1, 1])
        functions.setdefault(key, Function(base / spec["cubin"], spec["entry"], spec["shared_bytes"], cluster))

    def launches(tensors, overlap):
        return [Launch(functions[spec["cubin"], spec["entry"]], spec, tensors, overlap) for spec in case["launches"]]

    sets = []
    for _ in range(copies(case["bytes"])):
        tensors = {b["name"]: fresh(b) for b in case["buffers"]}
        sets.append((tensors, launches(tensors, allow_overlap), launches(tensors, False)))
    return sets


def run_all(launches):
    for launch in launches:
        launch()


def inputs_of(case, tensors):
    return [tensors[b["name"]] for b in case["buffers"] if b["role"] == "input"]


def reference(case, tensors, peer):
    """In float64 where memory allows."""
    wide = inputs_of(case, tensors)
    small = sum(t.numel() for t in wide) <= 1 << 28
    if small:
        return peer(*[t.double() if t.dtype.is_floating_point else t for t in wide])
    return peer(*[t.float() if t.dtype.is_floating_point else t for t in wide])


def check(case, sets, peer):
    """Our worst error over the first sets, launched both ways."""
    worst = 0.0
    outputs = [b["name"] for b in case["buffers"] if b["role"] != "input"]
    for tensors, *ways in sets[:2]:
        want = reference(case, tensors, peer)
        for launches in ways:
            for name in outputs:
                fill(tensors[name])
            run_all(launches)
            torch.cuda.synchronize()
            # Scratch of a two-launch kernel is an output too; the result is the last.
            worst = max(worst, relative_error(tensors[outputs[-1]], want))
        del want
        torch.cuda.empty_cache()
    return worst


class Theirs:
    """A function of the inputs as a contestant, which keeps its last results."""

    def __init__(self, case, sets, function):
        self.case, self.sets, self.function, self.slots = case, sets, function, [None] * len(sets)
        self.calls = [lambda i=i: self.call(i) for i in range(len(sets))]

    def call(self, i):
        self.slots[i] = self.function(*inputs_of(self.case, self.sets[i][0]))

    def error(self, peer):
        self.call(0)
        torch.cuda.synchronize()
        return relative_error(self.slots[0], reference(self.case, self.sets[0][0], peer))


class Into(Theirs):
    """The same, compiled to write its result into our output's buffer."""

    def __init__(self, case, sets, function):
        def into(out, *inputs):
            return out.copy_(function(*inputs))
        super().__init__(case, sets, torch.compile(into, dynamic=False))
        self.output = [b["name"] for b in case["buffers"] if b["role"] != "input"][-1]

    def call(self, i):
        tensors = self.sets[i][0]
        self.slots[i] = self.function(tensors[self.output], *inputs_of(self.case, tensors))


def fastest_triton(case, sets):
    """Of the Triton kernels for this case the one that is fastest by a short look; None where there is none."""
    import triton_rows

    best = None
    for name, function in triton_rows.candidates(case["kernel"], inputs_of(case, sets[0][0])):
        theirs = Theirs(case, sets, function)
        ms = enter(case["name"], f"triton {name}", lambda: rough_ms(theirs.calls, 3, 16))
        if ms is not None and (best is None or ms < best[0]):
            best = ms, name, theirs
    return best


def theirs_of(case, sets, peer, args):
    """Names, and how each is made ready."""
    yield "torch", lambda: Theirs(case, sets, peer)
    yield "torch.compile", lambda: Theirs(case, sets, torch.compile(peer, dynamic=False))
    yield "torch.compile into", lambda: Into(case, sets, peer)
    if not args.no_triton:
        best = enter(case["name"], "triton", lambda: fastest_triton(case, sets))
        if best:
            yield f"triton {best[1]}", lambda: best[2]


def contestants_of(case, sets, peer, args):
    """All that are timed, ours first, and the errors of the others."""
    overlaps = any(launch.overlaps for launch in sets[0][1])
    ours = [Contestant("tilekit", [lambda s=s: run_all(s[1]) for s in sets], args.batch_ms)]
    if overlaps:
        ours.append(Contestant("tilekit plain", [lambda s=s: run_all(s[2]) for s in sets], args.batch_ms))
    torch._dynamo.reset()
    errors, found = {}, []
    for name, make in theirs_of(case, sets, peer, args):
        def entered(name=name, make=make):
            theirs = make()
            errors[name] = theirs.error(peer)
            return Contestant(name, theirs.calls, args.batch_ms)
        found.append(enter(case["name"], name, entered))
    return ours + [c for c in found if c], errors


def time_case(case, args, base):
    peer = peer_of(case["kernel"])
    sets = our_sets(case, base, not args.no_pdl)
    error = check(case, sets, peer)
    contestants, errors = contestants_of(case, sets, peer, args)
    hold(contestants, args.rounds)
    error = max(error, check(case, sets, peer))
    rows = []
    for c in contestants:
        median = statistics.median(c.back_to_back_us)
        rows.append({
            "case": case["name"], "contestant": c.name, "us": round(median, 3), "us_min": round(min(c.back_to_back_us), 3),
            "us_max": round(max(c.back_to_back_us), 3), "tbps": round(case["bytes"] / median / 1e6, 3),
            "tilekit_speedup": round(ratio(c.back_to_back_us, contestants[0].back_to_back_us), 4), "mode": c.mode, "sets": len(sets),
            "error": errors.get(c.name, error),
        })
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("manifest", type=Path)
    parser.add_argument("--only", default="", help="cases whose name contains one of these comma-separated texts")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--batch-ms", type=float, default=8.0)
    parser.add_argument("--tolerance", type=float, default=8e-3)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--no-pdl", action="store_true", help="launch each kernel after the end of the one before")
    parser.add_argument("--no-triton", action="store_true", help="leave the Triton kernels out")
    args = parser.parse_args()
    random.seed(1)
    torch.manual_seed(1)
    torch.cuda.init()
    torch.zeros(1, device="cuda")
    cases = json.loads(args.manifest.read_text())["cases"]
    wanted = [t for t in args.only.split(",") if t]
    out = open(args.json, "w") if args.json else None
    failed = False
    print(f"# {torch.cuda.get_device_name()}, torch {torch.__version__}, {time.strftime('%Y-%m-%d')}")
    print(f"# {'case':46s} {'contestant':22s} {'us':>9s} {'min':>9s} {'max':>9s} {'TB/s':>6s} {'ratio':>7s}  error")
    for case in cases:
        if wanted and not any(t in case["name"] for t in wanted):
            continue
        gc.collect()
        torch.cuda.empty_cache()
        try:
            rows = time_case(case, args, args.manifest.parent)
        except Exception as error:  # one case that cannot run must not lose the others
            print(f"{case['name']:48s} ERROR {type(error).__name__}: {str(error)[:300]}", flush=True)
            failed = True
            continue
        for row in rows:
            error = f"{row['error']:.1e}"
            if not row["error"] <= args.tolerance:
                error += " WRONG"
                failed = True
            print(f"{row['case']:48s} {row['contestant']:22s} {row['us']:9.2f} {row['us_min']:9.2f} {row['us_max']:9.2f} "
                  f"{row['tbps']:6.3f} {row['tilekit_speedup']:7.4f}  {error}", flush=True)
            if out:
                out.write(json.dumps(row) + "\n")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
