#!/usr/bin/env python3
"""The model of time beside a GPU: runs the cases of modelled_cases.txt, and writes the table of bench/results/modelled.md.

    modelled.py run HARNESS PACKAGE DEVICE OUT.jsonl [--only TEXT] [--seconds N]    HARNESS: the package's test target `tilekit`, built for release
    modelled.py table MODELLED.jsonl MEASURED.jsonl

A case that fails is a line of OUT too, and is named by `table`."""
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
FOLDERS = {"examples": "examples", "tilekit-kernels": "kernels"}


def cases(package, only):
    for line in (HERE / "modelled_cases.txt").read_text().splitlines():
        words = line.split()
        if words and words[0] == package and only in line:
            yield words[1], dict(word.split("=") for word in words[2:])


def request(package, case, sizes, device, record):
    workspace = HERE.parent
    return {
        "protocol": 6, "device": device,
        "package": {"name": package, "root": str(workspace / FOLDERS[package]), "workspace": str(workspace),
                    "artifacts": tempfile.gettempdir() + "/tilekit-modelled", "overrides": "/nonexistent"},
        "output": {"format": "human", "color": "never", "quiet": False, "verbose": False},
        "sizes": [{"name": name, "values": [int(value)]} for name, value in sizes.items()],
        "verb": {"verb": "bench", "filters": [case], "samples": 4 if device == "cuda" else 1, "sustained_ms": 0, "hot": False, "record": record},
    }


def run(harness, package, device, out, only="", seconds=1e9):
    started = time.time()
    for case, sizes in cases(package, only):
        if time.time() - started > seconds:
            print("out of time before", case, sizes, flush=True)
            return
        with tempfile.NamedTemporaryFile("w", suffix=".json", delete=False) as file:
            json.dump(request(package, case, sizes, device, os.path.abspath(out)), file)
        ended = subprocess.run([harness], env={**os.environ, "TILEKIT_REQUEST": file.name}, capture_output=True, text=True, check=False)
        text = ended.stdout.strip().splitlines()
        print(f"{time.time() - started:6.1f} s", case, *sizes.values(), text[-1] if text else ended.stderr[-300:], flush=True)
        if ended.returncode:
            with open(out, "a") as lines:
                lines.write(json.dumps({"case": case, "sizes": {n: int(v) for n, v in sizes.items()}, "failed": ended.stderr[-500:]}) + "\n")


def read(path):
    found, failed = {}, {}
    for line in open(path):
        event = json.loads(line)
        key = (event["case"], *sorted(event["sizes"].items()))
        (failed if "failed" in event else found)[key] = event
    return found, failed


def ranks(values):
    order = sorted(range(len(values)), key=values.__getitem__)
    result = [0.0] * len(values)
    at = 0
    while at < len(order):
        end = at
        while end + 1 < len(order) and values[order[end + 1]] == values[order[at]]:
            end += 1
        for place in order[at:end + 1]:
            result[place] = (at + end) / 2
        at = end + 1
    return result


def spearman(a, b):
    return statistics.correlation(ranks(a), ranks(b))


def table(modelled, measured):
    (models, failed), (times, failed_too) = read(modelled), read(measured)
    both = [key for key in times if key in models]
    errors = []
    for key in both:
        us, predicted = times[key]["single_ms"] * 1e3, models[key]["single_ms"] * 1e3
        bounds = {launch["bound"] for launch in models[key]["launches"]}
        errors.append(abs(predicted / us - 1))
        sizes = " ".join(f"{name}={value}" for name, value in models[key]["sizes"].items())
        print(f"| `{key[0]}` | {sizes} | {us:.1f} | {predicted:.1f} | {predicted / us:.2f} | {', '.join(sorted(bounds))} |")
    print(f"\nmedian error {statistics.median(errors):.1%} of {len(both)}; within 10 %: {sum(e <= 0.1 for e in errors)}; "
          f"rank correlation {spearman([models[k]['single_ms'] for k in both], [times[k]['single_ms'] for k in both]):.3f}")
    for key, event in {**failed, **failed_too}.items():
        print("failed:", *key, event["failed"].strip().splitlines()[:1])
    for key in set(times) ^ set(models):
        print("only in one:", *key)


if __name__ == "__main__":
    words = sys.argv[1:]
    options = {}
    while len(words) > 2 and words[-2].startswith("--"):
        options[words[-2][2:]] = words[-1]
        words = words[:-2]
    if len(words) == 5 and words[0] == "run":
        run(*words[1:], only=options.get("only", ""), seconds=float(options.get("seconds", "1e9")))
    elif len(words) == 3 and words[0] == "table":
        table(*words[1:])
    else:
        sys.exit(__doc__)
