#!/usr/bin/env python3
"""Goals of attention beside what was recorded: geometric means of ratios, and the cost model of each instance.

    python3 bench/attention_goals.py    writes the tables of bench/results/attention.md, "Goals, and which are met"

Rows of forward, backward and e4m3 are the samples of bench/results/attention_h200.jsonl, a ratio the median over the rounds of the peer's time over ours. Kinds that have no samples there
are read from tables of attention.md, by their headings. The cost model is time = F of each tile + b of each of its blocks, on 132 SMs, in cycles at 1.65 GHz: least squares of
relative errors over the lengths that were recorded.
"""

import json
import math
import re
import statistics
from pathlib import Path

RESULTS = Path(__file__).parent / "results"
SMS, GHZ = 132, 1.65
MODES = ("single_us", "back_to_back_us")


def samples():
    """Times of each contestant of a case, the newest record of each."""
    found = {}
    for line in (RESULTS / "attention_h200.jsonl").read_text().splitlines():
        event = json.loads(line)
        found.setdefault(event["case"], {})[event["contestant"].split(" ")[0]] = [event[mode] for mode in MODES]
    return found


def tables():
    """Rows of cells of each table of attention.md: by the heading above it, and its number below that."""
    found, heading, rows = {}, "", []
    for line in (RESULTS / "attention.md").read_text().splitlines() + [""]:
        if line.startswith("|"):
            cells = [cell.strip(" *`") for cell in line.strip("|").split("|")]
            rows += [cells] if not set(line) <= set("|-: ") else []
        elif rows:
            found.setdefault(heading, []).append(rows[1:])
            rows = []
        if line.startswith("#"):
            heading = line.lstrip("# ")
    return found


def pair(cell):
    """The first two numbers of a cell: single and back to back."""
    return [float(number) for number in re.findall(r"\d+\.?\d*", cell)[:2]]


def mean(values):
    return math.exp(statistics.fmean(math.log(value) for value in values))


def ratios(case, ours, peer):
    return [statistics.median(b / a for a, b in zip(x, y)) for x, y in zip(case[ours], case[peer])]


def kinds(recorded, listed):
    """Name of a kind, its goal, and the ratios of its rows, single and back to back."""
    # The rows of records.md 5a and 5b of bf16.
    forward = {128: ("full 16x16384", "causal 16x16384", "causal 64x4096", "causal 128x2048"), 64: ("full 32x16384", "full 128x4096", "causal 32x16384"), 256: ("full 8x16384", "causal 8x16384")}
    backward = {128: ("full 16x16384", "causal 16x16384", "causal 64x4096"), 64: ("full 32x16384", "causal 32x16384")}
    for depth, goal in ((128, 1.05), (64, 1.05), (256, 1.00)):
        for peer, least in (("fa4", goal), ("cudnn", 1.10)):
            yield f"forward, depth {depth}, over {peer}", least, [ratios(recorded[f"d{depth} {row}"], "ours", peer) for row in forward[depth]]
    yield "forward, 128 causal 128 x 2048, over fa4", 1.08, [ratios(recorded["d128 causal 128x2048"], "ours", "fa4")]
    for depth in (128, 64):
        yield f"backward, depth {depth}, over fa4", 1.05, [ratios(recorded[f"backward d{depth} {row}"], "ours", "fa4") for row in backward[depth]]
    rows = [recorded[f"backward d256 {mask} 8x16384"] for mask in ("full", "causal")]
    yield "backward, depth 256, over the better of cuDNN and fa4", 1.20, [[min(each) for each in zip(*(ratios(row, "ours", peer) for peer in ("fa4", "cudnn")))] for row in rows]
    for name, title in (("d128", "128"), ("d64", "64"), ("d192", "192"), ("d256", "256")):
        cases = [case for case in recorded if case.startswith(f"backward {name}")]
        if cases:
            yield f"backward in a fixed order, depth {title}: the other order's time over its own", 1 / 1.08, [ratios(recorded[case], "in", "ours") for case in cases]
    for peer, title, wanted in (("bf16", "our bf16", ((128, 1.4), (256, 1.4))), ("cudnn", "cuDNN's", ((64, 1.0), (128, 1.0), (256, 1.0)))):
        for depth, goal in wanted:
            cases = [case for case in recorded if case.startswith(f"fp8 d{depth} ")]
            yield f"forward of e4m3, depth {depth}, over {title}", goal, [ratios(recorded[case], "fp8", peer) for case in cases]
    latent = [(tuple(int(word[1:]) for word in case.split(" ")[1:]), ratios(row, "ours", "FlashMLA")) for case, row in recorded.items() if case.startswith("mla ")]
    longest = (1, 16384, 128)
    yield "MLA, the rows of FlashMLA's throughput", 1.03, [values for sizes, values in latent if sizes[0] >= 64]
    yield "MLA, 1 x 16384, 128 heads", 2.0, [values for sizes, values in latent if sizes == longest]
    yield "MLA, the other small calls", 1.03, [values for sizes, values in latent if sizes[0] < 64 and sizes != longest]


