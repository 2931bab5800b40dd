#!/usr/bin/env python3
"""Our memory-bound kernels beside torch and torch.compile, interleaved in one process on one GPU.

    python3 bench/peers/memory_bound.py MANIFEST.json [--only TEXT] [--rounds N] [--json FILE]

MANIFEST.json is what `cargo tilekit build --export DIR` writes: for each case its buffers, its launches (cubin, entry,
grid, block, shared bytes, parameters) and the bytes it must move. The cubins are loaded into torch's own context and
launched on torch's stream, so that ours and theirs share clocks, memory and neighbours.

Timing: inputs N(0, 1), each contestant rotates over enough sets of buffers to exceed four times the L2 cache. Every round
visits all contestants of a case in a new random order; a visit is a batch of launches between two events, replayed from a
CUDA graph when one launch is shorter than 0.15 ms. Reported: the median over the rounds, minimum and maximum, bandwidth of
the compulsory bytes, and the median of the per-round ratio to the best torch contestant. Each of our kernels is checked
against torch in float64 on poisoned outputs before and after it is timed.
"""

import argparse
import ctypes
import json
import math
import random
import statistics
import sys
import time
from pathlib import Path

import torch
import torch.nn.functional as F

L2_BYTES = 60 << 20
GRAPH_BELOW_MS = 0.15
DTYPES = {
    "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16, "f64": torch.float64,
    "i32": torch.int32, "i64": torch.int64, "i8": torch.int8, "u8": torch.uint8,
}
SCALARS = {
    "i32": ctypes.c_int32, "u32": ctypes.c_uint32, "i64": ctypes.c_int64, "u64": ctypes.c_uint64,
    "f32": ctypes.c_float, "f64": ctypes.c_double, "i8": ctypes.c_int8, "u8": ctypes.c_uint8,
    "i16": ctypes.c_int16, "u16": ctypes.c_uint16, "bool": ctypes.c_uint8,
}

cuda = ctypes.CDLL("libcuda.so.1")


def ck(code, what):
    if code:
        text = ctypes.c_char_p()
        cuda.cuGetErrorString(code, ctypes.byref(text))
        raise RuntimeError(f"{what}: {code} {text.value.decode() if text.value else ''}")


class Function:
    """One kernel of one cubin."""

    def __init__(self, cubin, entry, shared_bytes):
        self.module, self.handle = ctypes.c_void_p(), ctypes.c_void_p()
        ck(cuda.cuModuleLoadData(ctypes.byref(self.module), Path(cubin).read_bytes()), f"loading {cubin}")
        ck(cuda.cuModuleGetFunction(ctypes.byref(self.handle), self.module, entry.encode()), f"finding {entry}")
        if shared_bytes > 48 << 10:
            ck(cuda.cuFuncSetAttribute(self.handle, 8, shared_bytes), "raising the shared-memory limit")


class Launch:
    """One launch with its parameters packed."""

    def __init__(self, function, spec, tensors):
        self.function, self.spec = function, spec
        self.values = []
        for p in spec["params"]:
            if p["kind"] == "buffer":
                self.values.append(ctypes.c_uint64(tensors[p["name"]].data_ptr()))
            else:
                self.values.append(SCALARS[p["kind"]](p["value"]))
        self.pointers = (ctypes.c_void_p * len(self.values))(*[ctypes.addressof(v) for v in self.values])

    def __call__(self):
        grid, block = self.spec["grid"], self.spec["block"]
        block = block if isinstance(block, list) else [block, 1, 1]
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        ck(cuda.cuLaunchKernel(self.function.handle, *grid, *block, self.spec["shared_bytes"], stream, self.pointers, None),
           f"launching {self.spec['entry']}")


def fresh(buffer):
    dtype = DTYPES[buffer["dtype"]]
    shape = buffer["shape"]
    if buffer["role"] != "input":
        out = torch.empty(*shape, device="cuda", dtype=dtype)
        return out.fill_(float("nan")) if dtype.is_floating_point else out.fill_(-77)
    if dtype.is_floating_point:
        return torch.empty(*shape, device="cuda", dtype=dtype).normal_()
    return torch.randint(0, 100, shape, device="cuda", dtype=dtype)


def copies(nbytes):
    return max(1, min(48, math.ceil(4 * L2_BYTES / nbytes)))


# The peer of each kernel: a function of the case's inputs, in the order of its buffers, and one of the same in float64.
def softmax(x):
    return F.softmax(x, dim=-1)


def l2norm(x):
    return x / (x * x).sum(-1, keepdim=True).sqrt()


PEERS = {
    "vector_add": lambda x, y: x + y,
    "copy_1d": lambda x: x.clone(),
    "copy_2d": lambda x: x.clone(),
    "softmax": softmax,
    "rmsnorm": lambda x, w: F.rms_norm(x, w.shape, w, 1e-5),
    "layernorm": lambda x, w, b: F.layer_norm(x, w.shape, w, b, 1e-5),
    "fused_l2norm": l2norm,
    "gelu_bias": lambda x, b: F.gelu(x + b, approximate="tanh"),
    "row_sum": lambda x: x.sum(-1),
    "column_sum": lambda x: x.sum(0),
    "transpose": lambda x: x.t().contiguous(),
    "cross_entropy": lambda x, label: F.cross_entropy(x, label.long(), reduction="none"),
}


def peer_of(kernel):
    names = sorted((n for n in PEERS if kernel.startswith(n)), key=len)
    return PEERS[names[-1]] if names else None


def relative_error(out, want):
    """Norm of the difference over norm of the reference, in float64, a slice at a time."""
    out, want = out.reshape(-1), want.reshape(-1)
    top = bottom = 0.0
    step = 1 << 26
    for i in range(0, out.numel(), step):
        a, b = out[i:i + step].double(), want[i:i + step].double()
        if not torch.isfinite(a).all():
            return math.inf
        top += (a - b).square().sum().item()
        bottom += b.square().sum().item()
    return math.sqrt(top / bottom) if bottom else math.sqrt(top)


