//! The one table of passes, and what runs it.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use diag::{Code, Diagnostic, Diagnostics};
use ir::text::print;
use ir::verify::Verifier;
use ir::{Func, Stage};

use crate::options::{Options, Source};
use crate::{opt, plan, resolve};

/// One pass over the tile IR.
#[derive(Clone, Copy, Debug)]
pub struct Pass {
    /// Its name on the command line and in timings.
    pub name: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
    /// The stage that the kernel must have reached.
    pub needs: Stage,
    /// The stage that the kernel has reached after it.
    pub gives: Stage,
    /// The kernel is right without it too.
    pub is_optional: bool,
    /// What runs. It reports what the author did wrong; an error ends the pipeline.
    pub run: fn(&mut Func, &mut Diagnostics),
}

/// Every pass, in the order in which they run. A pass that runs twice stands here twice.
pub const PIPELINE: &[Pass] = &[
    // First, so that a value which tracing left unused needs no layout and blames nobody.
    Pass {
        name: "drop-unused",
        summary: "remove dead code",
        needs: Stage::Built,
        gives: Stage::Built,
        is_optional: false,
        run: opt::unused::run,
    },
    // Before `Auto`, for what an access chooses is what an open layout beside it follows.
    Pass {
        name: "resolve-coalesced",
        summary: "resolve `Coalesced` from the facts about each access",
        needs: Stage::Built,
        gives: Stage::Built,
        is_optional: false,
        run: resolve::coalesced,
    },
    Pass {
        name: "resolve-auto",
        summary: "resolve every `Auto` layout",
        needs: Stage::Built,
        gives: Stage::Resolved,
        is_optional: false,
        run: resolve::auto,
    },
    // Once layouts are final, equal constants are equal: folding before could merge what two layouts must keep apart.
    Pass {
        name: "fold",
        summary: "fold constants and identities",
        needs: Stage::Resolved,
        gives: Stage::Resolved,
        is_optional: true,
        run: opt::fold::run,
    },
    // Folding shows what a loop leaves alone, and that shows what is the same everywhere.
    Pass {
        name: "forward-carried",
        summary: "forward carried values that the loop does not change",
        needs: Stage::Resolved,
        gives: Stage::Resolved,
        is_optional: true,
        run: opt::carried::run,
    },
    // Before merging, for moved conversions may turn out equal.
    Pass {
        name: "remove-conversions",
        summary: "remove, merge and narrow layout conversions",
        needs: Stage::Resolved,
        gives: Stage::Resolved,
        is_optional: false,
        run: opt::conversions::run,
    },
    // Before hoisting, so that one copy is moved and not several.
    Pass {
        name: "merge-equal",
        summary: "merge equal computations",
        needs: Stage::Resolved,
        gives: Stage::Resolved,
        is_optional: true,
        run: opt::cse::run,
    },
    // ptxas moves arithmetic, but no reduction, conversion or read.
    Pass {
        name: "hoist-invariant",
        summary: "hoist loop-invariant computations",
        needs: Stage::Resolved,
        gives: Stage::Resolved,
        is_optional: true,
        run: opt::licm::run,
    },
    // The passes before leave what they replaced to this one.
    Pass {
        name: "drop-unused",
        summary: "remove dead code",
        needs: Stage::Resolved,
        gives: Stage::Resolved,
        is_optional: true,
        run: opt::unused::run,
    },
    // Once no pass moves or merges what loops carry: copies of a body must stay apart.
    Pass {
        name: "rotate-accumulators",
        summary: "unroll loops whose accumulators alternate between registers",
        needs: Stage::Resolved,
        gives: Stage::Resolved,
        is_optional: false,
        run: opt::rotate::run,
    },
    // Once accesses are those that will be emitted.
    Pass {
        name: "check-accesses",
        summary: "report uncoalesced accesses and bank conflicts",
        needs: Stage::Resolved,
        gives: Stage::Resolved,
        is_optional: false,
        run: opt::accesses::run,
    },
    // Once exchanges are those that will be emitted.
    Pass {
        name: "check-clusters",
        summary: "reject cluster barriers under CTA-divergent control flow",
        needs: Stage::Resolved,
        gives: Stage::Resolved,
        is_optional: false,
        run: opt::agreement::run,
    },
    // Likewise, and once no conversion is left that need not be.
    Pass {
        name: "check-votes",
        summary: "reject branches by votes of warps that do more than compute",
        needs: Stage::Resolved,
        gives: Stage::Resolved,
        is_optional: false,
        run: opt::votes::run,
    },
    // Likewise: a store that was dropped does no harm.
    Pass {
        name: "check-readonly",
        summary: "reject stores to memory that is promised to be read-only",
        needs: Stage::Resolved,
        gives: Stage::Resolved,
        is_optional: false,
        run: opt::readonly::run,
    },
    // Likewise.
    Pass {
        name: "check-peers",
        summary: "reject atomics on memory of other ranks whose scope leaves these out",
        needs: Stage::Resolved,
        gives: Stage::Resolved,
        is_optional: false,
        run: opt::peers::run,
    },
    // Once nothing more is added to a partition.
    Pass {
        name: "plan-warps",
        summary: "assign registers to warp-specialized partitions (`setmaxnreg`)",
        needs: Stage::Resolved,
        gives: Stage::Resolved,
        is_optional: false,
        run: plan::warps::run,
    },
    // Once the products are those that will be emitted.
    Pass {
        name: "check-products",
        summary: "report products that are expanded, and waits that serialize `wgmma`",
        needs: Stage::Resolved,
        gives: Stage::Resolved,
        is_optional: false,
        run: opt::products::run,
    },
    // After everything that adds, moves or removes an op with scratch.
    Pass {
        name: "plan-shared",
        summary: "allocate shared memory for tiles and scratch",
        needs: Stage::Resolved,
        gives: Stage::Resolved,
        is_optional: false,
        run: plan::shared::run,
    },
    // Last, for only offsets tell which ops could disturb one another.
    Pass {
        name: "place-barriers",
        summary: "insert CTA barriers where shared memory is reused",
        needs: Stage::Resolved,
        gives: Stage::Allocated,
        is_optional: false,
        run: plan::barriers::run,
    },
];

