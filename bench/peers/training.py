#!/usr/bin/env python3
"""Kernels of training steps (kernels/src/training) beside torch and torch.compile, interleaved in one process on one GPU.

    python3 bench/peers/training.py ARTEFACTS [--only TEXT] [--rounds N] [--json FILE]

ARTEFACTS is the folder that `cargo tilekit -p tilekit-kernels build --emit cubin` names. torch's gradients are those of its own operators
(`native_layer_norm_backward`, `_fused_rms_norm_backward`, `_softmax_backward_data`, ..); torch.compile fuses the same formula, written out.
QuACK (`quack-kernels`), where it can be imported, has gradients of rmsnorm and layernorm, and cross entropy with its gradient. Every
output of ours is compared with float64 on poisoned buffers before it is timed. Timing as in memory_bound.py.
"""

import argparse
import gc
import json
import math
import random
import statistics
import sys
import time
from pathlib import Path

import torch
import torch.nn.functional as F

from contest import Contestant, copies, enter, fill, hold, ratio, relative_error
from cuda_driver import Function, Launch
from manifest import launch_spec

BF16 = torch.bfloat16
# CTAs of a persistent kernel for each multiprocessor.
SMS = torch.cuda.get_device_properties(0).multi_processor_count


class Kernels:
    """Kernels of a folder of artefacts."""

    def __init__(self, folder):
        self.folder, self.functions = folder, {}

    def launch(self, variant, grid, tensors, scalars, rename=None):
        kernel = json.loads((self.folder / f"{variant}.json").read_text())
        spec = launch_spec(kernel, f"{variant}.cubin", list(grid) + [1] * (3 - len(grid)), scalars, rename or {})
        if variant not in self.functions:
            self.functions[variant] = Function(self.folder / spec["cubin"], spec["entry"], spec["shared_bytes"], spec["cluster"])
        return Launch(self.functions[variant], spec, tensors)


def normal(*shape, dtype=BF16):
    return torch.randn(*shape, device="cuda", dtype=dtype)


def poisoned(*shape, dtype=BF16):
    tensor = torch.empty(*shape, device="cuda", dtype=dtype)
    fill(tensor)
    return tensor


class Case:
    """Sets of tensors, our launches on each, and the peers as functions of a set."""

    outputs = ()

    def __init__(self, kernels):
        self.kernels = kernels
        self.sets = [self.tensors() for _ in range(copies(self.bytes()))]

    def ours(self):
        every = [self.launches(tensors) for tensors in self.sets]
        return [lambda launches=launches: [launch() for launch in launches] for launches in every]

    def check(self):
        worst = 0.0
        for tensors in self.sets[:2]:
            for name in self.outputs:
                fill(tensors[name])
            for launch in self.launches(tensors):
                launch()
            torch.cuda.synchronize()
            for name, want in zip(self.outputs, self.reference(tensors)):
                worst = max(worst, relative_error(tensors[name], want))
        return worst


