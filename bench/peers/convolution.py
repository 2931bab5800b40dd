#!/usr/bin/env python3
"""Convolutions of the crate `kernels` beside cuDNN (torch, channels_last, `cudnn.benchmark`), interleaved in one process.

    python3 bench/peers/convolution.py ARTEFACTS [--layers TEXT,..] [--passes forward,gradient,filters] [--ours TEXT,..] [--rounds N] [--singles N] [--json FILE] [--check]

ARTEFACTS is the folder that `cargo tilekit -p tilekit-kernels build convolve filter_gradient add_parts --emit cubin` names. A layer is images x height x width x channels x filters x taps x stride;
padding is half of the taps. Elements are N(0, 1) in bf16. Each result is compared with one of torch in f32 without tf32, on poisoned outputs. Ratios are cuDNN's time over
ours: the median over the rounds. `gradient` is that of the image, of strides of 1, `filters` that of the filters, whose instances stand in the order of the plan's times.
"""

import argparse
import ctypes
import json
import math
import random
import statistics
import sys
import time
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent))
from contest import Contestant, copies, enter, fill, hold, ratio, relative_error
from cuda_driver import Function, Launch, MAP_ELEMENTS, MAP_SWIZZLES, L2_PROMOTION_128, ck, cuda
from manifest import launch_spec

PREFIX = "convolve-bf16-bf16-Plain-"
FILTERS_PREFIX = "filter_gradient-bf16-f32-"
SMS = 132
# ResNet-50 at batch 32, and UNet at batch 8.
LAYERS = [
    "32x56x56x64x64x1x1", "32x56x56x64x64x3x1", "32x56x56x64x256x1x1", "32x56x56x128x128x3x2", "32x28x28x128x128x3x1", "32x28x28x512x128x1x1",
    "32x14x14x256x256x3x1", "32x14x14x256x1024x1x1", "32x7x7x512x512x3x1", "8x64x64x320x320x3x1", "8x32x32x640x640x3x1", "8x64x64x640x320x3x1",
]
CHECKED = ["3x9x7x64x72x3x1", "2x11x13x64x200x3x2", "5x5x5x128x64x1x1", "1x17x33x64x136x5x2", "2x30x30x192x320x3x1", "3x8x8x64x64x7x1"]


class Layer:
    """Sizes of one convolution."""

    def __init__(self, text):
        self.images, self.height, self.width, self.channels, self.filters, self.taps, self.stride = [int(x) for x in text.split("x")]
        self.padding = self.taps // 2
        out = lambda extent: (extent + 2 * self.padding - self.taps) // self.stride + 1
        self.out_height, self.out_width = out(self.height), out(self.width)

    def flops(self):
        return 2 * self.images * self.out_height * self.out_width * self.filters * self.channels * self.taps ** 2


class Tensors:
    """Of one launch, channels last."""

    def __init__(self, layer):
        normal = lambda *shape: torch.randn(shape, device="cuda", dtype=torch.bfloat16).to(memory_format=torch.channels_last)
        self.x = normal(layer.images, layer.channels, layer.height, layer.width)
        self.w = normal(layer.filters, layer.channels, layer.taps, layer.taps)
        self.y = normal(layer.images, layer.filters, layer.out_height, layer.out_width)
        self.dx = torch.empty_like(self.x)
        self.dw = torch.empty_like(self.w)

    def nbytes(self):
        return 2 * (self.x.numel() + self.w.numel() + self.y.numel())


def image_map(tensor, pixels, channels, taps, padding, stride, out):
    """The 128 bytes of an im2col map of a tensor whose memory is images, height, width, channels."""
    n, c, h, w = tensor.shape
    room = ctypes.create_string_buffer(128 + 64)
    place = (ctypes.addressof(room) + 63) // 64 * 64
    corner = [-padding, -padding]
    upper = [-padding + (o - 1) * stride + 1 - extent for o, extent in ((out[1], w), (out[0], h))]
    ints = lambda values: (ctypes.c_int * len(values))(*values)
    ck(cuda.cuTensorMapEncodeIm2col(
        ctypes.c_void_p(place), MAP_ELEMENTS["bf16"], ctypes.c_uint32(4), ctypes.c_void_p(tensor.data_ptr()),
        (ctypes.c_uint64 * 4)(c, w, h, n), (ctypes.c_uint64 * 3)(2 * c, 2 * c * w, 2 * c * w * h), ints(corner), ints(upper),
        ctypes.c_uint32(channels), ctypes.c_uint32(pixels), (ctypes.c_uint32 * 4)(1, stride, stride, 1), 0,
        MAP_SWIZZLES[2 * channels], L2_PROMOTION_128, 0), "encoding an im2col map")
    return (ctypes.c_uint8 * 128).from_buffer_copy(ctypes.string_at(place, 128))


