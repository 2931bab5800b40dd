//! Kernels of one CTA on the emulator: from text to bytes, and the elementwise ones from samples to numbers.

use emulator::{Emulator, Fault, Launch, Program};
use ir::Func;
use ir::elem::DType;
use ir::text::{parse, print};
use lowering::{Options, compile};

use crate::assembly::assemble;
use crate::gpu;
use crate::values::{Number, bytes, decode, encode, values};

/// Elements of the tensors: two for each thread of four warps.
pub(crate) const LEN: usize = 256;
pub(crate) const BLOCKED: &str = "Blocked([2], [32], [4], [0])";

/// Runs a kernel on one CTA with these inputs and `out_bytes` bytes of output behind them, all as pointers.
#[track_caller]
pub(crate) fn run(text: &str, inputs: &[&[u8]], out_bytes: usize) -> Vec<u8> {
    let func = parse("test.tile", text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    run_func(func, inputs, out_bytes)
}

/// The same with a kernel that was traced.
#[track_caller]
pub(crate) fn run_func(func: Func, inputs: &[&[u8]], out_bytes: usize) -> Vec<u8> {
    let text = print(&func);
    let (done, bytes, _) = execute(func, inputs, out_bytes);
    done.unwrap_or_else(|e| panic!("{e}\n{text}"));
    bytes
}

/// The PTX of a kernel.
#[track_caller]
pub(crate) fn ptx_of(text: &str) -> String {
    let func = parse("test.tile", text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let compiled = compile(func, &Options::default()).unwrap_or_else(|e| panic!("{e}\n{text}"));
    compiled.module.to_text()
}

/// What a kernel printed and how it ended.
#[track_caller]
pub(crate) fn printed(text: &str, inputs: &[&[u8]]) -> (String, Result<(), Box<Fault>>) {
    let func = parse("test.tile", text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let (done, _, output) = execute(func, inputs, 16);
    (output, done)
}

/// Compiles a kernel, has ptxas look at it, and runs one CTA: how it ended, its output, and what it printed.
#[track_caller]
fn execute(
    func: Func,
    inputs: &[&[u8]],
    out_bytes: usize,
) -> (Result<(), Box<Fault>>, Vec<u8>, String) {
    let text = print(&func);
    let compiled = compile(func, &Options::default()).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let ptx = compiled.module.to_text();
    assert!(
        compiled.module.check().is_empty(),
        "{:?}\n{ptx}",
        compiled.module.check()
    );
    assemble(&ptx);
    if let Some(gpu) = gpu::asked_for() {
        let poison = vec![0x55; out_bytes];
        let buffers: Vec<Vec<u8>> = inputs.iter().map(|i| i.to_vec()).chain([poison]).collect();
        let mut found =
            gpu::launch(gpu, &compiled, 1, &buffers).unwrap_or_else(|e| panic!("{e}\n{text}"));
        return (Ok(()), found.pop().unwrap_or_default(), String::new());
    }
    let program = Program::load(&compiled.module).unwrap_or_else(|e| panic!("{e}\n{ptx}"));
    let emulator = Emulator::new();
    let memory = emulator.memory();
    let mut params = Vec::new();
    for input in inputs {
        let address = memory.alloc(input.len() as u64).unwrap();
        memory.write(address, input).unwrap();
        params.extend(address.to_le_bytes());
    }
    let out = memory.alloc(out_bytes as u64).unwrap();
    params.extend(out.to_le_bytes());
    let launch = Launch {
        dynamic_shared_bytes: compiled.launch.shared_bytes,
        ..Launch::linear(1, compiled.launch.threads)
    };
    let done = emulator.launch(&program, &compiled.launch.entry, &launch, &params);
    let mut bytes = vec![0; out_bytes];
    memory.read(out, &mut bytes).unwrap();
    (done.map(drop), bytes, emulator.take_output())
}

/// A kernel that loads its inputs element by element, computes, and stores `%r`.
pub(crate) fn elementwise(inputs: &[DType], out: DType, body: &str) -> String {
    let mut text = format!("#b = {BLOCKED}\nkernel @k(");
    for (at, dtype) in inputs.iter().enumerate() {
        text += &format!("%p{at}: ptr<{dtype}> {{divisor=16}}, ");
    }
    text += &format!(
        "%out: ptr<{out}> {{divisor=16}}) warps(4) {{\n  %i = arange {{start=0, end={LEN}}} : tensor<{LEN}xi32, #b>\n"
    );
    for (at, dtype) in inputs.iter().enumerate() {
        text += &format!(
            "  %s{at} = splat %p{at} : tensor<{LEN}xptr<{dtype}>, #b>\n  %a{at} = ptr_add %s{at}, %i : tensor<{LEN}xptr<{dtype}>, #b>\n  %x{at} = load %a{at} : tensor<{LEN}x{dtype}, #b>\n"
        );
    }
    text + &format!(
        "{body}  %so = splat %out : tensor<{LEN}xptr<{out}>, #b>\n  %ao = ptr_add %so, %i : tensor<{LEN}xptr<{out}>, #b>\n  store %ao, %r\n  return\n}}\n"
    )
}

/// Runs `body` on samples of the input types and compares with `wanted`.
#[track_caller]
pub(crate) fn check(
    inputs: &[DType],
    out: DType,
    body: &str,
    samples: &[Vec<u64>],
    wanted: impl Fn(&[Number]) -> Number,
) {
    check_near(inputs, out, body, samples, 0.0, wanted);
}

/// The same within `ulps` units in the last place of the wanted number.
#[track_caller]
pub(crate) fn check_near(
    inputs: &[DType],
    out: DType,
    body: &str,
    samples: &[Vec<u64>],
    ulps: f64,
    wanted: impl Fn(&[Number]) -> Number,
) {
    let text = elementwise(inputs, out, body);
    let data: Vec<Vec<u8>> = samples
        .iter()
        .zip(inputs)
        .map(|(s, &d)| bytes(s, d))
        .collect();
    let data: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
    let found = values(&run(&text, &data, LEN * out.bytes() as usize), out);
    for at in 0..LEN {
        let numbers: Vec<Number> = samples
            .iter()
            .zip(inputs)
            .map(|(s, &d)| decode(s[at], d))
            .collect();
        let exact = wanted(&numbers);
        let want = encode(exact, out);
        let (have, rounded) = (decode(found[at], out), decode(want, out));
        let is_equal = found[at] == want
            || have.float().is_nan() && rounded.float().is_nan()
            || is_near(have.float(), exact.float(), out, ulps);
        assert!(
            is_equal,
            "element {at} of {numbers:?}: {have:?} ({:#x}), not {rounded:?} ({want:#x})\n{inputs:?} to {out:?}: {body}",
            found[at]
        );
    }
}

fn is_near(have: f64, want: f64, dtype: DType, ulps: f64) -> bool {
    let (bits, least) = match dtype {
        DType::F32 => (23, f64::from(f32::MIN_POSITIVE)),
        DType::F64 => (52, f64::MIN_POSITIVE),
        DType::F16 => (10, 6.1e-5),
        DType::Bf16 => (7, f64::from(f32::MIN_POSITIVE)),
        _ => return false,
    };
    let unit = 2_f64.powi(want.abs().max(least).log2().floor() as i32 - bits);
    ulps > 0.0 && (have - want).abs() <= ulps * unit
}

pub(crate) fn binary_body(op: &str, dtype: DType) -> String {
    format!("  %r = binary %x0, %x1 {{op={op}}} : tensor<{LEN}x{dtype}, #b>\n")
}
