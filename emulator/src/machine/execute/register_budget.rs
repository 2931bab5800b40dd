//! Register budgets (`setmaxnreg`, PTX ISA 9.7.19.5): warps release registers and request more.

use crate::fault::{FaultKind, Stepped, Trouble};
use crate::machine::state::scene::{Flow, Scene, Worker};
use crate::machine::state::warp::Wait;

impl Worker<'_> {
    pub(crate) fn set_max_registers(
        &mut self,
        scene: &mut Scene<'_>,
        count: u32,
        increases: bool,
    ) -> Stepped<Flow> {
        scene.check_whole_warp("setmaxnreg")?;
        let old = scene.warp.registers;
        if increases && count < old || !increases && count > old {
            let verb = if increases { "inc" } else { "dec" };
            let message =
                format!("setmaxnreg.{verb} to {count}, but the warp has {old} registers a thread");
            return Err(Trouble::new(FaultKind::RegisterBudget, scene.mask, message));
        }
        let warps = &scene.cluster.ctas[scene.cta].warps;
        let others: u32 = warps.iter().map(|warp| warp.registers * 32).sum();
        // Only registers that the launch allocated can move between warps.
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
