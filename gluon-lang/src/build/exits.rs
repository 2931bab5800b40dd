//! The regions that are left early, and where each exit goes to.

use std::collections::{HashMap, HashSet};

use ir::Func;
use ir::entity::{Inst, Region};

/// Where a region that is left early goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Leave {
    /// The end of this region.
    pub(crate) target: Region,
    /// It ends the loop that the target is the body of.
    pub(crate) stops: bool,
}

/// The regions that do not run to their end.
#[derive(Debug, Default)]
pub(crate) struct Exits {
    /// Those that end in an exit: a `yield` of what they hand to its target.
    pub(super) leave: HashMap<Region, Leave>,
    /// Those whose end nothing reaches, for every way through them leaves.
    pub(super) dead: HashSet<Region>,
}

impl Exits {
    /// The region ends in an exit.
    pub(crate) fn leave(&mut self, region: Region, leave: Leave) {
        self.leave.insert(region, leave);
    }

    /// Is no region left early?
    pub(crate) fn is_empty(&self) -> bool {
        self.leave.is_empty() && self.dead.is_empty()
    }

    /// The end of `from` is now that of `to`.
    pub(crate) fn move_end(&mut self, from: Region, to: Region) {
        if let Some(leave) = self.leave.remove(&from) {
            self.leave.insert(to, leave);
        }
        if self.dead.remove(&from) {
            self.dead.insert(to);
        }
    }

    /// Nothing reaches the end of the region.
    pub(crate) fn kill(&mut self, region: Region) {
        self.dead.insert(region);
    }

    /// Does code after this region run?
    pub(crate) fn falls_through(&self, region: Region) -> bool {
        !self.leave.contains_key(&region) && !self.dead.contains(&region)
    }

    /// Is a region inside this instruction left early?
    pub(crate) fn are_in(&self, func: &Func, inst: Inst) -> bool {
        let is_left = |region: Region| {
            let mut inner = func.region(region).insts.iter();
            self.leave.contains_key(&region) || inner.any(|inst| self.are_in(func, *inst))
        };
        func.op(inst).regions().into_iter().any(is_left)
    }

    /// The regions inside that leave to the end of `target`, and whether they end its loop.
    pub(crate) fn to(&self, func: &Func, target: Region) -> Vec<(Region, bool)> {
        let mut found = Vec::new();
        if !self.leave.is_empty() {
            self.collect(func, target, target, &mut found);
        }
        found
    }

    fn collect(
        &self,
        func: &Func,
        region: Region,
        target: Region,
        found: &mut Vec<(Region, bool)>,
    ) {
        for &inst in &func.region(region).insts {
            for inner in func.op(inst).regions() {
                self.collect(func, inner, target, found);
            }
        }
        if let Some(leave) = self.leave.get(&region)
            && leave.target == target
        {
            found.push((region, leave.stops));
        }
    }
}
