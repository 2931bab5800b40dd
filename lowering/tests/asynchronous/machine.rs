//! Kernels on the emulator, with tensor maps and clusters.

use std::process::Command;

use emulator::{Emulator, Fault, Launch, Program, encode_tensor_map};
use gluon_lang::lang::KernelFn;
use ir::elem::{DType, Elem};
use ir::text::{parse, print};
use ir::{TensorMapMode, TensorMapType, Type};
use lowering::{Options, compile};
use ptx::{L2Promotion, TensorAccess, TensorElement};

/// One argument of a launch.
#[derive(Clone, Debug)]
pub(crate) enum Argument {
    /// A buffer with these bytes.
    Buffer(Vec<u8>),
    /// A number.
    Int(i32),
    /// A number of 64 bits.
    Long(i64),
    /// A tensor with these bytes and dimensions, the slowest first, through a tensor map.
    Tensor(Vec<u8>, Vec<u64>),
    /// The same for im2col, with the corners of the box of pixels.
    Image(Vec<u8>, Vec<u64>, [i16; 3], [i16; 3]),
}

/// Numbers as the bytes of a buffer.
pub(crate) fn buffer<T: Number>(numbers: &[T]) -> Argument {
    Argument::Buffer(bytes(numbers))
}

/// Numbers as the bytes of a tensor.
pub(crate) fn tensor<T: Number>(numbers: &[T], dims: &[u64]) -> Argument {
    Argument::Tensor(bytes(numbers), dims.to_vec())
}

/// What tests count in.
pub(crate) trait Number: Copy {
    const BYTES: usize;
    fn put(self, to: &mut Vec<u8>);
    fn take(bytes: &[u8]) -> Self;
}

macro_rules! numbers {
    ($($number:ty: $bytes:literal,)*) => {$(
        impl Number for $number {
            const BYTES: usize = $bytes;
            fn put(self, to: &mut Vec<u8>) {
                to.extend(self.to_le_bytes());
            }
            fn take(bytes: &[u8]) -> Self {
                Self::from_le_bytes(bytes.try_into().unwrap())
            }
        }
    )*};
}

numbers! { u8: 1, i32: 4, f32: 4, half::f16: 2, half::bf16: 2, }

pub(crate) fn bytes<T: Number>(numbers: &[T]) -> Vec<u8> {
    let mut all = Vec::new();
    for number in numbers {
        number.put(&mut all);
    }
    all
}

pub(crate) fn numbers<T: Number>(bytes: &[u8]) -> Vec<T> {
    bytes.chunks_exact(T::BYTES).map(T::take).collect()
}

/// A kernel that can be launched.
struct Ready {
    compiled: lowering::Compiled,
    types: Vec<Type>,
    program: Program,
    /// Its IR and PTX, for messages.
    text: String,
}

/// Traces and compiles a kernel. The PTX goes through ptxas if `$PTXAS` names one.
#[track_caller]
fn ready<Args>(kernel: impl KernelFn<Args>) -> Ready {
    let traced = kernel.trace().unwrap_or_else(|e| panic!("{e}"));
    let text = print(&traced.func);
    assert_eq!(print(&parse("kernel", &text).unwrap()), text);
    let params = traced.func.params.iter();
    let types = params.map(|p| traced.func.ty(p.value).clone()).collect();
    let compiled =
        compile(traced.func, &Options::default()).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let ptx = compiled.module.to_text();
    let wrong = compiled.module.check();
    assert!(wrong.is_empty(), "{wrong:?}\n{ptx}");
    assemble(&ptx);
    let program = Program::load(&compiled.module).unwrap_or_else(|e| panic!("{e}\n{ptx}"));
    Ready {
        compiled,
        types,
        program,
        text: format!("{text}\n{ptx}"),
    }
}

impl Ready {
    /// Asynchronous work completes in another order for each seed.
    fn launch(
        &self,
        grid: [u32; 3],
        arguments: &[Argument],
        seed: u64,
    ) -> Result<Vec<Vec<u8>>, Box<Fault>> {
        let emulator = Emulator::new();
        let memory = emulator.memory();
        let mut parameters = Vec::new();
        let mut buffers = Vec::new();
        for (argument, ty) in arguments.iter().zip(&self.types) {
            let place = |data: &[u8], buffers: &mut Vec<(u64, usize)>| {
                let address = memory.alloc(data.len() as u64).unwrap();
                memory.write(address, data).unwrap();
                buffers.push((address, data.len()));
                address
            };
            let (align, data) = match argument {
                Argument::Buffer(data) => (8, place(data, &mut buffers).to_le_bytes().to_vec()),
                Argument::Int(number) => (4, number.to_le_bytes().to_vec()),
                Argument::Long(number) => (8, number.to_le_bytes().to_vec()),
                Argument::Tensor(data, dims) => {
                    let address = place(data, &mut buffers);
                    (64, map(ty, address, dims, None))
                }
                Argument::Image(data, dims, low, high) => {
                    let address = place(data, &mut buffers);
                    (64, map(ty, address, dims, Some((*low, *high))))
                }
            };
            parameters.resize(parameters.len().next_multiple_of(align), 0);
            parameters.extend(data);
        }
        let like = &self.compiled.launch;
        let launch = Launch {
            grid,
            cluster: like.cluster,
            dynamic_shared_bytes: like.shared_bytes,
            seed,
            ..Launch::linear(1, like.threads)
        };
        emulator.launch(&self.program, &like.entry, &launch, &parameters)?;
        let read = |&(address, len): &(u64, usize)| {
            let mut data = vec![0; len];
            memory.read(address, &mut data).unwrap();
            data
        };
        Ok(buffers.iter().map(read).collect())
    }
}

