//! The primary contexts of this process, found without a lock.

use std::sync::OnceLock;

use tilekit_launch::{Context, Error};

/// GPUs that are remembered; of others the driver is asked at each launch.
const DEVICES: usize = 64;

static CONTEXTS: [OnceLock<Context>; DEVICES] = [const { OnceLock::new() }; DEVICES];

/// The primary context of GPU number `device`, which torch, CuPy and JAX use.
pub(crate) fn primary(device: i32) -> Result<Context, Error> {
    let ordinal = usize::try_from(device).unwrap_or(usize::MAX);
    let Some(slot) = CONTEXTS.get(ordinal) else {
        return Context::primary(ordinal);
    };
    if let Some(context) = slot.get() {
        return Ok(*context);
    }
    let context = Context::primary(ordinal)?;
    Ok(*slot.get_or_init(|| context))
}
