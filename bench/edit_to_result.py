#!/usr/bin/env python3
"""Times what an author waits for: one changed line of an example until its result, and clean builds.

    python3 bench/edit_to_result.py [--rounds 5] [--profile dev] [--clean] [--folder FOLDER]

Run it from a checkout on a machine that does nothing else, with the sources of all dependencies fetched (`cargo fetch`). Everything
is built in FOLDER (a temporary one unless given), and the checkout is left as it was: changed is a copy. Printed are Markdown rows:
what, median, least and most of the rounds in seconds.

Edit to result: one line of the kernel `vector_add` in the copy changes, then `cargo tilekit run vector_add` is timed, from start to
exit, on the emulator at n = 1000; before that one untimed run has built everything. The tool is called as it is installed, not through
`cargo run`. `--clean` adds builds from nothing: the tool in release, and the examples with their harness in dev and in release.
"""

import argparse
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

EDITED = "examples/src/elementwise/vector_add.rs"
# Both lines are right, so that each run ends with exit 0.
BEFORE = "store(x + y)"
AFTER = "store(y + x)"


def run(command, root, **environment):
    """Runs a command and returns how long it took, in seconds."""
    start = time.perf_counter()
    ended = subprocess.run(command, cwd=root, env={**os.environ, **environment}, capture_output=True, text=True)
    seconds = time.perf_counter() - start
    if ended.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit {ended.returncode}\n{ended.stdout}{ended.stderr}")
    return seconds


def row(what, times):
    print(f"| {what} | {statistics.median(times):.2f} | {min(times):.2f} | {max(times):.2f} |", flush=True)


def edit(root):
    """Changes one line of the kernel, and back the next time."""
    path = root / EDITED
    text = path.read_text()
    old, new = (BEFORE, AFTER) if BEFORE in text else (AFTER, BEFORE)
    if text.count(old) != 1:
        sys.exit(f"{path}: `{old}` is not there once")
    path.write_text(text.replace(old, new))


def edit_to_result(root, target, profiles, rounds):
    for profile in profiles:
        run(["cargo", "build", "--offline", "-p", "cargo-tilekit"], root, CARGO_TARGET_DIR=str(target))
        tool = [str(target / "debug/cargo-tilekit"), "tilekit", "--offline", "--profile", profile]
        command = [*tool, "-p", "examples", "run", "vector_add", "--device", "emulator", "-s", "n=1000"]
        run(command, root, CARGO_TARGET_DIR=str(target))
        times = []
        for _ in range(rounds):
            edit(root)
            times.append(run(command, root, CARGO_TARGET_DIR=str(target)))
        row(f"one line of `vector_add`, then `run vector_add`, {profile} profile", times)
        row(f"nothing changed, `run vector_add`, {profile} profile",
            [run(command, root, CARGO_TARGET_DIR=str(target)) for _ in range(rounds)])


CLEAN = {
    "the tool, release": ["--release", "-p", "cargo-tilekit"],
    "examples with harness, dev": ["-p", "examples", "--tests"],
    "examples with harness, release": ["--release", "-p", "examples", "--tests"],
}


def clean_builds(root, folder, rounds):
    for what, arguments in CLEAN.items():
        times = []
        for _ in range(rounds):
            target = folder / "clean"
            shutil.rmtree(target, ignore_errors=True)
            times.append(run(["cargo", "build", "--offline", *arguments], root, CARGO_TARGET_DIR=str(target)))
        row(f"clean build: {what}", times)
        shutil.rmtree(folder / "clean", ignore_errors=True)


def copied(folder):
    """A copy of what git has of this checkout, as it is in the working tree."""
    here = pathlib.Path(__file__).resolve().parent.parent
    names = subprocess.run(["git", "ls-files", "-z"], cwd=here, capture_output=True, check=True).stdout
    root = folder / "checkout"
    for name in filter(None, names.decode().split("\0")):
        source = here / name
        if source.is_file():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, root / name)
    return root


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--profile", action="append", choices=["dev", "release"], help="of the examples; both by default")
    parser.add_argument("--clean", action="store_true", help="time clean builds too (minutes each)")
    parser.add_argument("--folder", type=pathlib.Path, help="where to build")
    arguments = parser.parse_args()
    folder = arguments.folder or pathlib.Path(tempfile.mkdtemp(prefix="tilekit-builds-"))
    folder.mkdir(parents=True, exist_ok=True)
    root = copied(folder)
    print("| what | median s | least | most |\n|---|---|---|---|", flush=True)
    try:
        edit_to_result(root, folder / "target", arguments.profile or ["dev", "release"], arguments.rounds)
        if arguments.clean:
            clean_builds(root, folder, min(arguments.rounds, 3))
    finally:
        if arguments.folder is None:
            shutil.rmtree(folder, ignore_errors=True)


main()