def goals(recorded, listed):
    print("| kind | rows | goal | geometric mean: single, back to back | least: single, back to back | |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, goal, values in kinds(recorded, listed):
        means, least = ([f(column) for column in zip(*values)] for f in (mean, min))
        wanted = 0.99 if goal >= 1 and not name.startswith("MLA") else goal
        is_met = min(means) >= goal - 0.0005 and min(least) >= min(goal, wanted) - 0.0005
        word = "met" if is_met else "missed"
        print(f"| {name} | {len(values)} | {goal:.2f} | {means[0]:.3f}, {means[1]:.3f} | {least[0]:.3f}, {least[1]:.3f} | {word} |")


def work(tokens, heads, tile, causal):
    """Tiles and blocks of a call. A tile of `tile[0]` rows has a block for every `tile[1]` others, up to the diagonal if `causal`."""
    rows, keys = tile
    tiles = -(-tokens // rows)
    most = -(-tokens // keys)
    blocks = sum(min(most, -(-(at + 1) * rows // keys)) if causal else most for at in range(tiles))
    return tiles * heads, blocks * heads


def fit(points):
    """F and b of (tiles, blocks, us): least squares of the relative error, and the worst of it."""
    rows = [(tiles / us, blocks / us) for tiles, blocks, us in points]
    a, b, c = (sum(r[i] * r[j] for r in rows) for i, j in ((0, 0), (0, 1), (1, 1)))
    x, y = sum(r[0] for r in rows), sum(r[1] for r in rows)
    fixed, block = (x * c - y * b) / (a * c - b * b), (a * y - b * x) / (a * c - b * b)
    worst = max(abs(r[0] * fixed + r[1] * block - 1) for r in rows)
    return fixed, block, worst


def models(recorded):
    """Instance, its tile, tensor cycles of a block, and (heads, tokens, causal, times)."""
    shapes = {"128": ((16, 16384), (64, 4096), (128, 2048)), "64": ((32, 16384), (128, 4096)), "256": ((8, 16384),)}
    median = lambda case, who: [statistics.median(times) for times in recorded[case][who]]
    for depth, mask, tile in (("128", "full", (128, 176)), ("128", "causal", (128, 128)), ("64", "full", (192, 128)), ("64", "causal", (192, 128))):
        for who, rows in (("ours", tile), ("fa4", (tile[0], 128))):
            points = [(h, t, mask == "causal", median(f"d{depth} {mask} {h}x{t}", who)) for h, t in shapes[depth]]
            yield f"forward {depth} {mask}, {who}", rows, 4 * int(depth) * rows[0] * rows[1] / 4096, points
    causal = [(h, t, True, median(f"d256 causal {h}x{t}", "ours")) for h, t in ((8, 16384), (32, 4096)) if f"d256 causal {h}x{t}" in recorded]
    if len(causal) > 1:
        yield "forward 256 causal, ours", (128, 64), 4 * 256 * 128 * 64 / 4096, causal
    for depth, tile in (("128", (128, 64)), ("64", (128, 128))):
        for mask in ("full", "causal"):
            for who in ("ours", "fa4"):
                points = [(h, t, mask == "causal", median(f"backward d{depth} {mask} {h}x{t}", who)) for h, t in shapes[depth]]
                yield f"backward {depth} {mask}, {who}", tile, 10 * int(depth) * tile[0] * tile[1] / 4096, points
    for mask in ("full", "causal"):
        points = [(h, t, mask == "causal", median(f"backward d256 {mask} {h}x{t}", "ours")) for h, t in ((8, 16384), (32, 4096))]
        yield f"backward 256 {mask}, ours", (64, 80), 10 * 256 * 64 * 80 / 4096, points
    for depth, mask, tile in (("128", "full", (128, 192)), ("128", "causal", (128, 128)), ("64", "full", (128, 128)), ("64", "causal", (128, 128))):
        points = [(h, t, mask == "causal", median(f"fp8 d{depth} {mask} {h}x{t}", "fp8")) for h, t in shapes[depth]]
        yield f"forward of e4m3 {depth} {mask}, ours", tile, 4 * int(depth) * tile[0] * tile[1] / 8192, points


def costs(recorded):
    print("| instance | tile | lengths | tensor cycles of a block | single: F, b | back to back: F, b | worst error |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name, tile, tensor, rows in models(recorded):
        cells, worst = [], 0
        for mode in (0, 1):
            points = [(*work(tokens, heads, tile, causal), times[mode] * SMS * GHZ * 1e3) for heads, tokens, causal, times in rows]
            fixed, block, error = fit(points)
            cells.append(f"{round(fixed, -2):.0f}, {round(block, -1):.0f}")
            worst = max(worst, error)
        error = f"{100 * worst:.1f} %" if len(rows) > 2 else "two points"
        print(f"| {name} | {tile[0]}x{tile[1]} | {', '.join(str(row[1]) for row in rows)} | {tensor:.0f} | {cells[0]} | {cells[1]} | {error} |")


def solve(rows):
    """The solution of linear equations, by elimination: rows of coefficients, and a right side each."""
    rows = [list(row) for row in rows]
    for at in range(len(rows)):
        rows[at:] = sorted(rows[at:], key=lambda row: -abs(row[at]))
        rows[at] = [value / rows[at][at] for value in rows[at]]
        for other in range(len(rows)):
            if other != at:
                rows[other] = [a - rows[other][at] * b for a, b in zip(rows[other], rows[at])]
    return [row[-1] for row in rows]


def latent(listed):
    """MLA: time = F of a launch + p of a piece + t of a step of 128 keys and 64 rows, of the busiest CTA."""
    print("| MLA, 128 heads, single | steps and pieces of a CTA | t, p, F us |")
    print("| --- | --- | --- |")
    names = ("128 x 4096, 128", "128 x 8192, 128", "64 x 16384, 128")
    rows = {row[0]: row for row in listed["Where a step waits, and four ways on"][1]}
    ours = [pair(rows[name][column])[0] for column in (1, 2) for name in names]
    theirs = [pair(rows[name][3])[0] * pair(rows[name][1])[0] for name in names]
    whole, cut = ((64, 2), (128, 2), (128, 1)), ((62.06, 2.94), (124.12, 2.94), (124.12, 1.97))
    for name, counts, times in (("ours", whole, ours[:3]), ("ours, `AHEAD`", whole, ours[3:]), ("FlashMLA", cut, theirs)):
        found = solve([(*count, 1, us) for count, us in zip(counts, times)])
        print(f"| {name} | {', '.join(f'{steps:g} and {pieces:g}' for steps, pieces in counts)} | {found[0]:.2f}, {found[1]:.1f}, {found[2]:.1f} |")


def decode(listed):
    """Rows of decode that meet the goal of their time."""
    for row in listed["Decode"][0]:
        single, back_to_back, goal = pair(row[2])[0], pair(row[3])[0], float(row[5])
        print(f"| decode {row[0]} | {goal} | {single}, {back_to_back} | {'met' if max(single, back_to_back) <= goal else 'met back to back' if back_to_back <= goal else 'missed'} |")


def main():
    recorded, listed = samples(), tables()
    goals(recorded, listed)
    print()
    costs(recorded)
    print()
    latent(listed)
    print()
    decode(listed)


if __name__ == "__main__":
    main()
