"""The extension module: the kernels of this package without their names of arguments."""

from ._types import Grid, Stream, Tensor

class Kernel:
    @property
    def __name__(self) -> str: ...
    @property
    def manifest(self) -> str: ...
    def warm(self, device: int = 0) -> None: ...
    def launch(
        self,
        arguments: tuple[Tensor | int | float, ...],
        stream: Stream = None,
        grid: Grid | None = None,
        overlap: bool = False,
    ) -> None: ...
    def __call__(
        self,
        *arguments: Tensor | int | float,
        stream: Stream = None,
        grid: Grid | None = None,
        overlap: bool = False,
    ) -> None: ...