class Convolve(Launch):
    """A launch whose first parameter is an im2col map."""

    def __init__(self, function, spec, tensors, image):
        self.image = image
        super().__init__(function, spec, tensors)

    def value(self, p, tensors):
        return self.image if p["kind"] == "image" else Launch.value(p, tensors)


def tile_of(stem):
    """Pixels, filters and channels of a step, by the name of a cubin."""
    groups, rows, columns, _, channels = stem[len(PREFIX):].replace("-", "x").split("_")[0].split("x")[:5]
    return int(groups) * int(rows), int(columns), int(channels)


def order_of(layer, is_gradient):
    """Which tap of the filters is under each of the convolution's: backwards for a gradient."""
    step = [layer.taps ** 2, layer.taps, 1]
    return {"first": layer.taps ** 2 - 1, "step": [-x for x in step]} if is_gradient else {"first": 0, "step": step}


def ours(folder, stem, layer, sets, is_gradient):
    """Launches of one instance."""
    kernel = json.loads((folder / f"{stem}.json").read_text())
    rows, columns, step = tile_of(stem)
    if is_gradient:
        out, into, channels, filters, padding = (layer.height, layer.width), (layer.out_height, layer.out_width), layer.filters, layer.channels, layer.taps - 1 - layer.padding
    else:
        out, into, channels, filters, padding = (layer.out_height, layer.out_width), (layer.height, layer.width), layer.channels, layer.filters, layer.padding
    pixels = layer.images * out[0] * out[1]
    numbers = {"pixels": pixels, "columns": filters, "channels": channels, "groups": 1, "beta": 0.0, "source_pitch": filters,
               "walk": {"out": [1, *out], "step": [1, layer.stride, layer.stride], "lower": [0, -padding, -padding], "taps": [1, layer.taps, layer.taps], "spread": [1, 1, 1]},
               "order": order_of(layer, is_gradient)}
    tiles = -(-pixels // rows) * -(-filters // columns)
    programs = -(-tiles // -(-tiles // SMS))
    described = [p for p in kernel["parameters"] if p["name"] != "image"]
    spec = launch_spec({**kernel, "parameters": described}, f"{stem}.cubin", [programs, 1, 1], numbers, {})
    spec["params"].insert(0, {"kind": "image"})
    function = Function(folder / spec["cubin"], spec["entry"], spec["shared_bytes"], spec["cluster"])
    launches = []
    for s in sets:
        source, result = (s.y, s.dx) if is_gradient else (s.x, s.y)
        taps = s.w.permute(2, 3, 0, 1).as_strided((layer.taps ** 2, layer.filters, layer.channels), (layer.channels, layer.taps ** 2 * layer.channels, 1))
        c = result.shape[1]
        rows_of = result.permute(0, 2, 3, 1).as_strided((1, pixels, c), (c, c, 1))
        tensors = {"filters": taps, "out": rows_of, "source": result, "bias": result, "scales": result}
        image = image_map(source, rows, step, layer.taps, padding, layer.stride, out)
        launches.append(Convolve(function, spec, tensors, image))
    return launches


def plan_of(layer, form):
    """Tiles, parts of the pixels and microseconds, as kernels/src/convolution/filters_plan.rs says of an image without groups."""
    groups, blocks, _ = form
    rows, columns, of_tap = groups * 64, blocks * 64, -(-layer.channels // 64)
    tiles = -(-layer.filters // rows) * -(-layer.taps ** 2 * of_tap // blocks)
    pixels = layer.images * layer.out_height * layer.out_width
    steps, size = -(-pixels // 64), layer.filters * layer.taps ** 2 * layer.channels
    taps = 1 if of_tap % blocks == 0 else min(1 + (blocks - 1) / of_tap, blocks)
    nbytes = 2 * (layer.images * layer.height * layer.width * layer.channels + pixels * layer.filters)
    wanted = 64 + 4096 / columns + 4096 * (1 / rows + 1 / columns)
    products = rows * columns / 32 * 1.032 * max(1, wanted / 128) ** 0.45 * (1.05 if rows <= 64 else 1)
    step = max(0.92 * products, (rows + columns) * 128 / 95 * (1 + 0.62 * (taps - 1)), 170)

    def microseconds(waves):
        parts = -(-steps // -(-steps // min(max(waves * SMS // tiles, 1), steps)))
        programs, each = tiles * parts, -(-steps // parts)
        waves, of_wave = -(-programs // SMS), each * step + 1900 + 0.27 * rows * columns
        share = each * rows * columns / 32 / of_wave * programs / (waves * SMS)
        cycles = (4400 + waves * of_wave) / min(1.66e3 * (0.918 / max(share, 0.01)) ** (1 / 3), 1.9e3)
        memory = max(nbytes / 2.3e6, programs * each * (rows + columns) * 128 / 12.1e6) + 0.7
        return (cycles ** 3 + memory ** 3) ** (1 / 3) + (parts * size * 8 / 5.1e6 if parts > 1 else 0), parts

    time_of, parts = min(microseconds(waves) for waves in range(1, 13))
    return tiles, parts, time_of


def form_of(stem):
    return [int(x) for x in stem.split("-")[3].split("x")]


def our_filters(folder, stem, layer, sets):
    """Launches of one instance of the gradient of filters, and of the sum of its parts if there are several."""
    tiles, parts, _ = plan_of(layer, form_of(stem))
    elements, at_once = (512, 4) if parts <= 4 else (512, 8) if parts <= 16 else (128, 32) if parts <= 64 else (32, 128)
    stem = stem if parts > 1 else stem.replace("-f32-", "-bf16-")
    add_parts = f"add_parts-bf16-{elements}-{at_once}"
    kernel, adding = [json.loads((folder / f"{name}.json").read_text()) for name in (stem, add_parts)]
    pixels, length = layer.images * layer.out_height * layer.out_width, layer.filters * layer.channels * layer.taps ** 2
    numbers = {"count": parts, "pixels": pixels, "filters": layer.filters, "channels": layer.channels, "groups": 1, "length": length,
               "walk": {"out": [1, layer.out_height, layer.out_width], "step": [1, layer.stride, layer.stride], "lower": [0, -layer.padding, -layer.padding],
                        "taps": [1, layer.taps, layer.taps], "spread": [1, 1, 1]}}
    described = [p for p in kernel["parameters"] if p["name"] != "image"]
    spec = launch_spec({**kernel, "parameters": described}, f"{stem}.cubin", [tiles * parts, 1, 1], numbers, {})
    spec["params"].insert(0, {"kind": "image"})
    add = launch_spec(adding, f"{add_parts}.cubin", [-(-length // elements), 1, 1], numbers, {})
    functions = [Function(folder / x["cubin"], x["entry"], x["shared_bytes"], x["cluster"]) for x in (spec, add)]
    calls = []
    room = torch.empty(parts * length, device="cuda")
    for s in sets:
        c = layer.filters
        gradient = s.y.permute(0, 2, 3, 1).as_strided((pixels, c), (c, 1))
        image = image_map(s.x, 64, 64, layer.taps, layer.padding, layer.stride, (layer.out_height, layer.out_width))
        if parts == 1:
            calls.append(Convolve(functions[0], spec, {"gradient": gradient, "out": s.dw}, image))
            continue
        two = Convolve(functions[0], spec, {"gradient": gradient, "out": room}, image), Launch(functions[1], add, {"parts": room, "out": s.dw})
        calls.append(lambda two=two: [launch() for launch in two])
    return calls


def of_cudnn(layer, sets, which):
    if which == "forward":
        return [lambda s=s: torch.nn.functional.conv2d(s.x, s.w, None, layer.stride, layer.padding) for s in sets]
    wanted = [which == "gradient", which == "filters", False]
    arguments = (None, [layer.stride] * 2, [layer.padding] * 2, [1, 1], False, [0, 0], 1, wanted)
    return [lambda s=s: torch.ops.aten.convolution_backward(s.y, s.x, s.w, *arguments) for s in sets]


def reference(layer, s, which):
    """In f32, of factors that bf16 has."""
    if which == "filters":
        return torch.nn.grad.conv2d_weight(s.x.float(), s.w.shape, s.y.float(), layer.stride, layer.padding).contiguous(memory_format=torch.channels_last)
    if which == "forward":
        return torch.nn.functional.conv2d(s.x.float(), s.w.float(), None, layer.stride, layer.padding).contiguous(memory_format=torch.channels_last)
    return torch.nn.grad.conv2d_input(s.x.shape, s.w.float(), s.y.float(), layer.stride, layer.padding).contiguous(memory_format=torch.channels_last)


def in_memory(tensor):
    return tensor.permute(0, 2, 3, 1)


def checked(contestant, result, want):
    """Whether the first set's result is right, element by element."""
    fill(result)
    contestant.calls[0]()
    torch.cuda.synchronize()
    got, want = in_memory(result).float(), in_memory(want)
    error, worst = relative_error(got, want), (got - want).abs().max().item() / want.abs().max().item()
    if not (error < 4e-3 and worst < 1e-2):
        print(f"WRONG {contestant.name}: relative error {error:.1e}, worst {worst:.1e}", flush=True)
    return error < 4e-3 and worst < 1e-2


def contest(text, which, options):
    layer, is_gradient = Layer(text), which == "gradient"
    if is_gradient and layer.stride != 1:
        return None
    sets = [Tensors(layer)]
    count = 1 if options.check else max(2, min(8, copies(sets[0].nbytes())))
    sets += [Tensors(layer) for _ in range(count - 1)]
    want = reference(layer, sets[0], which)
    asked = [x for x in options.ours.split(",") if x]
    stems = [p.stem for p in sorted(options.artefacts.glob(f"{PREFIX}*_channels{'-gradient' if is_gradient else ''}.json"))]
    stems = [s for s in stems if (not asked or any(x in s for x in asked)) and ((layer.filters if is_gradient else layer.channels) % tile_of(s)[2] == 0)]
    name = f"{text} {which}"
    ways = [(s[len(PREFIX):], lambda s=s: ours(options.artefacts, s, layer, sets, is_gradient)) for s in stems]
    if which == "filters":
        stems = [p.stem for p in sorted(options.artefacts.glob(f"{FILTERS_PREFIX}*.json")) if "depth" not in p.stem]
        stems.sort(key=lambda stem: plan_of(layer, form_of(stem))[2])
        ways = [(s, lambda s=s: our_filters(options.artefacts, s, layer, sets)) for s in stems]
    if not options.check:
        ways.insert(0, ("cudnn", lambda: of_cudnn(layer, sets, which)))
    held = [c for c in (enter(name, n, lambda: Contestant(n, make(), options.batch_ms, graph_below_ms=20.0)) for n, make in ways) if c]
    result = {"forward": sets[0].y, "gradient": sets[0].dx, "filters": sets[0].dw}[which]
    kept = result.clone()
    right = []
    for c in held:
        if c.name == "cudnn" or checked(c, result, want):
            right.append(c)
    result.copy_(kept)
    del want
    print(f"{name}: {len(right)} of {len(ways)} right", flush=True)
    if options.check:
        return None
    hold(right, options.rounds, 0.0, singles=options.singles)
    first, best = right[0], None
    for c in right:
        one, many = statistics.median(c.single_us), statistics.median(c.back_to_back_us)
        rate = lambda us: layer.flops() / us / 1e6
        beside = [ratio(first.single_us, c.single_us), ratio(first.back_to_back_us, c.back_to_back_us)]
        print(f"{name:34s} {c.name:36s} {one:8.1f} us {rate(one):7.1f} TF | {many:8.1f} us {rate(many):7.1f} TF | {beside[0]:.3f} {beside[1]:.3f}", flush=True)
        if c is not first and (best is None or math.prod(beside) > math.prod(best)):
            best = beside
        if options.json:
            with options.json.open("a") as out:
                out.write(json.dumps({"layer": name, "contestant": c.name, "single_us": c.single_us, "back_to_back_us": c.back_to_back_us}) + "\n")
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("artefacts", type=Path)
    parser.add_argument("--layers", default="")
    parser.add_argument("--passes", default="forward,gradient,filters")
    parser.add_argument("--ours", default="", help="instances whose file name contains one of these comma-separated texts")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--singles", type=int, default=7)
    parser.add_argument("--batch-ms", type=float, default=10.0)
    parser.add_argument("--check", action="store_true", help="compare only, ragged layers")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.manual_seed(1)
    random.seed(1)
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.benchmark_limit = 0
    torch.backends.cudnn.allow_tf32 = False
    print(f"# {torch.cuda.get_device_name()}, torch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}, {time.strftime('%Y-%m-%d %H:%M:%S')}", flush=True)
    layers = options.layers.split(",") if options.layers else CHECKED if options.check else LAYERS
    for which in options.passes.split(","):
        bests = []
        for layer in layers:
            try:
                best = contest(layer, which, options)
                if best:
                    bests.append(best)
            except Exception as error:  # one layer that cannot run must not lose the others
                print(layer, which, type(error).__name__, str(error)[:300], flush=True)
            torch.cuda.empty_cache()
        if bests:
            means = [math.exp(statistics.mean(math.log(x) for x in mode)) for mode in zip(*bests)]
            print(f"# {which}: geometric means over {len(bests)} layers of the best instance: single {means[0]:.3f}, back to back {means[1]:.3f}", flush=True)
    print(f"# {time.strftime('%H:%M:%S')}", flush=True)


if __name__ == "__main__":
    main()
