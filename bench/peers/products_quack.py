#!/usr/bin/env python3
"""bf16 products by QuACK's GEMM, tuned for each shape, beside cuBLAS, interleaved in one process.

    CUTE_DSL_ARCH=sm_90a QUACK_ARCH=90 python3 bench/peers/products_quack.py compile target/bench/quack    # where QuACK 0.6.5, CuTe DSL 4.8.1, torch and cc are; no GPU
    python3 bench/peers/products_quack.py time target/bench/quack --shapes 4096x4096x4096,.. [--json FILE]  # torch and apache-tvm-ffi 0.1.15
    cargo bench -p tilekit-kernels --bench survey -- --only 4096x4096x4096,..                               # ours of the same shapes beside cublasLt

`compile` makes one library of the 44 kernels that QuACK's autotuner tries on an H100 or H200: 11 tiles, clusters of two along either dimension, A and B exchanged or not. `time` launches them by their own host code. Each
shape is M x N x K of `C[M, N] = A[M, K] B[N, K]^T`; N and K are multiples of 8. All 44 get a short look; the three fastest are held beside cuBLAS, and the fastest of those counts in each mode, single and back to back, which
leans in QuACK's favour. Every result is compared with a product in float64 on poisoned outputs. Ratios are cuBLAS's time over QuACK's.
"""

import argparse
import ctypes
import json
import random
import statistics
import subprocess
import sys
from pathlib import Path

# Tiles of warpgroups that share one, and of those that take turns; CTAs of a cluster along M and N.
COOPERATIVE = ((256, 128), (256, 160), (256, 192), (256, 208), (128, 224), (128, 256))
PINGPONG = ((128, 128), (128, 160), (128, 192), (128, 208), (192, 128))
CLUSTERS = ((1, 2), (2, 1))
MOST_ERROR = 4e-3
FINALISTS = 3

# The host code calls it where a call of CUDA fails; it is in no static library of CuTe DSL.
RAISED = """
void TVMFFIErrorSetRaisedFromCStr(const char *kind, const char *message);
void CuteDSLRT_TVMFFISetRaisedCudaError(int code) { (void)code; TVMFFIErrorSetRaisedFromCStr("RuntimeError", "a call of CUDA failed in QuACK's host code"); }
"""


def configurations():
    """Name, tile, whether warpgroups take turns, cluster, whether A and B are exchanged."""
    for tiles, is_pingpong in ((COOPERATIVE, False), (PINGPONG, True)):
        for tile in tiles:
            for cluster in CLUSTERS:
                for is_turned in (False, True):
                    name = f"quack_{tile[0]}x{tile[1]}_{'pingpong' if is_pingpong else 'cooperative'}_{cluster[0]}x{cluster[1]}{'_turned' if is_turned else ''}"
                    yield name, tile, is_pingpong, cluster, is_turned


def compile_all(folder):
    import cutlass
    import nvidia_cutlass_dsl
    import quack.gemm as gemm

    folder.mkdir(parents=True, exist_ok=True)
    compile_one, bf16 = gemm._compile_gemm.__wrapped__, cutlass.BFloat16
    for name, tile, is_pingpong, cluster, is_turned in configurations():
        made = compile_one(
            bf16, bf16, bf16, None, "k", "k", "m" if is_turned else "n", None, tile, (*cluster, 1), is_pingpong, True, False, None, None, None, 0, 0, False, (),
            False, False, False, False, False, (9, 0), gemm.RoundingMode.RN, 0, None, batched=True)
        made.export_to_c(str(folder / f"{name}.o"), function_name=name)
        print(name, flush=True)
    (folder / "raised.c").write_text(RAISED)
    runtime = next(Path(nvidia_cutlass_dsl.__path__[0]).rglob("libcuda_dialect_runtime_static.a"))
    objects = sorted(str(path) for path in folder.glob("quack_*.o"))
    subprocess.run(["cc", "-shared", "-fPIC", "-s", "-o", str(folder / "libquack.so"), *objects, str(folder / "raised.c"), str(runtime)], check=True)


def loaded(folder):
    """The library; CUDA's runtime is that of torch."""
    import torch  # loads it
    import tvm_ffi

    ctypes.CDLL(f"libcudart.so.{torch.version.cuda.split('.')[0]}", mode=ctypes.RTLD_GLOBAL)
    return tvm_ffi.load_module(str(folder / "libquack.so"))


def launches(library, configuration, sets, clusters):
    """A launch for each set of tensors."""
    name, _, _, _, is_turned = configuration
    call = getattr(library, name)
    # `EpilogueArguments` and `TileSchedulerOptions` of QuACK: no scales, bias or split; the number of clusters, and tiles of a group at most.
    epilogue, scheduler = (None,) * 12, (clusters, None, 8, None, None, None)

    def launch(a, b, c):
        x, y, out = (b, a, c.T) if is_turned else (a, b, c)
        x, y, out = (t.unsqueeze(0) for t in (x, y, out))
        return lambda: call(x, y, out, None, epilogue, scheduler, None, None, None)

    return [launch(*tensors) for tensors in sets]


