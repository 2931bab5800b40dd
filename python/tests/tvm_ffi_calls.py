"""Kernels of an exported package as functions of tvm-ffi, on stand-ins for the driver and for tvm-ffi's library."""

import ctypes
import os
import struct
import unittest

from kernels_to_python_exported import _native

NONE, INT, FLOAT, DL_TENSOR, STRING, TENSOR = 0, 1, 3, 7, 65, 70
LOG = os.environ["TILEKIT_FAKE_LOG"]
FFI = ctypes.CDLL("libtvm_ffi.so")
FFI.raised_kind.restype = FFI.raised_message.restype = ctypes.c_char_p
CODE = ctypes.CDLL(_native.__file__)


class DlTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_uint64),
        ("device", ctypes.c_int32 * 2),
        ("rank", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class Object(ctypes.Structure):
    _fields_ = [("header", ctypes.c_uint64 * 3), ("tensor", DlTensor)]


class Any(ctypes.Structure):
    _fields_ = [("type_index", ctypes.c_int32), ("padding", ctypes.c_uint32), ("bits", ctypes.c_uint64)]


def tensor(address, shape, code=2, bits=32, device=(2, 0), byte_offset=0):
    """A tensor without gaps; `code` is 2 for floats and 4 for bf16."""
    extents = (ctypes.c_int64 * len(shape))(*shape)
    return DlTensor(address, device, len(shape), code, bits, 1, extents, None, byte_offset)


def pointer(of):
    found = Any(DL_TENSOR, 0, ctypes.addressof(of))
    found.of = of  # keeps it alive
    return found


def number(of):
    if isinstance(of, int):
        return Any(INT, 0, of & (2**64 - 1))
    return Any(FLOAT, 0, struct.unpack("<Q", struct.pack("<d", of))[0])


class Functions(unittest.TestCase):
    def setUp(self):
        open(LOG, "a", encoding="utf-8").close()
        FFI.set_stream(ctypes.c_void_p(0xAB))

    def call(self, name, arguments, parameters="8,8,4"):
        """The code, the type of the result, and what the driver was asked to launch."""
        os.environ["TILEKIT_FAKE_PARAMETERS"] = parameters
        with open(LOG, encoding="utf-8") as log:
            before = len(log.readlines())
        result = Any(INT, 0, 7)
        values = (Any * len(arguments))(*arguments)
        code = getattr(CODE, f"__tvm_ffi_{name}")(None, values, len(arguments), ctypes.byref(result))
        with open(LOG, encoding="utf-8") as log:
            lines = [line.rstrip("\n") for line in log.readlines()[before:] if line.startswith("launch")]
        return code, result.type_index, lines

    def check_launch(self, arguments, stream="0xab", x=0x10000):
        packed = " ".join(number.hex() for number in (struct.pack("<q", x), struct.pack("<q", 0x20000), struct.pack("<i", 1000)))
        line = f"launch scale_256 in primary on {stream} grid 4 1 1 threads 128 1 1 shared 0 {packed}"
        self.assertEqual(self.call("scale_256", arguments), (0, NONE, [line]))

    def check_refusal(self, name, arguments, kind, message):
        self.assertEqual(self.call(name, arguments), (-1, INT, []))
        self.assertEqual(FFI.raised_kind().decode(), kind)
        self.assertIn(message, FFI.raised_message().decode())

    def test_tensors_by_pointer_and_as_objects_on_the_stream_of_the_environment(self):
        x, out = tensor(0x10000, [1000]), tensor(0x20000, [1000])
        self.check_launch([pointer(x), pointer(out)])
        held = [Object((1, TENSOR, 0), of) for of in (x, out)]
        self.check_launch([Any(TENSOR, 0, ctypes.addressof(of)) for of in held])
        self.check_launch([pointer(tensor(0xFF00, [1000], byte_offset=0x100)), pointer(out)])
        FFI.set_stream(None)  # the legacy default stream is number 0
        self.check_launch([pointer(x), pointer(out)], stream="(nil)")

    def test_numbers_and_counts_of_a_grid(self):
        x, out = (tensor(address, [300], code=4, bits=16) for address in (0x10000, 0x20000))
        tensors = [pointer(x), pointer(out)]
        code, result, (line,) = self.call("blend_256", [*tensors, number(0.5), number(300), number(2)], "8,8,4,4")
        self.assertEqual((code, result), (0, NONE))
        self.assertIn("grid 2 1 1 ", line)
        self.assertIn(f"{struct.pack('<f', 0.5).hex()} {struct.pack('<i', 300).hex()}", line)
        # A whole number is one of a float's.
        _, _, (line,) = self.call("blend_256", [*tensors, number(2), number(300), number(2), number(3), number(4)], "8,8,4,4")
        self.assertIn("grid 2 3 4 ", line)
        self.assertIn(struct.pack("<f", 2.0).hex(), line)

    def test_what_does_not_fit_is_raised(self):
        x, out = tensor(0x10000, [1000]), tensor(0x20000, [1000])
        given = [pointer(x), pointer(out)]
        self.check_refusal("scale_256", given[:1], "TypeError", "scale(x, out): 1 arguments are passed; it takes 2")
        self.check_refusal("scale_256", [given[0], number(3)], "TypeError", "out is an integer (type 1 of tvm-ffi); it must be a tensor")
        self.check_refusal("scale_256", [given[0], Any(STRING, 0, 0)], "TypeError", "out is of another type (type 65 of tvm-ffi)")
        self.check_refusal("scale_256", [pointer(tensor(0x10000, [1000], bits=64)), given[1]], "TypeError", "x")
        self.check_refusal("scale_256", [pointer(tensor(0x10000, [1000], device=(1, 0))), given[1]], "ValueError", "x is on the CPU")
        self.check_refusal("scale_256", [given[0], pointer(tensor(0x20000, [999]))], "ValueError", "999")
        self.check_refusal("scale_256", [given[0], pointer(tensor(0, [1000]))], "ValueError", "out has elements and no memory")
        halves = [pointer(tensor(address, [300], code=4, bits=16)) for address in (0x10000, 0x20000)]
        self.check_refusal("blend_256", [*halves, number(0.5), number(2**31), number(1)], "ValueError", "n is 2147483648")
        self.check_refusal("blend_256", [*halves, number(0.5), number(1.5), number(1)], "TypeError", "n is the float 1.5")
        self.check_refusal("blend_256", [*halves, number(1e300), number(3), number(1)], "ValueError", "alpha is")
        self.check_refusal("blend_256", [*halves, number(0.5), number(3)], "TypeError", "one to three counts of CTAs")
        self.check_refusal("blend_256", [*halves, number(0.5), number(3), number(1.0)], "TypeError", "grid has a count that is no integer")


unittest.main(verbosity=0)
