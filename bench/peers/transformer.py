#!/usr/bin/env python3
"""A two-layer transformer trained twice from the same weights on the same tokens: with torch's own norms, activations, loss and optimizer, and with
TileKit's (`tilekit.nn`, `tilekit.kernels`, `tilekit.optim`). Products and attention are torch's in both. Prints losses and the time of a step.

    python3 bench/peers/transformer.py [--steps N] [--compile torch|both]

Wants the packages `tilekit` and `tilekit_kernels_exported` (docs/src/exporting.md). With --compile torch's own, or both, go through torch.compile. Times are
medians of blocks of 10 steps that alternate between both, by CUDA events.
"""

import argparse
import statistics
import sys

import torch
import torch.nn.functional as F

from tilekit import kernels, nn, optim

BF16 = torch.bfloat16
LAYERS, WIDTH, HEADS, HIDDEN, CLASSES = 2, 2048, 16, 5632, 32000
BATCH, TOKENS = 8, 1024
DEPTH = WIDTH // HEADS


def angles():
    rate = 10000.0 ** (-torch.arange(DEPTH // 2, device="cuda") / (DEPTH // 2))
    angle = torch.arange(TOKENS, device="cuda")[:, None] * rate
    return angle.cos(), angle.sin()


def torch_rotary(x, cos, sin):
    a, b = x.float().chunk(2, -1)
    cos, sin = cos[:, None], sin[:, None]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1).to(x.dtype)


class Own:
    """What torch has."""

    norm, rotary = torch.nn.RMSNorm, staticmethod(torch_rotary)

    @staticmethod
    def swiglu(gate, up):
        return F.silu(gate) * up

    @staticmethod
    def loss(logits, target):
        return F.cross_entropy(logits.float(), target)

    @staticmethod
    def optimizer(parameters):
        return torch.optim.AdamW(parameters, lr=3e-4, fused=True)


class Ours:
    norm, rotary, swiglu, loss = nn.RMSNorm, staticmethod(kernels.rotary_embedding), staticmethod(kernels.swiglu), staticmethod(kernels.cross_entropy)

    @staticmethod
    def optimizer(parameters):
        return optim.AdamW(parameters, lr=3e-4, moments=BF16)


class Block(torch.nn.Module):
    def __init__(self, parts):
        super().__init__()
        linear = lambda n, m: torch.nn.Linear(n, m, bias=False)
        self.parts, self.first, self.second = parts, parts.norm(WIDTH, eps=1e-6), parts.norm(WIDTH, eps=1e-6)
        self.qkv, self.out = linear(WIDTH, 3 * WIDTH), linear(WIDTH, WIDTH)
        self.gate, self.up, self.down = linear(WIDTH, HIDDEN), linear(WIDTH, HIDDEN), linear(HIDDEN, WIDTH)

    def forward(self, x, cos, sin):
        batch, tokens, _ = x.shape
        q, k, v = self.qkv(self.first(x)).view(batch, tokens, 3, HEADS, DEPTH).unbind(2)
        q, k = self.parts.rotary(q, cos, sin), self.parts.rotary(k, cos, sin)
        seen = F.scaled_dot_product_attention(*(t.transpose(1, 2) for t in (q, k, v)), is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, tokens, WIDTH))
        y = self.second(x)
        return x + self.down(self.parts.swiglu(self.gate(y), self.up(y)))


class Model(torch.nn.Module):
    def __init__(self, parts):
        super().__init__()
        self.parts, self.words = parts, torch.nn.Embedding(CLASSES, WIDTH)
        self.blocks, self.norm = torch.nn.ModuleList(Block(parts) for _ in range(LAYERS)), parts.norm(WIDTH, eps=1e-6)
        self.head = torch.nn.Linear(WIDTH, CLASSES, bias=False)

    def forward(self, tokens, target, cos, sin):
        x = self.words(tokens)
        for block in self.blocks:
            x = block(x, cos, sin)
        return self.parts.loss(self.head(self.norm(x)).view(-1, CLASSES), target.reshape(-1))


def data(step):
    """Tokens with something to learn: each follows from the one before, in most places."""
    generator = torch.Generator(device="cuda").manual_seed(step)
    tokens = torch.randint(0, CLASSES, (BATCH, TOKENS + 1), device="cuda", generator=generator)
    follows = torch.rand(BATCH, TOKENS, device="cuda", generator=generator) < 0.75
    for at in range(0, TOKENS, 2):
        tokens[:, at + 1] = torch.where(follows[:, at], (tokens[:, at] * 7 + 3) % 997, tokens[:, at + 1])
    return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


class Training:
    def __init__(self, parts, weights, compiled):
        torch.manual_seed(0)
        self.model = Model(parts).to("cuda", BF16)
        if weights is not None:
            self.model.load_state_dict(weights)
        self.optimizer, self.losses, self.times = parts.optimizer(self.model.parameters()), [], []
        self.call = torch.compile(self.model) if compiled else self.model

    def steps(self, batches, cos, sin):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for tokens, target in batches:
            loss = self.call(tokens, target, cos, sin)
            loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)
            self.losses.append(loss.detach())
        end.record()
        end.synchronize()
        self.times.append(start.elapsed_time(end) / len(batches))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--compile", choices=("none", "torch", "both"), default="none")
    args = parser.parse_args()
    cos, sin = angles()
    own = Training(Own, None, args.compile != "none")
    ours = Training(Ours, own.model.state_dict(), args.compile == "both")
    for first in range(0, args.steps, 10):
        batches = [data(step) for step in range(first, first + 10)]
        for training in (own, ours) if first % 20 else (ours, own):
            training.steps(batches, cos, sin)
    a, b = (torch.stack(training.losses).float().cpu() for training in (own, ours))
    for step in [*range(0, args.steps, max(1, args.steps // 10)), args.steps - 1]:
        print(f"step {step:4d}  torch {a[step]:8.4f}  tilekit {b[step]:8.4f}")
    off = (a - b).abs()
    print(f"losses differ by {off.mean():.5f} in the mean and {off.max():.5f} at most; the last 20 are {a[-20:].mean():.4f} and {b[-20:].mean():.4f}")
    # The first blocks warm up.
    one, two = (statistics.median(training.times[2:]) for training in (own, ours))
    name = "torch" if args.compile == "none" else "torch.compile"
    other = "tilekit, compiled," if args.compile == "both" else "tilekit"
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}: a step takes {one:.3f} ms with {name}, {two:.3f} ms with {other}: {one / two:.3f}")
    if not torch.isfinite(b).all() or (a[-20:].mean() - b[-20:].mean()).abs() > 0.02 * a[-20:].mean():
        sys.exit("WRONG: the losses do not agree")


if __name__ == "__main__":
    main()
