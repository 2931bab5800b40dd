"""Fits the network of `kernels/src/products/residual` to times that the survey measured.

    cargo build --release -p tilekit-kernels --example plan_inputs
    PLANS="bench/results/survey_h200_plans.jsonl.gz bench/results/survey_h200_plans_turns.jsonl.gz bench/results/survey_h200_plans_cooperative.jsonl.gz bench/results/survey_h200_plans_sectors.jsonl.gz bench/results/survey_h200_plans_parts.jsonl.gz bench/results/survey_h200_plans_clusters.jsonl.gz bench/results/survey_h200_plans_unlisted.jsonl.gz bench/results/survey_h200_plans_wide.jsonl.gz bench/results/survey_h200_plans_large.jsonl.gz bench/results/survey_h200_records.jsonl.gz"
    python3 bench/fit/residual.py $PLANS --folds 6     # how it chooses among plans of sizes that it was not fitted to
    python3 bench/fit/residual.py $PLANS --write       # kernels/src/products/residual/weights.txt

Needs numpy and torch. Each line of a file is a size with the times of several plans (`cargo bench -p tilekit-kernels --bench survey -- --beside 30 --json FILE`). The loss is what a choice loses: the mean over sizes of the logarithm
of the time of a plan over that of the fastest one, weighted by a softmax of predicted times, and the squared error of the logarithm of the time. Results are the same in each run on one machine.
"""

import argparse
import gzip
import json
import math
import pathlib
import re
import statistics
import subprocess
import sys

import numpy as np
import torch

ROOT = pathlib.Path(__file__).parents[2]
WEIGHTS = ROOT / "kernels/src/products/residual/weights.txt"
UNITS = [160, 64]
# How far inputs count, in standard deviations: as in network.rs.
FARTHEST = 4.0
# Files that were measured while results of which 32 bytes is the widest swizzle had that. Without one their plans take less since, by so much of the logarithm for the share of the time in which DRAM takes results (110 sizes, of which both were timed).
SWIZZLED = {"survey_h200_plans.jsonl.gz", "survey_h200_plans_turns.jsonl.gz", "survey_h200_plans_cooperative.jsonl.gz"}
WITHOUT = -0.37
DRAM = 4.3e6
# Of the softmax: plans whose times differ by less are as good as each other.
TEMPERATURE = 0.03
# Of the squared error beside what a choice loses.
OF_ERRORS = 10.0


def opened(file):
    return gzip.open(file, "rt") if file.endswith(".gz") else open(file)


def mean_us(contestant):
    """The geometric mean of single launches and those back to back."""
    modes = (contestant["single_us"], contestant["back_to_back_us"])
    return math.sqrt(math.prod(map(statistics.median, modes)))


def without_swizzle(size, name, us):
    """The time of a plan that may have had a swizzle of 32 bytes, without it."""
    stored = re.fullmatch(r"\d+x(\d+)(| in one wave| in turns| cooperative)(| by pairs| by clusters of \dx\d)", name)
    is_by_threads = stored and not stored[2] and "clusters" in stored[3]
    if not stored or is_by_threads or int(stored[1]) % 32 != 16:
        return us
    return us * math.exp(WITHOUT * min(1.0, 2 * size[0] * size[1] / DRAM / us))


def rows(files):
    """Sizes with the times of their plans."""
    for file in files:
        is_swizzled = pathlib.Path(file).name in SWIZZLED
        for row in map(json.loads, opened(file)):
            ours = {c["name"]: mean_us(c) for c in row["contestants"] if not c["name"].startswith("cublas")}
            if is_swizzled:
                ours = {name: without_swizzle(row["size"], name, us) for name, us in ours.items()}
            yield tuple(row["size"]), ours


def merged(files):
    """Times of each size by plan, of all rows of it: those of a later row by what plans take that both have. Rows without such a plan, or with few plans, are left out."""
    sizes = {}
    for size, ours in rows(files):
        known = sizes.setdefault(size, ours)
        common = [math.log(known[name] / us) for name, us in ours.items() if name in known]
        if common:
            scale = math.exp(statistics.median(common))
            known.update({name: scale * us for name, us in ours.items() if name not in known})
    return {size: plans for size, plans in sizes.items() if len(plans) >= 5}


class Plans:
    """All plans, those of a size after each other."""

    def __init__(self, files):
        self.sizes, numbers, times, first = [], [], [], []
        measured = merged(files)
        names = [(size, name) for size, ours in measured.items() for name in ours]
        found = dict(zip(names, inputs([f"{' '.join(map(str, size))}|{name}" for size, name in names])))
        gone = sum(numbers is None for numbers in found.values())
        if gone:
            # Widths of tiles of no list follow from a size by rules that may have changed.
            print(f"{gone} of {len(names)} plans are of tiles that their sizes no longer have", file=sys.stderr)
        for size, ours in measured.items():
            first.append(len(numbers))
            self.sizes.append(size)
            known = [name for name in ours if found[size, name] is not None]
            numbers += [found[size, name] for name in known]
            times += [ours[name] for name in known]
        numbers = np.array(numbers)
        self.spans = list(zip(first, first[1:] + [len(numbers)]))
        self.model, self.inputs = np.log(numbers[:, 0]), numbers[:, 1:]
        self.measured = np.log(np.array(times))
        self.behind = np.concatenate([self.measured[a:b] - self.measured[a:b].min() for a, b in self.spans])
        # Plans that no choice takes teach little.
        self.weight = np.where(self.behind < 0.22, 1.0, np.where(self.behind < 0.47, 0.3, 0.05))

    def choice(self, predicted):
        """What the choice by predicted times has of the speed of the fastest plan, for each size."""
        return [math.exp(-self.behind[a + int(np.argmin(predicted[a:b]))]) for a, b in self.spans]


