"""`tilekit.kernels.collectives` beside torch.distributed, one process a GPU.

    python3 python/tests/ranks_with_torch.py     # wants torch, GPUs that access each other, and the packages tilekit and tilekit_kernels_exported, of `collectives`
"""

import os
import sys

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


def work(rank, world):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29517")
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=world, device_id=torch.device("cuda", rank))
    from tilekit.kernels.collectives import Collectives

    collectives = Collectives()
    check_sums(collectives, rank, world)
    check_pieces(collectives, rank, world)
    check_refusals(collectives)
    dist.barrier()
    if rank == 0:
        print(f"collectives of {world} processes are right")
    dist.destroy_process_group()


if __name__ == "__main__":
    count = torch.cuda.device_count()
    if count < 2:
        sys.exit("it wants two GPUs or more")
    mp.spawn(work, (count,), nprocs=count)
