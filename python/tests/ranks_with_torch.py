"""`tilekit.kernels.collectives` and `tilekit.kernels.parallel` beside torch.distributed, one process a GPU.

    python3 python/tests/ranks_with_torch.py     # wants torch, GPUs that access each other, and the packages tilekit and tilekit_kernels_exported, of `collectives parallel`
"""

import os
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def check_sums(collectives, rank, world):
    """All-reduce of lengths that wrap the slots, in place and in a graph, all ranks with the same bits."""
    for length in (1, 7, 5001, 1 << 20, 8_000_003):
        generator = torch.Generator(device="cuda").manual_seed(100 * length + rank)
        x = torch.randn(length, device="cuda", generator=generator).to(torch.bfloat16)
        of_ranks = [torch.empty_like(x) for _ in range(world)]
        dist.all_gather(of_ranks, x)
        wanted = torch.stack(of_ranks).float().sum(0).to(torch.bfloat16)
        assert torch.equal(collectives.all_reduce(x), wanted), length
        out = torch.full_like(x, float("nan"))
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            collectives.all_reduce(x, out)
        for _ in range(3):
            out.fill_(float("nan"))
            graph.replay()
            assert torch.equal(out, wanted), length
        collectives.all_reduce(x, x)
        assert torch.equal(x, wanted), length


def check_pieces(collectives, rank, world):
    """What does not add, and sums of pieces, where the wheel has kernels for so many ranks."""
    x = torch.randn(world * 5001, device="cuda")
    of_ranks = [torch.empty_like(x) for _ in range(world)]
    dist.all_gather(of_ranks, x)
    halves = torch.randn(3, 333, device="cuda").half()
    of_halves = torch.empty(3 * world, 333, device="cuda", dtype=torch.float16)
    dist.all_gather_into_tensor(of_halves, halves)
    if world == 2:
        assert torch.equal(collectives.reduce_scatter(x), torch.stack(of_ranks).sum(0).chunk(world)[rank])
        assert torch.equal(collectives.all_gather(halves), of_halves)


def check_refusals(collectives):
    x = torch.ones(10, device="cuda", dtype=torch.bfloat16)
    for call, expected in (
        (lambda: collectives.reduce_scatter(x[:9].float()), "is not a multiple of the"),
        (lambda: collectives.all_reduce(x[::2]), "x has gaps"),
        (lambda: collectives.all_reduce(x, x[:3]), "10 elements of torch.bfloat16"),
        (lambda: collectives.all_reduce(x.double()), "there are kernels of [("),
    ):
        try:
            call()
        except (TypeError, ValueError) as error:
            assert expected in str(error), error
        else:
            raise AssertionError(f"it is refused: {expected}")


def gathered(x, world):
    of_ranks = [torch.empty_like(x) for _ in range(world)]
    dist.all_gather(of_ranks, x)
    return of_ranks


def is_close(got, wanted, k, roundings, dtype=torch.bfloat16):
    """Half a step of bfloat16 for each rounding of sums of `k` terms; partial sums are larger than the sum, as in `parallel/cases.rs`."""
    error = (got.double() - wanted).abs()
    allowed = 4e-3 * roundings * wanted.abs() + max(4e-3 * roundings, 8e-3 * (roundings - 1)) * k**0.5
    return got.dtype == dtype and bool((error <= allowed).all())


ACTIVATIONS = {
    None: lambda x: x,
    "relu": torch.relu,
    "gelu": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
    "silu": torch.nn.functional.silu,
}


def check_finished(parallel, rank, world):
    """Both types, each activation, with and without bias and residual, of few rows and many, and rows that are no multiple of the ranks."""

    def drawn(*shape, seed, dtype, alike=False):
        generator = torch.Generator(device="cuda").manual_seed(10 * seed + (0 if alike else rank))
        return torch.randn(*shape, device="cuda", generator=generator).to(dtype)

    n, k = 264, 200
    for dtype in (torch.bfloat16, torch.float16):
        for turn, (name, activation) in enumerate(ACTIVATIONS.items()):
            weight = drawn(n, k, seed=1, dtype=dtype)
            bias = drawn(n, seed=2, dtype=dtype, alike=True) if turn != 1 else None
            has_residual = turn != 2

            def finished(x, residual):
                added = x + (0 if bias is None else bias.double()) + (residual.double() if has_residual else 0)
                return activation(added)

            def call(function, x, residual):
                return function(x, weight, bias=bias, residual=residual if has_residual else None, activation=name)

            x = drawn(130, k, seed=3, dtype=dtype)
            residual = drawn(130 * world, n, seed=4, dtype=dtype)
            wanted = finished(torch.cat(gathered(x, world)).double() @ weight.double().T, residual)
            assert is_close(call(parallel.all_gather_matmul, x, residual), wanted, k, 1, dtype), (dtype, name)
            for rows in (5, 64, 130 * world, 130 * world + 1):
                x = drawn(rows, k, seed=5, dtype=dtype)
                sums = sum(x.double() @ w.double().T for x, w in zip(gathered(x, world), gathered(weight, world)))
                residual = drawn(rows, n, seed=6, dtype=dtype, alike=True)
                got = call(parallel.matmul_all_reduce, x, residual)
                assert is_close(got, finished(sums, residual), k, world + 1, dtype), (dtype, name, rows)
                if rows % world == 0:
                    own = residual.chunk(world)[rank]
                    got = call(parallel.matmul_reduce_scatter, x, own)
                    assert is_close(got, finished(sums.chunk(world)[rank], own), k, world + 1, dtype), (dtype, name, rows)