def inputs(names):
    program = ROOT / "target/release/examples/plan_inputs"
    done = subprocess.run([program], input="\n".join(names), capture_output=True, text=True, check=True)
    return [None if line == "-" else [float(word) for word in line.split()] for line in done.stdout.splitlines()]


def scaled(numbers, mean, scale):
    return torch.tensor(np.clip((numbers - mean) * scale, -FARTHEST, FARTHEST), dtype=torch.float32)


def fit(plans, of_fit, epochs, seed=0):
    """The network of the sizes `of_fit`, and the means and scales of its inputs."""
    torch.manual_seed(seed)
    rows = np.concatenate([np.arange(*plans.spans[size]) for size in of_fit])
    mean, scale = plans.inputs[rows].mean(0), 1.0 / (plans.inputs[rows].std(0) + 1e-6)
    # What is the same for all plans says nothing of others.
    scale[plans.inputs[rows].std(0) < 1e-6] = 0.0
    numbers = scaled(plans.inputs, mean, scale)
    as_tensor = lambda values: torch.tensor(values, dtype=torch.float32)
    model, behind, weight = map(as_tensor, (plans.model, plans.behind, plans.weight))
    missed = as_tensor(plans.measured - plans.model)
    layers = []
    for width, units in zip([numbers.shape[1]] + UNITS, UNITS):
        layers += [torch.nn.Linear(width, units), torch.nn.ReLU(), torch.nn.Dropout(0.05)]
    network = torch.nn.Sequential(*layers, torch.nn.Linear(UNITS[-1], 1))
    with torch.no_grad():
        network[-1].weight.mul_(0.1)
    optimizer = torch.optim.AdamW(network.parameters(), weight_decay=0.2)
    batches = math.ceil(len(of_fit) / 32)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, total_steps=epochs * batches)
    random = np.random.default_rng(seed)
    for _ in range(epochs):
        for batch in np.array_split(random.permutation(of_fit), batches):
            spans = [plans.spans[size] for size in batch]
            rows = np.concatenate([np.arange(*span) for span in spans])
            size = torch.tensor(np.repeat(np.arange(len(batch)), [b - a for a, b in spans]))
            correction = 0.1 * network(numbers[rows]).squeeze(1)
            logits = -(model[rows] + correction) / TEMPERATURE
            most = torch.full((len(batch),), -1e9).scatter_reduce(0, size, logits, "amax")
            share = torch.exp(logits - most[size])
            share = share / torch.zeros(len(batch)).scatter_add(0, size, share)[size]
            lost = (share * behind[rows]).sum() / len(batch)
            error = (weight[rows] * (correction - missed[rows]) ** 2).sum() / weight[rows].sum()
            optimizer.zero_grad()
            (10.0 * (lost + OF_ERRORS * error)).backward()
            optimizer.step()
            schedule.step()
    return network.eval(), mean, scale


def predicted(plans, fitted):
    network, mean, scale = fitted
    with torch.no_grad():
        return plans.model + 0.1 * network(scaled(plans.inputs, mean, scale)).squeeze(1).double().numpy()


def describe(name, chosen):
    mean = math.exp(statistics.mean(map(math.log, chosen)))
    below = [sum(of < limit for of in chosen) / len(chosen) for limit in (0.93, 0.97)]
    print(f"{name}: {len(chosen)} sizes, chosen {mean:.4f} of the fastest, {below[0]:.3f} below 0.93, {below[1]:.3f} below 0.97, least {min(chosen):.3f}")


def validate(plans, folds, epochs):
    """Each size is predicted by a network that was fitted without it."""
    distinct = sorted(set(plans.sizes))
    np.random.default_rng(3).shuffle(distinct)
    fold = {size: at % folds for at, size in enumerate(map(tuple, distinct))}
    times = plans.model.copy()
    for left_out in range(folds):
        of_fit = [at for at, size in enumerate(plans.sizes) if fold[size] != left_out]
        found = predicted(plans, fit(plans, of_fit, epochs))
        for (a, b), size in zip(plans.spans, plans.sizes):
            if fold[size] == left_out:
                times[a:b] = found[a:b]
    describe("model", plans.choice(plans.model))
    describe("network", plans.choice(times))
    errors = (times - plans.measured)[plans.weight == 1.0]
    print(f"times of plans near the fastest: {errors.mean():+.3f} in the mean, {errors.std():.3f} standard deviation, as logarithms")


def write(fitted):
    network, mean, scale = fitted
    first, second, last = [layer for layer in network if isinstance(layer, torch.nn.Linear)]
    text = lambda values: " ".join(f"{value:.5g}" for value in values)
    lines = ["# Written by bench/fit/residual.py. Means of inputs", text(mean), "# reciprocals of their standard deviations", text(scale)]
    for name, layer in (("first", first), ("second", second)):
        lines += [f"# {name} layer, the weights of an input a line", *map(text, layer.weight.T.tolist())]
        lines += ["# biases", text(layer.bias.tolist())]
    lines += ["# output, and its bias", text(0.1 * last.weight[0].detach().numpy()), text([0.1 * last.bias.item()])]
    WEIGHTS.write_text("\n".join(lines) + "\n")


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("files", nargs="+")
    arguments.add_argument("--folds", type=int)
    arguments.add_argument("--epochs", type=int, default=200)
    arguments.add_argument("--write", action="store_true")
    options = arguments.parse_args()
    plans = Plans(options.files)
    if options.folds:
        validate(plans, options.folds, options.epochs)
    if options.write:
        fitted = fit(plans, list(range(len(plans.spans))), options.epochs)
        describe("sizes of the fit", plans.choice(predicted(plans, fitted)))
        write(fitted)


if __name__ == "__main__":
    main()
