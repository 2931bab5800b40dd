//! A tensor as it is borrowed.

use pyo3::prelude::*;
use tilekit_launch::{DataType, Tensor};

use super::abi::{self, DlTensor, ElementType};
use super::exchange::Exchange;
use crate::refusal::Refusal;

/// The most dimensions of a tensor that a kernel takes.
pub(super) const MOST_RANK: usize = 8;

/// A tensor, borrowed for a call.
pub(crate) struct Held<'py> {
    pub(super) address: u64,
    pub(super) data_type: DataType,
    pub(super) rank: usize,
    pub(super) shape: [i64; MOST_RANK],
    pub(super) strides: [i64; MOST_RANK],
    /// Without, there are no gaps.
    pub(super) has_strides: bool,
    pub(super) device: Option<i32>,
    pub(super) is_readonly: bool,
    pub(super) origin: Origin,
    /// What must live until the launch is enqueued.
    pub(super) owner: Option<Bound<'py, PyAny>>,
}

/// Who says on which stream a tensor may be used.
#[derive(Clone, Copy)]
pub(crate) enum Origin {
    /// Its framework, by the C exchange API.
    Exchange(&'static Exchange),
    /// It may be used on this stream; without, on the one that the caller names.
    Stream(Option<usize>),
    /// It may be used on any stream, or its framework was told that it is used on the legacy default stream.
    Told,
}

impl<'py> Held<'py> {
    /// Of what a framework lends.
    ///
    /// # Safety
    /// Shape and strides have as many numbers as there are dimensions, unless they are null.
    #[allow(unsafe_code, reason = "arrays behind pointers of DLPack")]
    pub(crate) unsafe fn of_dlpack(
        lent: &DlTensor,
        place: Place,
        origin: Origin,
    ) -> Result<Held<'py>, Refusal> {
        expect(place, lent.device.kind)?;
        let data_type = type_of(lent.element)?;
        let rank = usize::try_from(lent.rank).unwrap_or(usize::MAX);
        if rank > MOST_RANK {
            return Err(Refusal::Value(format!(
                "has {} dimensions; a kernel takes up to {MOST_RANK}",
                lent.rank
            )));
        }
        if rank > 0 && lent.shape.is_null() {
            return Err(Refusal::Value(format!(
                "has {rank} dimensions and no shape"
            )));
        }
        let (mut shape, mut strides) = ([0; MOST_RANK], [0; MOST_RANK]);
        let has_strides = !lent.strides.is_null() && rank > 0;
        if rank > 0 {
            // SAFETY: by the caller's word; it is not null.
            shape[..rank].copy_from_slice(unsafe { std::slice::from_raw_parts(lent.shape, rank) });
        }
        if has_strides {
            // SAFETY: by the caller's word; they are not null.
            let lent = unsafe { std::slice::from_raw_parts(lent.strides, rank) };
            strides[..rank].copy_from_slice(lent);
        }
        Ok(Held {
            address: (lent.data as u64).wrapping_add(lent.byte_offset),
            data_type,
            rank,
            shape,
            strides,
            has_strides,
            device: (place == Place::Gpu).then_some(lent.device.id),
            is_readonly: false,
            origin,
            owner: None,
        })
    }

    /// The same tensor as one of `wanted`, where its elements are the bits of such.
    pub(crate) fn taken_for(mut self, wanted: DataType, place: Place) -> Self {
        if is_passed_as_bits(self.data_type, wanted, place) {
            self.data_type = wanted;
        }
        self
    }

    /// What a launch checks and passes.
    pub(crate) fn tensor(&self) -> Tensor<'_> {
        let strides = if self.has_strides { self.rank } else { 0 };
        Tensor {
            address: self.address,
            data_type: self.data_type,
            shape: &self.shape[..self.rank],
            strides: &self.strides[..strides],
            elements: None,
            device: self.device,
        }
    }

    /// The number of its GPU, where it has elements.
    pub(crate) fn device(&self) -> Option<i32> {
        self.device
    }

    /// Whether it has elements, and its memory was given back.
    pub(crate) fn is_without_memory(&self) -> bool {
        self.address == 0 && !self.shape[..self.rank].contains(&0)
    }

    /// Whether its framework forbids to write to it.
    pub(crate) fn is_readonly(&self) -> bool {
        self.is_readonly
    }

    pub(crate) fn origin(&self) -> Origin {
        self.origin
    }
}