def is_right(name, calls, first, want):
    import torch
    from contest import fill, relative_error

    fill(first[2])
    calls[0]()
    torch.cuda.synchronize()
    error = relative_error(first[2], want)
    if not error <= MOST_ERROR:
        print(f"WRONG {name}: relative error {error:.1e}", flush=True)
    return error <= MOST_ERROR


def contestant(name, calls, options):
    """In a graph if its calls can be captured."""
    import torch
    from contest import Contestant

    try:
        return Contestant(name, calls, options.batch_ms, graph_below_ms=20.0)
    except Exception as error:  # launched one by one, short products are as long as a launch from Python
        print(f"# {name} in no graph: {str(error)[:200]}", flush=True)
        torch.cuda.synchronize()
        return Contestant(name, calls, options.batch_ms, graph_below_ms=0.0)


def contest(shape, library, options):
    import torch
    from contest import copies, enter, hold, ratio, rough_ms

    m, n, k = (int(x) for x in shape.split("x"))
    new = lambda rows, columns: torch.empty(rows, columns, device="cuda", dtype=torch.bfloat16)
    count = max(2, min(24, copies(2 * (m * k + n * k + m * n))))
    sets = [(new(m, k).normal_(), new(n, k).normal_(), new(m, n)) for _ in range(count)]
    want = sets[0][0].double() @ sets[0][1].double().T
    clusters = torch.cuda.get_device_properties(0).multi_processor_count // 2
    found = []
    for configuration in configurations():
        name = configuration[0]

        def look(configuration=configuration):
            calls = launches(library, configuration, sets, clusters)
            right = is_right(name, calls, sets[0], want)
            return rough_ms(calls, 2, 8), calls, right

        seen = enter(shape, name, look)
        if seen and seen[2]:
            found.append((seen[0], name, seen[1]))
    found.sort(key=lambda entry: entry[0])
    cublas = ("cublas", [lambda t=t: torch.mm(t[0], t[1].T, out=t[2]) for t in sets])
    ways = [cublas, *((name, calls) for _, name, calls in found[:FINALISTS])]
    held = [c for c in (enter(shape, name, lambda: contestant(name, calls, options)) for name, calls in ways) if c]
    hold(held, options.rounds, 0.0, singles=options.singles)
    first, rest = held[0], held[1:]
    if first.name != "cublas" or not rest:
        raise RuntimeError(f"{len(found)} kernels of QuACK are right, and {len(held)} contestants are left")
    line = f"{shape:20s} {len(found)} of 44 right;"
    for mode in ("single_us", "back_to_back_us"):
        best = min(rest, key=lambda c: statistics.median(getattr(c, mode)))
        us = [statistics.median(getattr(c, mode)) for c in (best, first)]
        line += f" {us[0]:8.2f} us, cublas {us[1]:8.2f}, over it {ratio(getattr(first, mode), getattr(best, mode)):.3f} ({best.name[6:]});"
    print(line, flush=True)
    if options.json:
        with options.json.open("a") as out:
            for c in held:
                out.write(json.dumps({"case": "bf16 beside quack", "shape": shape, "contestant": c.name, "single_us": c.single_us, "back_to_back_us": c.back_to_back_us}) + "\n")


def time_all(folder, options):
    import torch

    library = loaded(folder)
    torch.manual_seed(1)
    random.seed(1)
    print(f"# {torch.cuda.get_device_name()}, torch {torch.__version__}", flush=True)
    for shape in options.shapes.split(","):
        try:
            contest(shape, library, options)
        except Exception as error:  # one shape that cannot run must not lose the others
            print(shape, type(error).__name__, str(error)[:300], flush=True)
        torch.cuda.empty_cache()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("compile", "time"))
    parser.add_argument("folder", type=Path, help="QuACK's kernels")
    parser.add_argument("--shapes", default="4096x4096x4096")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--singles", type=int, default=7)
    parser.add_argument("--batch-ms", type=float, default=6.0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    for shape in options.shapes.split(","):
        size = shape.split("x")
        if len(size) != 3 or not all(x.isdigit() for x in size) or any(int(x) % 8 for x in size[1:]):
            parser.error(f"--shapes {shape}: M x N x K are expected, N and K multiples of 8, as 4096x4096x4096")
    if options.what == "compile":
        compile_all(options.folder)
    else:
        sys.path.insert(0, str(Path(__file__).parent))
        time_all(options.folder, options)


if __name__ == "__main__":
    main()
