"""Row-wise kernels in Triton: softmax, rmsnorm, layernorm and cross entropy, each in the two usual forms.

*Whole*: a program has whole rows in registers, one or several at a time; programs either take one block of rows or go on to the next
(persistent, loads pipelined). *Looped*: a program goes over a row in blocks, twice where the result needs it.
`candidates` gives the small sweep of one case, of which memory_bound.py times the fastest.
"""

import torch
import triton
import triton.language as tl

EPSILON = 1e-5
MULTIPROCESSORS = 132
LOW = tl.constexpr(-1e30)


@triton.jit
def places(first, cols, stride, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Offsets of a block of whole rows, and which of its columns are there."""
    row = (first + tl.arange(0, ROWS)).to(tl.int64)
    col = tl.arange(0, BLOCK)
    return row[:, None] * stride + col[None, :], (col < cols)[None, :]


@triton.jit
def load_rows(x, at, inside, OTHER: tl.constexpr, EVEN: tl.constexpr):
    if EVEN:
        return tl.load(x + at).to(tl.float32)
    return tl.load(x + at, mask=inside, other=OTHER).to(tl.float32)


@triton.jit
def store_rows(out, at, inside, value, EVEN: tl.constexpr):
    if EVEN:
        tl.store(out + at, value.to(out.dtype.element_ty))
    else:
        tl.store(out + at, value.to(out.dtype.element_ty), mask=inside)


@triton.jit
def softmax_whole(x, out, rows, cols, stride, ROWS: tl.constexpr, BLOCK: tl.constexpr, EVEN: tl.constexpr, STAGES: tl.constexpr):
    for first in tl.range(tl.program_id(0) * ROWS, rows, tl.num_programs(0) * ROWS, num_stages=STAGES):
        at, inside = places(first, cols, stride, ROWS, BLOCK)
        v = load_rows(x, at, inside, LOW, EVEN)
        e = tl.exp(v - tl.max(v, axis=1)[:, None])
        store_rows(out, at, inside, e / tl.sum(e, axis=1)[:, None], EVEN)


@triton.jit
def rmsnorm_whole(x, weight, out, rows, cols, stride, eps, ROWS: tl.constexpr, BLOCK: tl.constexpr, EVEN: tl.constexpr, STAGES: tl.constexpr):
    for first in tl.range(tl.program_id(0) * ROWS, rows, tl.num_programs(0) * ROWS, num_stages=STAGES):
        at, inside = places(first, cols, stride, ROWS, BLOCK)
        col, there = places(0, cols, 0, 1, BLOCK)
        v = load_rows(x, at, inside, 0.0, EVEN)
        w = load_rows(weight, col, there, 0.0, EVEN)
        scale = tl.rsqrt(tl.sum(v * v, axis=1) / cols + eps)
        store_rows(out, at, inside, v * scale[:, None] * w, EVEN)


@triton.jit
def layernorm_whole(x, weight, bias, out, rows, cols, stride, eps, ROWS: tl.constexpr, BLOCK: tl.constexpr, EVEN: tl.constexpr, STAGES: tl.constexpr):
    for first in tl.range(tl.program_id(0) * ROWS, rows, tl.num_programs(0) * ROWS, num_stages=STAGES):
        at, inside = places(first, cols, stride, ROWS, BLOCK)
        col, there = places(0, cols, 0, 1, BLOCK)
        v = load_rows(x, at, inside, 0.0, EVEN)
        w = load_rows(weight, col, there, 0.0, EVEN)
        b = load_rows(bias, col, there, 0.0, EVEN)
        mean = tl.sum(v, axis=1) / cols
        d = v - mean[:, None]
        if not EVEN:
            d = tl.where(inside, d, 0.0)
        scale = tl.rsqrt(tl.sum(d * d, axis=1) / cols + eps)
        store_rows(out, at, inside, d * scale[:, None] * w + b, EVEN)


@triton.jit
def cross_entropy_whole(x, label, out, rows, cols, stride, ROWS: tl.constexpr, BLOCK: tl.constexpr, EVEN: tl.constexpr, STAGES: tl.constexpr):
    for first in tl.range(tl.program_id(0) * ROWS, rows, tl.num_programs(0) * ROWS, num_stages=STAGES):
        at, inside = places(first, cols, stride, ROWS, BLOCK)
        row = first + tl.arange(0, ROWS)
        v = load_rows(x, at, inside, LOW, EVEN)
        wanted = tl.load(x + row.to(tl.int64) * stride + tl.load(label + row)).to(tl.float32)
        top = tl.max(v, axis=1)
        total = tl.sum(tl.exp(v - top[:, None]), axis=1)
        tl.store(out + row, tl.log(total) + top - wanted)


@triton.jit
def largest_and_sum(x, cols, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    """The largest of a row, and the sum of exp(v - largest), in one pass."""
    top = tl.full([BLOCK], LOW, tl.float32)
    total = tl.zeros([BLOCK], tl.float32)
    for start in tl.range(0, cols, BLOCK, num_stages=STAGES):
        col = start + tl.arange(0, BLOCK)
        v = tl.load(x + col, mask=col < cols, other=LOW).to(tl.float32)
        higher = tl.maximum(top, v)
        total = total * tl.exp(top - higher) + tl.exp(v - higher)
        top = higher
    largest = tl.max(top, axis=0)
    return largest, tl.sum(total * tl.exp(top - largest), axis=0)


@triton.jit
def softmax_looped(x, out, cols, stride, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * stride
    largest, total = largest_and_sum(x + row, cols, BLOCK, STAGES)
    scale = 1.0 / total
    for start in tl.range(0, cols, BLOCK, num_stages=STAGES):
        col = start + tl.arange(0, BLOCK)
        v = tl.load(x + row + col, mask=col < cols, other=LOW).to(tl.float32)
        tl.store(out + row + col, (tl.exp(v - largest) * scale).to(out.dtype.element_ty), mask=col < cols)


@triton.jit
def cross_entropy_looped(x, label, out, cols, stride, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * stride
    wanted = tl.load(x + row + tl.load(label + tl.program_id(0))).to(tl.float32)
    largest, total = largest_and_sum(x + row, cols, BLOCK, STAGES)
    tl.store(out + tl.program_id(0), tl.log(total) + largest - wanted)


# How many elements of a row a thread has at the least and at the most.
FEWEST, MOST = 8, 128


def whole_sweep(cols):
    """Rows at a time, warps, stages and whether programs go on to further rows."""
    block = triton.next_power_of_2(cols)
    for warps in (4, 8, 16, 32):
        for rows in (1, 2, 4):
            if FEWEST <= rows * block // (32 * warps) <= MOST and (rows == 1 or block <= 2048):
                yield block, rows, warps, 1, False
    if block <= 8192:
        for warps in (4, 8):
            for stages in (2, 3):
                yield block, 1, warps, stages, True


def whole(kernel, inputs, out_shape, out_dtype, extra):
    x = inputs[0]
    count, cols = x.shape
    for block, rows, warps, stages, goes_on in whole_sweep(cols):
        if count % rows:
            continue
        # Programs that go on are as many as the GPU holds at a time.
        resident = MULTIPROCESSORS * max(1, min(2048 // (32 * warps), 8))
        programs = min(count // rows, resident) if goes_on else count // rows

        def call(x, *more, block=block, rows=rows, warps=warps, stages=stages, programs=programs):
            out = torch.empty(out_shape, device="cuda", dtype=out_dtype)
            kernel[(programs,)](x, *more, out, count, cols, x.stride(0), *extra, ROWS=rows, BLOCK=block, EVEN=block == cols,
                                STAGES=stages, num_warps=warps)
            return out

        yield f"r{rows}w{warps}" + (f"s{stages}p" if goes_on else ""), call


def looped(kernel, inputs, out_shape, out_dtype):
    count, cols = inputs[0].shape
    for block, warps, stages in ((4096, 8, 2), (8192, 8, 2), (8192, 16, 3), (16384, 16, 2), (16384, 32, 2)):
        if block > cols:
            continue

        def call(x, *more, block=block, warps=warps, stages=stages):
            out = torch.empty(out_shape, device="cuda", dtype=out_dtype)
            kernel[(count,)](x, *more, out, cols, x.stride(0), BLOCK=block, STAGES=stages, num_warps=warps)
            return out

        yield f"b{block}w{warps}s{stages}", call


def candidates(kernel, inputs):
    """Names and functions of the inputs; none for a kernel that has no peer here."""
    x = inputs[0]
    if kernel.startswith("softmax"):
        yield from whole(softmax_whole, inputs, x.shape, x.dtype, ())
        if x.shape[1] >= 16384:
            yield from looped(softmax_looped, inputs, x.shape, x.dtype)
    elif kernel.startswith("rmsnorm"):
        yield from whole(rmsnorm_whole, inputs, x.shape, x.dtype, (EPSILON,))
    elif kernel.startswith("layernorm"):
        yield from whole(layernorm_whole, inputs, x.shape, x.dtype, (EPSILON,))
    elif kernel.startswith("cross_entropy"):
        yield from whole(cross_entropy_whole, inputs, x.shape[:1], torch.float32, ())
        yield from looped(cross_entropy_looped, inputs, x.shape[:1], torch.float32)
