//! Register budgets (PTX ISA 9.7.19.5): warps give registers back and ask for more.

use super::matrix::check_whole_warp;
use super::run::{Flow, Scene, Stepped, Worker};
use super::warp::Wait;
use crate::fault::{FaultKind, Trouble};

/// Registers of a streaming multiprocessor, which a CTA with budgets has to itself.
const REGISTERS: u32 = 65_536;

/// Registers of a thread at entry: what the kernel says, or what the file holds for all threads, in steps of eight.
pub(crate) fn at_entry(threads: u32, max_registers: Option<u32>) -> u32 {
    let share = (REGISTERS / threads.next_multiple_of(32) / 8 * 8).min(255);
    max_registers.map_or(share, |said| said.next_multiple_of(8).min(share))
}

impl Worker<'_> {
    pub(crate) fn set_max_registers(
        &mut self,
        scene: &mut Scene<'_>,
        count: u32,
        increases: bool,
    ) -> Stepped<Flow> {
        check_whole_warp(scene)?;
        let old = scene.warp.registers;
        if increases && count < old || !increases && count > old {
            let verb = if increases { "inc" } else { "dec" };
            let message =
                format!("setmaxnreg.{verb} to {count}, but the warp has {old} registers a thread");
            return Err(Trouble::new(FaultKind::RegisterBudget, scene.mask, message));
        }
        let warps = &scene.cluster.ctas[scene.cta].warps;
        let others: u32 = warps.iter().map(|warp| warp.registers * 32).sum();
        // Nothing is handed around but what the launch took.
        let all = warps.len() as u32 * 32 * scene.warp.registers_at_entry;
        if increases && others + count * 32 > all {
            return Ok(Flow::Park(Wait::Registers));
        }
        scene.warp.registers = count;
        if !increases {
            for warp in &mut scene.cluster.ctas[scene.cta].warps {
                let waiting = warp
                    .paths
                    .iter_mut()
                    .filter(|path| path.wait == Wait::Registers);
                waiting.for_each(|path| path.wait = Wait::Ready);
            }
        }
        Ok(Flow::Next)
    }
}
