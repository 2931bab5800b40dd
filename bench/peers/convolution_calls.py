#!/usr/bin/env python3
"""Convolutions by cuDNN (torch, channels_last, `cudnn.benchmark` without a limit), for the layers that `cargo bench -p tilekit-kernels --bench host -- convolution` times.

    python3 bench/peers/convolution_calls.py [LAYERS]

A layer is images x height x width x channels x filters x taps x stride x groups, padded by half of the taps, or not where the stride is as many pixels as there are taps. Prints medians of single launches and of launches back to back in
microseconds, of graphs over sets of buffers beyond L2, each single one behind other work, as the bench does: two processes, one after the other on the same GPU.
"""

import statistics
import sys
import time

import torch

LAYERS = (
    "32x224x224x3x64x7x2x1,32x56x56x64x64x1x1x1,32x56x56x64x64x3x1x1,32x56x56x64x256x1x1x1,32x56x56x256x128x1x1x1,32x56x56x128x128x3x2x1,32x56x56x256x512x1x2x1,32x28x28x512x128x1x1x1,"
    "32x28x28x256x256x3x2x1,32x14x14x256x1024x1x1x1,32x14x14x512x512x3x2x1,32x7x7x512x512x3x1x1,32x7x7x2048x512x1x1x1,8x64x64x640x320x3x1x1,8x64x64x320x320x3x2x1,8x32x32x640x1280x1x1x1,"
    "64x112x112x64x64x3x1x64,64x112x112x64x64x3x2x64,64x28x28x192x192x5x1x192,64x56x56x96x96x7x1x96,64x14x14x384x384x7x1x384,32x56x56x128x128x3x1x32,32x28x28x512x512x3x2x32,64x224x224x3x768x16x16x1"
)
BEYOND_L2 = 200 << 20
ROUNDS = 15
# Of a round of launches back to back.
BUSY_US = 2000.0


def captured(calls):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for call in calls:
            call()
    return graph


def passes(layer):
    images, height, width, channels, filters, taps, stride, groups = layer
    padding = 0 if stride == taps else taps // 2
    high, wide = [(extent + 2 * padding - taps) // stride + 1 for extent in (height, width)]
    elements = images * height * width * channels + filters * taps * taps * channels // groups + images * high * wide * filters
    count = max(2, min(64, BEYOND_L2 // (2 * elements) + 1))
    normal = lambda *shape: torch.randn(shape, device="cuda", dtype=torch.bfloat16).to(memory_format=torch.channels_last)
    shapes = (images, channels, height, width), (filters, channels // groups, taps, taps), (images, filters, high, wide)
    sets = [[normal(*shape) for shape in shapes] for _ in range(count)]
    yield "forward", [lambda s=s: torch.nn.functional.conv2d(s[0], s[1], None, stride, padding, 1, groups) for s in sets]
    for name, wanted in (("gradient", [True, False, False]), ("filters", [False, True, False])):
        arguments = (None, [stride] * 2, [padding] * 2, [1, 1], False, [0, 0], groups, wanted)
        yield name, [lambda s=s: torch.ops.aten.convolution_backward(s[2], s[0], s[1], *arguments) for s in sets]


def medians(calls):
    beside = torch.cuda.Stream()
    beside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(beside):
        for call in calls[:2]:
            call()
    torch.cuda.current_stream().wait_stream(beside)
    torch.cuda.synchronize()
    graphs = [captured([call]) for call in calls]
    start, end = [torch.cuda.Event(enable_timing=True) for _ in range(2)]

    def timed(graph):
        start.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        return start.elapsed_time(end) * 1e3

    def single(number):
        torch.cuda.synchronize()
        time.sleep(0.003)
        torch.cuda._sleep(300_000)
        return timed(graphs[number % len(graphs)])

    turns = int(BUSY_US / min(single(0), single(1)) / len(calls)) + 1
    many = captured(calls * turns)
    both = [(single(number), timed(many) / turns / len(calls)) for number in range(ROUNDS)]
    return [statistics.median(times) for times in zip(*both)]


def main():
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.benchmark_limit = 0
    print(f"# {torch.cuda.get_device_name()}, torch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}, {time.strftime('%Y-%m-%d %H:%M:%S')}")
    for text in (sys.argv[1] if len(sys.argv) > 1 else LAYERS).split(","):
        for name, calls in passes([int(number) for number in text.split("x")]):
            single, back_to_back = medians(calls)
            print(f"{text} {name} {single:.1f} {back_to_back:.1f}", flush=True)
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
