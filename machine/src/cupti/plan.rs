//! What is counted, and in how many passes.

#![allow(unsafe_code, reason = "foreign functions of CUPTI")]

use std::ffi::{CStr, CString, c_char};

use super::parameters::{
    AddMetrics, Availability, ChipName, ConfigImage, ConfigSize, Evaluate, HostDeinitialize,
    HostInitialize, HostObject, Nothing, PassCount,
};
use super::{Cupti, Failure};
use crate::driver::Context;

/// `CUPTI_PROFILER_TYPE_RANGE_PROFILER`
const RANGE_PROFILER: i32 = 0;

/// What is counted on one GPU.
pub struct Plan {
    pub(super) cupti: &'static Cupti,
    host: Host,
    /// After what it was needed for.
    _initialized: Option<Initialized>,
    pub(super) names: Vec<CString>,
    pub(super) config: Vec<u8>,
    /// How often everything is launched to count all of it.
    pub passes: usize,
    /// Metrics that this GPU does not have.
    pub missing: Vec<String>,
}

impl Plan {
    /// To count these metrics on the GPU of this context.
    ///
    /// # Errors
    /// A refusal of CUPTI: above all that this user may not read counters.
    pub fn new(
        cupti: &'static Cupti,
        context: &Context,
        metrics: &[String],
    ) -> Result<Plan, Failure> {
        let initialized = Initialized::new(cupti)?;
        let chip = chip(cupti, context.ordinal())?;
        let availability = availability(cupti, context)?;
        let plan = Plan::of_chip(cupti, &chip, Some(&availability), metrics)?;
        Ok(Plan {
            _initialized: Some(initialized),
            ..plan
        })
    }

    /// The same for a chip that need not be there, whose counters are all available then.
    pub(super) fn of_chip(
        cupti: &'static Cupti,
        chip: &CStr,
        availability: Option<&[u8]>,
        metrics: &[String],
    ) -> Result<Plan, Failure> {
        let names = metrics
            .iter()
            .map(|name| CString::new(name.as_str()).expect("names of metrics have no zeros"));
        // What cannot be scheduled is left out one by one: names change with chips.
        let probe = Host::new(cupti, chip, availability)?;
        let (mut known, mut missing) = (Vec::new(), Vec::new());
        for name in names {
            match probe.add(&[&name]) {
                Ok(()) => known.push(name),
                Err(failure) if failure.is_unknown_metric() => {
                    missing.push(name.to_string_lossy().into_owned());
                }
                Err(failure) => return Err(failure),
            }
        }
        let host = Host::new(cupti, chip, availability)?;
        host.add(&known.iter().map(CString::as_c_str).collect::<Vec<_>>())?;
        let config = host.config()?;
        let mut passes = PassCount::new();
        passes.config_bytes = config.len();
        passes.config = config.as_ptr();
        // SAFETY: the image outlives the call.
        unsafe { cupti.call(&cupti.functions.passes, &mut passes) }?;
        Ok(Plan {
            cupti,
            host,
            _initialized: None,
            names: known,
            config,
            passes: passes.passes,
            missing,
        })
    }

    /// What is counted, in the order of values.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let text = "it was made of text";
        self.names
            .iter()
            .map(move |name| name.to_str().expect(text))
    }

    /// The values of a range in this image.
    pub(super) fn evaluate(&self, image: &[u8], range: usize) -> Result<Vec<f64>, Failure> {
        let names = pointers(&self.names);
        let mut values = vec![f64::NAN; names.len()];
        let mut evaluate = Evaluate::new();
        evaluate.object = self.host.object;
        (evaluate.image, evaluate.image_bytes) = (image.as_ptr(), image.len());
        evaluate.range = range;
        (evaluate.names, evaluate.count) = (names.as_ptr(), names.len());
        evaluate.values = values.as_mut_ptr();
        // SAFETY: all pointers outlive the call, with the lengths that are said.
        unsafe {
            self.cupti
                .call(&self.cupti.functions.evaluate, &mut evaluate)
        }?;
        Ok(values)
    }
}

pub(super) fn pointers(names: &[CString]) -> Vec<*const c_char> {
    names.iter().map(|name| name.as_ptr()).collect()
}

/// CUPTI's name of the chip, such as `GH100`.
fn chip(cupti: &Cupti, ordinal: usize) -> Result<CString, Failure> {
    let mut chip = ChipName::new();
    chip.ordinal = ordinal;
    // SAFETY: writes a pointer to a text of CUPTI's.
    unsafe { cupti.call(&cupti.functions.chip_name, &mut chip) }?;
    // SAFETY: it is a text that ends with a zero.
    Ok(unsafe { CStr::from_ptr(chip.name) }.to_owned())
}

