"""Types of arguments, for type checkers."""

from typing import Any, Protocol, Sequence, Union

class _DLPack(Protocol):
    def __dlpack__(self, *arguments: Any, **named: Any) -> Any: ...
    def __dlpack_device__(self) -> Any: ...

class _CudaArray(Protocol):
    @property
    def __cuda_array_interface__(self) -> dict[str, Any]: ...

class _TorchStream(Protocol):
    @property
    def cuda_stream(self) -> int: ...

class _CudaStream(Protocol):
    def __cuda_stream__(self) -> tuple[int, int]: ...

class _CupyStream(Protocol):
    @property
    def ptr(self) -> int: ...

Tensor = Union[_DLPack, _CudaArray]
Stream = Union[None, int, _TorchStream, _CudaStream, _CupyStream]
Grid = Union[int, Sequence[int]]
