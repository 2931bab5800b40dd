//! `check`: traces and lowers every variant, and says what is wrong.

use crate::harness::Exit;
use crate::harness::catalog::Variant;
use crate::harness::context::{Context, Done};
use crate::harness::select::Selection;
use crate::harness::speak::{Speaker, Verdict, count};
use crate::kernel::{Compiled, Compiler};
use crate::report::Remark;

pub(in crate::harness) fn check(context: &Context, filters: &[String]) -> Done {
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
    for (_, variant) in variants {
        if let Err(exit) = check_variant(variant, &compiler, &context.speaker) {
            verdict.note(exit);
        }
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
