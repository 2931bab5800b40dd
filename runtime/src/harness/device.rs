//! What kernels run on, and how that is said.

use serde_json::json;

use super::Exit;
use super::request::DeviceChoice;
use super::speak::Speaker;
use crate::device::Device;

/// The chosen device.
///
/// # Errors
/// No GPU that can be used where one was requested.
pub(super) fn open(choice: DeviceChoice, speaker: &Speaker) -> Result<Device, Exit> {
    match choice {
        DeviceChoice::Auto => Ok(Device::auto()),
        DeviceChoice::Emulator => Ok(Device::emulator()),
        DeviceChoice::Cuda => Device::cuda(0).map_err(|error| speaker.error("", &error)),
    }
}

/// The first line of a run: on what, and why not on a GPU.
pub(super) fn introduce(device: &Device, speaker: &Speaker) {
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
        let reason = why.as_ref().map_or("as asked", |why| why.as_str());
        format!(
            "device: emulator on {} CPU threads ({reason})\n",
            facts.multiprocessors
        )
    };
    speaker.tell(&text, || {
        json!({
            "reason": "tilekit-device", "device": short_name(device), "name": facts.name,
            "multiprocessors": facts.multiprocessors, "why_emulator": why,
        })
    });
}

/// The device in a word: `emulator`, or the GPU without its maker.
pub(super) fn short_name(device: &Device) -> String {
    let name = &device.facts().name;
    name.strip_prefix("NVIDIA ").unwrap_or(name).to_string()
}
