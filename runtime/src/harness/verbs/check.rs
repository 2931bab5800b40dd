//! `check`: traces and lowers every variant, and says what is wrong; with `--prove`, also what a model of the barriers says.

use rayon::prelude::*;

use super::doubt::Doubts;
use super::limits;
use super::prove::Proofs;
use crate::error::Error;
use crate::harness::Exit;
use crate::harness::catalog::{Catalog, Variant};
use crate::harness::context::{Context, Done};
use crate::harness::select::Selection;
use crate::harness::speak::{Speaker, Verdict, count};
use crate::kernel::{Compiled, Compiler};
use crate::report::Remark;

/// Variants that are compiled on all cores before what is to be said of them is said, in order.
const AT_ONCE: usize = 64;

/// `proves` says whether barriers are model-checked, and in how many ways those of a proved variant are then broken at most.
pub(in crate::harness) fn check(
    context: &Context,
    filters: &[String],
    proves: Option<usize>,
) -> Done {
    let catalog = context.catalog(filters)?;
    let variants = context.variants(&catalog, filters)?;
    limits::check_names(context, &catalog)?;
    let selection = Selection::new(filters, &catalog);
    let mut verdict = Verdict::good();
    for case in &catalog.cases {
        for run in case.runs.iter().filter(|run| selection.run(case, run)) {
            if let Some(error) = &run.failure {
                let about = case.about(run);
                verdict.note(context.speaker.error(&about, error));
            }
        }
    }
    let compiler = Compiler::default();
    let total = variants.len();
    let mut proofs = Proofs::default();
    let mut wrong = 0;
    let mut doubts = Doubts::new(context, &catalog, filters);
    for some in variants.chunks(AT_ONCE) {
        let compiled: Vec<_> = some
            .par_iter()
            .map(|(_, variant)| compiler.compile(&variant.instance))
            .collect();
        for ((kernel, variant), compiled) in some.iter().zip(compiled) {
            match (said(variant, compiled, &context.speaker), proves) {
                (Err(exit), _) => {
                    wrong += 1;
                    verdict.note(exit);
                }
                (Ok(_), None) => {}
                (Ok(compiled), Some(mutants)) => {
                    let (exit, is_proved) = proofs.prove(variant, &context.speaker);
                    wrong += usize::from(exit != Exit::Success);
                    verdict.note(exit);
                    if is_proved && mutants > 0 {
                        verdict.note(doubts.doubt((kernel, variant), &compiled, mutants));
                    }
                }
            }
        }
    }
    if let Some(mutants) = proves {
        context.speaker.remark(&proofs.summary());
        if mutants > 0 {
            context.speaker.remark(&doubts.summary());
        }
    }
    conclude(context, verdict.exit(), wrong, total, &catalog);
    Ok(verdict.exit())
}

/// Says how many variants were checked, and how many diagnostics were shown.
fn conclude(context: &Context, exit: Exit, wrong: usize, total: usize, catalog: &Catalog) {
    let kernels = count(catalog.kernels.len(), "kernel");
    let shown = context.speaker.diagnostics_shown();
    let shown = shown.map_or_else(String::new, |shown| format!(": {shown}"));
    if exit == Exit::Success {
        let text = format!("checked {} of {kernels}{shown}", count(total, "variant"));
        context.speaker.remark(&Remark::note(text));
    } else if exit == Exit::Diagnostics {
        let text = format!("{wrong} of {} wrong{shown}", count(total, "variant"));
        context.speaker.failure(&Remark::error(text));
    }
}

/// Compiles a variant and shows what is to be said of it.
pub(in crate::harness) fn check_variant(
    variant: &Variant,
    compiler: &Compiler,
    speaker: &Speaker,
) -> Done<Compiled> {
    said(variant, compiler.compile(&variant.instance), speaker)
}

/// Shows what is to be said of a variant that was compiled.
fn said(variant: &Variant, compiled: Result<Compiled, Error>, speaker: &Speaker) -> Done<Compiled> {
    let compiled = compiled.map_err(|error| speaker.error(&variant.display, &error))?;
    for printed in compiled.printed() {
        speaker.remark(&Remark::note(format!("{}: {}", printed.at, printed.text)));
    }
    speaker.diagnostics(compiled.warnings());
    Ok(compiled)
}
