"""Contestants timed in turn, in one process and interleaved.

Every round visits all contestants in a new random order; a visit is a batch of launches between two events, replayed from a
CUDA graph when one launch is short. A single launch comes after a rest of 3 ms and behind a kernel that spins for longer than
the host takes to launch. One that fails says so in a line, and the others go on.
"""

import json
import math
import random
import statistics
import sys
import time

import torch

L2_BYTES = 60 << 20
GRAPH_BELOW_MS = 0.15
REST_SECONDS = 3e-3
# About 0.5 ms: a launch from Python takes up to 0.1 ms of the host.
SPIN_CYCLES = 900_000


def copies(nbytes):
    """How many sets of buffers exceed four times the L2 cache."""
    return max(1, min(48, math.ceil(4 * L2_BYTES / nbytes)))


def elapsed_ms(go):
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    go()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end)


def rough_ms(calls, warm=2, probe=8):
    """The time of one call, as far as choices depend on it."""
    for i in range(warm):
        calls[i % len(calls)]()
    torch.cuda.synchronize()
    return elapsed_ms(lambda: [calls[i % len(calls)]() for i in range(probe)]) / probe


class Contestant:
    """A list of calls taken in turn, and how to run a batch of them."""

    def __init__(self, name, calls, target_ms, graph_below_ms=GRAPH_BELOW_MS):
        self.name, self.calls = name, calls
        self.single_us, self.back_to_back_us, self.sustained_us = [], [], []
        for call in calls + calls[:2]:
            call()
        torch.cuda.synchronize()
        estimate = rough_ms(calls, 0, max(2, min(len(calls), 8)))
        self.count = max(1, min(800, int(target_ms / max(estimate, 1e-3))))
        if self.count > len(calls):
            self.count -= self.count % len(calls)
        self.go = self.stream
        self.mode = "stream"
        if estimate < graph_below_ms:
            if estimate < GRAPH_BELOW_MS:
                self.count = max(self.count, min(800, max(64, len(calls))))
            self.go, self.mode = self.capture().replay, "graph"
            self.go()
            torch.cuda.synchronize()

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
        self.back_to_back_us.append(elapsed_ms(self.go) / self.count * 1e3)

    def launch_once(self):
        call = self.calls[len(self.single_us) % len(self.calls)]
        time.sleep(REST_SECONDS)
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda._sleep(SPIN_CYCLES)
        start.record()
        call()
        end.record()
        torch.cuda.synchronize()
        self.single_us.append(start.elapsed_time(end) * 1e3)

    def sustain(self, seconds):
        """Runs on until power sets the clock; the time of one launch over all of it."""
        batches = max(1, math.ceil(seconds * 1e6 / (statistics.median(self.back_to_back_us) * self.count)))
        self.go()
        self.sustained_us.append(elapsed_ms(lambda: [self.go() for _ in range(batches)]) / (batches * self.count) * 1e3)


def enter(case, name, make):
    """What `make` gives, or None and a line that says why not."""
    try:
        return make()
    except Exception as error:  # one contestant that cannot run must not lose the others
        text = str(error).strip().replace("\n", " ")
        print(f"{case:48s} {name:14s} FAILED {type(error).__name__}: {text[:300]}", flush=True)
    try:
        torch.cuda.synchronize()
    except Exception as error:  # after a fault of a kernel the process can use the GPU no more
        sys.exit(f"{case} {name}: the GPU is lost to this process ({error}); leave it out")
    return None


def hold(contestants, rounds, sustained=0.0, singles=0):
    """Single launches, then slices back to back, each round in a new order; then each runs on, where that is asked for."""
    def visit_all(times, visit):
        for _ in range(times):
            order = contestants[:]
            random.shuffle(order)
            for c in order:
                visit(c)

    visit_all(singles, Contestant.launch_once)
    visit_all(rounds, Contestant.visit)
    visit_all(2 if sustained else 0, lambda c: c.sustain(sustained))


def ratio(theirs, ours):
    """The median of the ratios of the rounds, which share their clocks."""
    return statistics.median(t / o for t, o in zip(theirs, ours))


def fill(out):
    """Poison, so that what is never written shows."""
    out.fill_(float("nan")) if out.dtype.is_floating_point else out.fill_(-77)


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


def report(case, contestants, flops, record=None, prefix=""):
    """A line a contestant: medians, their rates, and the ratios to the first one; `record` is a file of JSON lines that keeps the samples."""
    for c in contestants:
        first = contestants[0]
        one, many = statistics.median(c.single_us), statistics.median(c.back_to_back_us)
        beside = f"{ratio(c.single_us, first.single_us):.3f} {ratio(c.back_to_back_us, first.back_to_back_us):.3f}"
        print(f"{case:22s} {c.name:14s} single {one:8.1f} us {flops / one / 1e6:6.1f} TF  back to back {many:8.1f} us {flops / many / 1e6:6.1f} TF  over {first.name}: {beside}", flush=True)
        if record:
            with record.open("a") as out:
                out.write(json.dumps({"case": prefix + case, "contestant": c.name, "single_us": c.single_us, "back_to_back_us": c.back_to_back_us}) + "\n")
