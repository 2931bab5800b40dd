"""Calls of an exported package on a stand-in for the driver, which records what it is asked."""

import ctypes
import faulthandler
import importlib
import inspect
import os
import struct
import subprocess
import sys
import threading
import types
import unittest

import kernels_to_python_exported as package
from kernels_to_python_exported import blend_256, copied_128, scale_256, taps_64
from producers import CudaArray, Dlpack, Interrupted, OldDlpack, Raising, exchange

LOG = os.environ["TILEKIT_FAKE_LOG"]
open(LOG, "a", encoding="utf-8").close()
Torch = exchange(0xAB)


def asked(word="launch"):
    with open(LOG, encoding="utf-8") as log:
        return [line.rstrip("\n") for line in log if line.startswith(word)]


def launched(parameters, call):
    """What the driver was asked to launch by a call; the sizes of parameters are those of the kernel."""
    os.environ["TILEKIT_FAKE_PARAMETERS"] = parameters
    before = len(asked())
    call()
    lines = asked()[before:]
    assert len(lines) == 1, lines
    return lines[0]


def scale_line(stream="0xab", x=0x10000, out=0x20000, n=1000):
    parameters = " ".join(number.hex() for number in (struct.pack("<q", x), struct.pack("<q", out), struct.pack("<i", n)))
    return f"launch scale_256 in primary on {stream} grid {(n + 255) // 256} 1 1 threads 128 1 1 shared 0 {parameters}"


SCALE = "8,8,4"