/// Whether a tensor of unsigned numbers has the bits of a type that frameworks do not have: none has two of them, and on the CPU
/// NumPy has fewer.
fn is_passed_as_bits(found: DataType, wanted: DataType, place: Place) -> bool {
    match wanted {
        DataType::E4m3b15 | DataType::E2m1 => found == DataType::U8,
        DataType::E4m3 | DataType::E5m2 | DataType::E8m0 => {
            place == Place::Host && found == DataType::U8
        }
        DataType::Bf16 => place == Place::Host && found == DataType::U16,
        _ => false,
    }
}

/// Where a call takes tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In memory that a GPU reaches under the address that is passed, on that GPU.
    Gpu,
    /// In the memory of this process.
    Host,
}

/// Whether memory of this kind is where the call takes it.
pub(super) fn expect(place: Place, kind: i32) -> Result<(), Refusal> {
    let is_host = matches!(kind, abi::CPU | abi::CUDA_HOST);
    let found = match (place, kind) {
        (Place::Gpu, abi::CUDA | abi::CUDA_MANAGED) => return Ok(()),
        (Place::Host, _) if is_host => return Ok(()),
        (Place::Host, _) => {
            return Err(Refusal::Value(format!(
                "is on a device of DLPack's kind {kind}; the emulator takes memory of the CPU: pass a copy there, as torch makes by `.cpu()`"
            )));
        }
        (_, abi::CPU) => "on the CPU",
        (_, abi::CUDA_HOST) => "in pinned memory of the CPU",
        _ => {
            return Err(Refusal::Value(format!(
                "is on a device of DLPack's kind {kind}; it must be on an NVIDIA GPU (kind 2 or 13)"
            )));
        }
    };
    Err(Refusal::Value(format!(
        "is {found}; it must be on an NVIDIA GPU: copy it there, as torch does by `.cuda()`"
    )))
}

/// The type of elements, by the codes of `DLDataTypeCode`.
fn type_of(element: ElementType) -> Result<DataType, Refusal> {
    Ok(match (element.code, element.bits, element.lanes) {
        (0, 8, 1) => DataType::I8,
        (0, 16, 1) => DataType::I16,
        (0, 32, 1) => DataType::I32,
        (0, 64, 1) => DataType::I64,
        (1, 8, 1) => DataType::U8,
        (1, 16, 1) => DataType::U16,
        (1, 32, 1) => DataType::U32,
        (1, 64, 1) => DataType::U64,
        (2, 16, 1) => DataType::F16,
        (2, 32, 1) => DataType::F32,
        (2, 64, 1) => DataType::F64,
        (4, 16, 1) => DataType::Bf16,
        (6, 8, 1) => DataType::I1,
        (10, 8, 1) => DataType::E4m3,
        (12, 8, 1) => DataType::E5m2,
        (14, 8, 1) => DataType::E8m0,
        _ => return Err(unknown_type(element)),
    })
}

#[cold]
fn unknown_type(element: ElementType) -> Refusal {
    let ElementType { code, bits, lanes } = element;
    let name = match code {
        0 => "int",
        1 => "uint",
        2 => "float",
        4 => "bfloat",
        5 => "complex",
        6 => "bool",
        7 => "float8_e3m4, ",
        8 => "float8_e4m3, ",
        9 => "float8_e4m3b11fnuz, ",
        11 => "float8_e4m3fnuz, ",
        13 => "float8_e5m2fnuz, ",
        17 => "float4_e2m1fn, ",
        _ => "another type, ",
    };
    Refusal::Type(format!(
        "has elements of {name}{bits} (DLPack's code {code}, {bits} bits, {lanes} lanes), which no kernel takes"
    ))
}
