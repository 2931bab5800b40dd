//! What kernels run on, and how that is said.

use serde_json::json;

use super::Exit;
use super::request::{Checking, DeviceChoice};
use super::speak::Speaker;
use crate::device::Device;
use crate::emulated::{Checks, EmulatorOptions};
use crate::report::Remark;

/// What is asked of the emulator, which is then the device.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Emulation {
    /// The order of warps and asynchronous work.
    pub(super) seed: Option<u64>,
    pub(super) checking: Checking,
    /// Time is modelled, and nothing is checked that takes time.
    pub(super) is_timed: bool,
    /// A few CTAs stand for all of a launch on an H200, whose time is modelled.
    pub(super) is_modelling: bool,
}

/// Clusters that stand for all of a launch.
const REPRESENTATIVES: u32 = 6;

impl Emulation {
    fn is_asked(self) -> bool {
        self.seed.is_some() || self.checking != Checking::default()
    }

    pub(super) fn options(self) -> EmulatorOptions {
        let usual = EmulatorOptions::default();
        let is_timed = self.is_timed || self.is_modelling;
        EmulatorOptions {
            seed: self.seed.unwrap_or(usual.seed),
            checks: Checks {
                global: !self.checking.no_global && !is_timed,
                races: !is_timed,
                strict: self.checking.strict,
                // What CTAs that did not run would have stored is not there.
                uninitialised: !self.is_modelling,
                ..usual.checks
            },
            is_timed,
            most_clusters: self.is_modelling.then_some(REPRESENTATIVES),
            ..usual
        }
    }

    /// Why a GPU cannot do so, and what can.
    fn refusal(self) -> Remark {
        if let Some(seed) = self.seed {
            let text = format!("a GPU schedules warps itself; there is no seed {seed}");
            return Remark::error(text)
                .with_help("use `--device emulator`, which schedules them by the seed");
        }
        if self.checking.strict {
            let text = "a GPU does not check the order of accesses; there is nothing that `--strict` could report";
            return Remark::error(text).with_help("use `--device emulator`, which checks it");
        }
        let text = "a GPU does not watch global memory; there is nothing that `--no-global` could switch off";
        Remark::error(text).with_help("leave out `--no-global`, or `--device cuda`")
    }
}

/// The chosen device.
///
/// # Errors
/// No GPU that can be used where one was requested, or a GPU where the emulator was asked for something.
pub(super) fn open(
    choice: DeviceChoice,
    emulation: Emulation,
    speaker: &Speaker,
) -> Result<Device, Exit> {
    match choice {
        DeviceChoice::Cuda if emulation.is_asked() => {
            speaker.failure(&emulation.refusal());
            Err(Exit::Usage)
        }
        DeviceChoice::Cuda => Device::cuda(0).map_err(|error| speaker.error("", &error)),
        DeviceChoice::Auto if !emulation.is_asked() => Ok(Device::auto_with(emulation.options())),
        DeviceChoice::Auto | DeviceChoice::Emulator => {
            Ok(Device::emulator_with(emulation.options()))
        }
    }
}

/// The first line of a run: on what, and why not on a GPU.
pub(super) fn introduce(device: &Device, emulation: Emulation, speaker: &Speaker) {
    let Emulation { seed, checking, .. } = emulation;
    let facts = device.facts();
    let why = device.why_emulator().map(|error| {
        let text = error.to_string();
        // What could be done about it is for `doctor` to say.
        text.split("; ").next().unwrap_or(&text).to_string()
    });
    let text = if device.is_cuda() {
        let driver = facts.driver_text().unwrap_or_default();
        format!(
            "device: {} ({} SMs, CUDA {driver})\n",
            facts.name, facts.multiprocessors
        )
    } else {
        let order = seed.map_or(String::new(), |seed| format!(", seed {seed}"));
        let watch = if checking.no_global {
            ", global memory not watched"
        } else {
            ""
        };
        let strict = if checking.strict { ", strict" } else { "" };
        let reason = why.as_ref().map_or("as asked", |why| why.as_str());
        let what = if device.is_modelling() {
            format!(
                "emulator, modelling the {} SMs of an H200",
                facts.multiprocessors
            )
        } else {
            format!("emulator on {} CPU threads", facts.multiprocessors)
        };
        format!("device: {what}{order}{watch}{strict} ({reason})\n")
    };
    speaker.tell(&text, || {
        json!({
            "reason": "tilekit-device", "device": short_name(device), "name": facts.name,
            "multiprocessors": facts.multiprocessors, "why_emulator": why, "seed": seed,
            "watches_global": !device.is_cuda() && !device.is_modelling() && !checking.no_global,
            "is_modelling": device.is_modelling(),
            "is_strict": checking.strict,
        })
    });
}

/// The device in a word: `emulator`, or the GPU without its maker.
pub(super) fn short_name(device: &Device) -> String {
    let name = &device.facts().name;
    name.strip_prefix("NVIDIA ").unwrap_or(name).to_string()
}
