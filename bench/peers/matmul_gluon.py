"""`C = A · Bᵀ` in Gluon: a loading partition of one warp, and one or two partitions that multiply by wgmma and store.

In the style of its tutorials on wgmma and warp specialisation. `candidates` gives a small sweep, of which matmul.py times the
fastest.
"""

import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared, mbarrier, tma, warpgroup_mma, warpgroup_mma_wait,
)
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

MULTIPROCESSORS = 132


@gluon.jit
def place(tile, rows, columns, GROUP: gl.constexpr):
    """Row and column of a tile, in groups of rows of tiles that share columns in L2."""
    in_group = GROUP * columns
    first = tile // in_group * GROUP
    height = gl.minimum(rows - first, GROUP)
    return first + tile % in_group % height, tile % in_group // height


@gluon.jit
def load_tiles(a_desc, b_desc, a_ring, b_ring, full, empty, m, n, k, ROWS: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr,
               STAGES: gl.constexpr, CONSUMERS: gl.constexpr, GROUP: gl.constexpr):
    rows, columns = gl.cdiv(m, ROWS * CONSUMERS), gl.cdiv(n, BN)
    turn = 0
    for tile in range(gl.program_id(0), rows * columns, gl.num_programs(0)):
        row, column = place(tile, rows, columns, GROUP)
        for step in range(gl.cdiv(k, BK)):
            stage = turn % STAGES
            mbarrier.wait(empty.index(stage), turn // STAGES & 1 ^ 1)
            ready = full.index(stage)
            mbarrier.expect(ready, 2 * BK * (ROWS * CONSUMERS + BN))
            for i in gl.static_range(CONSUMERS):
                tma.async_copy_global_to_shared(a_desc, [(row * CONSUMERS + i) * ROWS, step * BK], ready, a_ring.index(stage * CONSUMERS + i))
            tma.async_copy_global_to_shared(b_desc, [column * BN, step * BK], ready, b_ring.index(stage))
            turn += 1


@gluon.jit
def multiply_tiles(c_desc, a_ring, b_ring, staging, full, empty, m, n, k, PART: gl.constexpr, ROWS: gl.constexpr, BN: gl.constexpr,
                   BK: gl.constexpr, STAGES: gl.constexpr, CONSUMERS: gl.constexpr, GROUP: gl.constexpr, PENDING: gl.constexpr):
    layout: gl.constexpr = gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[gl.num_warps(), 1], instr_shape=[16, BN, 16])
    rows, columns = gl.cdiv(m, ROWS * CONSUMERS), gl.cdiv(n, BN)
    turn = 0
    for tile in range(gl.program_id(0), rows * columns, gl.num_programs(0)):
        row, column = place(tile, rows, columns, GROUP)
        acc = gl.zeros((ROWS, BN), gl.float32, layout)
        for step in range(gl.cdiv(k, BK)):
            stage = turn % STAGES
            mbarrier.wait(full.index(stage), turn // STAGES & 1)
            a, b = a_ring.index(stage * CONSUMERS + PART), b_ring.index(stage)
            acc = warpgroup_mma(a, b.permute((1, 0)), acc, is_async=True)
            acc = warpgroup_mma_wait(PENDING, deps=(acc,))
            # Of two products in flight the older one has read its stage; Gluon puts a barrier of the partition in front.
            mbarrier.arrive(empty.index((turn + STAGES - PENDING) % STAGES), pred=step >= PENDING)
            turn += 1
        acc = warpgroup_mma_wait(0, deps=(acc,))
        if PENDING == 1:
            mbarrier.arrive(empty.index((turn + STAGES - 1) % STAGES))
        tma.store_wait(0)
        staging.store(acc.to(gl.bfloat16))
        fence_async_shared()
        tma.async_copy_shared_to_global(c_desc, [(row * CONSUMERS + PART) * ROWS, column * BN], staging)
    tma.store_wait(0)


@gluon.jit
def warp_specialized(a_desc, b_desc, c_desc, m, n, k, ROWS: gl.constexpr, BN: gl.constexpr, BK: gl.constexpr, STAGES: gl.constexpr,
                     CONSUMERS: gl.constexpr, GROUP: gl.constexpr, PENDING: gl.constexpr):
    a_ring = gl.allocate_shared_memory(gl.bfloat16, [STAGES * CONSUMERS, ROWS, BK], a_desc.layout)
    b_ring = gl.allocate_shared_memory(gl.bfloat16, [STAGES, BN, BK], b_desc.layout)
    staging = gl.allocate_shared_memory(gl.bfloat16, [CONSUMERS, ROWS, BN], c_desc.layout)
    full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(STAGES):
        mbarrier.init(full.index(i), count=1)
        mbarrier.init(empty.index(i), count=CONSUMERS)
    if CONSUMERS == 2:
        gl.warp_specialize([
            (multiply_tiles, (c_desc, a_ring, b_ring, staging.index(0), full, empty, m, n, k, 0, ROWS, BN, BK, STAGES, CONSUMERS, GROUP, PENDING)),
            (multiply_tiles, (c_desc, a_ring, b_ring, staging.index(1), full, empty, m, n, k, 1, ROWS, BN, BK, STAGES, CONSUMERS, GROUP, PENDING)),
            (load_tiles, (a_desc, b_desc, a_ring, b_ring, full, empty, m, n, k, ROWS, BN, BK, STAGES, CONSUMERS, GROUP)),
        ], [4, 1], [232, 40])
    else:
        gl.warp_specialize([
            (multiply_tiles, (c_desc, a_ring, b_ring, staging.index(0), full, empty, m, n, k, 0, ROWS, BN, BK, STAGES, CONSUMERS, GROUP, PENDING)),
            (load_tiles, (a_desc, b_desc, a_ring, b_ring, full, empty, m, n, k, ROWS, BN, BK, STAGES, CONSUMERS, GROUP)),
        ], [1], [40])


# Rows of a partition that multiplies, columns, depth, stages, partitions that multiply, warps of each, products left in flight.
CONFIGURATIONS = (
    (64, 256, 64, 3, 2, 4, 0), (64, 256, 64, 3, 2, 4, 1), (128, 256, 64, 3, 1, 8, 0), (128, 256, 64, 3, 1, 8, 1),
    (64, 128, 64, 5, 2, 4, 0), (64, 128, 64, 5, 2, 4, 1), (128, 128, 64, 5, 1, 8, 1), (64, 128, 64, 8, 1, 4, 1),
)


def candidates(a, b, c):
    """Names, and functions of `(a, b, c)` that give a call which writes `c = a · bᵀ`."""
    (m, k), n = a.shape, b.shape[0]
    for rows, bn, bk, stages, consumers, warps, pending in CONFIGURATIONS:
        for resident in (128, MULTIPROCESSORS):
            tiles = triton.cdiv(m, rows * consumers) * triton.cdiv(n, bn)
            if tiles < resident and resident != 128:
                continue

            def prepare(a, b, c, rows=rows, bn=bn, bk=bk, stages=stages, consumers=consumers, warps=warps, pending=pending,
                        programs=min(tiles, resident)):
                def cut(tensor, block):
                    return TensorDescriptor.from_tensor(tensor, block, gl.NVMMASharedLayout.get_default_for(block, gl.bfloat16))

                maps = cut(a, [rows, bk]), cut(b, [bn, bk]), cut(c, [rows, bn])
                return lambda: warp_specialized[(programs,)](*maps, m, n, k, ROWS=rows, BN=bn, BK=bk, STAGES=stages, CONSUMERS=consumers,
                                                             GROUP=16, PENDING=pending, num_warps=warps)

            yield f"{consumers}x{rows}x{bn}x{bk} s{stages} q{pending} c{resident}", prepare
