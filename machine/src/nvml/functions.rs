//! The management library's functions that are used.

#![allow(unsafe_code, reason = "foreign functions of NVML")]

use std::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};
use std::path::Path;

use libloading::Library;

use crate::library::open;

/// `NVML_SUCCESS`
pub(super) const SUCCESS: c_int = 0;

/// The management library, which is part of the driver.
pub(super) const LIBRARY: &str = "libnvidia-ml.so.1";

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
        /// Functions by the names of `nvml.h`; none where the library has none of that name. All are found that are there: what an older or
        /// restricted library lacks is not known, and the rest is.
        pub(super) struct Functions {
            $(pub(super) $field: Option<unsafe extern "C" fn($($argument),*) -> c_int>,)*
            /// Open for as long as the functions are used.
            _library: Library,
        }

        impl Functions {
            fn of(library: Library) -> Functions {
                Functions {
                    $($field: {
                        // SAFETY: the signature is that of `nvml.h`.
                        None$(.or_else(|| unsafe { library.get($symbol.to_bytes_with_nul()) }.ok()))+.map(|symbol| *symbol)
                    },)*
                    _library: library,
                }
            }
        }
    };
}

functions! {
    init = c"nvmlInit_v2" ();
    by_bus = c"nvmlDeviceGetHandleByPciBusId_v2" (*const c_char, *mut Device);
    power_limit = c"nvmlDeviceGetEnforcedPowerLimit" (Device, *mut c_uint);
    driver_version = c"nvmlSystemGetDriverVersion" (*mut c_char, c_uint);
    clock = c"nvmlDeviceGetClockInfo" (Device, c_uint, *mut c_uint);
    power = c"nvmlDeviceGetPowerUsage" (Device, *mut c_uint);
    fields = c"nvmlDeviceGetFieldValues" (Device, c_int, *mut FieldValue);
    temperature = c"nvmlDeviceGetTemperature" (Device, c_uint, *mut c_uint);
    // The second name is that of drivers before 535.
    throttle_reasons = c"nvmlDeviceGetCurrentClocksEventReasons" | c"nvmlDeviceGetCurrentClocksThrottleReasons"
        (Device, *mut c_ulonglong);
}

impl Functions {
    /// Those of the driver's own library.
    ///
    /// # Errors
    /// What the loader says where it does not open it.
    pub(super) fn load() -> Result<Functions, String> {
        open(Path::new(LIBRARY)).map(Functions::of)
    }
}
