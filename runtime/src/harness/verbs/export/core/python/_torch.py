"""The kernels as operators of torch, `torch.ops.PACKAGE.KERNEL`: imported when torch first traces one."""

import json
import keyword
import sys
import types

import torch

from . import _native

_package = sys.modules[__package__]
_NUMBERS = {"i1": "bool", "f16": "float", "bf16": "float", "f32": "float", "f64": "float"}


def _schema(table):
    """Tensors that the kernel stores to are written; what follows from tensors is no argument."""
    arguments = []
    for parameter in table["parameters"]:
        name = parameter["name"]
        if keyword.iskeyword(name):
            name += "_"
        if parameter["kind"] != "scalar":
            arguments.append(f"Tensor(a{len(arguments)}!) {name}" if parameter["written"] else f"Tensor {name}")
        elif parameter.get("value") is None:
            arguments.append(f"{_NUMBERS.get(parameter['type'], 'SymInt')} {name}")
    if table["grid"] is None:
        arguments.append("SymInt[] grid")
    if table["waits_for_previous"]:
        arguments.append("bool overlap=False")
    return f"({', '.join(arguments)}) -> ()"


def _launcher(name, table):
    """What the operator does: the launch that an eager call is, which says what is wrong with memory of the CPU."""
    has_grid, may_overlap = table["grid"] is None, table["waits_for_previous"]
    derived = [p for p in table["parameters"] if p["kind"] == "scalar" and p.get("value") is not None]
    count = len(table["parameters"]) - len(derived)

    def launch(*arguments):
        grid = arguments[count] if has_grid else None
        overlap = arguments[-1] if may_overlap and len(arguments) == count + has_grid + 1 else False
        getattr(_package, f"_launch_{name}")(arguments[:count], None, grid, overlap)

    return launch


def _nothing(*arguments):
    """Nothing is returned, and what is written keeps its shape."""


def _define():
    namespace = __package__.replace(".", "_")
    library = torch.library.Library(namespace, "DEF")
    operators = types.SimpleNamespace()
    # Strides are part of what a kernel checks: the compiler keeps them.
    tag = getattr(torch.Tag, "needs_exact_strides", torch.Tag.needs_fixed_stride_order)
    for name, kernel in vars(_native).items():
        if not isinstance(kernel, _native.Kernel):
            continue
        table = json.loads(kernel.manifest)
        library.define(name + _schema(table), tags=(tag,))
        for place in ("CUDA", "CPU"):
            library.impl(name, _launcher(name, table), place)
        torch.library.register_fake(f"{namespace}::{name}", _nothing, lib=library)
        setattr(operators, name, getattr(getattr(torch.ops, namespace), name).default)
    return library, operators


_library, operators = _define()
