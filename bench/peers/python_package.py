#!/usr/bin/env python3
"""The exported Python package on a GPU: right beside torch, in graphs, in compiled functions, from threads; then its host time.

    bench/peers/python_wheel.sh                                    # where Rust is: target/bench/python
    pip install target/bench/python/*.whl                          # where the GPU and torch are
    python3 bench/peers/python_package.py target/bench/python

Times are nanoseconds of host time per launch: medians of rounds of 100 launches that visit the contestants in turn, with a
synchronisation before each; in brackets the median of each round's difference to the raw call from C.
"""

import argparse
import ctypes
import json
import random
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

import torch

import examples_exported as package
from cuda_driver import Function, Launch, cuda

SOFTMAX = "softmax_bf16_4096_8"
MATMUL = "matmul_warp_specialized_bf16_256_64_4"
BF16 = torch.bfloat16


def close(found, expected, tolerance, what):
    difference = (found.float() - expected.float()).abs().max().item()
    scale = expected.float().abs().max().item()
    if not difference <= tolerance * scale:
        sys.exit(f"WRONG: {what}: off by {difference} of {scale}")


def rows(count, cols=4096, device="cuda"):
    x = torch.randn(count, cols, device=device, dtype=BF16)
    return x, torch.full_like(x, float("nan"))


def matrices(m, n, k, device="cuda"):
    a, b = torch.randn(m, k, device=device, dtype=BF16), torch.randn(n, k, device=device, dtype=BF16)
    return a, b, torch.full((m, n), float("nan"), device=device, dtype=BF16)


def check_results(softmax, matmul):
    for count, cols in ((1, 4096), (7, 4000), (1000, 4096), (33, 8)):
        x, out = rows(count, cols)
        if softmax(x, out) is not None:
            sys.exit("WRONG: a launch returns something")
        close(out, torch.softmax(x.float(), 1), 2e-2, f"softmax of {count} x {cols}")
    wide, target = rows(64, 4096)
    softmax(wide[:, 1024:2048], target[:, 1024:2048])
    close(target[:, 1024:2048], torch.softmax(wide[:, 1024:2048].float(), 1), 2e-2, "softmax of rows with gaps")
    if not target[:, :1024].isnan().all() or not target[:, 2048:].isnan().all():
        sys.exit("WRONG: softmax wrote beside its rows")
    for shape in ((128, 256, 64), (300, 520, 200), (2048, 2048, 1024)):
        a, b, c = matrices(*shape)
        matmul(a, b, c)
        close(c, a.float() @ b.float().T, 2e-2, f"a product of {shape}")


def check_streams(softmax):
    side = torch.cuda.Stream()
    x, out = rows(4096)
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        torch.cuda._sleep(20_000_000)
        x.fill_(1.0)
        softmax(x, out)
    side.synchronize()
    close(out, torch.full_like(out, 1 / 4096), 2e-2, "a launch behind what is queued on its stream")
    out.fill_(float("nan"))
    torch.cuda.synchronize()
    softmax(x, out, stream=side)
    side.synchronize()
    close(out, torch.full_like(out, 1 / 4096), 2e-2, "a launch on a stream that is passed")


def check_graph(softmax, matmul):
    softmax.warm(), matmul.warm()
    x, out = rows(512)
    a, b, c = matrices(512, 512, 256)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        softmax(x, out)
        matmul(a, b, c)
    for _ in range(3):
        x.normal_(), a.normal_(), out.fill_(float("nan")), c.fill_(float("nan"))
        graph.replay()
        torch.cuda.synchronize()
        close(out, torch.softmax(x.float(), 1), 2e-2, "softmax in a graph")
        close(c, a.float() @ b.float().T, 2e-2, "a product in a graph")


def check_compiled(softmax, matmul):
    def whole(x, a, b):
        out, c = torch.empty_like(x), torch.empty(a.shape[0], b.shape[0], device=a.device, dtype=a.dtype)
        softmax(x * 2, out)
        matmul(a, b, c)
        return out + 1, c.relu()

    for mode in ("default", "reduce-overhead"):
        compiled = torch.compile(whole, fullgraph=True, mode=mode)
        for count in (512, 640, 512, 512):
            x, _ = rows(count)
            a, b, _ = matrices(count, 512, 256)
            one, two = compiled(x, a, b)
            close(one, torch.softmax((x * 2).float(), 1) + 1, 2e-2, f"softmax in a compiled function ({mode})")
            close(two, (a.float() @ b.float().T).relu(), 2e-2, f"a product in a compiled function ({mode})")
    from examples_exported import _torch

    x, out = rows(16)
    for result in (
        torch.library.opcheck(getattr(_torch.operators, SOFTMAX), (x, torch.zeros_like(out))),
        torch.library.opcheck(getattr(_torch.operators, MATMUL), (*matrices(128, 256, 64)[:2], torch.zeros(128, 256, device="cuda", dtype=BF16))),
    ):
        if set(result.values()) != {"SUCCESS"}:
            sys.exit(f"WRONG: opcheck: {result}")


