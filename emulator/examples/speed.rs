//! How fast the machine is: `cargo run --release -p tilekit-emulator --example speed`. After `-- --no-global` races in global memory
//! are not looked for.

use emulator::{Checks, Emulator, Launch, Program, encode_tensor_map};
use ptx::{L2Promotion, TensorAccess, TensorElement, TensorMap};
use std::time::Instant;

const VECTOR_ADD: &str = include_str!("vector_add.ptx");
const GEMM: &str = include_str!("../tests/kernels/gemm_persistent.ptx");
const SOFTMAX: &str = include_str!("softmax.ptx");

fn main() -> Result<(), Box<dyn std::error::Error>> {
    memory()?;
    for _ in 0..2 {
        vector_add(1 << 20)?;
        vector_add((1 << 24) - 3)?;
    }
    softmax(256, 1024)?;
    softmax(4096, 1024)?;
    matmul(1024)?;
    Ok(())
}

/// A launch with the checks that are measured.
fn launch(ctas: u32, threads: u32) -> Launch {
    let global = !std::env::args().any(|argument| argument == "--no-global");
    Launch {
        checks: Checks {
            global,
            ..Checks::default()
        },
        ..Launch::linear(ctas, threads)
    }
}

/// Bulk copies between the host and 256 MiB.
fn memory() -> Result<(), Box<dyn std::error::Error>> {
    let emulator = Emulator::new();
    let mut data = vec![3u8; 256 << 20];
    let start = Instant::now();
    let address = emulator.memory().alloc(data.len() as u64)?;
    emulator.memory().write(address, &data)?;
    let written = start.elapsed();
    emulator.memory().read(address, &mut data)?;
    println!(
        "256 MiB: write {written:.3?}, read {:.3?}",
        start.elapsed().saturating_sub(written)
    );
    Ok(())
}

fn upload(emulator: &Emulator, values: &[f32]) -> Result<u64, Box<dyn std::error::Error>> {
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    let address = emulator.memory().alloc(bytes.len() as u64)?;
    emulator.memory().write(address, &bytes)?;
    Ok(address)
}

fn download(
    emulator: &Emulator,
    address: u64,
    count: usize,
) -> Result<Vec<f32>, Box<dyn std::error::Error>> {
    let mut bytes = vec![0; count * 4];
    emulator.memory().read(address, &mut bytes)?;
    Ok(bytes
        .as_chunks::<4>()
        .0
        .iter()
        .map(|chunk| f32::from_le_bytes(*chunk))
        .collect())
}

fn vector_add(n: usize) -> Result<(), Box<dyn std::error::Error>> {
    let program = Program::load(&ptx::Module::parse(VECTOR_ADD)?)?;
    let emulator = Emulator::new();
    let x: Vec<f32> = (0..n).map(|i| i as f32).collect();
    let y: Vec<f32> = (0..n).map(|i| (i % 7) as f32).collect();
    let [x_at, y_at] = [upload(&emulator, &x)?, upload(&emulator, &y)?];
    let out = emulator.memory().alloc(n as u64 * 4)?;
    let mut params = Vec::new();
    for address in [x_at, y_at, out] {
        params.extend_from_slice(&address.to_le_bytes());
    }
    params.extend_from_slice(&(n as u32).to_le_bytes());
    let start = Instant::now();
    let stats = emulator.launch(
        &program,
        "vector_add",
        &launch(n.div_ceil(1024) as u32, 128),
        &params,
    )?;
    let elapsed = start.elapsed();
    let result = download(&emulator, out, n)?;
    let wrong = (0..n)
        .filter(|&i| result[i].to_bits() != (x[i] + y[i]).to_bits())
        .count();
    println!(
        "vector_add {n}: {elapsed:.3?}, {} warp instructions, {wrong} wrong",
        stats.warp_instructions
    );
    Ok(())
}

fn softmax(rows: usize, columns: usize) -> Result<(), Box<dyn std::error::Error>> {
    let program = Program::load(&ptx::Module::parse(SOFTMAX)?)?;
    let emulator = Emulator::new();
    let x: Vec<f32> = (0..rows * columns)
        .map(|i| ((i * 37) % 101) as f32 * 0.1)
        .collect();
    let x_at = upload(&emulator, &x)?;
    let out = emulator.memory().alloc((rows * columns) as u64 * 4)?;
    let params: Vec<u8> = [x_at, out]
        .iter()
        .flat_map(|address| address.to_le_bytes())
        .collect();
    let start = Instant::now();
    let stats = emulator.launch(&program, "softmax", &launch(rows as u32, 128), &params)?;
    let elapsed = start.elapsed();
    let result = download(&emulator, out, rows * columns)?;
    let sum: f32 = result[..columns].iter().sum();
    println!(
        "softmax {rows}x{columns}: {elapsed:.3?}, {} warp instructions, first row sums to {sum}",
        stats.warp_instructions
    );
    Ok(())
}

/// `size`^3 in bf16 with the persistent, warp-specialised kernel of the tests.
fn matmul(size: u64) -> Result<(), Box<dyn std::error::Error>> {
    let program = Program::load(&ptx::Module::parse(GEMM)?)?;
    let emulator = Emulator::new();
    let bytes = vec![0x3f; (size * size * 2) as usize];
    let mut addresses = Vec::new();
    for _ in 0..3 {
        let address = emulator.memory().alloc(bytes.len() as u64)?;
        emulator.memory().write(address, &bytes)?;
        addresses.push(address);
    }
    let mut params = Vec::new();
    for (address, rows) in addresses.iter().zip([128, 256, 64]) {
        let map = TensorMap {
            element: TensorElement::Bf16,
            rank: 2,
            address: *address,
            dims: [size, size, 1, 1, 1],
            strides: [size * 2, 0, 0, 0],
            element_strides: [1; 5],
            access: TensorAccess::Tiled {
                box_dims: [64, rows, 1, 1, 1],
            },
            swizzle: 128,
            nan_fill: false,
            l2_promotion: L2Promotion::None,
        };
        params.extend(encode_tensor_map(&map, emulator.target())?);
    }
    [addresses[2]; 4]
        .iter()
        .for_each(|address| params.extend(address.to_le_bytes()));
    let (rows, columns) = (size as u32 / 128, size as u32 / 256);
    for number in [
        size as u32,
        size as u32 / 64,
        rows,
        columns,
        columns,
        rows * columns,
    ] {
        params.extend(number.to_le_bytes());
    }
    let shape = Launch {
        dynamic_shared_bytes: 213_056,
        ..launch((rows * columns).min(132), 384)
    };
    let start = Instant::now();
    let stats = emulator.launch(&program, "gemm", &shape, &params)?;
    println!(
        "matmul {size}^3 bf16: {:.3?}, {} warp instructions",
        start.elapsed(),
        stats.warp_instructions
    );
    Ok(())
}
