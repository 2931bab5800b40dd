#!/usr/bin/env python3
"""Softmax of 8192 rows of 262144 bf16 beside QuACK's, interleaved in one process.

    CUTE_DSL_ARCH=sm_90a python3 bench/peers/softmax_quack.py compile target/bench/quack    # where QuACK 0.6.5 and CuTe DSL 4.8.1 are; no GPU
    cargo tilekit -p examples build 'softmax_bulk<bf16' --emit cubin
    python3 bench/peers/softmax_quack.py time target/bench/quack target/tilekit/dev/examples

`compile` writes QuACK's kernel for these rows as a cubin, so that the machine with the GPU needs torch alone. `time` runs every
`softmax_bulk` that holds such a row, QuACK's kernel twice, whose difference is noise, and a copy of the same bytes. Results are
checked first: no element is missing, rows sum to 1, and 192 rows are compared with float64.
"""

import argparse
import ctypes
import json
import random
import statistics
import sys
from pathlib import Path

ROWS, COLS = 8192, 262144
# CTAs of a row, each of 256 threads, as QuACK launches it, and their shared memory: a part of the row, sums of warps and CTAs, an mbarrier.
CTAS, THREADS = 16, 256
SHARED_BYTES = 2 * COLS // CTAS + 8 * (THREADS // 32) * CTAS + 16


def compile_quack(folder):
    import cutlass
    from cutlass import cute
    from quack.compile_utils import make_fake_tensor
    from quack.softmax import Softmax

    x, out = (make_fake_tensor(cutlass.BFloat16, (ROWS, COLS), 8) for _ in range(2))
    stream = cute.runtime.make_fake_stream()
    made = cute.compile(Softmax(cutlass.BFloat16, COLS), x, out, stream, options="--keep-cubin --keep-ptx")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "quack.cubin").write_bytes(made.__cubin__)
    entry = next(line for line in made.__ptx__.splitlines() if ".entry" in line).split(".entry")[1].strip(" (")
    (folder / "quack.entry").write_text(entry)


def worst_error(x, out):
    import torch
    from contest import relative_error

    parts = [slice(at, at + 512) for at in range(0, ROWS, 512)]
    if not all(torch.isfinite(out[part]).all() and (out[part].float().sum(1) - 1).abs().max() < 1e-2 for part in parts):
        return float("inf")
    some = (slice(0, 64), slice(4000, 4064), slice(ROWS - 64, ROWS))
    return max(relative_error(out[rows], torch.softmax(x[rows].double(), 1)) for rows in some)


def quack_launch(folder, x, out):
    from cuda_driver import Function, Launch

    cluster = [1, CTAS, 1]
    spec = {"params": [], "grid": [ROWS, CTAS, 1], "block": THREADS, "cluster": cluster, "shared_bytes": SHARED_BYTES,
            "entry": (folder / "quack.entry").read_text()}
    launch = Launch(Function(folder / "quack.cubin", spec["entry"], SHARED_BYTES, tuple(cluster)), spec, {}, False)
    # A tensor is its address and the stride of its rows.
    launch.values = [(ctypes.c_uint64 * 2)(tensor.data_ptr(), COLS) for tensor in (x, out)]
    launch.pointers = (ctypes.c_void_p * 2)(*[ctypes.addressof(value) for value in launch.values])
    return launch


def our_launches(cubins, x, out):
    from cuda_driver import Function, Launch
    from manifest import launch_spec

    for path in sorted(cubins.glob("softmax_bulk-bf16-*.json")):
        kernel = json.loads(path.read_text())
        ctas, part = kernel["cluster"][0], int(path.stem.split("-")[2])
        if ctas * part != COLS:
            continue
        spec = launch_spec(kernel, f"{path.stem}.cubin", [ROWS * ctas, 1, 1], {"row_stride": COLS, "cols": COLS}, {})
        function = Function(cubins / spec["cubin"], spec["entry"], spec["shared_bytes"], tuple(spec["cluster"]))
        yield path.stem, Launch(function, spec, {"x": x, "out": out})


def time_all(folder, cubins, rounds):
    import torch
    from contest import Contestant, fill, hold, ratio

    random.seed(1), torch.manual_seed(1)
    x = torch.empty(ROWS, COLS, device="cuda", dtype=torch.bfloat16).normal_()
    out = torch.empty_like(x)
    calls = [("QuACK", quack_launch(folder, x, out)), ("torch's copy", lambda: out.copy_(x)), *our_launches(cubins, x, out)]
    calls.append(("QuACK again", calls[0][1]))
    for name, call in calls:
        fill(out)
        call()
        torch.cuda.synchronize()
        if name != "torch's copy" and not worst_error(x, out) < 8e-3:
            sys.exit(f"WRONG: {name}")
    contestants = [Contestant(name, [call], 8.0) for name, call in calls]
    hold(contestants, rounds)
    print(f"# {torch.cuda.get_device_name()}, {ROWS} x {COLS} bf16, {rounds} rounds: us, least to most, TB/s, QuACK's and the copy's time over it")
    for c in contestants:
        us = statistics.median(c.back_to_back_us)
        over = [ratio(contestants[at].back_to_back_us, c.back_to_back_us) for at in (0, 1)]
        least, most = min(c.back_to_back_us), max(c.back_to_back_us)
        print(f"{c.name:34s} {us:8.1f} ({least:.1f} to {most:.1f}) {4 * ROWS * COLS / us / 1e6:6.3f} {over[0]:6.3f} {over[1]:6.3f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("compile", "time"))
    parser.add_argument("folder", type=Path, help="QuACK's kernel")
    parser.add_argument("cubins", type=Path, nargs="?", help="what `cargo tilekit build` wrote")
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()
    if arguments.what == "compile":
        compile_quack(arguments.folder)
    else:
        time_all(arguments.folder, arguments.cubins, arguments.rounds)


if __name__ == "__main__":
    main()
