//! What a variant is at each stage, and what it costs.

use std::collections::BTreeMap;

use gluon_lang::diag::Diagnostics;
use gluon_lang::entity::Inst;
use gluon_lang::ir::{Func, Stage};
use gluon_lang::layout::convert::AccessKind;
use gluon_lang::text::print;
use lowering::analysis::axis::Axes;
use lowering::analysis::{banks, coalescing, conversions};
use lowering::{Options, StopAt, run_to};

use super::catalog::{Catalog, KernelItem, Variant};
use crate::kernel::Compiled;
use crate::ptxas::{EntryReport, Version};

/// The tile IR of a traced kernel at a stage or after a pass, as text.
///
/// # Errors
/// What is wrong with the kernel, or a pass that does not exist.
pub(super) fn ir_text(func: Func, stop: &StopAt) -> Result<String, Diagnostics> {
    let lowered = run_to(func, stop, &Options::default())?;
    Ok(print(&lowered.func))
}

/// What each access to memory and each conversion costs, as lines for a header: of global memory width, sectors and bytes
/// used of those moved, of shared memory width and bank conflicts, of conversions what is left of them after the passes.
pub(super) fn accesses(func: Func) -> Result<Vec<String>, Diagnostics> {
    let func = run_to(
        func,
        &StopAt::Pass(CHECKED.to_string()),
        &Options::default(),
    )?
    .func;
    let axes = Axes::of(&func);
    let line = |inst| {
        let cost = cost(&func, &axes, inst)?;
        let place = func.place(inst).map_or_else(String::new, |place| {
            format!(" at {}:{}", place.file, place.line)
        });
        let mnemonic = func.op(inst).rules().mnemonic();
        Some(format!("{mnemonic}{place}: {cost}"))
    };
    Ok(func.walk().into_iter().filter_map(line).collect())
}

/// The pass that looks at accesses: before it they are not yet those that will be emitted.
const CHECKED: &str = "check-accesses";

/// What an instruction costs that accesses memory or converts.
fn cost(func: &Func, axes: &Axes, inst: Inst) -> Option<String> {
    if let Some(cost) = coalescing::cost(func, axes, inst) {
        return Some(format!(
            "{} bytes a thread, {} sectors a warp, {} of {} bytes used",
            cost.vector_bytes,
            cost.sectors,
            cost.used_bytes,
            cost.moved_bytes()
        ));
    }
    if let Some(cost) = banks::cost(func, inst) {
        let kind = match cost.kind {
            AccessKind::Vector => "",
            AccessKind::Matrix => " in matrices",
            AccessKind::Transposed => " in transposed matrices",
        };
        return Some(format!(
            "{} bytes a thread{kind}, {} times, {} wavefronts a warp, {} of them by bank conflicts",
            cost.thread_bytes, cost.accesses, cost.wavefronts, cost.conflicts
        ));
    }
    conversions::cost(func, inst).map(|cost| cost.to_string())
}

/// The stage at which snapshots and `build` keep the IR.
pub(super) const KEPT_STAGE: StopAt = StopAt::Stage(Stage::Resolved);

/// What a compiled kernel costs, as lines for a header.
pub(super) fn facts(compiled: &Compiled) -> Vec<String> {
    let info = compiled.info();
    let stats = ptx::Stats::of_module(compiled.module());
    vec![
        format!("kernel: {}", compiled.display()),
        format!(
            "launch: {} threads, {} bytes of shared memory, {} bytes of parameters",
            info.threads, info.shared_bytes, info.param_bytes
        ),
        format!("instructions: {}: {stats}", stats.instructions()),
    ]
}

/// What ptxas says of an entry, in one line.
pub(super) fn assembly_line(report: &EntryReport, version: Version) -> String {
    format!(
        "ptxas {version}: {} registers, {} bytes spilled, {} bytes of stack, {} bytes of static shared memory, {} barriers",
        report.registers,
        report.spill_store_bytes + report.spill_load_bytes,
        report.stack_bytes,
        report.shared_bytes,
        report.barriers
    )
}

/// Lines as a comment, which both PTX and the tile IR read over.
pub(super) fn comment(lines: &[String]) -> String {
    lines
        .iter()
        .map(|line| format!("// {line}\n"))
        .collect::<Vec<_>>()
        .concat()
}

/// A text without the comment before it: a kernel edited by hand still has the header that it was printed with.
pub(super) fn without_head(text: &str) -> &str {
    let head: usize = text
        .split_inclusive('\n')
        .take_while(|line| line.starts_with("//"))
        .map(str::len)
        .sum();
    &text[head..]
}

/// A file name for each variant: `vector_add-1024`. Where two kernels of the package have one name, their modules are
/// part of it.
pub(super) struct FileNames {
    counts: BTreeMap<String, usize>,
}

impl FileNames {
    /// For the variants of a catalog.
    pub(super) fn new(catalog: &Catalog) -> FileNames {
        let mut counts = BTreeMap::new();
        for kernel in &catalog.kernels {
            *counts.entry(kernel.entry.name.to_string()).or_default() += 1;
        }
        FileNames { counts }
    }

    /// The name without ending.
    pub(super) fn name(&self, kernel: &KernelItem, variant: &Variant) -> String {
        let name = kernel.entry.name;
        let arguments = variant.display.strip_prefix(name).unwrap_or_default();
        let mut text = String::new();
        if self.counts.get(name).is_some_and(|count| *count > 1) {
            text.push_str(&kernel.entry.module.replace("::", "-"));
            text.push('-');
        }
        text.push_str(name);
        text.push_str(&plain(arguments));
        text
    }
}

/// `-bf16-4096` of `<bf16, 4096>`.
fn plain(arguments: &str) -> String {
    let spelt = arguments.replace('-', "m");
    let words = spelt
        .split(|c: char| !(c.is_alphanumeric() || c == '_'))
        .filter(|word| !word.is_empty());
    words
        .map(|word| format!("-{word}"))
        .collect::<Vec<_>>()
        .concat()
}

#[cfg(test)]
mod tests {
    use super::{plain, without_head};

    #[test]
    fn an_old_header_is_left_out() {
        assert_eq!(
            without_head("// a\n// b\n.version 8.0\n// c\n"),
            ".version 8.0\n// c\n"
        );
        assert_eq!(without_head("ret;"), "ret;");
    }

    #[test]
    fn arguments_become_part_of_a_file_name() {
        assert_eq!(plain("<bf16, 4096>"), "-bf16-4096");
        assert_eq!(plain("<-1, true>"), "-m1-true");
        assert_eq!(plain(""), "");
    }
}
