//! What a layout conversion costs.
//!
//! Matches on ops: it is about the op `convert_layout`.

use std::fmt;

use ir::Func;
use ir::entity::Inst;
use ir::ops::Op;
use layout::convert::{ConversionPlan, Cost, Scope};

use super::scratch::conversion;

/// What one conversion costs a warp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConversionCost {
    /// Instructions and barriers; all 0 where registers are renamed.
    pub work: Cost,
    /// The scope of its barriers, if it has any.
    pub scope: Option<Scope>,
    /// Bytes of shared memory of a CTA.
    pub shared_bytes: u32,
}

impl ConversionCost {
    /// What a plan costs.
    pub fn of(plan: &ConversionPlan) -> ConversionCost {
        ConversionCost {
            work: plan.cost(),
            scope: plan.scope(),
            shared_bytes: plan.scratch_bytes(),
        }
    }

    /// Does it take no instruction?
    pub fn is_free(&self) -> bool {
        self.work == Cost::default()
    }
}

impl fmt::Display for ConversionCost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cost {
            shuffles,
            selects,
            stores,
            loads,
            wavefronts,
            ..
        } = self.work;
        let barriers = self.work.warp_barriers + self.work.cta_barriers;
        let who = match self.scope {
            None if self.is_free() => return f.write_str("nothing"),
            None => {
                let selects = counted(selects, "select");
                return write!(f, "{}, {selects}", counted(shuffles, "shuffle"));
            }
            Some(Scope::Warp) => "of the warp",
            Some(Scope::Cta) => "of the CTA",
            Some(Scope::Cluster) => "of the cluster",
        };
        let (stores, loads) = (counted(stores, "store"), counted(loads, "load"));
        let (wavefronts, barriers) = (
            counted(wavefronts, "wavefront"),
            counted(barriers, "barrier"),
        );
        let bytes = self.shared_bytes;
        write!(
            f,
            "{stores}, {loads}, {wavefronts}, {barriers} {who}, {bytes} bytes of shared memory"
        )
    }
}

/// `1 store`, `4 stores`.
fn counted(count: u32, what: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{count} {what}{ending}")
}

/// The cost of the conversion that `inst` is; `None` for any other op.
pub fn cost(func: &Func, inst: Inst) -> Option<ConversionCost> {
    let Op::ConvertLayout(op) = func.op(inst) else {
        return None;
    };
    let from = func.ty(op.operand).as_tensor()?;
    let to = func.ty(func.result(inst)).as_tensor()?;
    let plan = conversion::plan(func.target, op, from, to).ok()?;
    Some(ConversionCost::of(&plan))
}