class Contestant:
    """A list of calls taken in turn, and how to run a batch of them."""

    def __init__(self, name, calls, target_ms):
        self.name, self.calls, self.times_us = name, calls, []
        for call in calls + calls[:2]:
            call()
        torch.cuda.synchronize()
        probe = max(2, min(len(calls), 8))
        estimate = self.elapsed(lambda: [calls[i % len(calls)]() for i in range(probe)]) / probe
        self.count = max(1, min(800, int(target_ms / max(estimate, 1e-3))))
        if self.count > len(calls):
            self.count -= self.count % len(calls)
        self.go = self.stream
        self.mode = "stream"
        if estimate < GRAPH_BELOW_MS:
            self.count = max(self.count, min(800, max(64, len(calls))))
            self.go, self.mode = self.capture().replay, "graph"
            self.go()
            torch.cuda.synchronize()

    def elapsed(self, go):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        go()
        end.record()
        torch.cuda.synchronize()
        return start.elapsed_time(end)

    def stream(self):
        for i in range(self.count):
            self.calls[i % len(self.calls)]()

    def capture(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for call in self.calls[:3]:
                call()
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.stream()
        return graph

    def visit(self):
        self.times_us.append(self.elapsed(self.go) / self.count * 1e3)


def our_sets(case, functions):
    """Buffers of each set, and the launches over them."""
    sets = []
    for _ in range(copies(case["bytes"])):
        tensors = {b["name"]: fresh(b) for b in case["buffers"]}
        launches = [Launch(functions[spec["cubin"], spec["entry"]], spec, tensors) for spec in case["launches"]]
        sets.append((tensors, launches))
    return sets


def run_all(launches):
    for launch in launches:
        launch()


def check(case, sets, peer):
    """Worst error over all sets, against float64 where memory allows."""
    worst = 0.0
    outputs = [b["name"] for b in case["buffers"] if b["role"] != "input"]
    inputs = [b["name"] for b in case["buffers"] if b["role"] == "input"]
    for tensors, launches in sets[:2]:
        for name in outputs:
            out = tensors[name]
            out.fill_(float("nan")) if out.dtype.is_floating_point else out.fill_(-77)
        run_all(launches)
        torch.cuda.synchronize()
        # Scratch of a two-launch kernel is an output too; the result is the last.
        out = tensors[outputs[-1]]
        wide = [tensors[name] for name in inputs]
        small = sum(t.numel() for t in wide) <= 1 << 28
        want = peer(*[t.double() if t.dtype.is_floating_point else t for t in wide]) if small else peer(*[t.float() for t in wide])
        worst = max(worst, relative_error(out, want))
        del want
        torch.cuda.empty_cache()
    return worst


def time_case(case, args, base):
    functions = {}
    for spec in case["launches"]:
        key = spec["cubin"], spec["entry"]
        functions.setdefault(key, Function(base / spec["cubin"], spec["entry"], spec["shared_bytes"]))
    peer = peer_of(case["kernel"])
    sets = our_sets(case, functions)
    error = check(case, sets, peer)
    inputs = [b["name"] for b in case["buffers"] if b["role"] == "input"]
    slots = [None] * len(sets)

    def theirs(function):
        def call(i):
            slots[i] = function(*[sets[i][0][name] for name in inputs])
        return [lambda i=i: call(i) for i in range(len(sets))]

    torch._dynamo.reset()
    contestants = [
        Contestant("tilekit", [lambda s=s: run_all(s[1]) for s in sets], args.batch_ms),
        Contestant("torch", theirs(peer), args.batch_ms),
        Contestant("torch.compile", theirs(torch.compile(peer, dynamic=False)), args.batch_ms),
    ]
    for _ in range(args.rounds):
        order = contestants[:]
        random.shuffle(order)
        for c in order:
            c.visit()
    after = check(case, sets, peer)
    rows = []
    ours = contestants[0].times_us
    for c in contestants:
        median = statistics.median(c.times_us)
        ratio = statistics.median(t / o for t, o in zip(c.times_us, ours))
        rows.append({
            "case": case["name"], "contestant": c.name, "us": round(median, 3), "us_min": round(min(c.times_us), 3),
            "us_max": round(max(c.times_us), 3), "tbps": round(case["bytes"] / median / 1e6, 3),
            "tilekit_speedup": round(ratio, 4), "mode": c.mode, "sets": len(sets),
            "error": max(error, after) if c.name == "tilekit" else None,
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
    print(f"# {'case':46s} {'contestant':14s} {'us':>9s} {'min':>9s} {'max':>9s} {'TB/s':>6s} {'ratio':>7s}  error")
    for case in cases:
        if wanted and not any(t in case["name"] for t in wanted):
            continue
        try:
            rows = time_case(case, args, args.manifest.parent)
        except Exception as error:  # one case that cannot run must not lose the others
            print(f"{case['name']:48s} ERROR {type(error).__name__}: {str(error)[:300]}", flush=True)
            failed = True
            continue
        for row in rows:
            error = "" if row["error"] is None else f"{row['error']:.1e}"
            if row["error"] is not None and not row["error"] <= args.tolerance:
                error += " WRONG"
                failed = True
            print(f"{row['case']:48s} {row['contestant']:14s} {row['us']:9.2f} {row['us_min']:9.2f} {row['us_max']:9.2f} "
                  f"{row['tbps']:6.3f} {row['tilekit_speedup']:7.4f}  {error}", flush=True)
            if out:
                out.write(json.dumps(row) + "\n")
        torch.cuda.empty_cache()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
