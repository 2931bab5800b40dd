//! What `cargo tilekit tune --export` writes, for programs that choose by it.

use std::collections::BTreeMap;
use std::fmt;

use machine::nvml::Managed;
use serde::{Deserialize, Serialize};

use crate::device::Device;
use crate::error::{Error, Result};

/// What times depend on beside the kernel and its sizes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Machine {
    /// The GPU's name, such as `NVIDIA H200`.
    pub gpu: String,
    /// How many multiprocessors it has.
    pub multiprocessors: u32,
    /// The power that it may take, watts; none where the management library does not say.
    pub power_limit_watts: Option<u32>,
    /// The release of the driver, or the newest CUDA that it supports; empty for the emulator.
    pub driver: String,
}

impl Machine {
    /// GPU number `ordinal`, which is open as `device`; or the emulator.
    pub(crate) fn of(device: &Device, ordinal: usize) -> Machine {
        let facts = device.facts();
        if !device.is_cuda() {
            // What is checked there does not depend on the CPU.
            return Machine {
                gpu: "emulator".to_string(),
                multiprocessors: 0,
                power_limit_watts: None,
                driver: String::new(),
            };
        }
        let managed = Managed::of(ordinal).ok();
        let driver = managed.as_ref().and_then(|managed| managed.driver.clone());
        Machine {
            gpu: facts.name.clone(),
            multiprocessors: facts.multiprocessors,
            power_limit_watts: managed.and_then(|managed| managed.power_limit_watts),
            driver: driver.or_else(|| facts.driver_text()).unwrap_or_default(),
        }
    }
}

impl fmt::Display for Machine {
    /// Such as `NVIDIA H200 (132 SMs, 700 W, driver 580.159.04)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.multiprocessors == 0 {
            return write!(f, "{}", self.gpu);
        }
        write!(f, "{} ({} SMs", self.gpu, self.multiprocessors)?;
        if let Some(watts) = self.power_limit_watts {
            write!(f, ", {watts} W")?;
        }
        write!(f, ", driver {})", self.driver)
    }
}

/// The fastest candidate of one run of a case, as `tune` found it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tuned {
    /// The case with its module, such as `mine::sums::row_sum`.
    pub case: String,
    /// Its sizes.
    pub sizes: BTreeMap<String, usize>,
    /// The candidate's name: its text.
    pub candidate: String,
    /// Where.
    pub machine: Machine,
    /// What was compiled: a digest of the PTX and the grids of its launches.
    pub digest: String,
    /// Median of single launches, microseconds.
    pub single_us: f64,
    /// Median of launches back to back, microseconds.
    pub back_to_back_us: f64,
    /// What the case's model says.
    pub predicted_us: Option<f64>,
    /// How many candidates were timed.
    pub timed: usize,
}

impl Tuned {
    /// Reads what `cargo tilekit tune --export` wrote, or several such files one after the other: an object a line.
    ///
    /// ```
    /// # fn main() -> tilekit::Result<()> {
    /// let text = r#"{"case":"mine::sum","sizes":{"n":4096},"candidate":"block=256","machine":{"gpu":"NVIDIA H200","multiprocessors":132,
    /// "power_limit_watts":700,"driver":"580.159.04"},"digest":"0a","single_us":4.1,"back_to_back_us":2.2,"predicted_us":null,"timed":6}"#;
    /// let tuned = tilekit::Tuned::read(&text.replace('\n', ""))?;
    /// assert_eq!((tuned[0].sizes["n"], tuned[0].candidate.as_str()), (4096, "block=256"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::BadRecord`] with the first line that is no such object.
    pub fn read(text: &str) -> Result<Vec<Tuned>> {
        let lines = text.lines().enumerate();
        let lines = lines.filter(|(_, line)| !line.trim().is_empty());
        let parse = |(at, line)| {
            serde_json::from_str(line).map_err(|error| Error::BadRecord {
                line: at + 1,
                why: error.to_string(),
            })
        };
        lines.map(parse).collect()
    }
}
