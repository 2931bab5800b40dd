"""What decides whether a call launches at once or becomes an operator of a graph that torch compiles."""

import json
import sys
import types


def is_compiling(name):
    """Whether torch traces the caller, the function of the kernel `name`; it is asked once torch's compiler has been imported."""
    compiler = sys.modules["torch"].compiler
    if compiler.is_compiling():
        return True
    _substitute(name, compiler)
    return False


def _substitute(name, compiler):
    """From now on torch itself traces the operator where it meets the launch, so that calls need not ask."""
    package = sys.modules[__package__]
    launch = getattr(package, f"_launch_{name}")
    # On the emulator the launch is a function of Python, and torch before 2.6 has no substitutes.
    if isinstance(launch, types.BuiltinFunctionType) and hasattr(compiler, "substitute_in_graph"):
        compiler.substitute_in_graph(launch, skip_signature_check=True)(_traced(name, getattr(package._native, name)))
        setattr(package, f"_asks_{name}", False)


def _traced(name, kernel):
    """What torch traces for a launch."""
    table = json.loads(kernel.manifest)
    has_grid, may_overlap = table["grid"] is None, table["waits_for_previous"]

    def launch(arguments, stream=None, grid=None, overlap=False):
        if has_grid:
            arguments = (*arguments, counts(grid))
        if may_overlap:
            arguments = (*arguments, overlap)
        enter(name, arguments, stream)

    return launch


def enter(name, arguments, stream):
    """Calls the operator of the kernel `name`: torch traces it, and imports what defines it while it does."""
    if stream is not None:
        raise ValueError(
            f"{name}: `stream` cannot be passed under torch.compile; compile the call without, and run the compiled "
            "function under `torch.cuda.stream(..)`"
        )
    from . import _torch

    getattr(_torch.operators, name)(*arguments)


def counts(grid):
    """The grid as a list, which an operator takes."""
    return [grid] if isinstance(grid, int) else list(grid)


def differentiable(name):
    """The kernel as a function that returns what it writes, and whose gradients torch finds."""

    def call(*inputs, **named):
        from . import _autograd

        return getattr(_autograd, name)(*inputs, **named)

    return call
