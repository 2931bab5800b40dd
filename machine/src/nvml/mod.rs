//! What NVIDIA's management library says of a GPU: its power limit, its driver, and its clocks, power and temperature at the moment.

#![allow(unsafe_code, reason = "foreign functions of NVML")]

mod functions;
mod lack;
mod reasons;

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::{Arc, Mutex, PoisonError};

use crate::driver::Driver;
use functions::{FieldValue, Functions, SUCCESS};
pub use lack::Lack;
pub use reasons::{Reasons, THROTTLES};

/// A GPU as the management library knows it.
pub struct Managed {
    functions: Functions,
    device: *mut c_void,
    /// The driver's release, such as `580.159.04`; none where the library does not say.
    pub driver: Option<String>,
    /// The power that the GPU may take, watts; none where the library does not say.
    pub power_limit_watts: Option<u32>,
}

// SAFETY: NVML is thread-safe, and its handle of a device is a name that any thread may use; nothing in Rust reads through the pointer.
unsafe impl Send for Managed {}

// SAFETY: as for `Send`.
unsafe impl Sync for Managed {}

/// A GPU at one moment; none where the library does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// The clock of its multiprocessors, MHz.
    pub sm_mhz: Option<u32>,
    /// The clock of its memory, MHz.
    pub memory_mhz: Option<u32>,
    /// The power that it takes, milliwatts; older drivers give the mean of the last second.
    pub milliwatts: Option<u32>,
    /// Its temperature, °C.
    pub celsius: Option<u32>,
    /// Why its clocks are not higher.
    pub reasons: Option<Reasons>,
}

/// `NVML_CLOCK_SM`
const SM_CLOCK: c_uint = 1;
/// `NVML_CLOCK_MEM`
const MEMORY_CLOCK: c_uint = 2;
/// `NVML_TEMPERATURE_GPU`
const GPU_TEMPERATURE: c_uint = 0;
/// `NVML_FI_DEV_POWER_INSTANT`
const POWER_INSTANT: c_uint = 186;

/// Bytes of a PCI bus id, and of a release.
const MOST_LETTERS: usize = 80;

impl Managed {
    /// GPU number `ordinal` of the CUDA driver. The answer is kept for the process: to open the library takes tens of milliseconds.
    ///
    /// # Errors
    /// Why nothing is known of it: there is no management library, or it does not know the GPU or refuses.
    pub fn of(ordinal: usize) -> Result<Arc<Managed>, Lack> {
        type Answer = Result<Arc<Managed>, Lack>;
        static KNOWN: Mutex<BTreeMap<usize, Answer>> = Mutex::new(BTreeMap::new());
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let managed = known
            .entry(ordinal)
            .or_insert_with(|| Managed::open(ordinal).map(Arc::new));
        managed.clone()
    }

    fn open(ordinal: usize) -> Result<Managed, Lack> {
        let bus = bus_id(ordinal).ok_or(Lack::BusId)?;
        let functions = Functions::load().map_err(Lack::Library)?;
        let init = functions.init.ok_or(Lack::Symbol("nvmlInit_v2"))?;
        let name = "nvmlDeviceGetHandleByPciBusId_v2";
        let by_bus = functions.by_bus.ok_or(Lack::Symbol(name))?;
        // SAFETY: it has no parameters.
        check("nvmlInit_v2", unsafe { init() })?;
        let mut device = std::ptr::null_mut();
        // SAFETY: the name ends with a zero, and one pointer is written.
        check(name, unsafe { by_bus(bus.as_ptr(), &raw mut device) })?;
        let watts = number(|milliwatts| {
            // SAFETY: writes one number; the device is one that the library gave.
            Some(unsafe { functions.power_limit?(device, milliwatts) })
        });
        Ok(Managed {
            driver: release(&functions),
            power_limit_watts: watts.map(|milliwatts| milliwatts / 1000),
            functions,
            device,
        })
    }

    /// The clock of its multiprocessors now, MHz.
    pub fn clock_mhz(&self) -> Option<u32> {
        self.clock(SM_CLOCK)
    }

    /// All that it says of this moment.
    pub fn moment(&self) -> Moment {
        Moment {
            sm_mhz: self.clock(SM_CLOCK),
            memory_mhz: self.clock(MEMORY_CLOCK),
            milliwatts: self.milliwatts(),
            celsius: number(|celsius| {
                // SAFETY: writes one number; the device is one that the library gave.
                Some(unsafe { self.functions.temperature?(self.device, GPU_TEMPERATURE, celsius) })
            }),
            reasons: self.reasons(),
        }
    }

    fn clock(&self, kind: c_uint) -> Option<u32> {
        // SAFETY: writes one number; the device is one that the library gave.
        number(|mhz| Some(unsafe { self.functions.clock?(self.device, kind, mhz) }))
    }

    fn milliwatts(&self) -> Option<u32> {
        let instant = || {
            let mut field = FieldValue::of(POWER_INSTANT);
            // SAFETY: writes one structure; the device is one that the library gave.
            let code = unsafe { self.functions.fields?(self.device, 1, &raw mut field) };
            // An unsigned integer is in the lower half of the union.
            (code == SUCCESS && field.code == SUCCESS).then_some(field.value as u32)
        };
        instant().or_else(|| {
            // SAFETY: writes one number.
            number(|milliwatts| Some(unsafe { self.functions.power?(self.device, milliwatts) }))
        })
    }

    fn reasons(&self) -> Option<Reasons> {
        let mut bits = 0;
        // SAFETY: writes one number; the device is one that the library gave.
        let code = unsafe { self.functions.throttle_reasons?(self.device, &raw mut bits) };
        (code == SUCCESS).then_some(Reasons(bits))
    }
}

impl std::fmt::Debug for Managed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Managed {
            driver,
            power_limit_watts,
            ..
        } = self;
        write!(f, "Managed(driver {driver:?}, {power_limit_watts:?} W)")
    }
}

/// The number that a call writes; none where there is no such function, or it does not say.
fn number(call: impl FnOnce(*mut c_uint) -> Option<c_int>) -> Option<u32> {
    let mut number = 0;
    (call(&raw mut number)? == SUCCESS).then_some(number)
}

fn check(call: &'static str, code: c_int) -> Result<(), Lack> {
    match code {
        SUCCESS => Ok(()),
        code => Err(Lack::Refused { call, code }),
    }
}

/// The release of the driver.
fn release(functions: &Functions) -> Option<String> {
    let mut release = [0; MOST_LETTERS];
    // SAFETY: the length is that of what the pointer points to.
    let code = unsafe { functions.driver_version?(release.as_mut_ptr(), MOST_LETTERS as c_uint) };
    (code == SUCCESS).then_some(())?;
    text(&release)
}

/// Where the GPU is: the one name that the driver and the management library share.
fn bus_id(ordinal: usize) -> Option<[c_char; MOST_LETTERS]> {
    let driver = Driver::get().ok()?;
    let device = driver.launcher.device(ordinal).ok()?;
    let mut bus = [0; MOST_LETTERS];
    // SAFETY: the length is that of what the pointer points to.
    let code =
        unsafe { (driver.cuDeviceGetPCIBusId)(bus.as_mut_ptr(), MOST_LETTERS as c_int, device) };
    (code == 0).then_some(bus)
}

fn text(letters: &[c_char]) -> Option<String> {
    let bytes: Vec<u8> = letters.iter().map(|letter| *letter as u8).collect();
    let text = CStr::from_bytes_until_nul(&bytes).ok()?;
    Some(text.to_str().ok()?.to_string())
}
