//! What is said of a kernel.

use diag::{Code, Diagnostic, Place};
use ir::Func;
use ir::entity::Inst;

/// What the model says of a kernel's barriers.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// There are no mbarriers and no named barriers.
    Bare,
    /// No thread waits for ever, no phase is overtaken, and stages are read while they are full, for all trip counts.
    Proved {
        /// Decisions that were explored, over all schedules.
        decisions: usize,
    },
    /// A run in which a wait is never satisfied, a phase is overtaken, or a stage is read or refilled too early.
    Found(Box<Diagnostic>),
    /// The model does not cover the kernel, for this reason.
    Undecided(Undecided),
}

/// Why nothing is said.
#[derive(Clone, Debug)]
pub struct Undecided {
    /// The author's line.
    pub at: Option<Place>,
    /// What the model does not follow.
    pub reason: String,
}

impl Undecided {
    /// What would be found if two decisions did not depend on each other.
    pub(crate) fn conditional(func: &Func, found: Diagnostic, first: Inst, second: Inst) -> Self {
        let line = |inst| {
            let place = func.place(inst);
            place.map_or_else(String::new, |place| format!(" (line {})", place.line))
        };
        let reason = if first == second {
            format!(
                "whether {} depends on what is read from memory{}",
                found.message,
                line(first)
            )
        } else {
            format!(
                "whether {} depends on how two decisions{} and{} are related",
                found.message,
                line(first),
                line(second)
            )
        };
        Undecided {
            at: found.primary.at,
            reason,
        }
    }

    /// What is found only where a loop does not run at all.
    pub(crate) fn unless_once(found: &Diagnostic) -> Self {
        Undecided {
            at: found.primary.at.clone(),
            reason: format!(
                "proved where every loop runs at least once; where one does not, {}. Promise that it runs: `assume(steps > 0)`",
                found.message
            ),
        }
    }

    /// As a warning at the author's line.
    pub fn diagnostic(&self) -> Diagnostic {
        let message = format!("not decided: {}", self.reason);
        Diagnostic::error(Code::MbarrierMisuse, self.at.clone(), message).warning()
    }
}
