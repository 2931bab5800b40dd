//! Kernels as functions of tvm-ffi (its `c_api.h`, version 0.1), by which programs of JAX, torch, Paddle and C++ call them without a binding of their own:
//! `tvm_ffi.load_module("_native.abi3.so").softmax_bf16_4096_8(x, out)`.
//!
//! - Arguments are those of the kernel, in its order: tensors, and numbers. A kernel whose signature has no rule for the grid takes one to three counts of CTAs
//!   behind them.
//! - The launch is put on the stream of tvm-ffi's environment (`TVMFFIEnvGetStream`), in the primary context of the tensors' GPU. It is not waited for.
//! - Errors are raised by `TVMFFIErrorSetRaisedFromCStr`, as `TypeError`, `ValueError` and `RuntimeError`, with the texts that Python shows.
//! - Nothing of Python is touched, so the GIL need not be held.

#![allow(unsafe_code, reason = "structures and functions of tvm-ffi")]

mod environment;

use smallvec::SmallVec;
use tilekit_launch::{Argument, Kind, Manifest, Parameter, Program, Role};

use crate::arguments::{FEW, refuse_unusable};
use crate::refusal::Refusal;
use crate::scalar::{self, Number};
use crate::stream;
use crate::tensor::{DlTensor, Held, Origin, Place};

/// `TVMFFIAny`: a value on the stack, whose type is `type_index`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Any {
    type_index: i32,
    padding: u32,
    bits: u64,
}

/// `kTVMFFINone`
const NONE: i32 = 0;
/// `kTVMFFIInt`
const INT: i32 = 1;
/// `kTVMFFIBool`
const BOOL: i32 = 2;
/// `kTVMFFIFloat`
const FLOAT: i32 = 3;
/// `kTVMFFIDLTensorPtr`
const DL_TENSOR: i32 = 7;
/// `kTVMFFITensor`: an object whose header a `DLTensor` follows.
const TENSOR: i32 = 70;
/// `sizeof(TVMFFIObject)`
const HEADER_BYTES: usize = 24;

/// Puts a launch of `program` with these arguments on the environment's stream. 0, or -1 with an error raised.
///
/// # Safety
/// `arguments` points to `count` values, whose tensors are alive for the call; `result` may be written, or is null.
pub unsafe fn call(program: &Program, arguments: *const Any, count: i32, result: *mut Any) -> i32 {
    let count = usize::try_from(count).unwrap_or(0);
    let arguments = if count == 0 || arguments.is_null() {
        &[]
    } else {
        // SAFETY: by the caller's word.
        unsafe { std::slice::from_raw_parts(arguments, count) }
    };
    // SAFETY: the tensors are alive by the caller's word.
    match unsafe { launch(program, arguments) } {
        Ok(()) => {
            if !result.is_null() {
                let none = Any {
                    type_index: NONE,
                    padding: 0,
                    bits: 0,
                };
                // SAFETY: by the caller's word.
                unsafe { result.write(none) };
            }
            0
        }
        Err((kind, text)) => {
            environment::raise(kind, &text);
            -1
        }
    }
}

type Said = (Kind, String);

fn of_launch(error: &tilekit_launch::Error) -> Said {
    (error.kind(), error.to_string())
}

