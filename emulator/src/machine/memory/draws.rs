//! Atomics by which a cluster draws a number from a counter, where time is modelled.

use crate::machine::state::draws::Share;
use crate::machine::state::scene::{Scene, Worker};
use crate::program::{Atomic, AtomicOp};
use ptx::Type;

impl Atomic {
    /// May it be a draw: does it add to an integer, and give what was there?
    pub(crate) fn may_draw(&self) -> bool {
        let is_integer = matches!(self.ty, Type::U32 | Type::S32 | Type::U64 | Type::S64);
        self.op == AtomicOp::Add && is_integer && matches!(self.dsts[..], [Some(_)])
    }
}

impl Worker<'_> {
    /// What is drawn, if one thread draws from a counter by adding `step`.
    pub(crate) fn draw(
        &self,
        scene: &mut Scene<'_>,
        atomic: &Atomic,
        (address, step): (u64, u64),
    ) -> Option<Share> {
        let context = self.context;
        let is_timed = context.timing.is_some() && !context.waits_for_others();
        let is_one = scene.mask.is_power_of_two() && step != 0;
        if !is_timed || !is_one || !atomic.may_draw() {
            return None;
        }
        let (draw, now, cluster) = ((address, step), scene.warp.time.now, &mut *scene.cluster);
        let of = context.stands_for().unwrap_or((1, 1));
        let share = cluster.draws.share(draw, cluster.index, of);
        cluster.draws.note(draw, now);
        Some(share)
    }
}
