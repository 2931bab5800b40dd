//! Register budgets (PTX ISA 9.7.19.5): warps give registers back and ask for more.

use ptx::Directives;

use super::matrix::check_whole_warp;
use super::run::{Flow, Scene, Stepped, Worker};
use super::warp::Wait;
use crate::fault::{FaultKind, Trouble};

/// Registers of a streaming multiprocessor, which a CTA with budgets has to itself unless several must fit.
const REGISTERS: u32 = 65_536;

/// Registers of a thread at entry: what the file holds for all threads of the CTAs that must fit, or less where the kernel
/// says so, in steps of eight.
pub(crate) fn at_entry(threads: u32, directives: &Directives) -> u32 {
    let ctas = directives.minnctapersm.unwrap_or(1);
    let together = threads.next_multiple_of(32).saturating_mul(ctas).max(1);
    let share = (REGISTERS / together / 8 * 8).min(255);
    let cap = directives.maxnreg;
    cap.map_or(share, |said| said.next_multiple_of(8).min(share))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(threads: u32, minnctapersm: Option<u32>, maxnreg: Option<u32>, expected: u32) {
        let directives = Directives {
            minnctapersm,
            maxnreg,
            ..Directives::default()
        };
        assert_eq!(at_entry(threads, &directives), expected);
    }

    #[test]
    fn threads_start_with_what_ptxas_gives_them() {
        check(384, None, None, 168);
        check(128, None, None, 255);
        check(256, None, Some(40), 40);
        // Two CTAs that must fit leave each half of the file, whatever `.maxnreg` says.
        check(256, Some(2), Some(248), 128);
        check(256, Some(3), None, 80);
    }
}
