//! Launches made ready: checked, and packed with each copy of the tensors.

use std::sync::Arc;

use crate::code::{Entry, PreparedLaunch};
use crate::error::Result;
use crate::kernel::{Compiled, Packing};
use crate::launch::{Grid, ParameterBlock};
use crate::trace::TraceBuffer;

/// Packs a launch's arguments, copying inputs to the device.
pub(super) type Pack<'a> = dyn Fn(&mut Packing<'_>) -> Result<()> + 'a;

/// A launch with each copy of the tensors.
pub(super) fn prepare(
    compiled: &Compiled,
    entry: &Arc<Entry>,
    grid: Grid,
    copies: usize,
    pack: &Pack<'_>,
) -> Result<Vec<PreparedLaunch>> {
    let info = compiled.info();
    let of_copy = |copy: usize| {
        let mut parameters = ParameterBlock::new();
        let packing = Packing::new(entry.device(), &info.entry, &info.params, &mut parameters);
        pack(&mut packing.with_copy(copy))?;
        compiled.check_promises(&mut parameters)?;
        let Some(table) = compiled.trace() else {
            return PreparedLaunch::new(entry, grid, parameters);
        };
        let buffer = TraceBuffer::new(entry.device(), table, grid.ctas())?;
        parameters.push_buffer(buffer.address(), buffer.bytes());
        let launch = PreparedLaunch::new(entry, grid, parameters)?;
        Ok(launch.tracing(Arc::new(buffer)))
    };
    (0..copies).map(of_copy).collect()
}
