//! What a variant costs, in the quantities that can be limited.

use protocol::config::Quantity;
use ptx::Stats;

use crate::error::{Error, Result};
use crate::harness::artifact::Waste;
use crate::harness::catalog::Variant;
use crate::kernel::Compiled;
use crate::ptxas::EntryReport;
use crate::toolchain::{Image, Toolchain};

/// The costs of a variant.
pub(super) struct Costs {
    shared_bytes: u32,
    waste: Waste,
    stats: Stats,
    /// None where there is no ptxas.
    report: Option<EntryReport>,
}

impl Costs {
    /// Measures a variant.
    ///
    /// # Errors
    /// What is wrong with the kernel, or what ptxas has against its code: a serialized `wgmma` too.
    pub(super) fn of(
        variant: &Variant,
        compiled: &Compiled,
        toolchain: &Toolchain,
    ) -> Result<Costs> {
        let traced = variant.instance.trace();
        let waste = traced.and_then(|traced| Waste::of(&traced.func));
        Ok(Costs {
            shared_bytes: compiled.info().shared_bytes,
            waste: waste.map_err(Error::Kernel)?,
            stats: Stats::of_module(compiled.module()),
            report: report(compiled, toolchain)?,
        })
    }

    /// How much it is; none where only ptxas could say it, and there is none.
    pub(super) fn get(&self, quantity: &Quantity) -> Option<u64> {
        let of_ptxas = |number: fn(&EntryReport) -> u32| self.report.as_ref().map(number);
        let number = match quantity {
            Quantity::Registers => of_ptxas(|report| report.registers)?,
            Quantity::SpillStoreBytes => of_ptxas(|report| report.spill_store_bytes)?,
            Quantity::SpillLoadBytes => of_ptxas(|report| report.spill_load_bytes)?,
            Quantity::StackBytes => of_ptxas(|report| report.stack_bytes)?,
            Quantity::SharedBytes => {
                self.shared_bytes + of_ptxas(|report| report.shared_bytes).unwrap_or(0)
            }
            Quantity::BankConflicts => self.waste.bank_conflicts,
            Quantity::ExcessSectors => self.waste.excess_sectors,
            Quantity::Instructions => self.stats.instructions(),
            Quantity::Kind(kind) => self.stats.count_of_family(kind),
        };
        Some(number.into())
    }
}

fn report(compiled: &Compiled, toolchain: &Toolchain) -> Result<Option<EntryReport>> {
    compiled.check_assembly()?;
    if !toolchain.assembles() {
        return Ok(None);
    }
    let Image::Cubin { assembled, .. } = toolchain.assemble(compiled.ptx())? else {
        unreachable!("assembling gives a cubin or fails")
    };
    Ok(assembled.report.entry(&compiled.info().entry).cloned())
}
