#!/usr/bin/env python3
"""Host time of a launch from Python: torch and Triton, as bench/results/launch_overhead.md has it for ours.

    python3 bench/peers/launch_overhead.py

An addition of one element, launched 100 times between two synchronisations; nanoseconds per launch, medians of 301 rounds that
visit the contestants in turn.
"""

import statistics
import time

import torch
import triton
import triton.language as tl

LAUNCHES, ROUNDS = 100, 301


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(out + at, tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside), mask=inside)


def nanoseconds(launch, tensors):
    start = time.perf_counter_ns()
    for _ in range(LAUNCHES):
        launch(*tensors)
    elapsed = (time.perf_counter_ns() - start) / LAUNCHES
    torch.cuda.synchronize()
    return elapsed


def main():
    tensors = [torch.zeros(1, device="cuda") for _ in range(3)]
    ways = {
        "torch.add(out=..)": lambda x, y, out: torch.add(x, y, out=out),
        "Triton": lambda x, y, out: add[(1,)](x, y, out, 1, BLOCK=1024),
    }
    for launch in ways.values():
        launch(*tensors)
    times = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, launch in ways.items():
            times[name].append(nanoseconds(launch, tensors))
    print(f"# {torch.cuda.get_device_name()}, torch {torch.__version__}: nanoseconds of host time per launch")
    for name, found in times.items():
        print(f"{name:20s} {statistics.median(found):8.0f}")


if __name__ == "__main__":
    main()
