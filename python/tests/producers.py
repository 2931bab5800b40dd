"""Tensors at made-up addresses of a GPU, lent in every way that there is: a stand-in for torch, CuPy and JAX."""

import ctypes
from ctypes import CFUNCTYPE, POINTER, Structure, c_char_p, c_int, c_int32, c_int64, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p, py_object

KINDS = {
    "i32": (0, 32, 1), "u8": (1, 8, 1), "u16": (1, 16, 1), "f16": (2, 16, 1), "f32": (2, 32, 1), "f64": (2, 64, 1), "bf16": (4, 16, 1),
    "complex64": (5, 64, 1), "e4m3": (10, 8, 1), "f4x2": (17, 4, 2),
}


class Device(Structure):
    _fields_ = [("kind", c_int32), ("id", c_int32)]


class Element(Structure):
    _fields_ = [("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16)]


class Tensor(Structure):
    _fields_ = [("data", c_void_p), ("device", Device), ("rank", c_int32), ("element", Element), ("shape", POINTER(c_int64)),
                ("strides", POINTER(c_int64)), ("byte_offset", c_uint64)]


class Managed(Structure):
    _fields_ = [("tensor", Tensor), ("manager", c_void_p), ("deleter", c_void_p)]


class Version(Structure):
    _fields_ = [("major", c_uint32), ("minor", c_uint32)]


class Versioned(Structure):
    _fields_ = [("version", Version), ("manager", c_void_p), ("deleter", c_void_p), ("flags", c_uint64), ("tensor", Tensor)]


capsule_of = ctypes.pythonapi.PyCapsule_New
capsule_of.restype, capsule_of.argtypes = py_object, [c_void_p, c_char_p, c_void_p]


class Dlpack:
    """Lends itself by `__dlpack__`, and counts the capsules that are gone."""

    versioned = True

    def __init__(self, address, shape, kind="f32", strides="dense", device=(2, 0), byte_offset=0, flags=0, major=1, name=None):
        self.shape, self.device, self.name = shape, device, name
        dense = [1]
        for extent in reversed(shape[1:]):
            dense.insert(0, dense[0] * extent)
        self.strides = dense[:len(shape)] if strides == "dense" else strides
        self.arrays = [(c_int64 * len(shape))(*shape), self.strides and (c_int64 * len(shape))(*self.strides)]
        tensor = Tensor(address, Device(*device), len(shape), Element(*KINDS[kind]), self.arrays[0], self.arrays[1] or None, byte_offset)
        self.lent = Versioned(Version(major, 3), None, None, flags, tensor) if self.versioned else Managed(tensor, None, None)
        self.told, self.released = [], []
        self.destroy = CFUNCTYPE(None, c_void_p)(lambda capsule: self.released.append(capsule))

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, *, stream=None, max_version=None):
        self.told.append((stream, max_version))
        # The name is kept by the capsule as a pointer.
        self.called = self.name or (b"dltensor_versioned" if self.versioned else b"dltensor")
        return capsule_of(ctypes.addressof(self.lent), self.called, ctypes.cast(self.destroy, c_void_p))


class OldDlpack(Dlpack):
    """Of before DLPack 1.0."""

    versioned = False

    def __dlpack__(self, *, stream=None):
        return super().__dlpack__(stream=stream)


class Raising(Dlpack):
    def __dlpack__(self, **named):
        raise BufferError("the memory is gone")


class Interrupted(Dlpack):
    def __dlpack__(self, **named):
        raise KeyboardInterrupt


class CudaArray:
    """Lends itself by `__cuda_array_interface__`."""

    def __init__(self, address, shape, typestr="<f4", strides=None, readonly=False, **entries):
        self.__cuda_array_interface__ = dict(
            shape=tuple(shape), typestr=typestr, data=(address, readonly), strides=strides, version=3, **entries
        )


BORROW = CFUNCTYPE(c_int, py_object, POINTER(Tensor))
WORK_STREAM = CFUNCTYPE(c_int, c_int32, c_int32, POINTER(c_void_p))


class Exchange(Structure):
    _fields_ = [("version", Version), ("previous", c_void_p), ("allocate", c_void_p), ("managed_of", c_void_p), ("object_of", c_void_p),
                ("borrow", c_void_p), ("work_stream", c_void_p)]


def exchange(stream, major=1, previous=None):
    """A type that has the C exchange API, whose framework works on this stream."""

    class Exchanged(Dlpack):
        requires_grad = False

        def __dlpack__(self, **named):
            raise AssertionError("the exchange API is there")

    def borrow(tensor, lent):
        lent[0] = tensor.lent.tensor
        return 0

    def work_stream(kind, device, handle):
        assert kind == 2, kind
        handle[0] = Exchanged.stream
        return 0

    functions = BORROW(borrow), WORK_STREAM(work_stream)
    pointers = [ctypes.cast(function, c_void_p) for function in functions]
    table = Exchange(Version(major, 3), previous, None, None, None, *pointers)
    Exchanged.stream, Exchanged.kept = stream, (functions, table)
    Exchanged.__dlpack_c_exchange_api__ = capsule_of(ctypes.addressof(table), b"dlpack_exchange_api", None)
    return Exchanged
