#!/usr/bin/env python3
"""Functions of `tilekit.kernels` beside torch's own and torch.compile's in one process: embedding, routing, dropout, AdamW over lists.

    python3 bench/peers/training_functions.py      # where torch, and the wheels tilekit and tilekit_kernels_exported are

Results are compared first. A round visits the contestants in random order, several calls of each between two events; the table has the
median of the time of one call, and of each round's ratio of a contestant's time to ours (above 1: ours is faster), with its quartiles.
"""

import random
import statistics
import sys

import torch
import torch.nn.functional as F

from tilekit import kernels, optim

BF16, F32 = torch.bfloat16, torch.float32
ROUNDS, CALLS = 41, 5


def microseconds(call):
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(CALLS):
        call()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) * 1e3 / CALLS


def contest(title, ways, moved=None):
    try:
        for call in ways.values():
            for _ in range(3):
                call()
        times = {name: [] for name in ways}
        for _ in range(ROUNDS):
            order = list(ways)
            random.shuffle(order)
            for name in order:
                times[name].append(microseconds(ways[name]))
    except Exception as error:
        print(f"{title}: FAILED: {error!r}", flush=True)
        return
    print(title)
    for name, found in times.items():
        ratios = sorted(other / ours for other, ours in zip(found, times["ours"], strict=True))
        speed = f", {moved / statistics.median(found) / 1e6:.2f} TB/s" if moved else ""
        quarter = len(ratios) // 4
        print(f"  {name:14s} {statistics.median(found):9.1f} us, {statistics.median(ratios):.3f} ({ratios[quarter]:.3f} to {ratios[-quarter]:.3f}){speed}", flush=True)


def close(found, wanted, what, relative=1e-2):
    off = (found.double() - wanted.double()).abs().max().item()
    scale = wanted.double().abs().max().item()
    print(f"  {what}: off by {off:.2e} of {scale:.2e}" + ("" if off <= relative * scale else "  WRONG"), flush=True)


def embeddings():
    entries, cols, rows = 128_256, 4096, 16_384
    table = torch.randn(entries, cols, device="cuda", dtype=BF16, requires_grad=True)
    # As words are: a few are frequent.
    index = (torch.rand(rows, device="cuda") ** 6 * entries).long()
    dout = torch.randn(rows, cols, device="cuda", dtype=BF16)
    plain, number = table.detach(), 2 * rows * cols * 2
    close(kernels.embedding(index, plain), F.embedding(index, plain), "embedding", 0)
    contest("embedding, 16384 rows of 128256 x 4096 bf16", {
        "ours": lambda: kernels.embedding(index, plain), "torch": lambda: F.embedding(index, plain), "index_select": lambda: plain.index_select(0, index),
    }, number)

    def gradient(function):
        def call():
            table.grad = None
            function(index, table).backward(dout)
        return call

    ways = {"ours": gradient(kernels.embedding), "torch": gradient(F.embedding)}
    ways["ours"]()
    mine = table.grad.float()
    exact = torch.zeros(entries, cols, device="cuda").index_add_(0, index, dout.float())
    close(mine, exact, "gradient")
    del mine, exact
    contest("embedding and its gradient, dense, zeros included", ways)


