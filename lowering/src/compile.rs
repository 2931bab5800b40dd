//! The whole way: from a traced kernel to PTX.

use std::time::Instant;

use diag::Diagnostics;
use ir::{Func, Stage};

use crate::launch::LaunchInfo;
use crate::options::Options;
use crate::pipeline::{PIPELINE, PassTime, run};
use crate::plan;
use crate::trace::{self, TraceTable};

/// A kernel as PTX, with all that is needed to launch it.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// The PTX.
    pub module: ptx::Module,
    /// How it is launched.
    pub launch: LaunchInfo,
    /// The kernel as it was emitted.
    pub func: Func,
    /// What each pass took, and `emit` at the end.
    pub timings: Vec<PassTime>,
    /// What is probably not what the author wants.
    pub warnings: Diagnostics,
    /// The IR as text after each pass that [`Options::print_after`] names.
    pub printed: Vec<(&'static str, String)>,
    /// What the records of a traced build mean.
    pub trace: Option<TraceTable>,
}

/// Runs every pass and emits.
///
/// # Errors
/// What is wrong with the kernel.
pub fn compile(mut func: Func, options: &Options) -> Result<Compiled, Diagnostics> {
    if options.trace.is_none() {
        trace::remove_marks(&mut func);
    }
    let is_edited = func.stage == Stage::Allocated;
    let mut lowered = run(func, PIPELINE, options)?;
    debug_assert!(
        lowered.func.stage == Stage::Allocated,
        "the pipeline ends where emission begins"
    );
    let start = Instant::now();
    // Shared memory that the passes above did not plan; in debug builds they are checked as well.
    if is_edited || options.verify_each_pass {
        let found = plan::verify::check(&lowered.func);
        if found.has_errors() {
            return Err(found);
        }
    }
    let (module, trace) = crate::emit::emit_traced(&lowered.func, options)?;
    lowered.timings.push(PassTime {
        name: "emit",
        time: start.elapsed(),
    });
    Ok(Compiled {
        module,
        launch: LaunchInfo::of(&lowered.func),
        func: lowered.func,
        timings: lowered.timings,
        warnings: lowered.warnings,
        printed: lowered.printed,
        trace,
    })
}
