//! What a launch of an entry is bound to, beside its parameters.

use target::Target;

use super::grid::Grid;
use crate::error::{Error, Result};

/// What a launch of an entry is bound to, beside its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryShape {
    /// The entry's name in the module.
    pub name: String,
    /// Threads in x, y and z of a CTA.
    pub threads: [u32; 3],
    /// CTAs of a cluster in x, y and z; all 1 for no cluster.
    pub cluster: [u32; 3],
    /// Dynamic shared memory per CTA, bytes.
    pub shared_bytes: u32,
    /// Whether it may start before the kernel in front of it has ended (programmatic dependent launch).
    pub overlaps_previous: bool,
    /// Whether its CTAs wait for one another, so that a launch must have no more than the device holds at a time (cooperative launch).
    pub is_cooperative: bool,
    /// How many parameters it has, where the asking side knows: the driver is then not asked past the last one, which tools that
    /// watch its calls report as an error.
    pub parameters: Option<usize>,
}

impl EntryShape {
    pub(crate) fn check_cluster(&self, target: &'static Target) -> Result<()> {
        let ctas = self
            .cluster
            .iter()
            .fold(1u32, |ctas, &count| ctas.saturating_mul(count));
        if (1..=target.cluster.ctas).contains(&ctas) {
            return Ok(());
        }
        Err(Error::ClusterTooLarge {
            kernel: self.name.clone(),
            cluster: self.cluster,
            target,
        })
    }

    pub(crate) fn check_grid(&self, grid: Grid, target: &Target) -> Result<()> {
        let counts = grid.check(&self.name, target)?;
        for (at, axis) in ["x", "y", "z"].into_iter().enumerate() {
            let (count, cluster) = (counts[at], self.cluster[at]);
            if !count.is_multiple_of(cluster) {
                return Err(Error::ClusterGrid {
                    kernel: self.name.clone(),
                    axis,
                    count,
                    cluster,
                });
            }
        }
        Ok(())
    }
}
