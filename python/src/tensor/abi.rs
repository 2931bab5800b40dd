//! The structures of DLPack 1.3 (`dlpack.h`), as far as a consumer reads them.

#![allow(unsafe_code, reason = "arrays behind pointers of DLPack")]

use std::ffi::{c_int, c_void};

/// `DLPACK_MAJOR_VERSION`: structures of another one lie otherwise.
pub(super) const MAJOR: u32 = 1;

/// `DLPACK_MINOR_VERSION`: what this crate knows of types and devices.
pub(super) const MINOR: u32 = 3;

/// `kDLCPU`
pub(super) const CPU: i32 = 1;
/// `kDLCUDA`
pub(super) const CUDA: i32 = 2;
/// `kDLCUDAHost`
pub(super) const CUDA_HOST: i32 = 3;
/// `kDLCUDAManaged`
pub(super) const CUDA_MANAGED: i32 = 13;

/// `DLPACK_FLAG_BITMASK_READ_ONLY`
pub(super) const READ_ONLY: u64 = 1;

/// `DLPackVersion`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct Version {
    pub(super) major: u32,
    pub(super) minor: u32,
}

/// `DLDevice`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Device {
    pub(super) kind: i32,
    pub(crate) id: i32,
}

/// `DLDataType`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct ElementType {
    pub(super) code: u8,
    pub(super) bits: u8,
    pub(super) lanes: u16,
}

/// `DLTensor`
#[repr(C)]
#[derive(Debug)]
pub(crate) struct DlTensor {
    pub(crate) data: *mut c_void,
    pub(crate) device: Device,
    pub(super) rank: i32,
    pub(super) element: ElementType,
    pub(super) shape: *const i64,
    pub(super) strides: *const i64,
    pub(crate) byte_offset: u64,
}

impl DlTensor {
    /// Type, device and rank.
    pub(crate) fn head(&self) -> [i64; 3] {
        let ElementType { code, bits, lanes } = self.element;
        let element = i64::from(code) << 24 | i64::from(bits) << 16 | i64::from(lanes);
        let device = i64::from(self.device.kind) << 32 | i64::from(self.device.id);
        [element, device, self.rank.into()]
    }

    /// Extents and strides, where the framework says both.
    pub(crate) fn extents(&self) -> Option<[&[i64]; 2]> {
        let rank = usize::try_from(self.rank).ok()?;
        if rank == 0 {
            return Some([&[], &[]]);
        }
        if self.shape.is_null() || self.strides.is_null() {
            return None;
        }
        // SAFETY: by DLPack each has as many numbers as there are dimensions, which live while the tensor does, whose owner holds it
        // for the call.
        Some(unsafe {
            [
                std::slice::from_raw_parts(self.shape, rank),
                std::slice::from_raw_parts(self.strides, rank),
            ]
        })
    }
}

/// `DLManagedTensor`
#[repr(C)]
#[derive(Debug)]
pub(super) struct Managed {
    pub(super) tensor: DlTensor,
    manager: *mut c_void,
    deleter: *const c_void,
}

/// `DLManagedTensorVersioned`
#[repr(C)]
#[derive(Debug)]
pub(super) struct ManagedVersioned {
    pub(super) version: Version,
    manager: *mut c_void,
    deleter: *const c_void,
    pub(super) flags: u64,
    pub(super) tensor: DlTensor,
}

/// `DLPackExchangeAPIHeader`
#[repr(C)]
#[derive(Debug)]
pub(super) struct ExchangeHeader {
    pub(super) version: Version,
    pub(super) previous: *const ExchangeHeader,
}

/// `DLPackDLTensorFromPyObjectNoSync`
pub(super) type Borrow = unsafe extern "C" fn(*mut c_void, *mut DlTensor) -> c_int;

/// `DLPackCurrentWorkStream`
pub(super) type WorkStream = unsafe extern "C" fn(i32, i32, *mut *mut c_void) -> c_int;

/// `DLPackExchangeAPI`
#[repr(C)]
#[derive(Debug)]
pub(super) struct ExchangeApi {
    header: ExchangeHeader,
    allocate: *const c_void,
    managed_of_object: *const c_void,
    object_of_managed: *const c_void,
    pub(super) borrow: Option<Borrow>,
    pub(super) work_stream: Option<WorkStream>,
}

const _: () = {
    assert!(size_of::<DlTensor>() == 48 && std::mem::offset_of!(DlTensor, shape) == 24);
    assert!(std::mem::offset_of!(ManagedVersioned, tensor) == 32);
    assert!(std::mem::offset_of!(ExchangeApi, borrow) == 40);
};
