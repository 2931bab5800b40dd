//! How a profiler takes over the functions of NVTX: `nvtxDetail/nvtxTypes.h` and `nvtxInit.h` of NVTX 3.
//!
//! The library that `NVTX_INJECTION64_PATH` names is loaded, and its `InitializeInjectionNvtx2` is called. It asks for the table of each
//! module of functions, and writes its own functions into the entries that it serves; what it leaves empty is never called.

#![allow(unsafe_code, reason = "foreign functions of the profiler")]

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::mem::ManuallyDrop;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicPtr, Ordering};

use super::DOMAIN;

/// The version of NVTX that is spoken: `NVTX_VERSION`.
const VERSION: u16 = 3;

/// What names the profiler's library.
const LIBRARY_VARIABLE: &str = "NVTX_INJECTION64_PATH";

/// The most functions of a module.
const MOST: usize = 16;

/// A function that the profiler writes.
type Slot = AtomicPtr<c_void>;

/// `NVTX_ETID_CALLBACKS`, `NVTX_ETID_VERSIONINFO`.
const CALLBACKS: u32 = 1;
const VERSION_INFO: u32 = 3;

/// Of `NvtxCallbackModule`: the functions with a domain.
const CORE2: usize = 5;

/// How many entries each module has by its number, `NvtxCallbackModule`; entry 0 is none.
const MODULES: [usize; 7] = [0, 16, 9, 15, 7, 16, 7];

/// Entries of `NvtxCallbackIdCore2`.
mod core2 {
    pub(super) const MARK: usize = 1;
    pub(super) const PUSH: usize = 4;
    pub(super) const POP: usize = 5;
    pub(super) const CREATE_DOMAIN: usize = 12;
    pub(super) const INITIALIZE: usize = 15;
}

static SLOTS: [[Slot; MOST]; MODULES.len()] =
    [const { [const { AtomicPtr::new(null_mut()) }; MOST] }; MODULES.len()];

/// The addresses of a module's slots, with a null at entry 0 and one at the end.
struct Addresses([*const Slot; MOST + 1]);

// SAFETY: what it points to is static and atomic.
unsafe impl Sync for Addresses {}

static TABLES: [Addresses; MODULES.len()] = {
    let mut tables = [const { Addresses([null(); MOST + 1]) }; MODULES.len()];
    let mut module = 0;
    while module < MODULES.len() {
        let mut entry = 1;
        while entry < MODULES[module] {
            tables[module].0[entry] = &raw const SLOTS[module][entry];
            entry += 1;
        }
        module += 1;
    }
    tables
};

/// `NvtxExportTableCallbacks`.
#[repr(C)]
struct Callbacks {
    bytes: usize,
    table: extern "C" fn(c_uint, *mut *const *const Slot, *mut c_uint) -> c_int,
}

/// `NvtxExportTableVersionInfo`.
#[repr(C)]
struct VersionInfo {
    bytes: usize,
    version: u32,
    reserved: u32,
    set_injection_version: extern "C" fn(u32),
}

static OUR_CALLBACKS: Callbacks = Callbacks {
    bytes: size_of::<Callbacks>(),
    table: module_table,
};

static OUR_VERSION: VersionInfo = VersionInfo {
    bytes: size_of::<VersionInfo>(),
    version: VERSION as u32,
    reserved: 0,
    set_injection_version: ignore_version,
};

extern "C" fn export_table(id: u32) -> *const c_void {
    match id {
        CALLBACKS => (&raw const OUR_CALLBACKS).cast(),
        VERSION_INFO => (&raw const OUR_VERSION).cast(),
        _ => null(),
    }
}

/// Gives the slots of a module: 1 if there is one of this number.
extern "C" fn module_table(
    module: c_uint,
    table: *mut *const *const Slot,
    entries: *mut c_uint,
) -> c_int {
    let number = module as usize;
    let Some(&count) = MODULES.get(number).filter(|&&count| count > 0) else {
        return 0;
    };
    // The size is that of the array less one, which counts the null at its end.
    if !entries.is_null() {
        // SAFETY: the profiler's pointer is null or to an unsigned integer.
        unsafe { *entries = count as c_uint };
    }
    if !table.is_null() {
        // SAFETY: the profiler's pointer is null or to a pointer.
        unsafe { *table = TABLES[number].0.as_ptr() };
    }
    1
}

extern "C" fn ignore_version(_: u32) {}

