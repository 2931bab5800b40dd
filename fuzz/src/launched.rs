//! PTX that the emulator executes: every kernel of a module, in two clusters, with memory behind its pointers.

use emulator::{Emulator, Launch, Program, encode_tensor_map};
use ptx::{
    Directives, L2Promotion, Module, Param, ParameterOffsets, TensorAccess, TensorElement,
    TensorMap,
};
use target::{SM_90A, TENSOR_MAP_BYTES};

/// Bytes of each buffer that a kernel has a pointer to.
const BUFFER_BYTES: usize = 1 << 16;
/// Steps of a cluster: enough for the first turns of every loop of a right kernel, a second for the slowest instructions.
const MOST_STEPS: u64 = 30_000;
/// Of a CTA; right kernels that take more end in an access out of bounds.
const DYNAMIC_SHARED_BYTES: u32 = 128 << 10;

/// Runs the kernels of a module that was checked, one after the other.
///
/// # Errors
/// The first fault: a mistake of the kernel's, or that it takes too many steps.
pub(crate) fn launched(module: &Module, program: &Program, seed: u64) -> Result<(), String> {
    for entry in &module.entries {
        let emulator = Emulator::with_memory(1 << 28);
        let params = parameters(&emulator, &entry.params)?;
        let launch = launch(&entry.directives, seed);
        let done = emulator.launch(program, &entry.name, &launch, &params);
        done.map_err(|fault| fault.to_string())?;
    }
    Ok(())
}

/// Two clusters, of as many threads as the kernel asks for.
fn launch(directives: &Directives, seed: u64) -> Launch {
    let cluster = directives.reqnctapercluster.unwrap_or([1; 3]);
    let block = directives.reqntid.or(directives.maxntid);
    Launch {
        grid: [cluster[0].saturating_mul(2), cluster[1], cluster[2]],
        block: block.unwrap_or([128, 1, 1]),
        cluster,
        dynamic_shared_bytes: DYNAMIC_SHARED_BYTES,
        seed,
        max_steps: MOST_STEPS,
        ..Launch::default()
    }
}

/// Numbers are 64, pointers each have a buffer, and tensor maps are of such a buffer.
fn parameters(emulator: &Emulator, params: &[Param]) -> Result<Vec<u8>, String> {
    let mut list = ParameterOffsets::default();
    let mut bytes = Vec::new();
    for (at, param) in params.iter().enumerate() {
        let (offset, size) = (list.place_param(param), param.size_bytes());
        // The machine refuses a launch of more; a text may name any size.
        if offset.saturating_add(size) > BUFFER_BYTES as u64 {
            return Err(format!("parameter {} ends past 64 KiB", param.name));
        }
        bytes.resize(offset as usize, 0);
        let value = match size {
            8 => buffer(emulator, at)?.to_le_bytes().to_vec(),
            size if size == u64::from(TENSOR_MAP_BYTES) => map(buffer(emulator, at)?)?,
            size => number(size as usize),
        };
        bytes.extend(value);
    }
    Ok(bytes)
}

/// 64, in so many bytes.
fn number(bytes: usize) -> Vec<u8> {
    let mut value = vec![0; bytes];
    value[..bytes.min(1)].fill(64);
    value
}

/// A buffer of zeros, as flags and counters want it, or of small numbers of every type.
fn buffer(emulator: &Emulator, number: usize) -> Result<u64, String> {
    let memory = emulator.memory();
    let address = memory
        .alloc(BUFFER_BYTES as u64)
        .map_err(|e| e.to_string())?;
    let fill = |at: usize| {
        if number.is_multiple_of(2) {
            (at % 4) as u8
        } else {
            0
        }
    };
    let bytes: Vec<u8> = (0..BUFFER_BYTES).map(fill).collect();
    memory.write(address, &bytes).map_err(|e| e.to_string())?;
    Ok(address)
}

/// A matrix of 128 by 64 elements of two bytes, in boxes of 64 by 64.
fn map(address: u64) -> Result<Vec<u8>, String> {
    let map = TensorMap {
        element: TensorElement::Bf16,
        rank: 2,
        address,
        dims: [64, 128, 1, 1, 1],
        strides: [128, 0, 0, 0],
        element_strides: [1; 5],
        access: TensorAccess::Tiled {
            box_dims: [64, 64, 1, 1, 1],
        },
        swizzle: 128,
        nan_fill: false,
        l2_promotion: L2Promotion::None,
    };
    let encoded = encode_tensor_map(&map, &SM_90A).map_err(|error| error.0)?;
    Ok(encoded.to_vec())
}