class Launches(unittest.TestCase):
    def check(self, x, out, stream="0xab"):
        self.assertEqual(launched(SCALE, lambda: scale_256(x, out)), scale_line(stream))

    def check_on(self, x, out, stream, shown):
        self.assertEqual(launched(SCALE, lambda: scale_256(x, out, stream=stream)), scale_line(shown))

    def test_by_the_exchange_api_on_the_stream_of_its_framework(self):
        self.check(Torch(0x10000, [1000]), Torch(0x20000, [1000]))
        self.check(Torch(0xFF00, [1000], byte_offset=0x100), Torch(0x20000, [1000], strides=None))
        Torch.stream = None  # the legacy default stream is number 0
        self.check(Torch(0x10000, [1000]), Torch(0x20000, [1000]), stream="(nil)")
        Torch.stream = 0xAB

    def test_by_a_newer_exchange_api_that_names_this_one(self):
        older = exchange(0xCD)
        newer = exchange(0xEF, major=2, previous=ctypes.addressof(older.kept[1]))
        self.check(newer(0x10000, [1000]), newer(0x20000, [1000]), stream="0xcd")

    def test_by_capsules_of_dlpack_which_are_not_kept(self):
        for kind in (Dlpack, OldDlpack):
            x, out = kind(0x10000, [1000]), kind(0x20000, [1000])
            self.check(x, out, stream="0x1")
            self.assertEqual(len(x.released), 1)
            self.assertEqual(x.told, [(1, (1, 3) if kind is Dlpack else None)])
            self.check_on(x, out, 0x77, "0x77")
            self.assertEqual(x.told[-1][0], -1)

    def test_by_the_cuda_array_interface(self):
        self.check(CudaArray(0x10000, [1000]), CudaArray(0x20000, [1000], strides=(4,)), stream="0x1")
        self.check(CudaArray(0x10000, [1000], stream=2), CudaArray(0x20000, [1000], stream=2), stream="0x2")
        self.check(CudaArray(0x10000, [1000], readonly=True), CudaArray(0x20000, [1000]), stream="0x1")

    def test_on_streams_of_frameworks(self):
        x, out = Torch(0x10000, [1000]), Torch(0x20000, [1000])
        torch, cupy = types.SimpleNamespace(cuda_stream=0x12, device_index=0), types.SimpleNamespace(ptr=0x34, device_id=-1)
        cuda = type("Stream", (), {"__cuda_stream__": lambda self: (0, 0x56)})()
        for stream, shown in ((torch, "0x12"), (cupy, "0x34"), (cuda, "0x56"), (0, "(nil)"), (2, "0x2")):
            self.check_on(x, out, stream, shown)

    def test_with_names_of_arguments(self):
        x, out = Torch(0x10000, [1000]), Torch(0x20000, [1000])
        self.assertEqual(launched(SCALE, lambda: scale_256(out=out, x=x)), scale_line())
        self.assertEqual(launched(SCALE, lambda: scale_256.kernel(x, out)), scale_line())

    def test_nothing_of_nothing(self):
        before = len(asked())
        scale_256(Torch(0, [0]), Torch(0, [0]))
        self.assertEqual(len(asked()), before)

    def test_tensor_maps_and_clusters(self):
        def encoded(address):
            numbers = 9 | 2 << 8 | 3 << 16 | 2 << 24
            words = [address, numbers, 128, 300, 0, 0, 0, 256, 0, 0, 0]
            return struct.pack("<11Q10I", *words, 64, 128, 0, 0, 0, 1, 1, 0, 0, 0).hex()

        x, out = Torch(0x10000, [300, 128], "bf16"), Torch(0x20000, [300, 128], "bf16")
        line = launched("128,128", lambda: copied_128(x, out))
        self.assertIn("launch copied_128 in primary on 0xab grid 4 1 1 threads 128 1 1", line)
        self.assertIn(f"attribute 4 2 1 1 {encoded(0x10000)} {encoded(0x20000)}", line)

    def test_tensor_maps_of_pixels_for_each_padding_and_stride(self):
        image = Torch(0x10000, [2, 5, 7, 16], "bf16")
        corners = lambda padding: struct.pack("<6i", -padding, -padding, 0, padding - 2, padding - 2, 0).hex()
        steps = []
        for pixels, padding, stride in ((24, 1, 2), (30, 0, 1), (24, 1, 2), (30, 0, 1)):
            out = Torch(0x20000, [9, pixels, 16], "bf16")
            line = launched("128,128,4,4,4,4", lambda: taps_64(image, out, padding, stride))
            self.assertIn(corners(padding) + struct.pack("<2i", 16, 64).hex(), line)
            self.assertTrue(line.endswith(struct.pack("<i", padding).hex() + " " + struct.pack("<i", stride).hex()), line)
            steps.append(line)
        self.assertEqual(steps[:2], steps[2:])
        with self.assertRaisesRegex(ValueError, "lower corner is off by -130; with 4 dimensions it can be -128 to 127"):
            taps_64(image, Torch(0x20000, [9, 2 * 33 * 34, 16], "bf16"), 130, 8)

    def test_numbers_and_a_grid_where_no_signature_derives_them(self):
        x, out = Torch(0x10000, [1000], "bf16"), Torch(0x20000, [1000], "bf16")
        blend = "8,8,4,4"
        line = launched(blend, lambda: blend_256(x, out, 0.5, 1000, grid=(4, 2)))
        self.assertIn("grid 4 2 1 threads 128 1 1 shared 0 ", line)
        self.assertTrue(line.endswith(" ".join([struct.pack("<f", 0.5).hex(), struct.pack("<i", 1000).hex()])), line)
        self.assertIn("attribute 6 1 0 0", launched(blend, lambda: blend_256(x, out, 1, 8, grid=4, overlap=True)))

    def test_the_context_is_restored(self):
        launched(SCALE, lambda: scale_256(Torch(0x10000, [1000]), Torch(0x20000, [1000])))
        self.assertEqual(asked("current")[-2:], ["current primary", "current none"])

    def test_code_is_loaded_once(self):
        for _ in range(2):
            scale_256.warm(0)
            package.warm()
        self.assertEqual(len(asked("function scale_256")), 1)


