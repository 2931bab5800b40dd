//! The management library's functions that are used.

#![allow(unsafe_code, reason = "foreign functions of NVML")]

use std::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};
use std::path::Path;

use libloading::Library;

use crate::library::open;

/// `NVML_SUCCESS`
pub(super) const SUCCESS: c_int = 0;

/// `nvmlDevice_t`
type Device = *mut c_void;

/// `nvmlFieldValue_t`
#[derive(Default)]
#[repr(C)]
pub(super) struct FieldValue {
    field: c_uint,
    scope: c_uint,
    timestamp: i64,
    latency_us: i64,
    kind: c_uint,
    pub(super) code: c_int,
    pub(super) value: u64,
}

impl FieldValue {
    /// Of this field, to be filled in.
    pub(super) fn of(field: c_uint) -> FieldValue {
        FieldValue {
            field,
            ..FieldValue::default()
        }
    }
}

macro_rules! functions {
    ($($field:ident = $($symbol:literal)|+ ($($argument:ty),*);)*) => {
        /// Functions by the names of `nvml.h`.
        pub(super) struct Functions {
            $(pub(super) $field: unsafe extern "C" fn($($argument),*) -> c_int,)*
            /// Open for as long as the functions are used.
            _library: Library,
        }

        impl Functions {
            fn of(library: Library) -> Option<Functions> {
                Some(Functions {
                    $($field: {
                        // SAFETY: the signature is that of `nvml.h`.
                        None$(.or_else(|| unsafe { library.get($symbol) }.ok()))+.map(|symbol| *symbol)?
                    },)*
                    _library: library,
                })
            }
        }
    };
}

functions! {
    init = b"nvmlInit_v2\0" ();
    by_bus = b"nvmlDeviceGetHandleByPciBusId_v2\0" (*const c_char, *mut Device);
    power_limit = b"nvmlDeviceGetEnforcedPowerLimit\0" (Device, *mut c_uint);
    driver_version = b"nvmlSystemGetDriverVersion\0" (*mut c_char, c_uint);
    clock = b"nvmlDeviceGetClockInfo\0" (Device, c_uint, *mut c_uint);
    power = b"nvmlDeviceGetPowerUsage\0" (Device, *mut c_uint);
    fields = b"nvmlDeviceGetFieldValues\0" (Device, c_int, *mut FieldValue);
    temperature = b"nvmlDeviceGetTemperature\0" (Device, c_uint, *mut c_uint);
    // The second name is that of drivers before 535.
    throttle_reasons = b"nvmlDeviceGetCurrentClocksEventReasons\0" | b"nvmlDeviceGetCurrentClocksThrottleReasons\0"
        (Device, *mut c_ulonglong);
}

impl Functions {
    /// Those of the driver's own library; none where it is not there.
    pub(super) fn load() -> Option<Functions> {
        Functions::of(open(Path::new("libnvidia-ml.so.1")).ok()?)
    }
}