/// `nvtxEventAttributes_t` of version 3.
#[repr(C)]
struct Attributes {
    version: u16,
    bytes: u16,
    category: u32,
    color_type: i32,
    color: u32,
    payload_type: i32,
    reserved: i32,
    payload: u64,
    message_type: i32,
    message: *const c_char,
}

impl Attributes {
    fn of(name: &CStr) -> Attributes {
        Attributes {
            version: VERSION,
            bytes: size_of::<Attributes>() as u16,
            category: 0,
            color_type: 0,
            color: 0,
            payload_type: 0,
            reserved: 0,
            payload: 0,
            message_type: 1, // NVTX_MESSAGE_TYPE_ASCII, which profilers read as UTF-8
            message: name.as_ptr(),
        }
    }
}

type Initialize = unsafe extern "C" fn(extern "C" fn(u32) -> *const c_void) -> c_int;
type Event = unsafe extern "C" fn(*mut c_void, *const Attributes);
type Push = unsafe extern "C" fn(*mut c_void, *const Attributes) -> c_int;
type Pop = unsafe extern "C" fn(*mut c_void) -> c_int;

/// What a profiler serves of a domain.
pub(super) struct Tool {
    domain: *mut c_void,
    mark: Option<Event>,
    /// Both or none: a range that is begun ends.
    range: Option<(Push, Pop)>,
}

// SAFETY: functions of NVTX may be called by any thread, with a domain that another thread has made.
unsafe impl Send for Tool {}
// SAFETY: as above; nothing of it changes.
unsafe impl Sync for Tool {}

impl Tool {
    /// The profiler that this process was started by, if it names itself and initialises.
    pub(super) fn injected() -> Option<Tool> {
        let path = std::env::var_os(LIBRARY_VARIABLE).filter(|path| !path.is_empty())?;
        // SAFETY: the profiler that started this process asks for this library to be loaded. It is never unloaded.
        let library = unsafe { libloading::Library::new(path) }.ok()?;
        let library = ManuallyDrop::new(library);
        // SAFETY: the type is that of `NvtxInitializeInjectionNvtxFunc_t`.
        let initialize =
            unsafe { library.get::<Initialize>(b"InitializeInjectionNvtx2\0") }.ok()?;
        // SAFETY: what it is given lives for ever and answers as `nvtxInitDefs.h` says.
        if unsafe { initialize(export_table) } == 0 {
            return None;
        }
        Some(Tool::of_slots())
    }

    /// With the functions that were written.
    fn of_slots() -> Tool {
        // SAFETY: each type is that of the entry in `nvtxTypes.h`.
        unsafe {
            if let Some(initialize) = slot::<unsafe extern "C" fn(*const c_void)>(core2::INITIALIZE)
            {
                initialize(null());
            }
            let create =
                slot::<unsafe extern "C" fn(*const c_char) -> *mut c_void>(core2::CREATE_DOMAIN);
            let name = CString::new(DOMAIN).unwrap_or_default();
            Tool {
                domain: create.map_or(null_mut(), |create| create(name.as_ptr())),
                mark: slot(core2::MARK),
                range: slot(core2::PUSH).zip(slot(core2::POP)),
            }
        }
    }

    pub(super) fn mark(&self, name: &CStr) {
        if let Some(mark) = self.mark {
            // SAFETY: the attributes and the name outlive the call, which copies them.
            unsafe { mark(self.domain, &Attributes::of(name)) };
        }
    }

    pub(super) fn push(&self, name: &CStr) {
        if let Some((push, _)) = self.range {
            // SAFETY: as in `mark`.
            unsafe { push(self.domain, &Attributes::of(name)) };
        }
    }

    /// Ends the range that the calling thread began last.
    pub(super) fn pop(&self) {
        if let Some((_, pop)) = self.range {
            // SAFETY: the domain is the profiler's.
            unsafe { pop(self.domain) };
        }
    }
}

/// The profiler's function of this entry, if it wrote one.
///
/// # Safety
/// `F` is the type of a pointer to it.
unsafe fn slot<F: Copy>(entry: usize) -> Option<F> {
    assert_eq!(size_of::<F>(), size_of::<*mut c_void>(), "a pointer");
    let written = SLOTS[CORE2][entry].load(Ordering::Acquire);
    // SAFETY: the type is the caller's word.
    (!written.is_null()).then(|| unsafe { std::mem::transmute_copy(&written) })
}
