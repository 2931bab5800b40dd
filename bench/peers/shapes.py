"""What scripts have in common that time products of several shapes: options, one shape after the other, records."""

import argparse
import json
import random
import time
from pathlib import Path

import torch


def parser_of(doc, shapes, batch_ms):
    """Options of a script with this documentation, these shapes and so long batches unless others are given."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("artefacts", type=Path)
    parser.add_argument("--shapes", default=shapes)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--singles", type=int, default=7)
    parser.add_argument("--batch-ms", type=float, default=batch_ms)
    parser.add_argument("--check", action="store_true", help="compare only")
    parser.add_argument("--json", type=Path)
    return parser


def each(options, contest):
    """Runs `contest(shape, options)` of each shape, with the same random numbers in every run."""
    torch.manual_seed(1)
    random.seed(1)
    print(f"# {torch.cuda.get_device_name()}, torch {torch.__version__}, {time.strftime('%Y-%m-%d %H:%M:%S')}", flush=True)
    for shape in options.shapes.split(","):
        try:
            contest(shape, options)
        except Exception as error:  # one shape that cannot run must not lose the others
            print(shape, type(error).__name__, str(error)[:300], flush=True)
        torch.cuda.empty_cache()
    print(f"# {time.strftime('%H:%M:%S')}", flush=True)


def record(options, contestant, **case):
    """Appends the times of a contestant to the file that the options name, behind what the case is."""
    if options.json:
        times = {"contestant": contestant.name, "single_us": contestant.single_us, "back_to_back_us": contestant.back_to_back_us}
        with options.json.open("a") as out:
            out.write(json.dumps({**case, **times}) + "\n")