class Repeated(unittest.TestCase):
    """A call whose tensors have the shapes of one before is not checked again; what may differ is put where the kernel reads it."""

    def check(self, x, out, **named):
        address = {"x": x.lent.tensor.data + x.lent.tensor.byte_offset, "out": out.lent.tensor.data, "n": x.shape[0]}
        self.assertEqual(launched(SCALE, lambda: scale_256(x, out, **named)), scale_line(**address, stream=hex(named.get("stream", 0xAB))))

    def test_with_memory_elsewhere_and_on_other_streams(self):
        for at in range(3):
            self.check(Torch(0x10000 + 256 * at, [777]), Torch(0x20000, [777], byte_offset=0))
            self.check(Torch(0x10000, [777], byte_offset=256 * at), Torch(0x30000 + 256 * at, [777]), stream=0x40 + at)

    def test_with_more_shapes_than_are_kept(self):
        for _ in range(3):
            for n in (100, 101, 102, 103, 104, 105, 0x7F):
                self.check(Torch(0x10000, [n]), Torch(0x20000, [n]))

    def test_with_maps_of_memory_elsewhere(self):
        def at(address):
            return matrix(address, (200, 128))

        launched("128,128", lambda: copied_128(at(0x10000), at(0x20000)))
        for x, out in ((0x10000, 0x20000), (0x50000, 0x20000), (0x50000, 0x60000), (0x10000, 0x60000)):
            line = launched("128,128", lambda: copied_128(at(x), at(out)))
            words = line.split()[-2:]
            self.assertEqual([struct.unpack("<Q", bytes.fromhex(word[:16]))[0] for word in words], [x, out])

    def test_with_other_numbers(self):
        x, out, blend = matrix(0x10000, (500,)), matrix(0x20000, (500,)), "8,8,4,4"
        for alpha, n, grid in ((0.5, 500, 4), (0.25, 500, 4), (2, 400, 4), (2, 400, 3), (2, 400, (3, 2))):
            line = launched(blend, lambda: blend_256(x, out, alpha, n, grid=grid))
            self.assertTrue(line.endswith(" ".join([struct.pack("<f", alpha).hex(), struct.pack("<i", n).hex()])), line)
            self.assertIn(f"grid {grid if isinstance(grid, int) else grid[0]} {1 if isinstance(grid, int) else grid[1]} 1", line)

    def test_what_does_not_fit_is_refused_as_before(self):
        x, out = f32(shape=(600,)), f32(0x20000, (600,))
        for _ in range(2):
            launched(SCALE, lambda: scale_256(x, out))
        before = len(asked())
        for wrong, error, said in (
            ((f32(0x10001, (600,)), out), ValueError, "x is at address 0x10001"),
            ((f32(0, (600,)), out), ValueError, "x has elements and no memory"),
            ((f32(shape=(600,), strides=[2]), out), ValueError, "x.stride(0) is 2"),
            ((x, f32(0x20000, (599,))), ValueError, "out.shape[0] is 599"),
            ((x, f32(0x20000, (600,), "f16")), TypeError, "out has elements of f16"),
            ((x, f32(0x20000, (600,), device=(2, 1))), ValueError, "out is on GPU 1"),
            ((f32(shape=(600,), device=CPU), f32(0x20000, (600,), device=CPU)), ValueError, "x is on the CPU"),
            ((x,), TypeError, "1 arguments are passed"),
        ):
            with self.assertRaises(error) as raised:
                scale_256.kernel(*wrong)
            self.assertIn(said, str(raised.exception))
        one, other = matrix(0x10000, (600,)), matrix(0x20000, (600,))
        launched("8,8,4,4", lambda: blend_256(one, other, 1, 600, grid=4))
        before += 1
        with self.assertRaisesRegex(ValueError, "x and out overlap"):
            blend_256(one, matrix(0x10400, (600,)), 1, 600, grid=4)
        with self.assertRaisesRegex(ValueError, "the kernel does not wait for that"):
            scale_256.kernel.launch((x, out), overlap=True)
        self.assertEqual(len(asked()), before, "nothing else is launched")


GPU, CPU = (2, 0), (1, 0)