/// Which counters can be read; the first call that says that this user may not.
fn availability(cupti: &Cupti, context: &Context) -> Result<Vec<u8>, Failure> {
    let mut availability = Availability::new();
    availability.context = context.handle();
    // SAFETY: without an image it writes its size.
    unsafe { cupti.call(&cupti.functions.counter_availability, &mut availability) }?;
    let mut image = vec![0; availability.image_bytes];
    availability.image = image.as_mut_ptr();
    // SAFETY: the image has the size that was asked for, and outlives the call.
    unsafe { cupti.call(&cupti.functions.counter_availability, &mut availability) }?;
    image.truncate(availability.image_bytes);
    Ok(image)
}

/// CUPTI's profiling of this process, until it is dropped.
struct Initialized(&'static Cupti);

impl Initialized {
    fn new(cupti: &'static Cupti) -> Result<Initialized, Failure> {
        // SAFETY: it has no parameters.
        unsafe { cupti.call(&cupti.functions.initialize, &mut Nothing::new()) }?;
        Ok(Initialized(cupti))
    }
}

impl Drop for Initialized {
    fn drop(&mut self) {
        // A failure leaves it to the end of the process.
        // SAFETY: it has no parameters, and is initialized.
        let _ = unsafe {
            self.0
                .call(&self.0.functions.deinitialize, &mut Nothing::new())
        };
    }
}

/// CUPTI's side of a plan on the host.
struct Host {
    cupti: &'static Cupti,
    object: HostObject,
    /// Read for as long as the object lives.
    _availability: Option<Vec<u8>>,
}

impl Host {
    fn new(
        cupti: &'static Cupti,
        chip: &CStr,
        availability: Option<&[u8]>,
    ) -> Result<Host, Failure> {
        let availability = availability.map(<[u8]>::to_vec);
        let mut initialize = HostInitialize::new();
        initialize.kind = RANGE_PROFILER;
        initialize.chip = chip.as_ptr();
        initialize.availability = availability.as_ref().map_or(std::ptr::null(), Vec::as_ptr);
        // SAFETY: the name outlives the call, and the image the object.
        unsafe { cupti.call(&cupti.functions.host_initialize, &mut initialize) }?;
        Ok(Host {
            cupti,
            object: initialize.object,
            _availability: availability,
        })
    }

    fn add(&self, names: &[&CStr]) -> Result<(), Failure> {
        let names: Vec<*const c_char> = names.iter().map(|name| name.as_ptr()).collect();
        let mut add = AddMetrics::new();
        add.object = self.object;
        (add.names, add.count) = (names.as_ptr(), names.len());
        // SAFETY: all pointers outlive the call.
        unsafe { self.cupti.call(&self.cupti.functions.add_metrics, &mut add) }
    }

    fn config(&self) -> Result<Vec<u8>, Failure> {
        let mut size = ConfigSize::new();
        size.object = self.object;
        // SAFETY: writes one number.
        unsafe {
            self.cupti
                .call(&self.cupti.functions.config_size, &mut size)
        }?;
        let mut config = vec![0; size.config_bytes];
        let mut image = ConfigImage::new();
        image.object = self.object;
        (image.config_bytes, image.config) = (config.len(), config.as_mut_ptr());
        // SAFETY: the image has the size that was asked for.
        unsafe {
            self.cupti
                .call(&self.cupti.functions.config_image, &mut image)
        }?;
        Ok(config)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let mut deinitialize = HostDeinitialize::new();
        deinitialize.object = self.object;
        // A failure leaves memory of the host behind.
        // SAFETY: initialized once, and ended once here.
        let _ = unsafe {
            self.cupti
                .call(&self.cupti.functions.host_deinitialize, &mut deinitialize)
        };
    }
}

#[cfg(test)]
mod tests {
    use super::super::{METRICS, STALLS, stall_metric};
    use super::*;
    use crate::driver::Driver;

    /// The library can plan for a chip that is not there.
    #[test]
    fn every_metric_is_one_of_gh100_and_few_passes_take_all() {
        let Ok(cupti) = Cupti::get() else {
            eprintln!("skipped: no CUPTI");
            return;
        };
        let counters = METRICS.iter().map(|metric| metric.name.to_string());
        let stalls = STALLS.iter().map(|(reason, _)| stall_metric(reason));
        let mut names: Vec<String> = counters.chain(stalls).collect();
        names.push("sm__no_such_metric.sum".to_string());
        let plan = match Plan::of_chip(cupti, c"GH100", None, &names) {
            Err(failure) if failure.code == 999 && Driver::get().is_err() => {
                eprintln!("skipped: this CUPTI plans nothing without a driver");
                return;
            }
            plan => plan.expect("a plan"),
        };
        assert_eq!(plan.missing, ["sm__no_such_metric.sum"]);
        assert_eq!(plan.names().count(), METRICS.len() + STALLS.len());
        assert!((1..=12).contains(&plan.passes), "{} passes", plan.passes);
    }
}
