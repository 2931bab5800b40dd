#!/usr/bin/env python3
"""Writes the manifest of `memory_bound.py`: each memory-bound example at the sizes that are measured.

    python3 bench/peers/manifest.py ARTEFACTS OUT.json

ARTEFACTS is the folder that `cargo tilekit build --emit cubin` names, with a .cubin and a .json for each variant.
"""

import json
import sys
from pathlib import Path

ITEM_BYTES = {"f32": 4, "bf16": 2, "f16": 2}


def parts(name, value):
    """Numbers by what the parameters are called that they are passed for."""
    if isinstance(value, dict):
        fields = value.items()
    elif isinstance(value, (list, tuple)):
        fields = enumerate(value)
    else:
        return [(name, value)]
    return [part for field, inner in fields for part in parts(f"{name}_{field}" if name else str(field), inner)]


def launch_spec(kernel, cubin, grid, scalars, rename):
    """A launch of a kernel as `build` describes it; `scalars` has the numbers by name, those of an array as a list and those of a struct as a dict. One
    that waits for the launch before it may overlap with that."""
    scalars = dict(parts("", scalars))
    params = []
    for p in kernel["parameters"]:
        name = rename.get(p["name"], p["name"])
        if p.get("tensor_map"):
            params.append({"kind": "tensor_map", "name": name, "map": p["tensor_map"]})
        elif p["type"].startswith("ptr"):
            params.append({"kind": "buffer", "name": name})
        else:
            if p["name"] not in scalars:
                raise SystemExit(f"{kernel['kernel']} takes a `{p['name']}` that its case here does not know: see examples/src")
            params.append({"kind": p["type"], "value": scalars[p["name"]]})
    return {"entry": kernel["entry"], "cubin": cubin, "grid": list(grid), "block": kernel["threads"], "cluster": kernel["cluster"],
            "overlaps": kernel["waits_for_previous"], "shared_bytes": kernel["shared_bytes"], "params": params}


def buffer(name, dtype, shape, role="input"):
    return {"name": name, "dtype": dtype, "shape": shape, "role": role}


def case(name, variant, buffers, grid, scalars, nbytes, rename=({},)):
    """`rename` has an entry for each launch: parameters that stand for a buffer of another name. Launches of several kernels have lists of variants and grids."""
    return {"name": name, "variant": variant, "buffers": buffers, "grid": grid, "scalars": scalars, "bytes": nbytes, "rename": rename}


def rows_per_program(cols, dtype):
    """As `rows_per_program` of library/src/rows.rs: short rows side by side."""
    nbytes = cols * ITEM_BYTES[dtype]
    return 4 if nbytes <= 4096 else 2 if nbytes <= 8192 else 1