def routing():
    tokens, experts, k, cols = 16_384, 64, 8, 4096
    logits = torch.randn(tokens, experts, device="cuda", dtype=F32)

    def gate(x):
        shares, chosen = torch.softmax(x, -1).topk(k)
        return shares / shares.sum(-1, keepdim=True), chosen

    (ours, found), (theirs, chosen) = kernels.moe_gate(logits, k), gate(logits)
    close(ours, theirs, "weights", 1e-5)
    print("  experts are equal:", torch.equal(found.long(), chosen), flush=True)
    compiled = torch.compile(gate)
    contest("gate of 16384 tokens, 8 of 64 experts", {
        "ours": lambda: kernels.moe_gate(logits, k), "torch": lambda: gate(logits), "torch.compile": lambda: compiled(logits),
    })

    def order(chosen):
        flat = chosen.flatten()
        order = torch.argsort(flat, stable=True)
        place = torch.empty_like(order).scatter_(0, order, torch.arange(order.numel(), device="cuda"))
        return order // k, place, torch.bincount(flat, minlength=experts).cumsum(0)

    mine = kernels.moe_routing(found, experts)
    token, place, ends = order(found)
    print("  orders are equal:", torch.equal(mine.token, token) and torch.equal(mine.place.flatten().long(), place) and torch.equal(mine.offsets[1:].long(), ends), flush=True)
    contest("131072 choices sorted by expert", {"ours": lambda: kernels.moe_routing(found, experts), "torch": lambda: order(found)})

    x = torch.randn(tokens, cols, device="cuda", dtype=BF16)
    rows = kernels.moe_permute(x, mine)
    close(rows, x[token], "rows", 0)
    contest("rows of 16384 x 4096 bf16 for 8 experts each", {"ours": lambda: kernels.moe_permute(x, mine), "torch": lambda: x[token]}, 9 * tokens * cols * 2)
    weights = ours.contiguous()
    back = lambda rows, weights: (rows[place].view(tokens, k, cols) * weights[..., None].to(BF16)).sum(1)
    precise = (rows[place].view(tokens, k, cols).float() * weights[..., None]).sum(1)
    close(kernels.moe_combine(rows, weights, mine), precise, "sums")
    del precise
    compiled = torch.compile(back)
    contest("weighted sums of them", {
        "ours": lambda: kernels.moe_combine(rows, weights, mine), "torch": lambda: back(rows, weights), "torch.compile": lambda: compiled(rows, weights),
    }, 9 * tokens * cols * 2)


def dropouts():
    x = torch.randn(16_384, 4096, device="cuda", dtype=BF16)
    out = kernels.dropout(x, 0.1)
    share = (out == 0).float().mean().item()
    print(f"  share dropped: {share:.5f}")
    contest("dropout of 16384 x 4096 bf16", {"ours": lambda: kernels.dropout(x, 0.1), "torch": lambda: F.dropout(x, 0.1)}, 2 * x.numel() * 2)


def optimizers():
    # Two blocks of a model of 4096 and their norms, four times.
    shapes = [(4096, 4096), (1024, 4096), (1024, 4096), (4096, 4096), (4096,), (4096,)] * 8
    for dtype, moments in ((F32, F32), (BF16, BF16)):
        mine, theirs = ([torch.nn.Parameter(torch.randn(shape, device="cuda", dtype=dtype)) for shape in shapes] for _ in range(2))
        for one, two in zip(mine, theirs, strict=True):
            two.data.copy_(one.data)
            one.grad = torch.randn_like(one)
            two.grad = one.grad.clone()
        ours = optim.AdamW(mine, lr=1e-3, moments=moments)
        fused = torch.optim.AdamW(theirs, lr=1e-3, fused=True)
        ours.step(), fused.step()
        close(mine[0], theirs[0], f"a step of {dtype}", 1e-2 if dtype == BF16 else 1e-5)
        elements = sum(p.numel() for p in mine)
        moved = elements * (3 * mine[0].element_size() + 4 * (2 if moments == BF16 else 4))
        contest(f"AdamW of {len(shapes)} tensors, {elements / 1e6:.0f} million elements of {dtype}", {"ours": ours.step, "torch, fused": fused.step}, moved)
        clipped = optim.AdamW(mine, lr=1e-3, moments=moments, max_norm=1.0)

        def theirs_clipped():
            torch.nn.utils.clip_grad_norm_(theirs, 1.0)
            fused.step()

        clipped.step()
        norm = torch.nn.utils.get_total_norm([p.grad for p in mine])
        close(clipped.norm[0], norm, "the norm", 1e-2)
        contest("  the same with clipping of the norm", {"ours": clipped.step, "torch, fused": theirs_clipped})
        del mine, theirs, ours, fused, clipped
        torch.cuda.empty_cache()


if __name__ == "__main__":
    print(f"# {torch.cuda.get_device_name()}, torch {torch.__version__}, Python {sys.version.split()[0]}")
    torch.manual_seed(0)
    for part in (optimizers, embeddings, routing, dropouts):
        try:
            part()
        except Exception as error:
            print(f"{part.__name__}: FAILED: {error!r}", flush=True)
        torch.cuda.empty_cache()