def f32(address=0x10000, shape=(1000,), kind="f32", **named):
    return Torch(address, list(shape), kind, **named)


def matrix(address, shape=(300, 128), kind="bf16", **named):
    return Torch(address, list(shape), kind, **named)


class Refusals(unittest.TestCase):
    """Each wrong call: its exception, and what its text names."""

    def check(self, error, said, call, *arguments, **named):
        before = len(asked())
        with self.assertRaises(error) as raised:
            call(*arguments, **named)
        for part in [said] if isinstance(said, str) else said:
            self.assertIn(part, str(raised.exception))
        self.assertEqual(len(asked()), before, "nothing is launched")
        return raised.exception

    def test_types(self):
        out = f32(0x20000)
        for wrong, said in (
            (f32(kind="f16"), "scale(x, out): x has elements of f16; it must have f32"),
            (f32(kind="complex64"), "scale(x, out): x has elements of complex64 (DLPack's code 5, 64 bits, 1 lanes)"),
            (f32(kind="f4x2"), "x has elements of float4_e2m1fn, 4 (DLPack's code 17, 4 bits, 2 lanes), which no kernel takes"),
            ([1.0], "scale(x, out): x is of type <class 'list'>; it must be a tensor of f32 on a GPU"),
            (None, "x is of type <class 'NoneType'>; it must be a tensor"),
            (CudaArray(0x10000, [1000], "<V2"), "x has elements of `<V2` by its `__cuda_array_interface__`"),
            (CudaArray(0x10000, [1000], ">f4"), "x has elements of `>f4`"),
        ):
            self.check(TypeError, said, scale_256, wrong, out)

    def test_places(self):
        out = f32(0x20000)
        said = "scale(x, out): x is on the CPU; it must be on an NVIDIA GPU: copy it there, as torch does by `.cuda()`"
        for kind in (Torch, Dlpack):
            self.check(ValueError, said, scale_256, kind(0x10000, [1000], device=CPU), out)
        self.check(ValueError, "x is in pinned memory of the CPU", scale_256, f32(device=(3, 0)), out)
        self.check(ValueError, "x is on a device of DLPack's kind 10", scale_256, f32(device=(10, 0)), out)
        self.check(ValueError, "scale(x, out): out is on GPU 1 and the launch on GPU 0", scale_256, f32(), f32(0x20000, device=(2, 1)))
        self.check(RuntimeError, "there is no GPU 1; the driver sees 1", scale_256, f32(device=(2, 1)), f32(0x20000, device=(2, 1)))

    def test_shapes_strides_and_addresses(self):
        for arguments, said in (
            ((f32(), f32(0x20000, (999,))), "scale(x, out): out.shape[0] is 999 and x.shape[0] 1000; they must be equal"),
            ((f32(shape=(10, 100)), f32(0x20000)), "x has 2 dimensions; it must have 1: [n]"),
            ((f32(shape=(1,) * 9), f32(0x20000)), "x has 9 dimensions; a kernel takes up to 8"),
            ((f32(strides=[2]), f32(0x20000)), "x.stride(0) is 2; it must be 1"),
            ((f32(strides=[-1]), f32(0x20000)), "x has 1000 elements in steps of -1"),
            ((f32(0x10001), f32(0x20000)), "x is at address 0x10001; it must be at a multiple of"),
        ):
            self.check(ValueError, said, scale_256, *arguments)
        x, out = matrix(0x10000), matrix(0x20000)
        self.check(ValueError, "copied(x, out): x has a stride of 258 bytes along dimension 0", copied_128, matrix(0x10000, strides=[129, 1]), out)
        self.check(ValueError, "out.shape[1] is 64 and x.shape[1] 128", copied_128, x, matrix(0x20000, (300, 64)))
        strided = CudaArray(0x10000, [1000], strides=(6,))
        self.check(ValueError, "x has a stride of 6 bytes; it must be a multiple of the 4", scale_256, strided, f32(0x20000))

    def test_what_is_written_lies_apart_from_what_is_read(self):
        said = "blend(x, out, alpha, n): x and out overlap; the kernel relies on x not changing while it runs: pass a copy"
        for address in (0x10000, 0x10400, 0xFC00):
            self.check(ValueError, said, blend_256, matrix(0x10000, (1000,)), matrix(address, (1000,)), 1, 8, grid=4)

    def test_what_may_not_be_written(self):
        said = "scale(x, out): out is read-only, and the kernel writes to it"
        self.check(ValueError, said, scale_256, f32(), Dlpack(0x20000, [1000], flags=1))
        self.check(ValueError, said, scale_256, f32(), CudaArray(0x20000, [1000], readonly=True))

    def test_capsules(self):
        out = f32(0x20000)
        shapeless = Dlpack(0x10000, [1000])
        shapeless.lent.tensor.shape = None
        self.check(ValueError, "x has 1 dimensions and no shape", scale_256, shapeless, out)
        used = Dlpack(0x10000, [1000], name=b"used_dltensor_versioned")
        self.check(ValueError, "x gives a capsule that was consumed already (`used_dltensor_versioned`)", scale_256, used, out)
        self.check(ValueError, "x gives a capsule called `other`", scale_256, Dlpack(0x10000, [1000], name=b"other"), out)
        self.check(ValueError, "x comes as DLPack 2.3; this release reads 1.3", scale_256, Dlpack(0x10000, [1000], major=2), out)
        gone = Raising(0x10000, [1000])
        error = self.check(ValueError, "scale(x, out): x does not give its memory: BufferError: the memory is gone", scale_256, gone, out)
        self.assertIsInstance(error.__cause__, BufferError)
        self.check(KeyboardInterrupt, "", scale_256, Interrupted(0x10000, [1000]), out)
        wrong = type("Wrong", (Dlpack,), {"__dlpack__": lambda self, **named: 7})
        self.check(TypeError, "x gives <class 'int'> by `__dlpack__`; it must be a capsule", scale_256, wrong(0x10000, [1000]), out)

    def test_dictionaries(self):
        out = f32(0x20000)
        for array, said in (
            (CudaArray(0x10000, [1000], mask=7), "x has a mask"),
            (CudaArray(0x10000, [1000], stream=0), "x has stream 0"),
            (CudaArray(0x10000, [1000], strides=(4, 4)), "x has 1 dimensions and 2 strides"),
        ):
            self.check(ValueError, said, scale_256, array, out)
        array = CudaArray(0x10000, [1000])
        del array.__cuda_array_interface__["shape"]
        self.check(TypeError, "that has no `shape`", scale_256, array, out)
        array.__cuda_array_interface__ = 7
        self.check(TypeError, "that is of type <class 'int'>", scale_256, array, out)
        self.check(ValueError, "x does not give its memory", scale_256, CudaArray(16, [1000]), out)

    def test_streams(self):
        other = exchange(0xEE)
        said = "scale(x, out): x is used on stream 0xab and out on stream 0xee; pass `stream=`"
        self.check(ValueError, said, scale_256, f32(), other(0x20000, [1000]))
        self.check(TypeError, "scale(x, out): stream is of type <class 'str'>; it must be a stream's handle", scale_256, f32(), f32(0x20000), stream="s")
        for handle in (-1, 2**64):
            self.check(ValueError, f"scale(x, out): stream is {handle}; a stream's handle is 0 or more", scale_256, f32(), f32(0x20000), stream=handle)

        named = types.SimpleNamespace(cuda_stream=0x12, device_index=1)
        said = "scale(x, out): stream is of GPU 1 and x on GPU 0; pass a stream of that GPU"
        self.check(ValueError, said, scale_256, f32(), f32(0x20000), stream=named)
        named = types.SimpleNamespace(ptr=0x12, device_id=1)
        self.check(ValueError, said, scale_256, f32(), f32(0x20000), stream=named)

    def test_memory_that_was_given_back(self):
        for kind in (Torch, Dlpack):
            self.check(ValueError, "scale(x, out): x has elements and no memory: it was freed", scale_256, kind(0, [1000]), f32(0x20000))

    def test_arguments(self):
        x, out = f32(), f32(0x20000)
        self.check(TypeError, "unexpected keyword argument 'y'", scale_256, y=x, out=out)
        self.check(TypeError, "missing 1 required positional argument: 'out'", scale_256, x)
        self.check(TypeError, "scale(x, out): 1 arguments are passed; it takes 2", scale_256.kernel, x)
        x, out = matrix(0x10000), matrix(0x30000)
        for alpha, error, said in (
            (x, TypeError, "blend(x, out, alpha, n): alpha is a tensor (Exchanged); it must be a number of type f32: pass its `.item()`"),
            ("1", TypeError, "alpha is of type <class 'str'>; it must be a number of type f32"),
            (1e300, ValueError, "which f32 cannot hold"),
        ):
            self.check(error, said, blend_256, x, out, alpha, 8, grid=4)
        self.check(ValueError, "n is 2147483648, which i32 cannot hold: it must be -2147483648 to 2147483647", blend_256, x, out, 1.0, 2**31, grid=4)
        self.check(TypeError, "n is of type <class 'float'>; it must be a whole number of type i32", blend_256, x, out, 1.0, 8.0, grid=4)
        self.check(TypeError, "missing 1 required keyword-only argument: 'grid'", blend_256, x, out, 1.0, 8)
        self.check(TypeError, "grid is (1, 2, 3, 4); it must be one to three counts", blend_256, x, out, 1.0, 8, grid=(1, 2, 3, 4))
        self.check(ValueError, "the grid has -1 CTAs along x", blend_256, x, out, 1.0, 8, grid=-1)
        self.check(ValueError, "a grid is passed; the kernel's signature has a rule for it", scale_256.kernel, f32(), f32(0x20000), grid=4)

    def test_gradients(self):
        enabled = [True]
        compiler = types.SimpleNamespace(is_compiling=lambda: False)
        sys.modules["torch"] = types.SimpleNamespace(is_grad_enabled=lambda: enabled[0], compiler=compiler)
        try:
            x = f32()
            x.requires_grad = True
            said = "scale(x, out): x requires a gradient, and the kernel has no backward pass: pass its `.detach()`"
            self.check(ValueError, said, scale_256, x, f32(0x20000))
            enabled[0] = False
            self.assertEqual(launched(SCALE, lambda: scale_256(x, f32(0x20000))), scale_line())
        finally:
            del sys.modules["torch"]
            importlib.reload(package._dispatch)

    def test_the_driver(self):
        os.environ["TILEKIT_FAKE_LAUNCH"] = "700"
        try:
            said = "scale(x, out): cuLaunchKernelEx: an illegal memory access was encountered (CUDA_ERROR_ILLEGAL_ADDRESS)"
            with self.assertRaisesRegex(RuntimeError, said.replace("(", r"\(").replace(")", r"\)")):
                scale_256(f32(), f32(0x20000))
        finally:
            del os.environ["TILEKIT_FAKE_LAUNCH"]


