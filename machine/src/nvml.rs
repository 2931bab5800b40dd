//! What NVIDIA's management library says of a GPU: its power limit, its driver and its clock at the moment.

#![allow(unsafe_code, reason = "foreign functions of NVML and of the driver")]

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

use libloading::Library;

/// A GPU as the management library knows it.
#[derive(Debug)]
pub struct Managed {
    library: Library,
    device: *mut c_void,
    /// The driver's release, such as `580.159.04`.
    pub driver: String,
    /// The power that the GPU may take, watts.
    pub power_limit_watts: u32,
}

/// The library's and the driver's way to say that all is well.
const SUCCESS: c_int = 0;

/// `NVML_CLOCK_SM`
const SM_CLOCK: c_uint = 1;

/// Bytes of a PCI bus id, and of a release.
const MOST_LETTERS: usize = 80;

type Init = unsafe extern "C" fn() -> c_int;
type TextOf = unsafe extern "C" fn(*mut c_char, c_uint) -> c_int;
type ByBus = unsafe extern "C" fn(*const c_char, *mut *mut c_void) -> c_int;
type NumberOf = unsafe extern "C" fn(*mut c_void, *mut c_uint) -> c_int;
type ClockOf = unsafe extern "C" fn(*mut c_void, c_uint, *mut c_uint) -> c_int;
type BusOf = unsafe extern "C" fn(*mut c_char, c_int, c_int) -> c_int;

impl Managed {
    /// GPU number `ordinal` of the CUDA driver, which a context has been opened on; none where there is no management library, or it does not say.
    pub fn open(ordinal: usize) -> Option<Managed> {
        let bus = bus_id(ordinal)?;
        // SAFETY: the library of the driver, whose initializers do nothing but set up itself.
        let library = unsafe { Library::new("libnvidia-ml.so.1") }.ok()?;
        let mut device = std::ptr::null_mut();
        let mut milliwatts = 0;
        let mut release = [0; MOST_LETTERS];
        // SAFETY: the signatures are those of nvml.h; all pointers outlive the calls, and lengths are those of what they point to.
        unsafe {
            let init = library.get::<Init>(b"nvmlInit_v2\0").ok()?;
            let by_bus = library
                .get::<ByBus>(b"nvmlDeviceGetHandleByPciBusId_v2\0")
                .ok()?;
            let limit = library
                .get::<NumberOf>(b"nvmlDeviceGetEnforcedPowerLimit\0")
                .ok()?;
            let driver = library
                .get::<TextOf>(b"nvmlSystemGetDriverVersion\0")
                .ok()?;
            let length = MOST_LETTERS as c_uint;
            let is_known = init() == SUCCESS
                && by_bus(bus.as_ptr(), &raw mut device) == SUCCESS
                && limit(device, &raw mut milliwatts) == SUCCESS
                && driver(release.as_mut_ptr(), length) == SUCCESS;
            is_known.then_some(())?;
        }
        Some(Managed {
            library,
            device,
            driver: text(&release)?,
            power_limit_watts: milliwatts / 1000,
        })
    }

    /// The clock of its multiprocessors now, MHz.
    pub fn clock_mhz(&self) -> Option<u32> {
        let mut mhz = 0;
        // SAFETY: as above; the device is one that the library gave.
        let code = unsafe {
            let clock = self
                .library
                .get::<ClockOf>(b"nvmlDeviceGetClockInfo\0")
                .ok()?;
            clock(self.device, SM_CLOCK, &raw mut mhz)
        };
        (code == SUCCESS).then_some(mhz)
    }
}

/// Where the GPU is: the one name that the driver and the management library share.
fn bus_id(ordinal: usize) -> Option<[c_char; MOST_LETTERS]> {
    let ordinal = c_int::try_from(ordinal).ok()?;
    let mut bus = [0; MOST_LETTERS];
    // SAFETY: the driver is loaded already, so that nothing is initialized; the signature is that of cuda.h, and devices are their ordinals.
    let code = unsafe {
        let driver = Library::new("libcuda.so.1").ok()?;
        let bus_of = driver.get::<BusOf>(b"cuDeviceGetPCIBusId\0").ok()?;
        bus_of(bus.as_mut_ptr(), MOST_LETTERS as c_int, ordinal)
    };
    (code == SUCCESS).then_some(bus)
}

fn text(letters: &[c_char]) -> Option<String> {
    let bytes: Vec<u8> = letters.iter().map(|letter| *letter as u8).collect();
    let text = CStr::from_bytes_until_nul(&bytes).ok()?;
    Some(text.to_str().ok()?.to_string())
}
