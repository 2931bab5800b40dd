"""Functions that torch differentiates, of an exported package on the emulator, with a stand-in for torch."""

import unittest

import tilekit
import kernels_to_python_exported as package
from kernels_to_python_exported import power_256, scale_256
from torch_stand_in import Function, Tensor, install


class Gradients(unittest.TestCase):
    def setUp(self):
        self.torch = install()
        self.torch.is_autocast_enabled = lambda device: False

    def test_what_is_written_is_allocated_and_its_gradient_is_that_of_the_other_kernel(self):
        x = Tensor([1000], values=[float(at % 9) for at in range(1000)])
        with tilekit.emulated(package):
            out, slope = power_256.differentiable(x, 3.0)
            self.assertEqual(list(out.content), [3.0 * v * v for v in x.content])
            self.assertEqual(list(slope.content), [6.0 * v for v in x.content])
            self.assertEqual(x.asked, ["contiguous"])
            function, context = Function.last
            # The kernel of the gradients takes none of `slope`.
            self.assertEqual(context.constant, (slope,))
            dout = Tensor([1000], values=[0.5] * 1000)
            dx, dfactor = function.backward(context, dout, None)
        self.assertEqual(list(dx.content), [3.0 * v for v in x.content])
        self.assertIsNone(dfactor, "of a number")
        self.assertEqual(dout.asked, ["contiguous"])

    def test_under_autocast_tensors_get_the_type_of_the_kernel(self):
        self.torch.is_autocast_enabled = lambda device: True
        with tilekit.emulated(package):
            out, _ = power_256.differentiable(Tensor([8], "bfloat16"), 1.0)
        self.assertEqual((out.dtype, list(out.content)), ("float32", [0.0] * 8))

    def test_without_autocast_types_are_as_they_are(self):
        with tilekit.emulated(package), self.assertRaises(TypeError) as raised:
            power_256.differentiable(Tensor([8], "bfloat16"), 1.0)
        self.assertIn("x has elements of bf16; it must have f32", str(raised.exception))

    def test_only_kernels_with_gradients_have_the_function(self):
        self.assertFalse(hasattr(scale_256, "differentiable"))

    def test_calls_are_launches_again_when_the_emulator_is_closed(self):
        x, out = Tensor([8]), Tensor([8])
        with tilekit.emulated(package):
            scale_256(x, out)
        self.assertEqual(list(out.content), [14.0] * 8)
        with self.assertRaises(ValueError) as raised:
            scale_256(x, out)
        self.assertIn("x is on the CPU", str(raised.exception))


if __name__ == "__main__":
    unittest.main()