/// The PTX of a kernel.
#[track_caller]
pub(crate) fn ptx<Args>(kernel: impl KernelFn<Args>) -> String {
    ready(kernel).compiled.module.to_text()
}

/// Traces, compiles and runs a kernel; gives the bytes of all buffers and tensors afterwards.
#[track_caller]
pub(crate) fn run<Args>(
    kernel: impl KernelFn<Args>,
    grid: [u32; 3],
    arguments: &[Argument],
) -> Vec<Vec<u8>> {
    let ready = ready(kernel);
    let launch = |seed| {
        let done = ready.launch(grid, arguments, seed);
        done.unwrap_or_else(|e| panic!("{e}\n{}", ready.text))
    };
    let all = launch(0);
    for seed in 1..4 {
        assert_eq!(launch(seed), all, "with seed {seed}");
    }
    all
}

/// Runs a kernel that is wrong; gives what the emulator says of it.
#[track_caller]
pub(crate) fn fault<Args>(
    kernel: impl KernelFn<Args>,
    grid: [u32; 3],
    arguments: &[Argument],
) -> String {
    let done = ready(kernel).launch(grid, arguments, 0);
    done.expect_err("the kernel does what it must not")
        .to_string()
}

/// Runs a kernel that is wrong in several orders; gives what the emulator says of each.
#[track_caller]
pub(crate) fn faults<Args>(
    kernel: impl KernelFn<Args>,
    grid: [u32; 3],
    arguments: &[Argument],
) -> Vec<Fault> {
    let ready = ready(kernel);
    let launch = |seed| {
        let done = ready.launch(grid, arguments, seed);
        *done.expect_err("the kernel does what it must not")
    };
    (0..4).map(launch).collect()
}

/// The bytes of a tensor map for a parameter of this type.
fn map(ty: &Type, address: u64, dims: &[u64], corners: Option<([i16; 3], [i16; 3])>) -> Vec<u8> {
    let Type::TensorMap(m) = ty else {
        panic!("{ty} is no tensor map");
    };
    let rank = dims.len();
    let elem_bytes = u64::from(m.elem.bytes());
    let mut all = [1; 5];
    let mut strides = [0; 4];
    let mut stride = elem_bytes;
    for (at, &dim) in dims.iter().rev().enumerate() {
        all[at] = dim;
        stride *= dim;
        if at + 1 < rank {
            strides[at] = stride;
        }
    }
    let map = ptx::TensorMap {
        element: element(m.elem),
        rank: rank as u32,
        address,
        dims: all,
        strides,
        element_strides: [1; 5],
        access: access(m, corners),
        swizzle: match &m.layout {
            layout::SharedLayout::Nvmma(nvmma) => nvmma.swizzle_bytes,
            other => panic!("{other} is no layout that TMA writes"),
        },
        nan_fill: false,
        l2_promotion: L2Promotion::None,
    };
    encode_tensor_map(&map, &target::SM_90A).unwrap().to_vec()
}

fn access(m: &TensorMapType, corners: Option<([i16; 3], [i16; 3])>) -> TensorAccess {
    let size = m.box_dims(&target::SM_90A).unwrap();
    match (m.mode, corners) {
        (TensorMapMode::Tiled, None) => {
            let mut box_dims = [1; 5];
            for (to, &from) in box_dims.iter_mut().zip(size.iter().rev()) {
                *to = from;
            }
            TensorAccess::Tiled { box_dims }
        }
        (TensorMapMode::Im2col { .. }, Some((lower_corner, upper_corner))) => {
            TensorAccess::Im2col {
                lower_corner,
                upper_corner,
                channels: size[1] as u16,
                pixels: size[0] as u16,
            }
        }
        _ => panic!("{m} and its argument differ in mode"),
    }
}

fn element(elem: Elem) -> TensorElement {
    match elem {
        Elem::Data(DType::U8) => TensorElement::U8,
        Elem::Data(DType::I32) => TensorElement::S32,
        Elem::Data(DType::F16) => TensorElement::F16,
        Elem::Data(DType::Bf16) => TensorElement::Bf16,
        Elem::Data(DType::F32) => TensorElement::F32,
        other => panic!("no test moves {other}"),
    }
}

/// The real assembler must take it, without a word.
fn assemble(ptx: &str) {
    static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let Some(ptxas) = std::env::var_os("PTXAS") else {
        return;
    };
    let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let name = format!("tilekit-asynchronous-{}-{number}.ptx", std::process::id());
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, ptx).unwrap();
    let out = Command::new(ptxas)
        .args(["-arch=sm_90a", "-o", "/dev/null"])
        .arg(&path)
        .output()
        .unwrap();
    std::fs::remove_file(&path).unwrap();
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.success() && said.is_empty(), "{said}\n{ptx}");
}
