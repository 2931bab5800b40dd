"""Our kernels in a Python process: cubins loaded into torch's own context and launched on its stream.

`launch_spec` of manifest.py describes a launch. A kernel that waits for the launch before it is launched so that it may start
before that one has ended (programmatic dependent launch), unless it is told not to.
"""

import ctypes
from pathlib import Path

import torch

SCALARS = {
    "i32": ctypes.c_int32, "u32": ctypes.c_uint32, "i64": ctypes.c_int64, "u64": ctypes.c_uint64,
    "f32": ctypes.c_float, "f64": ctypes.c_double, "i8": ctypes.c_int8, "u8": ctypes.c_uint8,
    "i16": ctypes.c_int16, "u16": ctypes.c_uint16, "bool": ctypes.c_uint8,
}

# CUtensorMapDataType; 8-bit floats are moved as bytes.
MAP_ELEMENTS = {"u8": 0, "i8": 0, "e4m3": 0, "e5m2": 0, "u16": 1, "u32": 2, "i32": 3, "f16": 6, "f32": 7, "f64": 8, "bf16": 9}
MAP_SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
L2_PROMOTION_128 = 2

MAX_DYNAMIC_SHARED, NON_PORTABLE_CLUSTER = 8, 14
CLUSTER_DIMENSION, PROGRAMMATIC_STREAM_SERIALIZATION = 4, 6

cuda = ctypes.CDLL("libcuda.so.1")


class Attribute(ctypes.Structure):
    """CUlaunchAttribute; all values used here are of 32-bit words."""

    _fields_ = [("id", ctypes.c_int), ("pad", ctypes.c_int), ("value", ctypes.c_uint32 * 16)]


class Config(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = [
        ("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("shared_bytes", ctypes.c_uint), ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(Attribute)), ("count", ctypes.c_uint),
    ]


def ck(code, what):
    if code:
        text = ctypes.c_char_p()
        cuda.cuGetErrorString(code, ctypes.byref(text))
        raise RuntimeError(f"{what}: {code} {text.value.decode() if text.value else ''}")


class Function:
    """One kernel of one cubin."""

    def __init__(self, cubin, entry, shared_bytes, cluster=(1, 1, 1)):
        self.module, self.handle = ctypes.c_void_p(), ctypes.c_void_p()
        ck(cuda.cuModuleLoadData(ctypes.byref(self.module), Path(cubin).read_bytes()), f"loading {cubin}")
        ck(cuda.cuModuleGetFunction(ctypes.byref(self.handle), self.module, entry.encode()), f"finding {entry}")
        if shared_bytes > 48 << 10:
            ck(cuda.cuFuncSetAttribute(self.handle, MAX_DYNAMIC_SHARED, shared_bytes), "raising the shared-memory limit")
        if cluster[0] * cluster[1] * cluster[2] > 8:
            ck(cuda.cuFuncSetAttribute(self.handle, NON_PORTABLE_CLUSTER, 1), "allowing large clusters")


def tensor_map(tensor, how):
    """The 128 bytes for a parameter whose blocks are cut as `how` says: element, box (row-major) and swizzle_bytes."""
    rank, size = tensor.dim(), tensor.element_size()
    # The driver wants 64-byte alignment.
    room = ctypes.create_string_buffer(128 + 64)
    place = (ctypes.addressof(room) + 63) // 64 * 64
    shape = (ctypes.c_uint64 * rank)(*reversed(tensor.shape))
    strides = (ctypes.c_uint64 * max(rank - 1, 1))(*[s * size for s in reversed(tensor.stride()[:-1])])
    box = (ctypes.c_uint32 * rank)(*reversed(how["box"]))
    steps = (ctypes.c_uint32 * rank)(*[1] * rank)
    ck(cuda.cuTensorMapEncodeTiled(
        ctypes.c_void_p(place), MAP_ELEMENTS[how["element"]], ctypes.c_uint32(rank), ctypes.c_void_p(tensor.data_ptr()),
        shape, strides, box, steps, 0, MAP_SWIZZLES[how["swizzle_bytes"]], L2_PROMOTION_128, 0), "encoding a tensor map")
    return (ctypes.c_uint8 * 128).from_buffer_copy(ctypes.string_at(place, 128))


class Launch:
    """One launch with its parameters packed."""

    def __init__(self, function, spec, tensors, allow_overlap=True):
        self.function, self.spec, self.tensors = function, spec, tensors
        self.overlaps = allow_overlap and spec.get("overlaps", False)
        self.values = [self.value(p, tensors) for p in spec["params"]]
        self.pointers = (ctypes.c_void_p * len(self.values))(*[ctypes.addressof(v) for v in self.values])
        self.attributes = (Attribute * 2)()
        self.config = self.configure()

    @staticmethod
    def value(p, tensors):
        if p["kind"] == "buffer":
            return ctypes.c_uint64(tensors[p["name"]].data_ptr())
        if p["kind"] == "tensor_map":
            return tensor_map(tensors[p["name"]], p["map"])
        return SCALARS[p["kind"]](p["value"])

    def configure(self):
        block = self.spec["block"]
        block = block if isinstance(block, list) else [block, 1, 1]
        count, cluster = 0, self.spec.get("cluster", [1, 1, 1])
        if cluster != [1, 1, 1]:
            self.attributes[count].id = CLUSTER_DIMENSION
            self.attributes[count].value[:3] = cluster
            count += 1
        if self.overlaps:
            self.attributes[count].id = PROGRAMMATIC_STREAM_SERIALIZATION
            self.attributes[count].value[0] = 1
            count += 1
        three = ctypes.c_uint * 3
        return Config(three(*self.spec["grid"]), three(*block), self.spec["shared_bytes"], None, self.attributes, count)

    def __call__(self):
        self.config.stream = torch.cuda.current_stream().cuda_stream
        ck(cuda.cuLaunchKernelEx(ctypes.byref(self.config), self.function.handle, self.pointers, None),
           f"launching {self.spec['entry']}")