class Processes(unittest.TestCase):
    def test_threads_launch_at_a_time(self):
        os.environ["TILEKIT_FAKE_PARAMETERS"] = ""
        before, wrong = len(asked()), []

        def work(offset):
            try:
                for at in range(200):
                    scale_256(f32(0x10000 + offset), f32(0x20000 + offset), stream=at)
            except Exception as error:
                wrong.append(error)

        threads = [threading.Thread(target=work, args=(at * 4096,)) for at in range(2)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        self.assertEqual(wrong, [])
        self.assertEqual(len(asked()) - before, 400)
        self.assertEqual(len(asked("function scale_256")), 1)

    def test_other_threads_run_while_the_driver_works(self):
        pipe = LOG + ".pipe"
        os.mkfifo(pipe)
        os.environ["TILEKIT_FAKE_WAIT"] = pipe
        try:
            thread = threading.Thread(target=lambda: scale_256(f32(), f32(0x20000)))
            thread.start()
            # The driver waits for this: it would wait for ever if it had the interpreter's lock.
            with open(pipe, "w", encoding="utf-8") as end:
                end.write("go")
            thread.join()
        finally:
            del os.environ["TILEKIT_FAKE_WAIT"]

    def test_after_fork(self):
        scale_256.warm()
        child = os.fork()
        if child == 0:
            try:
                scale_256(f32(), f32(0x20000))
                os._exit(1)
            except RuntimeError as error:
                text = str(error)
                is_named = f"the CUDA context was made in process {os.getppid()} and is used in process {os.getpid()}" in text
                os._exit(0 if is_named and "`spawn`" in text else 2)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)

    def test_capture_needs_code_that_is_loaded(self):
        said = self.alone("package.scale_256(f32(), f32(0x20000), stream=0xca)", {})
        self.assertIn("RuntimeError: scale(x, out): the stream is being captured and the kernel is not loaded", said)
        said = self.alone("package.scale_256.warm(); package.scale_256(f32(), f32(0x20000), stream=0xca); print('launched')", {})
        self.assertEqual(said, "launched")

    def test_without_a_driver(self):
        none = {"TILEKIT_LIBCUDA": "libnothing_of_this_name.so"}
        said = self.alone("print(package.scale_256.kernel)", none)
        self.assertEqual(said, "<kernel scale<256>: scale(x, out)>")
        missing = "RuntimeError: no NVIDIA driver: libnothing_of_this_name.so could not be loaded"
        self.assertIn(missing, self.alone("package.scale_256.warm()", none))
        self.assertIn(missing, self.alone("package.scale_256(f32(), f32(0x20000))", none))
        self.assertIn("x is on the CPU", self.alone("package.scale_256(f32(device=CPU), f32(0x20000))", none))

    def alone(self, code, variables):
        """What code of this file says in a process of its own: the driver is opened once in a process."""
        program = "import sys; sys.argv = ['alone']\nfrom calls import *\ntry:\n    " + code
        program += "\nexcept Exception as error:\n    print(f'{type(error).__name__}: {error}')\n"
        ended = subprocess.run([sys.executable, "-c", program], env={**os.environ, **variables, "TILEKIT_FAKE_LOG": LOG + ".alone"}, capture_output=True, text=True, check=True)
        return ended.stdout.strip()


