"""`tilekit.kernels`, `tilekit.nn` and `tilekit.optim` against torch: on a GPU where there is one, else on the emulator.

    python3 python/tests/with_torch.py     # wants torch, and the packages tilekit and tilekit_kernels_exported
"""

import contextlib
import unittest

import torch
import torch.nn.functional as F

import tilekit
import tilekit_kernels_exported as package
from tilekit import kernels, nn, optim

HAS_GPU = torch.cuda.is_available()
DEVICE = "cuda" if HAS_GPU else "cpu"
BF16, F32 = torch.bfloat16, torch.float32


def random(*shape, dtype=BF16, scale=1.0):
    return (torch.randn(*shape, device=DEVICE) * scale).to(dtype)


class WithTorch(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        self.stack = contextlib.ExitStack()
        if not HAS_GPU:
            self.stack.enter_context(tilekit.emulated(package))

    def tearDown(self):
        self.stack.close()

    def close(self, found, wanted, what="", relative=1e-2):
        self.assertEqual(found.shape, wanted.shape, what)
        off = (found.double() - wanted.double()).abs()
        bound = relative * wanted.double().abs() + relative * wanted.double().abs().mean() + 1e-7
        self.assertTrue(bool((off <= bound).all()), f"{what}: off by {off.max().item()}, of {wanted.abs().max().item()}")

    def agrees(self, ours, theirs, *tensors, relative=1e-2, of_norms=None):
        """Values and gradients of floating-point tensors, beside those of torch in f64: each element of them, or of gradients the norm of the difference over the norm."""
        mine = [t.detach().clone().requires_grad_(t.is_floating_point()) for t in tensors]
        exact = [t.detach().double().requires_grad_() if t.is_floating_point() else t for t in tensors]
        found, wanted = ours(*mine), theirs(*exact)
        self.close(found, wanted, "the value", relative)
        dout = torch.randn_like(wanted).to(found.dtype)
        wanted.backward(dout.double())
        found.backward(dout)
        for at, (one, other) in enumerate(zip(mine, exact)):
            if other.is_floating_point():
                self.assertEqual(one.grad.dtype, one.dtype)
                if of_norms is None:
                    self.close(one.grad, other.grad, f"gradient {at}", 2 * relative)
                else:
                    off = (one.grad.double() - other.grad).norm() / other.grad.norm()
                    self.assertLess(off.item(), of_norms, f"gradient {at}")


class Functions(WithTorch):
    def test_norms(self):
        for rows, cols in ((5, 1024), (3, 4096), (7, 264)):
            x, weight, bias = random(rows, cols), random(cols), random(cols)
            self.agrees(lambda x, w: kernels.rms_norm(x, w, 1e-5), lambda x, w: F.rms_norm(x, (cols,), w, 1e-5), x, weight)
            self.agrees(kernels.layer_norm, lambda x, w, b: F.layer_norm(x, (cols,), w, b), x, weight, bias)
        self.agrees(kernels.rms_norm, lambda x, w: F.rms_norm(x, (64,), w, 1e-6), random(2, 3, 64, dtype=F32), random(64, dtype=F32), relative=1e-4)

    def test_softmax_and_activations(self):
        self.agrees(kernels.softmax, lambda x: torch.softmax(x, -1), random(3, 2, 1024))
        self.agrees(kernels.softmax, lambda x: torch.softmax(x, -1), random(5, 264, dtype=F32), relative=1e-4)
        self.agrees(kernels.gelu, lambda x: F.gelu(x, approximate="tanh"), random(3, 1000))
        self.agrees(kernels.swiglu, lambda gate, up: F.silu(gate) * up, random(2, 1500), random(2, 1500))

    def test_cross_entropy(self):
        logits, target = random(6, 1000), torch.tensor([3, 999, -100, 0, 7, 7], device=DEVICE)
        for reduction in ("mean", "sum", "none"):
            self.agrees(lambda x, t: kernels.cross_entropy(x, t, reduction=reduction), lambda x, t: F.cross_entropy(x, t, reduction=reduction), logits, target)
        self.agrees(lambda x, t: kernels.cross_entropy(x, t, 7), lambda x, t: F.cross_entropy(x, t, ignore_index=7), logits, target.clamp(min=0))

    def test_linear_cross_entropy(self):
        x, weight, target = random(70, 64, scale=0.5), random(264, 64, scale=0.5), torch.randint(0, 264, (70,), device=DEVICE)
        target[5] = -100
        for reduction in ("mean", "sum"):
            ours = lambda x, w, t: kernels.linear_cross_entropy(x, w, t, reduction=reduction, rows_at_once=32)
            self.agrees(ours, lambda x, w, t: F.cross_entropy(x @ w.T, t, reduction=reduction), x, weight, target, relative=2e-2)

    def test_rotary_embedding(self):
        angle = torch.rand(5, 64, device=DEVICE)
        cos, sin = angle.cos(), angle.sin()

        def theirs(x):
            a, b = x[..., :64], x[..., 64:]
            c, s = cos.double()[:, None], sin.double()[:, None]
            return torch.cat([a * c - b * s, b * c + a * s], -1)

        self.agrees(lambda x: kernels.rotary_embedding(x, cos, sin), theirs, random(2, 5, 3, 128))
        # As a part of the product that gives queries, keys and values.
        self.agrees(lambda x: kernels.rotary_embedding(x.unbind(2)[1], cos, sin), lambda x: theirs(x.unbind(2)[1]), random(2, 5, 3, 2, 128))

    def test_embedding(self):
        table, index = random(50, 264), torch.randint(0, 50, (3, 7), device=DEVICE)
        index[0, :5] = 11
        self.agrees(lambda t: kernels.embedding(index, t), lambda t: F.embedding(index, t), table)
        self.agrees(lambda t: kernels.embedding(index.int(), t, 11), lambda t: F.embedding(index, t, padding_idx=11), table)
        self.agrees(lambda t: kernels.embedding(index, t), lambda t: F.embedding(index, t), random(50, 1000, dtype=F32), relative=1e-5)
        # A frequent entry is summed by many CTAs.
        many = torch.randint(0, 50, (5000,), device=DEVICE)
        many[::2] = 11
        self.agrees(lambda t: kernels.embedding(many, t), lambda t: F.embedding(many, t), random(50, 1000, dtype=F32), relative=1e-5)
        mine = [table.clone().requires_grad_() for _ in range(2)]
        for one in mine:
            kernels.embedding(many, one).float().square().sum().backward()
        self.assertTrue(torch.equal(mine[0].grad, mine[1].grad))

    def test_dropout(self):
        for dtype in (BF16, F32):
            x = torch.ones(64, 1024, dtype=dtype, device=DEVICE).requires_grad_()
            out = kernels.dropout(x, 0.25, seed=2**63 + 5)
            self.close(out, torch.where(out == 0, 0, torch.full_like(out, 1 / 0.75)))
            self.assertLess(abs((out == 0).double().mean().item() - 0.25), 0.01)
            out.sum().backward()
            self.assertTrue(torch.equal(x.grad, out))
            self.assertTrue(torch.equal(out, kernels.dropout(x, 0.25, seed=2**63 + 5)))
            self.assertFalse(torch.equal(out, kernels.dropout(x, 0.25)))
        self.assertIs(kernels.dropout(x, 0.25, training=False), x)
        self.assertEqual(kernels.dropout(x, 1.0).count_nonzero(), 0)
        torch.manual_seed(3)
        one = nn.Dropout(0.5)(x)
        torch.manual_seed(3)
        self.assertTrue(torch.equal(one, nn.Dropout(0.5)(x)))

    def test_gate(self):
        def theirs(normalize, k):
            def gate(logits):
                shares, chosen = torch.softmax(logits, -1).topk(k)
                return shares / shares.sum(-1, keepdim=True) if normalize else shares

            return gate

        for experts, k, dtype, relative in ((64, 2, F32, 1e-4), (200, 8, F32, 1e-4), (8, 8, F32, 1e-4), (64, 4, BF16, 1e-2)):
            logits = torch.stack([torch.randperm(experts) * (4 / experts) for _ in range(13)]).to(DEVICE, dtype)
            for normalize in (True, False):
                self.agrees(lambda x: kernels.moe_gate(x, k, normalize)[0], theirs(normalize, k), logits, relative=relative)
                _, chosen = kernels.moe_gate(logits, k, normalize)
                self.assertTrue(torch.equal(logits.gather(1, chosen.long()), logits.topk(k).values))

    def test_rows_of_experts(self):
        tokens, experts, k, cols = 37, 6, 2, 264
        chosen = torch.stack([torch.randperm(experts)[:k] for _ in range(tokens)]).to(DEVICE, torch.int32)
        chosen[5, 1] = -1
        routing = kernels.moe_routing(chosen, experts)
        flat = chosen.flatten().cpu()
        order = torch.argsort(torch.where(flat < 0, experts, flat), stable=True)
        kept = int((flat >= 0).sum())
        self.assertEqual(routing.offsets.tolist(), [int(((flat >= 0) & (flat < e)).sum()) for e in range(experts + 1)])
        self.assertEqual(routing.token[:kept].tolist(), (order[:kept] // k).tolist())
        wanted = torch.full((tokens * k,), -1)
        wanted[order[:kept]] = torch.arange(kept)
        self.assertEqual(routing.place.flatten().tolist(), wanted.tolist())

        scales = torch.randn(experts, device=DEVICE).double()

        def ours(x, weights):
            rows = kernels.moe_permute(x, routing)
            of_row = torch.repeat_interleave(scales, routing.offsets.diff().long())
            of_row = F.pad(of_row, (0, rows.shape[0] - of_row.shape[0]))[:, None]
            return kernels.moe_combine((rows * of_row).to(rows.dtype), weights, routing)

        def theirs(x, weights):
            of_choice = torch.where(chosen < 0, 0.0, scales[chosen.clamp(min=0).long()])
            return ((weights * of_choice)[..., None] * x[:, None]).sum(1)

        weights = torch.rand(tokens, k, device=DEVICE)
        self.agrees(ours, theirs, random(tokens, cols), weights, relative=2e-2)
        self.agrees(ours, theirs, random(tokens, cols, dtype=F32), weights, relative=1e-4)

    def test_linear(self):
        for rows, n, k in ((200, 136, 72), (3, 264, 64)):
            self.agrees(kernels.linear, F.linear, random(2, rows, k), random(n, k))
        wide = random(64, 256)
        self.agrees(lambda x, w: kernels.linear(x[:, :64], w), lambda x, w: F.linear(x[:, :64], w), wide, random(40, 64))

    def test_attention(self):
        for heads, kv_heads, tokens, depth, is_causal in ((2, 2, 200, 64, True), (4, 2, 130, 128, False), (2, 1, 64, 128, True), (8, 1, 70, 256, True)):
            query, key, value = random(2, heads, tokens, depth), random(2, kv_heads, tokens, depth), random(2, kv_heads, tokens, depth)
            theirs = lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=is_causal, enable_gqa=True)
            ours = lambda q, k, v: kernels.scaled_dot_product_attention(q, k, v, is_causal=is_causal)
            self.agrees(ours, theirs, query, key, value, relative=2e-2, of_norms=5e-3)

    def test_attention_of_tokens_first(self):
        shape = (2, 150, 4, 64)
        turned = lambda attend: lambda q, k, v: attend(*(x.transpose(1, 2) for x in (q, k, v))).transpose(1, 2)
        theirs = turned(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True))
        ours = turned(lambda q, k, v: kernels.scaled_dot_product_attention(q, k, v, is_causal=True))
        self.agrees(ours, theirs, random(*shape), random(*shape), random(*shape), relative=2e-2, of_norms=5e-3)
        out = ours(random(*shape), random(*shape), random(*shape))
        self.assertTrue(out.is_contiguous(), "the output has the query's order of dimensions")

    def test_attention_in_a_fixed_order(self):
        heads, tokens, depth = (16, 4096, 128) if HAS_GPU else (2, 200, 64)
        query, key, value, dout = (random(1, heads, tokens, depth) for _ in range(4))

        def gradients():
            inputs = [x.detach().clone().requires_grad_() for x in (query, key, value)]
            kernels.scaled_dot_product_attention(*inputs, is_causal=True).backward(dout)
            return [x.grad for x in inputs]

        anyhow = gradients()
        torch.use_deterministic_algorithms(True)
        try:
            first, second = gradients(), gradients()
        finally:
            torch.use_deterministic_algorithms(False)
        for one, other, near in zip(first, second, anyhow):
            self.assertTrue(torch.equal(one, other))
            self.close(near, one, relative=5e-2)

    def test_what_has_gaps_or_repeats(self):
        wide = random(6, 2048)
        self.agrees(kernels.softmax, lambda x: torch.softmax(x, -1), wide[::2, :1024])
        x = random(4, 1024).requires_grad_()
        kernels.softmax(x).sum().backward()
        self.assertTrue(torch.isfinite(x.grad).all())

    def test_under_autocast(self):
        x, weight = random(4, 1024, dtype=F32), random(1024, dtype=F32).requires_grad_()
        with torch.autocast(DEVICE, dtype=BF16):
            out = kernels.rms_norm(x, weight)
        self.assertEqual(out.dtype, BF16)
        out.sum().backward()
        self.assertEqual(weight.grad.dtype, F32)
        self.close(out, F.rms_norm(x, (1024,), weight, 1e-6))

    def test_only_what_is_asked_for_has_gradients(self):
        x, weight = random(4, 1024), random(1024).requires_grad_()
        kernels.rms_norm(x, weight).sum().backward()
        self.assertIsNone(x.grad)
        self.assertEqual(weight.grad.shape, (1024,))


class Modules(WithTorch):
    def test_they_load_what_torchs_own_have_saved(self):
        for theirs, ours in ((torch.nn.RMSNorm(256, eps=1e-6), nn.RMSNorm(256)), (torch.nn.LayerNorm(256), nn.LayerNorm(256))):
            theirs, ours = theirs.to(DEVICE, BF16), ours.to(DEVICE, BF16)
            for parameter in theirs.parameters():
                torch.nn.init.normal_(parameter)
            ours.load_state_dict(theirs.state_dict())
            x = random(3, 256)
            self.close(ours(x), theirs.double()(x.double()))

    def test_losses_and_activations(self):
        x, target = random(4, 512), torch.tensor([1, 2, 3, 511], device=DEVICE)
        self.close(nn.CrossEntropyLoss()(x, target), F.cross_entropy(x.double(), target))
        self.close(nn.SwiGLU()(x, x), F.silu(x.double()) * x.double())
        self.close(nn.GELU()(x), F.gelu(x.double(), approximate="tanh"))
        self.close(nn.Softmax()(x), torch.softmax(x.double(), -1))

    def test_steps_of_adamw(self):
        start = random(300, dtype=F32)
        mine, theirs = (torch.nn.Parameter(start.clone()) for _ in range(2))
        ours = optim.AdamW([mine], lr=1e-2, weight_decay=0.1)
        other = torch.optim.AdamW([theirs], lr=1e-2, weight_decay=0.1)
        for _ in range(3):
            grad = random(300, dtype=F32)
            mine.grad, theirs.grad = grad.clone(), grad.clone()
            ours.step(), other.step()
        self.close(mine, theirs, relative=1e-4)


    def test_steps_of_adamw_over_lists(self):
        shapes = ((300,), (64, 72), (5000,), (1,), (8, 3, 5))
        for max_norm in (None, 1.0, 1e4):
            mine, theirs = ([torch.nn.Parameter(torch.ones(shape, device=DEVICE) * 0.5) for shape in shapes] for _ in range(2))
            ours = optim.AdamW([{"params": mine[:2]}, {"params": mine[2:], "lr": 1e-3}], lr=1e-2, weight_decay=0.1, max_norm=max_norm)
            other = torch.optim.AdamW([{"params": theirs[:2]}, {"params": theirs[2:], "lr": 1e-3}], lr=1e-2, weight_decay=0.1)
            for step in range(4):
                for at, (one, two) in enumerate(zip(mine, theirs)):
                    grad = random(*one.shape, dtype=F32)
                    one.grad, two.grad = (None, None) if step == 1 and at == 3 else (grad.clone(), grad.clone())
                if max_norm is not None:
                    norm = torch.nn.utils.clip_grad_norm_(theirs, max_norm)
                ours.step(), other.step()
                if max_norm is not None:
                    self.close(ours.norm[0], norm, relative=1e-4)
            for one, two in zip(mine, theirs):
                self.close(one, two, relative=1e-4)

    def test_embedding_loads_what_torchs_own_has_saved(self):
        theirs, ours = torch.nn.Embedding(20, 64, 3).to(DEVICE, BF16), nn.Embedding(20, 64, 3).to(DEVICE, BF16)
        ours.load_state_dict(theirs.state_dict())
        index = torch.randint(0, 20, (9,), device=DEVICE)
        self.assertTrue(torch.equal(ours(index), theirs(index)))


class Compiled(WithTorch):
    def test_operators_are_as_torch_wants_them(self):
        from tilekit_kernels_exported import _torch

        x = random(3, 1024)
        for name, arguments in (
            ("softmax_bf16_1024_8", (x, torch.zeros_like(x))),
            ("swiglu_bf16", (x.view(-1), x.view(-1), torch.zeros(3072, dtype=BF16, device=DEVICE))),
            ("rmsnorm_bf16_1024_8", (x, x[0].clone(), torch.zeros_like(x), torch.zeros(3, device=DEVICE), 1e-6)),
        ):
            said = torch.library.opcheck(getattr(_torch.operators, name), arguments)
            self.assertEqual(set(said.values()), {"SUCCESS"}, f"{name}: {said}")

    def test_a_block_in_one_graph(self):
        norm = nn.RMSNorm(1024).to(DEVICE, BF16)

        def block(x, gate):
            return kernels.softmax(norm(x) + kernels.swiglu(gate, x)).float().square().sum()

        # Without a GPU nothing could be generated for it; the graph is traced all the same, forward and backward.
        compiled = torch.compile(block, fullgraph=True, backend="inductor" if HAS_GPU else "aot_eager")
        for rows in (4, 6):
            x, gate = random(rows, 1024), random(rows, 1024)
            results = []
            for function in (block, compiled):
                mine = [t.clone().requires_grad_() for t in (x, gate)]
                norm.zero_grad()
                value = function(*mine)
                value.backward()
                results.append([value.detach(), *(t.grad for t in mine), norm.weight.grad.clone()])
            for one, other in zip(*results):
                self.close(one, other)


class Refusals(WithTorch):
    """Each wrong call: its exception, and what its text names."""

    def check(self, error, said, call, *arguments, **named):
        with self.assertRaises(error) as raised:
            call(*arguments, **named)
        self.assertIn(said, str(raised.exception))

    def test_functions(self):
        x, weight = random(4, 1024), random(1024)
        target = torch.zeros(4, dtype=torch.int64, device=DEVICE)
        for error, said, call, *arguments in (
            (TypeError, "softmax: elements are of torch.float64", kernels.softmax, x.double()),
            (TypeError, "rms_norm: tensors are of torch.bfloat16 and torch.float32", kernels.rms_norm, x, weight.float()),
            (ValueError, "rms_norm: weight has shape (1023,); it must be (1024,)", kernels.rms_norm, x, weight[1:]),
            (ValueError, "rmsnorm: rows have 20000 elements of torch.bfloat16; there are kernels for up to", kernels.rms_norm, random(1, 20000), random(20000)),
            (ValueError, "softmax: rows have 77 elements; their number must be a multiple of 8", kernels.softmax, x[:, :77]),
            (ValueError, "cross_entropy: rows have 77 elements", kernels.cross_entropy, x[:, :77], target),
            (ValueError, "softmax: x has no dimensions", kernels.softmax, x[0, 0]),
            (ValueError, "swiglu: gate has shape (4, 1024) and up (1024,)", kernels.swiglu, x, weight),
            (ValueError, "logits have shape (4, 1024) and target (3,)", kernels.cross_entropy, x, target[1:]),
            (TypeError, "target is of torch.float32", kernels.cross_entropy, x, target.float()),
            (ValueError, "weight (3, 1000) and target (4,)", kernels.linear_cross_entropy, x, random(3, 1000), target),
            (ValueError, "reduction is 'all'", kernels.cross_entropy, x, target, -100, "all"),
            (ValueError, "linear: x has shape (4, 1024) and weight (1024,)", kernels.linear, x, weight),
            (ValueError, "there are full kernels for 64, 128, 256", kernels.scaled_dot_product_attention, *(x.view(1, 4, 32, 32),) * 3),
            (ValueError, "scale is 0.0; it must be a finite number, 1e-30 or more", lambda x: kernels.scaled_dot_product_attention(x, x, x, scale=0.0), x.view(1, 1, 64, 64)),
            (ValueError, "they must be (batch, heads, tokens, depth)", kernels.scaled_dot_product_attention, x, x, x),
            (ValueError, "heads have 6 columns", kernels.rotary_embedding, x[:, :6].reshape(4, 1, 6), *(torch.ones(4, 3, device=DEVICE),) * 2),
        ):
            self.check(error, said, call, *arguments)
        table, index, choices = random(20, 64), target[:4], torch.zeros(4, 2, dtype=torch.int32, device=DEVICE)
        routing = kernels.moe_routing(choices, 3)
        ones = [torch.ones(8, device=DEVICE)]
        for error, said, call, *arguments in (
            (TypeError, "embedding: index is of torch.float32; it must be int64 or int32", kernels.embedding, index.float(), table),
            (ValueError, "embedding: table has shape (64,); it must be (entries, cols)", kernels.embedding, index, table[0]),
            (ValueError, "padding_idx is 20; it must be the number of one of the 20 entries", kernels.embedding, index, table, 20),
            (ValueError, "embedding: rows have 63 elements; their number must be a multiple of 8", kernels.embedding, index, table[:, 1:]),
            (ValueError, "dropout: p is 1.5; it must be from 0 to 1", kernels.dropout, x, 1.5),
            (ValueError, "dropout: seed is -1", kernels.dropout, x, 0.5, True, -1),
            (ValueError, "moe_gate: k is 17; it must be from 1 to 16", kernels.moe_gate, x, 17),
            (ValueError, "moe_gate: there are 1024 experts; there are kernels for up to 256", kernels.moe_gate, x, 2),
            (ValueError, "moe_routing: chosen is torch.int64 of shape (4,)", kernels.moe_routing, target, 3),
            (ValueError, "moe_permute: x has shape (4, 1024); it must be (3, cols)", kernels.moe_permute, x, kernels.moe_routing(choices[1:].clone(), 3)),
            (ValueError, "moe_combine: x has shape (4, 1024); it must be (8, cols)", kernels.moe_combine, x, choices.float(), routing),
            (ValueError, "weights are torch.int32 of shape (4, 2); they must be float32 of (4, 2)", kernels.moe_combine, random(8, 64), choices, routing),
            (ValueError, "clip_factor: there are no gradients", kernels.clip_factor, [], 1.0),
            (TypeError, "clip_factor: grads[0] and grads[1] are of torch.float32 and torch.bfloat16", kernels.clip_factor, [x.float(), x], 1.0),
        ):
            self.check(error, said, call, *arguments)
        self.check(ValueError, "ms has 0 tensors and params 1", kernels.adamw_list_, ones, ones, [], ones, 1, rate=1e-3)
        self.check(ValueError, "grads[0] has shape (7,) and params[0] (8,)", kernels.adamw_list_, ones, [ones[0][1:]], ones, ones, 1, rate=1e-3)
        self.check(ValueError, "begins at no multiple of 16 bytes", kernels.adamw_list_, *([torch.ones(9, device=DEVICE)[1:]],) * 4, 1, rate=1e-3)
        self.check(ValueError, "adamw_: step is 0", kernels.adamw_, *(torch.ones(8, device=DEVICE),) * 4, 0, rate=1e-3)
        self.check(ValueError, "it must be contiguous", kernels.adamw_, *(torch.ones(8, 8, device=DEVICE).T,) * 4, 1, rate=1e-3)

    def test_launches(self):
        kernel = package.softmax_bf16_1024_8
        x, out = random(4, 1024), torch.empty(4, 1024, dtype=BF16, device=DEVICE)
        freed = torch.empty_like(x)
        freed.untyped_storage().resize_(0)
        gradient = x.clone().requires_grad_()
        column = random(1024, 4).T
        for error, said, *arguments in (
            (TypeError, "x has elements of f32; it must have bf16", x.float(), out),
            (TypeError, "x is of type", None, out),
            (ValueError, "x has 3 dimensions; it must have 2", x[None], out),
            (ValueError, "out.shape[1] is 1016 and x.shape[1] 1024", x, out[:, :1016]),
            (ValueError, "x.stride(1) is 4; it must be 1", column, out),
            (ValueError, "x requires a gradient, and the kernel has no backward pass", gradient, out),
            (ValueError, "x has elements and no memory", freed, out),
        ):
            self.check(error, said, kernel, *arguments)
        weight = x[0]
        rms = package.rmsnorm_bf16_1024_8
        self.check(ValueError, "weight and out overlap", rms, x.clone(), weight, x, torch.empty(4, device=DEVICE), 1e-6)

    def test_memory_of_the_cpu_without_the_emulator(self):
        self.stack.close()
        self.check(ValueError, "x is on the CPU", kernels.softmax, torch.ones(4, 1024, dtype=BF16))

    @unittest.skipUnless(torch.cuda.device_count() > 1, "there are not two GPUs")
    def test_two_gpus(self):
        x, out = random(4, 1024), torch.empty(4, 1024, dtype=BF16, device=DEVICE)
        kernel = package.softmax_bf16_1024_8
        self.check(ValueError, "out is on GPU 1 and the launch on GPU 0", kernel, x, out.to("cuda:1"))
        self.check(ValueError, "stream is of GPU 1 and x on GPU 0", kernel, x, out, stream=torch.cuda.Stream("cuda:1"))


if __name__ == "__main__":
    unittest.main()