/// # Safety
/// The tensors of the arguments are alive.
unsafe fn launch(program: &Program, arguments: &[Any]) -> Result<(), Said> {
    let manifest = program.manifest().map_err(|error| of_launch(&error))?;
    let wanted = manifest.arguments().count();
    let grids = if manifest.grid.is_some() {
        0..=0
    } else {
        1..=3
    };
    let passed = arguments.len().checked_sub(wanted);
    if !passed.is_some_and(|counts| grids.contains(&counts)) {
        return Err((Kind::Type, wrong_count(manifest, arguments.len(), wanted)));
    }
    let (arguments, counts) = arguments.split_at(wanted);
    let grid = grid(manifest, counts)?;
    let mut values: SmallVec<[Value; FEW]> = SmallVec::new();
    for (parameter, any) in manifest.arguments().zip(arguments) {
        // SAFETY: by the caller's word.
        let value = unsafe { Value::read(parameter, any) };
        values.push(value.map_err(|refusal| refusal.said(manifest, &parameter.name))?);
    }
    let device = values.iter().find_map(Value::device).unwrap_or(0);
    let handle = environment::stream(device);
    // SAFETY: the environment's stream is of the tensors' GPU and lives, by the word of who set it; it is of the primary context, as frameworks' streams are.
    let queue =
        unsafe { stream::queue(device, handle, false) }.map_err(|error| of_launch(&error))?;
    let arguments: SmallVec<[Argument<'_>; FEW]> = values.iter().map(Value::argument).collect();
    program
        .launch(&queue, grid, &arguments)
        .map_err(|error| of_launch(&error))
}

#[cold]
fn wrong_count(manifest: &Manifest, found: usize, wanted: usize) -> String {
    let signature = manifest.signature();
    let grid = if manifest.grid.is_some() {
        ""
    } else {
        ", and behind them one to three counts of CTAs"
    };
    format!("{signature}: {found} arguments are passed; it takes {wanted}{grid}")
}

/// CTAs in x, y and z, for a kernel without a rule for them.
fn grid(manifest: &Manifest, counts: &[Any]) -> Result<Option<[i64; 3]>, Said> {
    if counts.is_empty() {
        return Ok(None);
    }
    let mut grid = [1; 3];
    for (extent, count) in grid.iter_mut().zip(counts) {
        if count.type_index != INT {
            let refusal = Refusal::Type("has a count that is no integer".to_owned());
            return Err(refusal.said(manifest, "grid"));
        }
        *extent = count.bits.cast_signed();
    }
    Ok(Some(grid))
}

/// An argument, as a launch takes it.
enum Value {
    Tensor(Held<'static>),
    Scalar(tilekit_launch::DataType, u64),
}

impl Value {
    /// # Safety
    /// A tensor is alive, and its arrays are as DLPack has them.
    unsafe fn read(parameter: &Parameter, any: &Any) -> Result<Value, Refusal> {
        let wanted = parameter.role.data_type();
        if matches!(parameter.role, Role::Scalar { .. }) {
            let number = match any.type_index {
                INT | BOOL => Number::Integer(any.bits.cast_signed()),
                FLOAT => Number::Float(f64::from_bits(any.bits)),
                found => return Err(other(found, &format!("a number of type {wanted}"))),
            };
            return Ok(Value::Scalar(wanted, scalar::of_number(number, wanted)?));
        }
        let address = any.bits as usize;
        let tensor = match any.type_index {
            DL_TENSOR => std::ptr::with_exposed_provenance::<DlTensor>(address),
            TENSOR => std::ptr::with_exposed_provenance::<DlTensor>(address + HEADER_BYTES),
            found => return Err(other(found, "a tensor")),
        };
        // SAFETY: by the caller's word.
        let held = unsafe { Held::of_dlpack(&*tensor, Place::Gpu, Origin::Stream(None)) }?;
        let held = held.taken_for(wanted, Place::Gpu);
        refuse_unusable(&held, parameter)?;
        Ok(Value::Tensor(held))
    }

    fn device(&self) -> Option<i32> {
        match self {
            Value::Tensor(held) => held.device(),
            Value::Scalar(..) => None,
        }
    }

    fn argument(&self) -> Argument<'_> {
        match self {
            Value::Tensor(held) => Argument::Tensor(held.tensor()),
            Value::Scalar(data_type, bits) => Argument::Scalar(*data_type, *bits),
        }
    }
}

#[cold]
fn other(found: i32, wanted: &str) -> Refusal {
    let name = match found {
        NONE => "None",
        INT => "an integer",
        BOOL => "a bool",
        FLOAT => "a float",
        DL_TENSOR | TENSOR => "a tensor",
        _ => "of another type",
    };
    Refusal::Type(format!(
        "is {name} (type {found} of tvm-ffi); it must be {wanted}"
    ))
}

const _: () = assert!(size_of::<Any>() == 16 && std::mem::offset_of!(Any, bits) == 8);
