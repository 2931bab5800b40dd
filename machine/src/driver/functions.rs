//! What TileKit asks of the driver beyond launching: memory, streams, events, graphs, facts about code.
//!
//! `tilekit-launch` opens the library and has the functions that launching takes; these are looked up in the same library.

#![allow(unsafe_code, reason = "foreign functions of the driver")]

use std::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};
use std::ops::Deref;
use std::sync::OnceLock;

use launch::driver::{
    ContextHandle, Driver as Launcher, FunctionHandle, Handle, ModuleHandle, StreamHandle,
    Unavailable,
};

use super::CudaFailure;
use crate::Error;

/// What handles of this crate name. None of these is ever a value.
pub mod object {
    /// `CUevent`
    #[derive(Debug)]
    pub enum Event {}
    /// `CUgraph`
    #[derive(Debug)]
    pub enum Graph {}
    /// `CUgraphNode`
    #[derive(Debug)]
    pub enum GraphNode {}
    /// `CUgraphExec`
    #[derive(Debug)]
    pub enum GraphExec {}
}

/// `CUevent`
pub type EventHandle = Handle<object::Event>;
/// `CUgraph`
pub type GraphHandle = Handle<object::Graph>;
/// `CUgraphNode`
pub type GraphNodeHandle = Handle<object::GraphNode>;
/// `CUgraphExec`
pub type GraphExecHandle = Handle<object::GraphExec>;

/// An address of the device, `CUdeviceptr`.
pub type DeviceAddress = u64;

/// `CUgraphEdgeData`
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct GraphEdge {
    /// Which of the events of the node in front is waited for.
    pub from_port: u8,
    /// What of the node behind waits.
    pub to_port: u8,
    /// `CUgraphDependencyType`
    pub kind: u8,
    /// Zeros.
    pub reserved: [u8; 5],
}

/// `CUmemGenericAllocationHandle`: memory without an address.
pub type SharedHandle = u64;

/// `CUmemLocation`
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Location {
    /// `CU_MEM_LOCATION_TYPE_DEVICE` is 1.
    pub kind: c_int,
    /// The number of the GPU.
    pub ordinal: c_int,
}

/// `CUmemAllocationProp`
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct SharedProperties {
    /// `CU_MEM_ALLOCATION_TYPE_PINNED` is 1.
    pub kind: c_int,
    /// `CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR` is 1.
    pub handle: c_int,
    /// Where it lies.
    pub location: Location,
    /// Of Windows alone.
    pub metadata: *mut c_void,
    /// Compression, RDMA and usage: zeros.
    pub flags: [u8; 8],
}

/// `CUmemAccessDesc`
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Access {
    /// Who accesses.
    pub location: Location,
    /// `CU_MEM_ACCESS_FLAGS_PROT_READWRITE` is 3.
    pub rights: c_int,
}

