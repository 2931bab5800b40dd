//! A kernel in program order.

use cranelift_entity::SecondaryMap;

use super::Func;
use crate::entity::{Inst, Region, Value};

impl Func {
    /// Every instruction of the body in program order, outer before inner, with the regions inside.
    pub fn walk(&self) -> Vec<Inst> {
        let mut out = Vec::with_capacity(self.insts.len());
        self.walk_region(self.body, &mut out);
        out
    }

    /// The same for one region.
    pub fn walk_region(&self, region: Region, out: &mut Vec<Inst>) {
        for &inst in &self.regions[region].insts {
            out.push(inst);
            let rules = self.op(inst).rules();
            rules.visit_regions(&mut |inner| self.walk_region(inner, out));
        }
    }

    /// How often each value is used by the instructions of the body.
    pub fn use_counts(&self) -> SecondaryMap<Value, u32> {
        let mut counts = SecondaryMap::with_capacity(self.values.len());
        for inst in self.walk() {
            self.op(inst).rules().visit(&mut |v| counts[v] += 1);
        }
        counts
    }
}