def check_threads(softmax, matmul):
    devices = list(range(torch.cuda.device_count()))
    wrong = []

    def work(index):
        try:
            device = f"cuda:{devices[index % len(devices)]}"
            with torch.cuda.stream(torch.cuda.Stream(device)):
                for at in range(200):
                    x, out = rows(at % 50 + 1, device=device)
                    softmax(x, out)
                    a, b, c = matrices(128 + at, 256, 64, device=device)
                    matmul(a, b, c)
                    if not torch.allclose(out.float(), torch.softmax(x.float(), 1), atol=1e-2):
                        wrong.append(f"softmax in thread {index}")
                    if not torch.allclose(c.float(), a.float() @ b.float().T, atol=0.5, rtol=2e-2):
                        wrong.append(f"a product in thread {index}")
        except Exception as error:
            wrong.append(repr(error))

    threads = [threading.Thread(target=work, args=(index,)) for index in range(max(2, len(devices)))]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    if wrong:
        sys.exit(f"WRONG: {wrong[0]}, and {len(wrong) - 1} more")


def check_refusals(softmax):
    x, out = rows(7)
    table = [
        (TypeError, "x has elements of f32; it must have bf16", (x.float(), out), {}),
        (ValueError, "x is on the CPU", (x.cpu(), out), {}),
        (ValueError, "x has 3 dimensions; it must have 2", (x[None], out), {}),
        (ValueError, "out.shape[0] is 6 and x.shape[0] 7", (x, out[:6]), {}),
        (ValueError, "x.stride(1) is 7; it must be 1", (torch.empty(4096, 7, device="cuda", dtype=BF16).T, out), {}),
        (ValueError, "requires a gradient", (x.clone().requires_grad_(), out), {}),
    ]
    if torch.cuda.device_count() > 1:
        table.append((ValueError, "out is on GPU 1 and the launch on GPU 0", (x, out.to("cuda:1")), {}))
    for error, said, arguments, named in table:
        try:
            softmax(*arguments, **named)
        except error as raised:
            if said not in str(raised):
                sys.exit(f"WRONG: `{raised}` does not say `{said}`")
        else:
            sys.exit(f"WRONG: nothing is raised; expected `{said}`")


