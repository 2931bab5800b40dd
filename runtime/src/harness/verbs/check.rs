//! `check`: traces and lowers every variant, and says what is wrong; with `--prove`, also what a model of the barriers says.

use super::prove::Proofs;
use crate::harness::Exit;
use crate::harness::catalog::Variant;
use crate::harness::context::{Context, Done};
use crate::harness::select::Selection;
use crate::harness::speak::{Speaker, Verdict, count};
use crate::kernel::{Compiled, Compiler};
use crate::report::Remark;

pub(in crate::harness) fn check(context: &Context, filters: &[String], proves: bool) -> Done {
    let catalog = context.catalog()?;
    let variants = context.variants(&catalog, filters)?;
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
    for (_, variant) in variants {
        match check_variant(variant, &compiler, &context.speaker) {
            Err(exit) => verdict.note(exit),
            Ok(_) if proves => verdict.note(proofs.prove(variant, &context.speaker)),
            Ok(_) => {}
        }
    }
    if proves {
        context.speaker.remark(&proofs.summary());
    }
    if verdict.exit() == Exit::Success {
        let text = format!(
            "checked {} of {}",
            count(total, "variant"),
            count(catalog.kernels.len(), "kernel")
        );
        context.speaker.remark(&Remark::note(text));
    }
    Ok(verdict.exit())
}

/// Compiles a variant and shows what is to be said of it.
pub(in crate::harness) fn check_variant(
    variant: &Variant,
    compiler: &Compiler,
    speaker: &Speaker,
) -> Done<Compiled> {
    let compiled = compiler
        .compile(&variant.instance)
        .map_err(|error| speaker.error(&variant.display, &error))?;
    for printed in compiled.printed() {
        speaker.remark(&Remark::note(format!("{}: {}", printed.at, printed.text)));
    }
    speaker.diagnostics(compiled.warnings());
    Ok(compiled)
}