class Norm(Case):
    """Gradients of x and weight, and of bias where mean is subtracted."""

    def __init__(self, kernels, name, rows, cols):
        self.name, self.shape, self.per_sm = name, (rows, cols), {1024: 8, 4096: 2, 8192: 1, 16384: 1}[cols]
        self.outputs = ("dx", "dweight", "dbias") if self.is_centred() else ("dx", "dweight")
        super().__init__(kernels)

    def is_centred(self):
        return self.name == "layernorm"

    def title(self):
        return f"{self.name}_backward {self.shape[0]}x{self.shape[1]} bf16"

    def bytes(self):
        return 6 * self.shape[0] * self.shape[1]

    def tensors(self):
        rows, cols = self.shape
        x, wide = normal(rows, cols), None
        wide = x.float()
        mean = wide.mean(1) if self.is_centred() else torch.zeros(rows, device="cuda")
        rstd = ((wide - mean[:, None]).square().mean(1) + 1e-5).rsqrt()
        clusters = SMS * self.per_sm // (2 if cols > 8192 else 1)
        # The partial sums of both gradients lie beside each other, so that one launch adds them up.
        halves = 2 if self.is_centred() else 1
        partials, sums = poisoned(clusters, halves * cols, dtype=torch.float32), poisoned(halves * cols)
        return dict(x=x, dout=normal(rows, cols), weight=normal(cols), mean=mean, rstd=rstd, dx=poisoned(rows, cols), partials=partials, sums=sums,
                    partial=partials[:, :cols], partial_bias=partials[:, -cols:], dweight=sums[:cols], dbias=sums[-cols:])

    def launches(self, tensors):
        rows, cols = self.shape
        ctas = 2 if cols > 8192 else 1
        programs = tensors["partial"].shape[0]
        wide = tensors["sums"].shape[0]
        scalars = dict(row_stride=cols, rows=rows, cols=cols, partial_stride=wide)
        sums = dict(row_stride=wide, programs=programs, cols=wide)
        return [
            self.kernels.launch(f"{self.name}_backward-bf16-{cols}-8", (programs * ctas,), tensors, scalars),
            self.kernels.launch("sum_partials-bf16", (-(-wide // 32),), tensors, sums, {"partial": "partials", "out": "sums"}),
        ]

    def formula(self, x, dout, weight, mean, rstd):
        wide, grad = x.float(), dout.float()
        xhat = (wide - mean[:, None]) * rstd[:, None]
        g = grad * weight.float()
        centre = g.mean(1, keepdim=True) if self.is_centred() else 0.0
        dx = (g - centre - xhat * (g * xhat).mean(1, keepdim=True)) * rstd[:, None]
        sums = ((grad * xhat).sum(0).to(x.dtype), grad.sum(0).to(x.dtype))
        return (dx.to(x.dtype), *sums[: 2 if self.is_centred() else 1])

    def reference(self, tensors):
        x, dout, weight, mean, rstd = (tensors[n].double() for n in ("x", "dout", "weight", "mean", "rstd"))
        xhat = (x - mean[:, None]) * rstd[:, None]
        g = dout * weight
        centre = g.mean(1, keepdim=True) if self.is_centred() else 0.0
        yield (g - centre - xhat * (g * xhat).mean(1, keepdim=True)) * rstd[:, None]
        yield (dout * xhat).sum(0)
        yield dout.sum(0)

    def peers(self):
        names = ("x", "dout", "weight", "mean", "rstd")
        fused = torch.compile(self.formula, dynamic=False)
        yield "torch.compile", lambda t: fused(*(t[n] for n in names))
        cols = [self.shape[1]]
        if self.is_centred():
            bias = torch.zeros(cols, device="cuda", dtype=BF16)
            yield "torch", lambda t: torch.ops.aten.native_layer_norm_backward(
                t["dout"], t["x"], cols, t["mean"][:, None], t["rstd"][:, None], t["weight"], bias, [True] * 3)
        else:
            yield "torch", lambda t: torch.ops.aten._fused_rms_norm_backward(t["dout"], t["x"], cols, t["rstd"][:, None], t["weight"], [True] * 2)
        yield from self.quack()

    def quack(self):
        try:
            from quack.rmsnorm import layernorm_bwd, rmsnorm_bwd
        except Exception as error:  # a peer that is not installed
            print(f"# no QuACK: {error}", file=sys.stderr)
            return
        if self.is_centred():
            yield "quack", lambda t: layernorm_bwd(t["x"], t["weight"], t["dout"], t["rstd"], t["mean"])
        else:
            yield "quack", lambda t: rmsnorm_bwd(t["x"], t["weight"], t["dout"], t["rstd"])


class Elementwise(Case):
    """One access to each of some tensors."""

    def __init__(self, kernels, name, rows, cols):
        self.name, self.shape = name, (rows, cols)
        self.inputs, self.outputs = {"swiglu": (("gate", "up"), ("out",)), "swiglu_backward": (("gate", "up", "dout"), ("dgate", "dup")),
                                     "gelu_backward": (("x", "dout"), ("dx",))}[name]
        super().__init__(kernels)

    def title(self):
        return f"{self.name} {self.shape[0]}x{self.shape[1]} bf16"

    def bytes(self):
        return 2 * (len(self.inputs) + len(self.outputs)) * self.shape[0] * self.shape[1]

    def tensors(self):
        return {n: normal(*self.shape) for n in self.inputs} | {n: poisoned(*self.shape) for n in self.outputs}

    def launches(self, tensors):
        n = self.shape[0] * self.shape[1]
        return [self.kernels.launch(f"{self.name}-bf16", (-(-n // 1024),), tensors, dict(n=n))]

    def formula(self, *inputs):
        if self.name == "swiglu":
            gate, up = inputs
            return (F.silu(gate) * up,)
        if self.name == "swiglu_backward":
            gate, up, dout = inputs
            wide = gate.float()
            s = wide.sigmoid()
            silu = wide * s
            return ((dout.float() * up.float() * (s + silu * (1 - s))).to(gate.dtype), (dout.float() * silu).to(gate.dtype))
        x, dout = inputs
        return (torch.ops.aten.gelu_backward(dout, x, approximate="tanh"),)

    def reference(self, tensors):
        gate = [tensors[n].double() for n in self.inputs]
        if self.name == "swiglu_backward":
            g, up, dout = gate
            s = g.sigmoid()
            return dout * up * s * (1 + g * (1 - s)), dout * g * s
        return self.formula(*gate)

    def peers(self):
        fused = torch.compile(self.formula, dynamic=False)
        yield "torch", lambda t: self.formula(*(t[n] for n in self.inputs))
        yield "torch.compile", lambda t: fused(*(t[n] for n in self.inputs))


class Softmax(Case):
    outputs = ("dx",)

    def __init__(self, kernels, rows, cols):
        self.shape = (rows, cols)
        super().__init__(kernels)

    def title(self):
        return f"softmax_backward {self.shape[0]}x{self.shape[1]} bf16"

    def bytes(self):
        return 6 * self.shape[0] * self.shape[1]

    def tensors(self):
        return dict(out=normal(*self.shape).softmax(1), dout=normal(*self.shape), dx=poisoned(*self.shape))

    def launches(self, tensors):
        rows, cols = self.shape
        per_program = 4 if cols <= 2048 else 2 if cols <= 4096 else 1
        return [self.kernels.launch(f"softmax_backward-bf16-{cols}-8", (-(-rows // per_program),), tensors, dict(row_stride=cols, rows=rows, cols=cols))]

    def reference(self, tensors):
        p, g = tensors["out"].double(), tensors["dout"].double()
        yield p * (g - (p * g).sum(1, keepdim=True))

    def peers(self):
        def formula(out, dout):
            p, g = out.float(), dout.float()
            return (p * (g - (p * g).sum(1, keepdim=True))).to(out.dtype)
        fused = torch.compile(formula, dynamic=False)
        yield "torch", lambda t: torch.ops.aten._softmax_backward_data(t["dout"], t["out"], 1, BF16)
        yield "torch.compile", lambda t: fused(t["out"], t["dout"])


class CrossEntropy(Case):
    outputs = ("loss", "dx")

    def __init__(self, kernels, rows, cols):
        self.shape = (rows, cols)
        super().__init__(kernels)

    def title(self):
        return f"cross_entropy_gradient {self.shape[0]}x{self.shape[1]} bf16"

    def bytes(self):
        return 4 * self.shape[0] * self.shape[1]

    def tensors(self):
        rows, cols = self.shape
        return dict(x=normal(rows, cols), label=torch.randint(0, cols, (rows,), device="cuda", dtype=torch.int32),
                    loss=poisoned(rows, dtype=torch.float32), dx=poisoned(rows, cols))

    def launches(self, tensors):
        rows, cols = self.shape
        ctas = next(n for n in (1, 2, 4, 8) if n * 32768 >= cols)
        return [self.kernels.launch(f"cross_entropy_gradient-bf16-32768-{ctas}-8-8", (rows * ctas,), tensors, dict(row_stride=cols, cols=cols, scale=1 / rows))]

    def reference(self, tensors):
        rows, cols = self.shape
        logs = tensors["x"].double().log_softmax(1)
        label = tensors["label"].long()[:, None]
        yield -logs.gather(1, label)[:, 0]
        yield logs.exp_().scatter_add_(1, label, torch.full_like(label, -1, dtype=torch.float64)).div_(rows)

    def peers(self):
        rows = self.shape[0]

        def formula(x, label):
            logs = x.float().log_softmax(1)
            at = label.long()[:, None]
            hot = torch.arange(x.shape[1], device=x.device)[None] == at
            return -logs.gather(1, at)[:, 0], ((logs.exp() - hot.float()) / rows).to(x.dtype)

        def eager(t):
            x = t["x"].detach().requires_grad_()
            loss = F.cross_entropy(x, t["label"].long())
            return loss, torch.autograd.grad(loss, x)[0]
        fused = torch.compile(formula, dynamic=False)
        yield "torch", eager
        yield "torch.compile", lambda t: fused(t["x"], t["label"])
        try:
            from quack.cross_entropy import cross_entropy_fwd
        except Exception as error:  # a peer that is not installed
            print(f"# no QuACK: {error}", file=sys.stderr)
            return
        wide = {}

        def quack(t):
            key = id(t["label"])
            if key not in wide:
                wide[key] = t["label"].long()
            return cross_entropy_fwd(t["x"], wide[key], return_dx=True)
        yield "quack", quack


class Rotary(Case):
    outputs = ("out",)

    def __init__(self, kernels, tokens, heads):
        self.shape = (tokens, heads, 128)
        super().__init__(kernels)

    def title(self):
        return f"rotary {self.shape[0]}x{self.shape[1]}x128 bf16"

    def bytes(self):
        return 4 * math.prod(self.shape)

    def tensors(self):
        angle = torch.rand(self.shape[0], 64, device="cuda") * 6
        return dict(x=normal(*self.shape), cos=angle.cos(), sin=angle.sin(), out=poisoned(*self.shape))

    def launches(self, tensors):
        tokens, heads, width = self.shape
        scalars = dict(token_stride=heads * width, head_stride=width, out_token_stride=heads * width, out_head_stride=width, heads=heads, direction=1.0)
        return [self.kernels.launch("rotary-bf16-64", (-(-heads // 16), tokens), tensors, scalars)]

    @staticmethod
    def formula(x, cos, sin):
        a, b = (x[..., :64].to(cos.dtype), x[..., 64:].to(cos.dtype))
        cos, sin = cos[:, None], sin[:, None]
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1).to(x.dtype)

    def reference(self, tensors):
        yield self.formula(*(tensors[n].double() for n in ("x", "cos", "sin")))

    def peers(self):
        fused = torch.compile(self.formula, dynamic=False)
        yield "torch", lambda t: self.formula(t["x"], t["cos"], t["sin"])
        yield "torch.compile", lambda t: fused(t["x"], t["cos"], t["sin"])


class AdamW(Case):
    outputs = ("new_param", "new_m", "new_v")
    keep, beta1, beta2, epsilon = 1 - 1e-3 * 0.1, 0.9, 0.99, 1e-8

    def __init__(self, kernels, n):
        self.n = n
        super().__init__(kernels)

    def title(self):
        return f"adamw 2^{self.n.bit_length() - 1} f32"

    def bytes(self):
        return 28 * self.n

    def tensors(self):
        made = {n: normal(self.n, dtype=torch.float32) for n in ("param", "grad", "m")} | {"v": torch.rand(self.n, device="cuda")}
        # In place, as an optimiser does it; checked on tensors of its own.
        return made | {n: made[n.removeprefix("new_")] for n in self.outputs}

    def scalars(self):
        return dict(n=self.n, keep=self.keep, beta1=self.beta1, beta2=self.beta2, step=1e-3 / (1 - self.beta1**3),
                    root=(1 - self.beta2**3) ** -0.5, epsilon=self.epsilon, scale=1.0)

    def launches(self, tensors):
        return [self.kernels.launch("adamw-f32-f32", (-(-self.n // 1024),), tensors, self.scalars())]

    def check(self):
        t, s = self.sets[0], self.scalars()
        before = {n: t[n][: 1 << 20].double() for n in ("param", "grad", "m", "v")}
        m = before["m"] + (before["grad"] - before["m"]) * (1 - self.beta1)
        v = before["v"] * self.beta2 + before["grad"].square() * (1 - self.beta2)
        param = before["param"] * s["keep"] - m * s["step"] / (v.sqrt() * s["root"] + s["epsilon"])
        for launch in self.launches(t):
            launch()
        torch.cuda.synchronize()
        return max(relative_error(t[n][: 1 << 20], want) for n, want in (("param", param), ("m", m), ("v", v)))

    def peers(self):
        step = torch.tensor(3.0, device="cuda")
        yield "torch fused", lambda t: torch._fused_adamw_([t["param"]], [t["grad"]], [t["m"]], [t["v"]], [], [step], lr=1e-3, beta1=self.beta1,
                                                           beta2=self.beta2, weight_decay=0.1, eps=self.epsilon, amsgrad=False, maximize=False)


def cases(kernels):
    for name in ("rmsnorm", "layernorm"):
        for rows, cols in ((32768, 1024), (16384, 4096), (8192, 8192), (4096, 16384)):
            yield lambda name=name, rows=rows, cols=cols: Norm(kernels, name, rows, cols)
    for rows, cols in ((32768, 1024), (8192, 4096)):
        yield lambda rows=rows, cols=cols: Softmax(kernels, rows, cols)
    for name in ("swiglu", "swiglu_backward", "gelu_backward"):
        yield lambda name=name: Elementwise(kernels, name, 8192, 14336)
    yield lambda: CrossEntropy(kernels, 8192, 32000)
    yield lambda: CrossEntropy(kernels, 8192, 128256)
    yield lambda: Rotary(kernels, 16384, 32)
    yield lambda: AdamW(kernels, 1 << 27)


def time_case(case, args):
    error = case.check()
    torch._dynamo.reset()
    title = case.title()
    found = [Contestant("tilekit", case.ours(), args.batch_ms)]
    for name, function in case.peers():
        calls = [lambda t=t, f=function: f(t) for t in case.sets]
        found.append(enter(title, name, lambda: Contestant(name, calls, args.batch_ms)))
    found = [c for c in found if c]
    hold(found, args.rounds)
    for c in found:
        median = statistics.median(c.back_to_back_us)
        yield {"case": title, "contestant": c.name, "us": round(median, 3), "us_min": round(min(c.back_to_back_us), 3),
               "us_max": round(max(c.back_to_back_us), 3), "tbps": round(case.bytes() / median / 1e6, 3),
               "tilekit_speedup": round(ratio(c.back_to_back_us, found[0].back_to_back_us), 4), "mode": c.mode, "error": error}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("artefacts", type=Path)
    parser.add_argument("--only", default="", help="cases whose name contains one of these comma-separated texts")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--batch-ms", type=float, default=8.0)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    random.seed(1)
    torch.manual_seed(1)
    wanted = [t for t in args.only.split(",") if t]
    failed = False
    print(f"# {torch.cuda.get_device_name()}, torch {torch.__version__}, {time.strftime('%Y-%m-%d')}")
    print(f"# {'case':46s} {'contestant':16s} {'us':>9s} {'min':>9s} {'max':>9s} {'TB/s':>6s} {'ratio':>7s}  error")
    for make in cases(Kernels(args.artefacts)):
        gc.collect()
        torch.cuda.empty_cache()
        try:
            case = make()
            if wanted and not any(t in case.title() for t in wanted):
                continue
            rows = list(time_case(case, args))
        except Exception as error:  # one case that cannot run must not lose the others
            print(f"ERROR {type(error).__name__}: {str(error)[:300]}", flush=True)
            failed = True
            continue
        for row in rows:
            wrong = "" if row["error"] <= 8e-3 else " WRONG"
            failed |= bool(wrong)
            print(f"{row['case']:48s} {row['contestant']:16s} {row['us']:9.2f} {row['us_min']:9.2f} {row['us_max']:9.2f} {row['tbps']:6.3f} "
                  f"{row['tilekit_speedup']:7.4f}  {row['error']:.1e}{wrong}", flush=True)
            if args.json:
                with args.json.open("a") as out:
                    out.write(json.dumps(row) + "\n")
        del case
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