def check_fork():
    program = (
        "import os, torch, examples_exported as p\n"
        f"p.{SOFTMAX}.warm()\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        f"    try: p.{SOFTMAX}.warm()\n"
        "    except RuntimeError as error: os._exit(0 if 'forked' in str(error) else 2)\n"
        "    os._exit(1)\n"
        "raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    if subprocess.run([sys.executable, "-c", program], check=False).returncode:
        sys.exit("WRONG: a call after fork")


FIRST = """
import time, torch, examples_exported as p
{prelude}
x = torch.ones(1, 4096, device="cuda", dtype=torch.bfloat16)
out = torch.empty_like(x)
torch.cuda.synchronize()
times = []
for _ in range(2):
    start = time.perf_counter()
    p.{kernel}(x, out)
    times.append((time.perf_counter() - start) * 1e3)
print(*times)
"""


def time_first_launches():
    """Of each process the first launch and the second, milliseconds; what makes the tensors is not in it."""
    for about, prelude in (("torch", ""), ("torch and its compiler", "import torch._dynamo")):
        program = FIRST.format(prelude=prelude, kernel=SOFTMAX)
        runs = [subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout.split() for _ in range(5)]
        first, second = (sorted(float(run[at]) for run in runs) for at in (0, 1))
        print(f"first launch in a process with {about}: {first[2]:.2f} ms ({first[0]:.2f} to {first[4]:.2f}), second {second[2]:.3f}", flush=True)


class Raw:
    """The same launch by C, its parameters packed before."""

    def __init__(self, folder, name, values, grid):
        library = ctypes.CDLL(str(folder / "libraw_launch.so"))
        library.raw_launches.restype = ctypes.c_double
        table = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        function = Function(folder / f"{name}.cubin", table["entry"], table["shared_bytes"], tuple(table["cluster"]))
        params, tensors = [], {}
        for parameter, value in zip(table["parameters"], values, strict=True):
            spec = {"name": parameter["name"], "kind": "buffer", "value": value}
            if parameter["kind"] == "tensor_map":
                spec |= {"kind": "tensor_map", "map": {"element": parameter["type"], "box": parameter["box"], "swizzle_bytes": parameter["swizzle_bytes"]}}
            elif parameter["kind"] == "scalar":
                spec["kind"] = parameter["type"]
            if isinstance(value, torch.Tensor):
                tensors[parameter["name"]] = value
            params.append(spec)
        spec = {"params": params, "block": table["threads"], "grid": grid, "cluster": table["cluster"], "shared_bytes": table["shared_bytes"], "entry": name}
        self.launch, self.function, self.library = Launch(function, spec, tensors), function, library
        self.launch.config.stream = torch.cuda.current_stream().cuda_stream

    def __call__(self, count):
        launch = self.launch
        nanoseconds = self.library.raw_launches(
            cuda.cuLaunchKernelEx, ctypes.byref(launch.config), self.function.handle, launch.pointers, count
        )
        if nanoseconds < 0:
            sys.exit(f"cuLaunchKernelEx: {-nanoseconds:.0f}")
        return nanoseconds


def loop(call, *arguments):
    def run(count):
        start = time.perf_counter_ns()
        for _ in range(count):
            call(*arguments)
        return time.perf_counter_ns() - start

    return run


LAUNCHES, ROUNDS = 100, 301


def medians(ways):
    times = {name: [] for name in ways}
    for run in ways.values():
        run(LAUNCHES)
    order = list(ways)
    for _ in range(ROUNDS):
        random.shuffle(order)
        for name in order:
            torch.cuda.synchronize()
            times[name].append(ways[name](LAUNCHES) / LAUNCHES)
    return times


def show(title, ways):
    times = medians(ways)
    raw = times["raw, C"]
    print(f"\n{title}")
    for name, found in times.items():
        over = statistics.median(one - base for one, base in zip(found, raw, strict=True))
        print(f"  {name:34s} {statistics.median(found):8.0f} ({over:+.0f})")


def time_launches(folder, softmax, matmul):
    x, out = rows(1)
    native = softmax.kernel
    from examples_exported import _torch

    show(f"softmax of one row, {LAUNCHES} launches, {ROUNDS} rounds", {
        "raw, C": Raw(folder, SOFTMAX, [x, out, 4096, 1, 4096], [1, 1, 1]),
        "softmax(x, out)": loop(softmax, x, out),
        "softmax(x, out, stream=0)": loop(lambda x, out: softmax(x, out, stream=0), x, out),
        "the extension's launch((x, out))": loop(native.launch, (x, out)),
        "torch.ops": loop(getattr(_torch.operators, SOFTMAX), x, out),
        "torch.softmax(x, 1, out=out)": loop(lambda x, out: torch.softmax(x, 1, out=out), x, out),
        "torch.add(x, x, out=out)": loop(lambda x, out: torch.add(x, x, out=out), x, out),
    })
    a, b, c = matrices(128, 256, 64)
    table = json.loads(matmul.kernel.manifest)
    values = [{"a": a, "b": b, "c": c}.get(p["name"], a.shape[1]) for p in table["parameters"]]
    shapes = {"m": 128, "n": 256, "k": 64}
    values = [shapes.get(p["name"], value) for p, value in zip(table["parameters"], values, strict=True)]
    show("product of 128 x 256 x 64, three tensor maps", {
        "raw, C": Raw(folder, MATMUL, values, [1, 1, 1]),
        "matmul(a, b, c)": loop(matmul, a, b, c),
        "the extension's launch((a, b, c))": loop(matmul.kernel.launch, (a, b, c)),
        "torch.mm(a, b.T, out=c)": loop(lambda a, b, c: torch.mm(a, b.T, out=c), a, b, c),
    })
    # Maps of a hundred sets of tensors are more than a thread keeps.
    sets = [matrices(128, 256, 64) for _ in range(LAUNCHES)]
    time_sets(matmul, "a hundred sets of tensors in turn", [sets] * 301)
    time_sets(matmul, "new tensors at each launch", [[matrices(128, 256, 64) for _ in range(LAUNCHES)] for _ in range(20)])


def time_sets(matmul, title, rounds):
    """A launch for each set, in rounds; only the time of the host counts."""
    times = []
    for sets in rounds:
        torch.cuda.synchronize()
        start = time.perf_counter_ns()
        for a, b, c in sets:
            matmul(a, b, c)
        times.append((time.perf_counter_ns() - start) / len(sets))
    print(f"  {title:34s} {statistics.median(times):8.0f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="what python_wheel.sh made")
    folder = parser.parse_args().folder
    softmax, matmul = getattr(package, SOFTMAX), getattr(package, MATMUL)
    print(f"# {torch.cuda.get_device_name()}, torch {torch.__version__}, Python {sys.version.split()[0]}")
    torch.zeros(1, device="cuda")
    time_first_launches()
    for check, arguments in (
        (check_results, (softmax, matmul)), (check_streams, (softmax,)), (check_graph, (softmax, matmul)),
        (check_refusals, (softmax,)), (check_threads, (softmax, matmul)), (check_fork, ()), (check_compiled, (softmax, matmul)),
    ):
        check(*arguments)
        print(f"{check.__name__}: right", flush=True)
    time_launches(folder, softmax, matmul)


if __name__ == "__main__":
    main()