/// What one pass took.
#[derive(Clone, Copy, Debug)]
pub struct PassTime {
    /// The pass.
    pub name: &'static str,
    /// Its wall time, without the verifier.
    pub time: Duration,
}

/// Where [`run_to`] stops.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StopAt {
    /// As soon as the kernel has reached the stage.
    Stage(Stage),
    /// After the first pass of this name.
    Pass(String),
}

/// A kernel after some or all of the passes.
#[derive(Clone, Debug)]
pub struct Lowered {
    /// The kernel.
    pub func: Func,
    /// What each pass took, in order.
    pub timings: Vec<PassTime>,
    /// What is probably not what the author wants.
    pub warnings: Diagnostics,
    /// The IR as text after each pass that [`Options::print_after`] names.
    pub printed: Vec<(&'static str, String)>,
}

/// Runs the passes up to `stop`.
///
/// # Errors
/// What is wrong with the kernel, or a stop at a pass that does not exist.
pub fn run_to(func: Func, stop: &StopAt, options: &Options) -> Result<Lowered, Diagnostics> {
    let passes = match stop {
        StopAt::Stage(stage) => passes_to_stage(*stage),
        StopAt::Pass(name) => passes_to_name(name)?,
    };
    run(func, passes, options)
}

/// A kernel with shared memory and barriers planned, in the loops that its author wrote: as [`run_to`] leaves it, but that no loop is
/// unrolled for the sake of registers. For analyses that compare the loops of partitions; such a kernel is not emitted.
///
/// # Errors
/// What is wrong with the kernel.
pub fn planned(func: Func) -> Result<Func, Diagnostics> {
    let mut func = func;
    let mut found = Diagnostics::default();
    let start = func.stage;
    let kept = PIPELINE
        .iter()
        .filter(|pass| pass.needs >= start && pass.name != "rotate-accumulators");
    for pass in kept {
        (pass.run)(&mut func, &mut found);
        if found.has_errors() {
            return Err(found);
        }
        func.stage = pass.gives;
    }
    Ok(func)
}

/// The passes after which a kernel has reached `stage`, up to the one that gives it.
fn passes_to_stage(stage: Stage) -> &'static [Pass] {
    let count = match stage {
        Stage::Built => 0,
        _ => PIPELINE
            .iter()
            .position(|p| p.gives >= stage)
            .map_or(PIPELINE.len(), |at| at + 1),
    };
    &PIPELINE[..count]
}