def rows(kernel, dtype, shape, instance, extra=(), ctas=1, per_program=1):
    """A kernel of whole rows: `ctas` CTAs for a row, or `per_program` rows for a CTA."""
    count, cols = shape
    more = [buffer(n, dtype, [cols]) for n in extra]
    buffers = [buffer("x", dtype, [count, cols]), *more, buffer("out", dtype, [count, cols], "output")]
    scalars = {"row_stride": cols, "rows": count, "cols": cols, "epsilon": 1e-5}
    name = f"{kernel} {count}x{cols} {dtype}"
    grid = [-(-count // per_program) * ctas, 1, 1]
    return case(name, f"{kernel}-{dtype}-{instance}", buffers, grid, scalars, 2 * count * cols * ITEM_BYTES[dtype])


def in_registers(kernel, dtype, shape, extra=()):
    """A kernel that holds its rows in registers, in the instance for rows of this length."""
    cols = shape[1]
    return rows(kernel, dtype, shape, f"{cols}-8", extra, per_program=rows_per_program(cols, dtype))


def cases():
    n = 1 << 28
    yield case("vector_add 2^28 f32", "vector_add-1024", [buffer("x", "f32", [n]), buffer("y", "f32", [n]), buffer("out", "f32", [n], "output")],
               [n // 1024, 1, 1], {"n": n}, 12 * n)
    yield case("bulk_ring 2^28 bf16", "bulk_ring-bf16-8192-4", [buffer("x", "bf16", [n]), buffer("out", "bf16", [n], "output")],
               [132, 1, 1], {"n": n, "factor": 0.5}, 4 * n)
    n = 1 << 26
    chain = [buffer("x", "f32", [n]), buffer("weight", "f32", [n]), buffer("first", "f32", [n], "output"), buffer("out", "f32", [n], "output")]
    yield case("pdl_chain 2^26 f32", "pdl_chain-1024", chain, [n // 1024, 1, 1], {"n": n}, 2 * 12 * n, ({"out": "first"}, {"x": "first"}))
    yield in_registers("softmax", "bf16", (8192, 4096))
    yield in_registers("softmax", "bf16", (8192, 1024))
    yield in_registers("rmsnorm", "bf16", (8192, 8192), ["weight"])
    yield in_registers("layernorm", "bf16", (8192, 8192), ["weight", "bias"])
    yield in_registers("fused_l2norm", "f32", (8192, 8192))
    r, c = 8192, 16384
    for rows_per_cta, cols_per_cta in ((1, 1024),):
        yield case(f"gelu_bias {r}x{c} bf16", f"gelu_bias-bf16-{rows_per_cta}-{cols_per_cta}",
                   [buffer("x", "bf16", [r, c]), buffer("bias", "bf16", [c]), buffer("out", "bf16", [r, c], "output")],
                   [c // cols_per_cta, r // rows_per_cta, 1], {"row_stride": c, "rows": r, "cols": c}, 4 * r * c)
    side = 16384
    for dtype in ("f32", "bf16"):
        size = ITEM_BYTES[dtype]
        yield case(f"row_sum {side}x{side} {dtype}", f"row_sum-{dtype}-8192-8", [buffer("x", dtype, [side, side]), buffer("out", "f32", [side], "output")],
                   [side, 1, 1], {"row_stride": side, "cols": side}, size * side * side)
        strip, warps, unroll = (32, 4, 8) if dtype == "f32" else (128, 8, 32)
        yield case(f"column_sum {side}x{side} {dtype}", f"column_sum-{dtype}-{strip}-{warps}-{unroll}-8",
                   [buffer("x", dtype, [side, side]), buffer("out", "f32", [side], "output")],
                   [side // strip, 1, 1], {"row_stride": side, "rows": side, "cols": side}, size * side * side)

    for dtype in ("f32", "bf16"):
        strides = {"x_row_stride": side, "out_row_stride": side, "rows": side, "cols": side}
        yield case(f"transpose {side}x{side} {dtype}", f"transpose-{dtype}-8", [buffer("x", dtype, [side, side]), buffer("out", dtype, [side, side], "output")],
                   [side // 128, side * ITEM_BYTES[dtype] // 512, 1], strides, 2 * ITEM_BYTES[dtype] * side * side)
    for cols, warps in ((65536, 16), (262144, 32)):
        yield rows("softmax_long", "bf16", (8192, cols), f"4-{warps}-8")
    for cols, ctas in ((32768, 1), (65536, 2), (262144, 8)):
        yield rows("softmax_bulk", "bf16", (8192, cols), f"32768-{ctas}-8-8", ctas=ctas)
    for cols, ctas in ((65536, 4), (262144, 8)):
        yield rows("softmax_cluster", "bf16", (8192, cols), f"{cols}-8", ctas=ctas)
    n, block = 1 << 27, 8192
    tiles = n // block
    yield case("prefix_sum 2^27 f32", ["clear_tiles", f"prefix_sum-f32-{block}-7-8-4"],
               [buffer("x", "f32", [n]), buffer("words", "i64", [tiles], "scratch"), buffer("ticket", "i32", [1], "scratch"), buffer("out", "f32", [n], "output")],
               [[-(-tiles // 1024), 1, 1], [132, 1, 1]], {"n": n, "tiles": tiles}, 8 * n, ({}, {}))
    r, c = 8192, 32000
    yield case(f"cross_entropy {r}x{c} bf16", "cross_entropy-bf16-4-8-8",
               [buffer("x", "bf16", [r, c]), buffer("label", "i32", [r]), buffer("loss", "f32", [r], "output")],
               [r, 1, 1], {"row_stride": c, "cols": c}, 2 * r * c)


def main():
    folder, out = Path(sys.argv[1]), Path(sys.argv[2])
    written = []
    for c in cases():
        launches, several = [], isinstance(c["variant"], list)
        variants = c["variant"] if several else [c["variant"]] * len(c["rename"])
        grids = c["grid"] if several else [c["grid"]] * len(c["rename"])
        missing = [variant for variant in variants if not (folder / f"{variant}.json").exists()]
        if missing:
            print(f"no {missing[0]}.json: build it with -s", file=sys.stderr)
            continue
        for variant, grid, names in zip(variants, grids, c["rename"], strict=True):
            kernel = json.loads((folder / f"{variant}.json").read_text())
            launches.append(launch_spec(kernel, f"{variant}.cubin", grid, c["scalars"], names))
        written.append({"name": c["name"], "kernel": kernel["kernel"].split("<")[0], "buffers": c["buffers"], "bytes": c["bytes"], "launches": launches})
    out.write_text(json.dumps({"cases": written}, indent=1))


if __name__ == "__main__":
    main()
