"""What decides whether a call launches at once or becomes an operator of a graph that torch compiles."""

import sys


def is_compiling():
    """Whether torch traces the caller. Nothing of torch is imported for that."""
    global is_compiling
    torch = sys.modules.get("torch")
    if torch is None:
        return False
    if torch.compiler.is_compiling():
        return True
    # From now on torch is asked directly.
    is_compiling = torch.compiler.is_compiling
    return False


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
