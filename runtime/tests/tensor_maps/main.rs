//! Tensor maps of the host's tensors, on every device of this machine.

mod arguments;
mod kept;
mod sequences;

use tilekit::prelude::*;

/// The emulator, and a GPU where there is one.
fn devices() -> Vec<Device> {
    [Some(Device::emulator()), Device::cuda(0).ok()]
        .into_iter()
        .flatten()
        .collect()
}
