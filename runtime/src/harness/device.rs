//! What kernels run on, and how that is said.

use serde_json::json;

use super::Exit;
use super::request::DeviceChoice;
use super::speak::Speaker;
use crate::device::Device;
use crate::report::Remark;

/// The chosen device.
///
/// # Errors
/// No GPU that can be used where one was requested.
///
/// A seed is an order of warps, which only the emulator knows.
pub(super) fn open(
    choice: DeviceChoice,
    seed: Option<u64>,
    speaker: &Speaker,
) -> Result<Device, Exit> {
    match (choice, seed) {
        (DeviceChoice::Cuda, Some(seed)) => {
            let text = format!("a GPU schedules warps itself; there is no seed {seed}");
            let help = "use `--device emulator`, which schedules them by the seed";
            speaker.failure(&Remark::error(text).with_help(help));
            Err(Exit::Usage)
        }
        (_, Some(seed)) => Ok(Device::emulator_with_seed(seed)),
        (DeviceChoice::Auto, None) => Ok(Device::auto()),
        (DeviceChoice::Emulator, None) => Ok(Device::emulator()),
        (DeviceChoice::Cuda, None) => Device::cuda(0).map_err(|error| speaker.error("", &error)),
    }
}

/// The first line of a run: on what, and why not on a GPU.
pub(super) fn introduce(device: &Device, seed: Option<u64>, speaker: &Speaker) {
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
        let reason = why.as_ref().map_or("as asked", |why| why.as_str());
        format!(
            "device: emulator on {} CPU threads{order} ({reason})\n",
            facts.multiprocessors
        )
    };
    speaker.tell(&text, || {
        json!({
            "reason": "tilekit-device", "device": short_name(device), "name": facts.name,
            "multiprocessors": facts.multiprocessors, "why_emulator": why, "seed": seed,
        })
    });
}

/// The device in a word: `emulator`, or the GPU without its maker.
pub(super) fn short_name(device: &Device) -> String {
    let name = &device.facts().name;
    name.strip_prefix("NVIDIA ").unwrap_or(name).to_string()
}
