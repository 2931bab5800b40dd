//! Activations between two products of a block, and their gradients: one access of 16 bytes a thread and tensor, no reuse.

use tilekit::prelude::*;

/// Elements of a program, eight for each of its threads.
pub(super) const BLOCK: usize = 1024;

/// The elements of a program in tensors of `n`: `at(x)` is where those of `x` are, and which of them exist.
struct Block {
    first: Scalar<i64>,
    at: Tensor<i32>,
    inside: Tensor<bool>,
}

impl Block {
    #[device]
    fn of_program(n: Scalar<i64>) -> Block {
        let first = program_id(0).cast::<i64>() * BLOCK;
        let at = arange(0..BLOCK, Coalesced);
        let rest = minimum(n - first, BLOCK).cast::<i32>();
        Block {
            first,
            at,
            inside: at < rest,
        }
    }

    #[device]
    fn load<T: Float>(&self, x: Ptr<T>) -> Tensor<f32> {
        let source = (x + self.first).at(self.at).mask(self.inside).other(0);
        // What is written leaves L2 before what is read: writes flow.
        source.policy(L2Policy::EvictLast).load().cast::<f32>()
    }

    #[device]
    fn store<T: Float>(&self, out: Ptr<T>, v: Tensor<f32>) {
        let target = (out + self.first).at(self.at).mask(self.inside);
        target.store(v.cast::<T>());
    }
}

/// `1 / (1 + exp(-x))`.
#[device]
fn sigmoid(x: Tensor<f32>) -> Tensor<f32> {
    1.0 / ((x * -LOG2_E).exp2() + 1.0)
}

/// `out = gate * sigmoid(gate) * up`, elementwise over contiguous tensors of `n` elements.
#[kernel(warps = 4, instances(<bf16>), signature(
    gate: [n],
    up: [n],
    out: [n],
    grid = cdiv(n, BLOCK),
    backward(swiglu_backward),
))]
pub fn swiglu<T: Float>(gate: Ptr<T>, up: Ptr<T>, out: Ptr<T>, n: i64) {
    launch_dependents();
    launch_wait();
    let block = Block::of_program(n);
    let (gate, up) = (block.load(gate), block.load(up));
    block.store(out, gate * sigmoid(gate) * up);
}

/// Gradients of [`swiglu`]: `dup = dout * silu(gate)` and `dgate = dout * up * (s + silu(gate) * (1 - s))` with `s = sigmoid(gate)`. The
/// gradients may take the place of `gate` and `up`.
#[kernel(warps = 4, instances(<bf16>), signature(
    gate: [n],
    up: [n],
    dout: [n],
    dgate: [n],
    dup: [n],
    grid = cdiv(n, BLOCK),
))]
pub fn swiglu_backward<T: Float>(
    gate: Ptr<T>,
    up: Ptr<T>,
    dout: Ptr<T>,
    dgate: Ptr<T>,
    dup: Ptr<T>,
    n: i64,
) {
    launch_dependents();
    launch_wait();
    let block = Block::of_program(n);
    let [gate, up, dout] = [gate, up, dout].map(|x| block.load(x));
    let s = sigmoid(gate);
    let silu = gate * s;
    block.store(dgate, dout * up * (s + silu * (1.0 - s)));
    block.store(dup, dout * silu);
}

/// `2 u` of `gelu(x)` in its tanh form, with `u = sqrt(2 / pi) * (x + 0.044715 x³)`, of `square = x²`.
#[device]
fn twice_u(x: Tensor<f32>, square: Tensor<f32>) -> Tensor<f32> {
    x * (square * (2.0 * SCALE * CUBIC) + 2.0 * SCALE)
}

/// sqrt(2 / pi)
const SCALE: f64 = 0.797_884_6;
const CUBIC: f64 = 0.044_715;

/// `out = gelu(x)` in its tanh form, `x * (1 + tanh(u)) / 2` with `u = sqrt(2 / pi) * (x + 0.044715 x³)`, elementwise over contiguous tensors
/// of `n` elements.
#[kernel(warps = 4, instances(<bf16>), signature(
    x: [n],
    out: [n],
    grid = cdiv(n, BLOCK),
    backward(gelu_backward),
))]
pub fn gelu<T: Float>(x: Ptr<T>, out: Ptr<T>, n: i64) {
    launch_dependents();
    launch_wait();
    let block = Block::of_program(n);
    let x = block.load(x);
    block.store(out, x * sigmoid(twice_u(x, x * x)));
}

/// The gradient of `gelu(x)` in its tanh form: `dx = dout * (h + x * h * (1 - h) * 2 u')` with `h = (1 + tanh(u)) / 2` and
/// `u = sqrt(2 / pi) * (x + 0.044715 x³)`.
#[kernel(warps = 4, instances(<bf16>), signature(
    x: [n],
    dout: [n],
    dx: [n],
    grid = cdiv(n, BLOCK),
))]
pub fn gelu_backward<T: Float>(x: Ptr<T>, dout: Ptr<T>, dx: Ptr<T>, n: i64) {
    launch_dependents();
    launch_wait();
    let block = Block::of_program(n);
    let (x, dout) = (block.load(x), block.load(dout));
    let square = x * x;
    // h is the logistic function of 2 u.
    let h = sigmoid(twice_u(x, square));
    // Where h is 0 or 1 the slope counts for nothing, and so it must be finite.
    let slope = square.minimum(f32::MAX) * (6.0 * SCALE * CUBIC) + 2.0 * SCALE;
    block.store(dx, dout * (h + x * h * (1.0 - h) * slope));
}
