#!/usr/bin/env python3
"""Exported kernels as functions of tvm-ffi, on torch's tensors on a GPU: right beside torch, on its streams, in graphs, from threads, wrong calls
refused; then host time beside the module's own functions.

    bench/peers/python_wheel.sh                                          # where Rust is: target/bench/python
    pip install target/bench/python/*.whl apache-tvm-ffi==0.1.15.post2   # where the GPU and torch are
    python3 bench/peers/tvm_ffi_functions.py target/bench/python

Times are taken as python_package.py takes them.
"""

import argparse
import json
import sys
import threading
from pathlib import Path

import torch
import tvm_ffi

import examples_exported as package
from python_package import BF16, MATMUL, SOFTMAX, Raw, check_results, close, loop, matrices, rows, show


def check_streams(softmax):
    """A launch is behind what is queued on torch's current stream, and the default stream does not wait for it."""
    side = torch.cuda.Stream()
    x, out = rows(4096)
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        torch.cuda._sleep(200_000_000)
        x.fill_(1.0)
        softmax(x, out)
        done = side.record_event()
    torch.cuda.default_stream().synchronize()
    if done.query():
        sys.exit("WRONG: the launch did not wait for its stream, or was waited for")
    side.synchronize()
    close(out, torch.full_like(out, 1 / 4096), 2e-2, "a launch behind what is queued on its stream")


def check_graph(softmax, matmul):
    x, out = rows(512)
    a, b, c = matrices(512, 512, 256)
    softmax(x, out), matmul(a, b, c)
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


def check_threads(softmax):
    wrong = []

    def work(index):
        with torch.cuda.stream(torch.cuda.Stream()):
            for at in range(200):
                x, out = rows(at % 50 + 1)
                softmax(x, out)
                if not torch.allclose(out.float(), torch.softmax(x.float(), 1), atol=1e-2):
                    wrong.append(index)

    threads = [threading.Thread(target=work, args=(index,)) for index in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    if wrong:
        sys.exit(f"WRONG: softmax in threads {sorted(set(wrong))}")


def check_refusals(softmax, matmul):
    x, out = rows(7)
    a, b, c = matrices(128, 256, 64)
    table = [
        (TypeError, "x has elements of f32; it must have bf16", softmax, (x.float(), out)),
        (TypeError, "1 arguments are passed; it takes 2", softmax, (x,)),
        (TypeError, "3 arguments are passed; it takes 2", softmax, (x, out, 1)),
        (TypeError, "out is an integer", softmax, (x, 3)),
        (TypeError, "out is None", softmax, (x, None)),
        (ValueError, "x is on the CPU", softmax, (x.cpu(), out)),
        (ValueError, "x has 3 dimensions; it must have 2", softmax, (x[None], out)),
        (ValueError, "out.shape[0] is 6 and x.shape[0] 7", softmax, (x, out[:6])),
        (ValueError, "x.stride(1) is 7; it must be 1", softmax, (torch.empty(4096, 7, device="cuda", dtype=BF16).T, out)),
        (ValueError, "c.shape[1] is 64 and b.shape[0] 256", matmul, (a, b, c[:, :64])),
    ]
    for error, said, function, arguments in table:
        try:
            function(*arguments)
        except error as raised:
            if said not in str(raised):
                sys.exit(f"WRONG: `{raised}` does not say `{said}`")
        else:
            sys.exit(f"WRONG: nothing is raised; expected `{said}`")


def time_launches(folder, softmax, matmul):
    own, own_matmul = getattr(package, SOFTMAX), getattr(package, MATMUL)
    x, out = rows(1)
    show("softmax of one row", {
        "raw, C": Raw(folder, SOFTMAX, [x, out, 4096, 1, 4096], [1, 1, 1]),
        "by tvm-ffi": loop(softmax, x, out),
        "the module's function": loop(own, x, out),
    })
    a, b, c = matrices(128, 256, 64)
    table = json.loads(own_matmul.kernel.manifest)
    values = {"a": a, "b": b, "c": c, "m": 128, "n": 256, "k": 64}
    values = [values.get(p["name"], a.shape[1]) for p in table["parameters"]]
    show("product of 128 x 256 x 64, three tensor maps", {
        "raw, C": Raw(folder, MATMUL, values, [1, 1, 1]),
        "by tvm-ffi": loop(matmul, a, b, c),
        "the module's function": loop(own_matmul, a, b, c),
    })


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="what python_wheel.sh made")
    folder = parser.parse_args().folder
    code = tvm_ffi.load_module(package._native.__file__)
    softmax, matmul = getattr(code, SOFTMAX), getattr(code, MATMUL)
    print(f"# {torch.cuda.get_device_name()}, torch {torch.__version__}, tvm-ffi {tvm_ffi.__version__}, Python {sys.version.split()[0]}")
    for check, arguments in (
        (check_results, (softmax, matmul)), (check_streams, (softmax,)), (check_graph, (softmax, matmul)),
        (check_refusals, (softmax, matmul)), (check_threads, (softmax,)),
    ):
        check(*arguments)
        print(f"{check.__name__}: right", flush=True)
    time_launches(folder, softmax, matmul)


if __name__ == "__main__":
    main()