class Texts(unittest.TestCase):
    def test_functions_say_what_they_do(self):
        self.assertEqual(str(inspect.signature(scale_256)), "(x, out, *, stream=None)")
        self.assertEqual(str(inspect.signature(blend_256)), "(x, out, alpha, n, *, grid, stream=None, overlap=False)")
        for part in ("`out[i] = x[i] * 2` for `i < n`.", "x: f32[n], read", "out: f32[n], written", "compiled for sm_90a"):
            self.assertIn(part, scale_256.__doc__)
        self.assertEqual(sorted(package.__all__), ["blend_256", "copied_128", "halves", "pass_", "power_256", "power_backward_256", "scale_256", "spoken", "taps_64", "type_", "warm"])
        self.assertEqual(str(inspect.signature(package.pass_)), "(is_, *, stream=None)")
        self.assertIn("Puts a launch of `pass` on a stream.", package.pass_.__doc__)

    def substituted(self, torch):
        """What torch traces for launches, after an eager call of each: from then on calls do not ask whether they are traced."""
        traced, asked = {}, []

        def substitute_in_graph(launch, skip_signature_check):
            return lambda function: traced.update({launch: function})

        torch.compiler = types.SimpleNamespace(is_compiling=lambda: asked.append(1), substitute_in_graph=substitute_in_graph)
        for _ in range(2):
            launched(SCALE, lambda: scale_256(f32(), f32(0x20000)))
            launched("8,8,4,4", lambda: blend_256(matrix(0x10000), matrix(0x30000), 0.5, 8, grid=4))
        self.assertEqual((len(traced), len(asked)), (2, 2))
        return traced

    def test_operators_of_torch(self):
        defined, made, entered = [], [], []

        class Library:
            def __init__(self, namespace, kind):
                made.append((namespace, kind))

            def define(self, schema, tags):
                defined.append(schema)

            def impl(self, name, function, key):
                made.append((name, key, function))

        operator = lambda name: types.SimpleNamespace(default=lambda *arguments: entered.append((name, arguments)))
        torch = types.ModuleType("torch")
        torch.compiler = types.SimpleNamespace(is_compiling=lambda: True)
        torch.Tag = types.SimpleNamespace(needs_fixed_stride_order=1)
        torch.library = types.SimpleNamespace(Library=Library, register_fake=lambda name, function, lib: made.append((name, function(1, 2))))
        operators = {name: operator(name) for name in package.__all__}
        torch.ops = types.SimpleNamespace(kernels_to_python_exported=types.SimpleNamespace(**operators))
        sys.modules.update({"torch": torch, "torch._dynamo": torch})
        try:
            x, out = matrix(0x10000), matrix(0x30000)
            scale_256(f32(), f32(0x20000))
            blend_256(x, out, 0.5, 8, grid=4, overlap=True)
            with self.assertRaisesRegex(ValueError, "scale_256: `stream` cannot be passed under torch.compile"):
                scale_256(x, out, stream=7)
            traced = self.substituted(torch)
            traced[package._launch_scale_256]((x, out), None)
            traced[package._launch_blend_256]((x, out, 0.5, 8), None, 4, True)
            with self.assertRaisesRegex(ValueError, "blend_256: `stream` cannot be passed under torch.compile"):
                traced[package._launch_blend_256]((x, out, 0.5, 8), 7, 4, True)
        finally:
            del sys.modules["torch"], sys.modules["torch._dynamo"]
        self.assertEqual(defined, [
            "scale_256(Tensor x, Tensor(a1!) out) -> ()",
            "copied_128(Tensor x, Tensor(a1!) out, bool overlap=False) -> ()",
            "taps_64(Tensor image, Tensor(a1!) out, SymInt padding, SymInt stride) -> ()",
            "blend_256(Tensor x, Tensor(a1!) out, float alpha, SymInt n, SymInt[] grid, bool overlap=False) -> ()",
            "power_256(Tensor x, Tensor(a1!) out, Tensor(a2!) slope, float factor) -> ()",
            "power_backward_256(Tensor slope, Tensor dout, Tensor(a2!) dx) -> ()",
            "pass_(Tensor(a0!) is_) -> ()",
            "type_(Tensor(a0!) x, SymInt[] grid) -> ()",
            "halves(Tensor(a0!) out, float x, float y, SymInt[] grid) -> ()",
            "spoken(SymInt n, SymInt[] grid) -> ()",
        ])
        self.assertEqual(made[0], ("kernels_to_python_exported", "DEF"))
        self.assertIn(("kernels_to_python_exported::scale_256", None), made)
        self.assertEqual([(name, arguments[2:]) for name, arguments in entered], [("scale_256", ()), ("blend_256", (0.5, 8, [4], True))] * 2)
        # What the operator does on a GPU is the launch of an eager call.
        blend = next(entry[2] for entry in made if entry[0] == "blend_256" and len(entry) == 3)
        line = launched("8,8,4,4", lambda: blend(x, out, 0.5, 8, [4], True))
        self.assertIn("grid 4 1 1", line)
        self.assertIn("attribute 6 1 0 0", line)
        self.assertNotIn("attribute 6", launched("8,8,4,4", lambda: blend(x, out, 0.5, 8, [4])))


if __name__ == "__main__":
    faulthandler.enable()
    faulthandler.dump_traceback_later(120, exit=True)
    unittest.main()
