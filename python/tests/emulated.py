"""Kernels of an exported package on the emulator, with memory of the CPU lent by DLPack, as NumPy and torch do."""

import contextlib
import ctypes
import io
import struct
import unittest

import tilekit
from kernels_to_python_exported import blend_256, copied_128, halves, scale_256, spoken, taps_64
from producers import CudaArray, Dlpack

HOST, GPU = (1, 0), (2, 0)


def array(ctype, values, shape=None, kind="f32", **named):
    """An array of the CPU, 256 bytes from the beginning of what it is part of, so that kernels find it aligned."""
    size = ctypes.sizeof(ctype)
    room = (ctypes.c_uint8 * (size * len(values) + 512))()
    start = (ctypes.addressof(room) + 255) // 256 * 256
    content = (ctype * len(values)).from_address(start)
    content[:] = values
    tensor = Dlpack(start, shape or [len(values)], kind, device=HOST, **named)
    tensor.room, tensor.content = room, content
    return tensor


def floats(values, **named):
    return array(ctypes.c_float, values, **named)


def bf16(value):
    return struct.unpack("<I", struct.pack("<f", value))[0] >> 16


class Emulated(unittest.TestCase):
    def test_arrays_are_changed_in_place(self):
        x, out = floats(list(range(1000))), floats([-1.0] * 1000)
        tilekit.emulate(scale_256)(x, out)
        self.assertEqual(list(out.content), [2.0 * value for value in range(1000)])
        self.assertEqual(x.told, [(None, (1, 3))])
        self.assertEqual(len(x.released), 1)
        tilekit.emulate(scale_256, seed=3)(out=x, x=x)
        self.assertEqual(list(x.content), list(out.content), "one array for both")

    def test_tensor_maps_clusters_and_types_that_numpy_has_not(self):
        values = [at % 65536 for at in range(300 * 128)]
        x, out = (array(ctypes.c_uint16, list(v), [300, 128], kind) for v, kind in ((values, "bf16"), ([0] * len(values), "u16")))
        tilekit.emulate(copied_128)(x, out)
        self.assertEqual(list(out.content), values)

    def test_tensor_maps_of_pixels(self):
        images, height, width = 2, 5, 7
        values = [at % 60000 + 1 for at in range(images * height * width * 16)]
        image = array(ctypes.c_uint16, values, [images, height, width, 16], "bf16")
        for padding, stride in ((1, 2), (0, 1), (2, 3)):
            rows, cols = ((extent + 2 * padding - 3) // stride + 1 for extent in (height, width))
            pixels = images * rows * cols
            out = array(ctypes.c_uint16, [7] * (9 * pixels * 16), [9, pixels, 16], "bf16")
            tilekit.emulate(taps_64)(image, out, padding, stride)
            expected = []
            for tap in range(9):
                for pixel in range(pixels):
                    row, col = pixel // cols % rows * stride - padding + tap // 3, pixel % cols * stride - padding + tap % 3
                    first = ((pixel // (rows * cols) * height + row) * width + col) * 16
                    inside = 0 <= row < height and 0 <= col < width
                    expected += values[first:first + 16] if inside else [0] * 16
            self.assertEqual(list(out.content), expected, (padding, stride))
        self.check(ValueError, "image is taken in steps of 9 along dimension 1; it must be 1 to 8", taps_64, image, array(ctypes.c_uint16, [0] * 288, [9, 2, 16], "bf16"), 1, 9)

    def test_numbers_and_grids(self):
        x, out = (array(ctypes.c_uint16, [bf16(3.0)] * 300, kind="bf16") for _ in range(2))
        tilekit.emulate(blend_256)(x, out, 0.5, 299, grid=2)
        self.assertEqual(list(out.content), [bf16(1.5)] * 299 + [bf16(3.0)])

    def test_what_a_kernel_prints_is_seen_before_its_fault_too(self):
        for number in (1, 0):
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                if number:
                    tilekit.emulate(spoken)(number, grid=1)
                else:
                    self.check(RuntimeError, "there are some", spoken, number, grid=1)
            self.assertIn(f"n: {number}", printed.getvalue())

    def test_numbers_of_16_bits_are_rounded_once(self):
        out = floats([0.0] * 2)
        for above, wanted in ((0, (1.0, 1.0)), (2**-40, (1 + 2**-10, 1 + 2**-7))):
            # The middle of 1 and the next number, and a little above.
            tilekit.emulate(halves)(out, 1 + 2**-11 + above, 1 + 2**-8 + above, grid=1)
            self.assertEqual(tuple(out.content), wanted)

    def check(self, error, said, kernel, *arguments, **named):
        with self.assertRaises(error) as raised:
            tilekit.emulate(kernel)(*arguments, **named)
        self.assertIn(said, str(raised.exception))

    def test_mistakes(self):
        x, out = floats([1.0] * 8), floats([1.0] * 8)
        self.check(ValueError, "scale(x, out): out.shape[0] is 7 and x.shape[0] 8", scale_256, x, floats([1.0] * 7))
        self.check(ValueError, "x is on a device of DLPack's kind 2; the emulator takes memory of the CPU", scale_256, Dlpack(4096, [8], device=GPU), out)
        self.check(TypeError, "it must be a tensor of f32 on the CPU, which has `__dlpack__`", scale_256, CudaArray(4096, [8]), out)
        self.check(TypeError, "x has elements of f64; it must have f32", scale_256, floats([1.0] * 8, kind="f64"), out)
        self.check(ValueError, "out is read-only", scale_256, x, floats([1.0] * 8, flags=1))
        self.check(TypeError, "missing a required argument: 'out'", scale_256, x)
        self.check(TypeError, "is no kernel", len)
        narrow = [array(ctypes.c_uint16, [0] * 100, kind="bf16") for _ in range(2)]
        self.check(RuntimeError, "kernel blend_256", blend_256, *narrow, 1.0, 200, grid=1)


if __name__ == "__main__":
    unittest.main()