launch::driver_functions! {
    /// The driver's functions beyond those of launching.
    Functions:
    cuDeviceTotalMem = "cuDeviceTotalMem_v2" (*mut usize, c_int);
    cuDeviceGetPCIBusId = "cuDeviceGetPCIBusId" (*mut c_char, c_int, c_int);
    cuDevicePrimaryCtxRelease = "cuDevicePrimaryCtxRelease_v2" (c_int);
    cuCtxSynchronize = "cuCtxSynchronize" ();
    cuDeviceCanAccessPeer = "cuDeviceCanAccessPeer" (*mut c_int, c_int, c_int);
    cuCtxEnablePeerAccess = "cuCtxEnablePeerAccess" (ContextHandle, c_uint);
    cuMemGetInfo = "cuMemGetInfo_v2" (*mut usize, *mut usize);
    cuMemAlloc = "cuMemAlloc_v2" (*mut DeviceAddress, usize);
    cuMemFree = "cuMemFree_v2" (DeviceAddress);
    cuMemAllocAsync = "cuMemAllocAsync" (*mut DeviceAddress, usize, StreamHandle);
    cuMemFreeAsync = "cuMemFreeAsync" (DeviceAddress, StreamHandle);
    cuMemAllocManaged = "cuMemAllocManaged" (*mut DeviceAddress, usize, c_uint);
    cuMemGetAllocationGranularity = "cuMemGetAllocationGranularity" (*mut usize, *const SharedProperties, c_uint);
    cuMemCreate = "cuMemCreate" (*mut SharedHandle, usize, *const SharedProperties, c_ulonglong);
    cuMemRelease = "cuMemRelease" (SharedHandle);
    cuMemAddressReserve = "cuMemAddressReserve" (*mut DeviceAddress, usize, usize, DeviceAddress, c_ulonglong);
    cuMemAddressFree = "cuMemAddressFree" (DeviceAddress, usize);
    cuMemMap = "cuMemMap" (DeviceAddress, usize, usize, SharedHandle, c_ulonglong);
    cuMemUnmap = "cuMemUnmap" (DeviceAddress, usize);
    cuMemSetAccess = "cuMemSetAccess" (DeviceAddress, usize, *const Access, usize);
    cuMemExportToShareableHandle = "cuMemExportToShareableHandle" (*mut c_void, SharedHandle, c_uint, c_ulonglong);
    cuMemImportFromShareableHandle = "cuMemImportFromShareableHandle" (*mut SharedHandle, *mut c_void, c_uint);
    cuMemPrefetchAsync = "cuMemPrefetchAsync" (DeviceAddress, usize, c_int, StreamHandle);
    cuMemAdvise = "cuMemAdvise" (DeviceAddress, usize, c_uint, c_int);
    cuMemHostAlloc = "cuMemHostAlloc" (*mut *mut c_void, usize, c_uint);
    cuMemHostGetDevicePointer = "cuMemHostGetDevicePointer_v2" (*mut DeviceAddress, *mut c_void, c_uint);
    cuMemFreeHost = "cuMemFreeHost" (*mut c_void);
    cuMemcpyHtoD = "cuMemcpyHtoD_v2" (DeviceAddress, *const c_void, usize);
    cuMemcpyDtoH = "cuMemcpyDtoH_v2" (*mut c_void, DeviceAddress, usize);
    cuMemcpyHtoDAsync = "cuMemcpyHtoDAsync_v2" (DeviceAddress, *const c_void, usize, StreamHandle);
    cuMemcpyDtoHAsync = "cuMemcpyDtoHAsync_v2" (*mut c_void, DeviceAddress, usize, StreamHandle);
    cuMemcpyDtoDAsync = "cuMemcpyDtoDAsync_v2" (DeviceAddress, DeviceAddress, usize, StreamHandle);
    cuMemsetD8Async = "cuMemsetD8Async" (DeviceAddress, u8, usize, StreamHandle);
    cuStreamCreate = "cuStreamCreate" (*mut StreamHandle, c_uint);
    cuStreamDestroy = "cuStreamDestroy_v2" (StreamHandle);
    cuStreamSynchronize = "cuStreamSynchronize" (StreamHandle);
    cuStreamQuery = "cuStreamQuery" (StreamHandle);
    cuStreamWaitEvent = "cuStreamWaitEvent" (StreamHandle, EventHandle, c_uint);
    cuStreamBeginCapture = "cuStreamBeginCapture_v2" (StreamHandle, c_uint);
    cuStreamEndCapture = "cuStreamEndCapture" (StreamHandle, *mut GraphHandle);
    cuEventCreate = "cuEventCreate" (*mut EventHandle, c_uint);
    cuEventDestroy = "cuEventDestroy_v2" (EventHandle);
    cuEventRecord = "cuEventRecord" (EventHandle, StreamHandle);
    cuEventSynchronize = "cuEventSynchronize" (EventHandle);
    cuEventElapsedTime = "cuEventElapsedTime" (*mut f32, EventHandle, EventHandle);
    cuGraphInstantiate = "cuGraphInstantiateWithFlags" (*mut GraphExecHandle, GraphHandle, c_ulonglong);
    cuGraphLaunch = "cuGraphLaunch" (GraphExecHandle, StreamHandle);
    cuGraphGetEdges = "cuGraphGetEdges_v2"
        (GraphHandle, *mut GraphNodeHandle, *mut GraphNodeHandle, *mut GraphEdge, *mut usize);
    cuGraphDestroy = "cuGraphDestroy" (GraphHandle);
    cuGraphExecDestroy = "cuGraphExecDestroy" (GraphExecHandle);
    cuModuleUnload = "cuModuleUnload" (ModuleHandle);
    cuFuncGetAttribute = "cuFuncGetAttribute" (*mut c_int, u32, FunctionHandle);
    cuFuncGetParamInfo = "cuFuncGetParamInfo" (FunctionHandle, usize, *mut usize, *mut usize);
}

/// The driver of this machine: what launches, and the functions of this crate.
pub struct Driver {
    /// What launches.
    pub launcher: &'static Launcher,
    functions: Functions,
}

impl Driver {
    /// The driver of this machine, loaded, initialised and found new enough; the answer is kept for the process.
    pub fn get() -> Result<&'static Driver, Error> {
        static DRIVER: OnceLock<Result<Driver, Unavailable>> = OnceLock::new();
        let driver = DRIVER.get_or_init(Driver::open);
        driver.as_ref().map_err(|lack| lack.clone().into())
    }

    fn open() -> Result<Driver, Unavailable> {
        let launcher = Launcher::get()?;
        let functions = Functions::of_library(launcher.library())?;
        Ok(Driver {
            launcher,
            functions,
        })
    }

    /// `Ok` for success, else what the driver says about `code`.
    #[inline]
    pub fn check(&self, call: &'static str, code: u32) -> Result<(), CudaFailure> {
        self.launcher.check(call, code)
    }
}

impl Deref for Driver {
    type Target = Functions;

    fn deref(&self) -> &Functions {
        &self.functions
    }
}