def check_products(parallel, rank, world):
    """Every element against float64; a second call overwrites what the first has sent, and a graph repeats it."""

    def drawn(*shape, seed):
        generator = torch.Generator(device="cuda").manual_seed(10 * seed + rank)
        return torch.randn(*shape, device="cuda", generator=generator).to(torch.bfloat16)

    for m, n, k in ((200, 136, 264), (8, 2048, 512), (1024, 1536, 1000)):
        x, weight = drawn(m, k, seed=1), drawn(n, k, seed=2)
        wanted = torch.cat(gathered(x, world)).double() @ weight.double().T
        for _ in range(2):
            assert is_close(parallel.all_gather_matmul(x, weight), wanted, k, 1), (m, n, k)
        whole = drawn(m * world, k, seed=3)
        parts = zip(gathered(whole, world), gathered(weight, world))
        wanted = sum(x.double() @ weight.double().T for x, weight in parts)
        for _ in range(2):
            assert is_close(parallel.matmul_reduce_scatter(whole, weight), wanted.chunk(world)[rank], k, world + 1), (m, n, k)
            assert is_close(parallel.matmul_all_reduce(whole, weight), wanted, k, world + 1), (m, n, k)
    for rows in (1, 7, 16, 33, 64, 65, 1025):
        x, weight = drawn(rows, 512, seed=4), drawn(2048 if rows > 1 else 16384, 512, seed=5)
        parts = zip(gathered(x, world), gathered(weight, world))
        wanted = sum(x.double() @ weight.double().T for x, weight in parts)
        got = parallel.matmul_all_reduce(x, weight)
        assert is_close(got, wanted, 512, world + 1), rows
        assert all(torch.equal(got, other) for other in gathered(got, world)), rows
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            captured = parallel.matmul_all_reduce(x, weight)
        for _ in range(3):
            captured.fill_(float("nan"))
            graph.replay()
            assert torch.equal(captured, got), rows


def check_product_refusals(parallel, rank, world):
    x, weight = (torch.ones(shape, device="cuda", dtype=torch.bfloat16) for shape in ((6, 64), (40, 64)))
    for call, expected in (
        (lambda: parallel.all_gather_matmul(x, weight[:, :32]), "they must be (m, k) and (n, k)"),
        (lambda: parallel.all_gather_matmul(x, weight.half()), "they must be alike"),
        (lambda: parallel.all_gather_matmul(x.float(), weight.float()), "there are kernels of ["),
        (lambda: parallel.all_gather_matmul(x, weight, bias=weight[0]), "bias is torch.bfloat16 of (64,)"),
        (lambda: parallel.matmul_all_reduce(x, weight, activation="tanh"), "activation is 'tanh'; it must be None or one of"),
        (lambda: parallel.matmul_all_reduce(x, weight[:39]), "must be multiples of 8"),
        (lambda: parallel.matmul_reduce_scatter(x[: world + 1], weight), "must be a multiple of the"),
        (lambda: parallel.matmul_all_reduce(torch.ones(1 + rank, 64, device="cuda", dtype=torch.bfloat16), weight), "all ranks make the same calls"),
    ):
        try:
            call()
        except (TypeError, ValueError) as error:
            assert expected in str(error), error
        else:
            raise AssertionError(f"it is refused: {expected}")


def join(rank, world, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=world, device_id=torch.device("cuda", rank))


def late(rank, world):
    """The last rank makes a call that is new, and the others one that all have made: each gets an error within the limit, which is 1 s."""
    join(rank, world, "29518")
    from tilekit.kernels.parallel import Parallel, RanksLate

    parallel = Parallel(limit_seconds=1.0)
    x, weight = (torch.ones(shape, device="cuda", dtype=torch.bfloat16) for shape in ((8, 64), (128, 64)))
    parallel.matmul_all_reduce(x, weight)
    parallel.synchronize()
    dist.barrier()
    began, last = time.monotonic(), world - 1
    try:
        if rank == last:
            parallel.matmul_all_reduce(x[:5], weight)
        else:
            parallel.matmul_all_reduce(x, weight)
            parallel.synchronize()
    except RanksLate as error:
        said = f"from rank{'s' if last > 1 else ''} {', '.join(map(str, range(last)))} within" if rank == last else f"rank {last} has not begun the launch"
        assert said in str(error), error
        assert rank == last or f"rank {last} makes the call" in str(error), error
        print(f"rank {rank} after {time.monotonic() - began:.2f} s: {error}")
    else:
        raise AssertionError("the other ranks make another call")
    sys.stdout.flush()
    # A context that has trapped ends nothing in order; the first process serves the store of the others.
    time.sleep(2 if rank == 0 else 0)
    os._exit(0)


def work(rank, world):
    join(rank, world, "29517")
    from tilekit.kernels.collectives import Collectives
    from tilekit.kernels.parallel import Parallel

    collectives, parallel = Collectives(), Parallel()
    check_sums(collectives, rank, world)
    check_pieces(collectives, rank, world)
    check_refusals(collectives)
    check_products(parallel, rank, world)
    check_finished(parallel, rank, world)
    check_product_refusals(parallel, rank, world)
    dist.barrier()
    if rank == 0:
        print(f"collectives and products of {world} processes are right")
    dist.destroy_process_group()


if __name__ == "__main__":
    count = torch.cuda.device_count()
    if count < 2:
        sys.exit("it wants two GPUs or more")
    mp.spawn(work, (count,), nprocs=count)
    mp.spawn(late, (count,), nprocs=count)
