"""`C = A · Bᵀ` in Triton: persistent, with tensor descriptors, in the style of its tutorial on persistent matmul.

`candidates` gives a small sweep, of which matmul.py times the fastest.
"""

import itertools

import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

MULTIPROCESSORS = 132
SHARED_BYTES = 227 << 10


@triton.jit
def place(tile, rows, columns, GROUP: tl.constexpr):
    """Row and column of a tile, in groups of rows of tiles that share columns in L2."""
    in_group = GROUP * columns
    first = tile // in_group * GROUP
    height = min(rows - first, GROUP)
    return first + tile % in_group % height, tile % in_group // height


@triton.jit
def persistent(a_desc, b_desc, c_desc, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
               PROGRAMS: tl.constexpr, PARTS: tl.constexpr, FLATTEN: tl.constexpr):
    rows, columns = tl.cdiv(m, BM), tl.cdiv(n, BN)
    steps = tl.cdiv(k, BK)
    # A second counter for the epilogue keeps it out of the pipeline of the flattened loop.
    stored = tl.program_id(0) - PROGRAMS
    for tile in tl.range(tl.program_id(0), rows * columns, PROGRAMS, flatten=FLATTEN):
        row, column = place(tile, rows, columns, GROUP)
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for step in range(steps):
            a = a_desc.load([row * BM, step * BK])
            b = b_desc.load([column * BN, step * BK])
            acc = tl.dot(a, b.T, acc)
        stored += PROGRAMS
        row, column = place(stored, rows, columns, GROUP)
        if PARTS == 2:
            halves = tl.permute(tl.reshape(acc, (BM, 2, BN // 2)), (0, 2, 1))
            left, right = tl.split(halves)
            c_desc.store([row * BM, column * BN], left.to(c_desc.dtype))
            c_desc.store([row * BM, column * BN + BN // 2], right.to(c_desc.dtype))
        else:
            c_desc.store([row * BM, column * BN], acc.to(c_desc.dtype))


# Tile, warps and stages.
SHAPES = (
    ((128, 256, 64), 8, 3), ((128, 256, 64), 8, 4), ((256, 128, 64), 8, 3), ((128, 128, 64), 8, 4), ((128, 128, 64), 4, 4),
    ((128, 128, 128), 8, 3), ((64, 128, 64), 4, 6), ((64, 256, 64), 4, 4),
)


def fits(bm, bn, bk, stages, parts):
    """Whether ring and staging fit into shared memory beside some barriers."""
    return 2 * (stages * (bm + bn) * bk + bm * bn // parts) <= SHARED_BYTES - 1024


def configurations(m, n):
    """Small tiles only where there are few of them."""
    for ((bm, bn, bk), warps, stages), parts, flatten in itertools.product(SHAPES, (1, 2), (True, False)):
        is_worth_it = bm > 64 or triton.cdiv(m, bm) * triton.cdiv(n, bn) <= 4 * MULTIPROCESSORS
        if is_worth_it and fits(bm, bn, bk, stages, parts):
            yield bm, bn, bk, warps, stages, parts, flatten


def candidates(a, b, c):
    """Names, and functions of `(a, b, c)` that give a call which writes `c = a · bᵀ`."""
    (m, k), n = a.shape, b.shape[0]
    for bm, bn, bk, warps, stages, parts, flatten in configurations(m, n):
        programs = min(triton.cdiv(m, bm) * triton.cdiv(n, bn), MULTIPROCESSORS)

        def prepare(a, b, c, bm=bm, bn=bn, bk=bk, warps=warps, stages=stages, parts=parts, flatten=flatten, programs=programs):
            maps = (TensorDescriptor.from_tensor(a, [bm, bk]), TensorDescriptor.from_tensor(b, [bn, bk]),
                    TensorDescriptor.from_tensor(c, [bm, bn // parts]))
            return lambda: persistent[(programs,)](*maps, m, n, k, BM=bm, BN=bn, BK=bk, GROUP=8, PROGRAMS=programs, PARTS=parts,
                                                   FLATTEN=flatten, num_warps=warps, num_stages=stages)

        yield f"{bm}x{bn}x{bk} w{warps} s{stages} p{parts}" + (" flat" if flatten else ""), prepare