fn passes_to_name(name: &str) -> Result<&'static [Pass], Diagnostics> {
    let Some(at) = PIPELINE.iter().position(|p| p.name == name) else {
        let names: Vec<&str> = PIPELINE.iter().map(|p| p.name).collect();
        let message = format!("no pass is called `{name}`");
        let d = Diagnostic::error(Code::BadText, None, message)
            .help(format!("the passes are {}", names.join(", ")));
        return Err(d.into());
    };
    Ok(&PIPELINE[..=at])
}

/// Runs `passes`, but only those that the kernel's stage has before it: a kernel read from text continues from there.
pub(crate) fn run(func: Func, passes: &[Pass], options: &Options) -> Result<Lowered, Diagnostics> {
    let start = func.stage;
    let lowered = Lowered {
        func,
        timings: Vec::with_capacity(passes.len()),
        warnings: Diagnostics::default(),
        printed: Vec::new(),
    };
    let mut runner = Runner {
        lowered,
        verifier: Verifier::default(),
        options,
    };
    if options.verify_each_pass || options.source == Source::Text {
        runner.check_input()?;
    }
    let runs = |pass: &&Pass| pass.needs >= start && (options.optimises || !pass.is_optional);
    for pass in passes.iter().filter(runs) {
        runner.pass(pass)?;
    }
    Ok(runner.lowered)
}

struct Runner<'o> {
    lowered: Lowered,
    verifier: Verifier,
    options: &'o Options,
}

impl Runner<'_> {
    /// The verifier before the first pass: what comes in may be IR edited by hand.
    fn check_input(&mut self) -> Result<(), Diagnostics> {
        let func = &self.lowered.func;
        let found = self.verifier.verify(func, func.stage);
        if found.has_errors() {
            Err(found)
        } else {
            Ok(())
        }
    }

    fn pass(&mut self, pass: &Pass) -> Result<(), Diagnostics> {
        // Only where a pass is checked is the state before it worth a copy.
        let before = self
            .options
            .verify_each_pass
            .then(|| print(&self.lowered.func));
        let mut found = Diagnostics::default();
        let start = Instant::now();
        let func = &mut self.lowered.func;
        let outcome = catch_unwind(AssertUnwindSafe(|| (pass.run)(func, &mut found)));
        let time = start.elapsed();
        if let Err(payload) = outcome {
            self.bug(pass, before.as_deref(), &panic_text(&*payload));
        }
        self.lowered.timings.push(PassTime {
            name: pass.name,
            time,
        });
        if found.has_errors() {
            return Err(found);
        }
        self.lowered.warnings.0.append(&mut found.0);
        self.verify(pass, before.as_deref())?;
        if self.options.prints_after(pass.name) {
            self.lowered
                .printed
                .push((pass.name, print(&self.lowered.func)));
        }
        Ok(())
    }

    /// Checks what a pass left, and enters the stage that it gives.
    fn verify(&mut self, pass: &Pass, before: Option<&str>) -> Result<(), Diagnostics> {
        let is_new_stage = pass.gives > self.lowered.func.stage;
        self.lowered.func.stage = pass.gives;
        if is_new_stage || self.options.verify_each_pass {
            let found = self.verifier.verify(&self.lowered.func, pass.gives);
            if found.has_errors() {
                if found.0.iter().all(|d| is_of_constants(d.code)) {
                    return Err(found);
                }
                self.bug(pass, before, &found.to_string());
            }
        }
        Ok(())
    }

    /// Ends the program: a pass broke its promise, which nothing that an author writes may cause.
    fn bug(&self, pass: &Pass, before: Option<&str>, what: &str) -> ! {
        let func = &self.lowered.func;
        // A pass that panicked may have left what cannot even be printed.
        let after = catch_unwind(AssertUnwindSafe(|| print(func)))
            .unwrap_or_else(|_| "(not printable)".into());
        let before = before.unwrap_or("(not kept: set `verify_each_pass`)");
        panic!(
            "bug in pass `{}`: {what}\n\nbefore it:\n{before}\nafter it:\n{after}",
            pass.name
        );
    }
}

/// Is it a mistake of numbers, which passes make known? `2 * i - 1` of a constant `i` is no constant before it is folded, and an arrival at a named barrier stands in a branch that is never taken.
fn is_of_constants(code: Code) -> bool {
    matches!(
        code,
        Code::ConstantRange | Code::AccessWidth | Code::NamedBarrier
    )
}

fn panic_text(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
    text.unwrap_or("a panic without a message").to_owned()
}
