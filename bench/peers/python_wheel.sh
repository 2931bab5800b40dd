#!/usr/bin/env bash
# Makes what python_package.py needs in target/bench/python: the wheel of softmax and a matrix product, and libraw_launch.so. Wants ptxas,
# maturin (1.9.4 or later) and cc; no GPU.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=target/bench/python
rm -rf "$out" && mkdir -p "$out"
cargo run --quiet --release -p cargo-tilekit -- tilekit -p examples export --to python softmax matmul_warp_specialized vector_add --out "$out/package" >&2
# Until tilekit-python is in a registry, it is the one of this checkout.
sed -i "s|^tilekit-python = .*|tilekit-python = { path = \"$PWD/python\" }|" "$out/package/Cargo.toml"
maturin build --quiet --release --manifest-path "$out/package/Cargo.toml" --target-dir target/bench/build --out "$out"
cc -O2 -shared -fPIC -o "$out/libraw_launch.so" bench/peers/raw_launch.c
cp "$out"/package/src/*.json "$out"/package/src/*.cubin "$out/"
ls "$out"
