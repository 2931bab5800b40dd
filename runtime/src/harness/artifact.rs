//! What a variant is at each stage, and what it costs.

use std::collections::BTreeMap;

use diag::Diagnostics;
use ir::text::print;
use ir::{Func, Stage};
use lowering::costs::Cost;
use lowering::{Options, StopAt, costs, run_to};

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
/// used of those moved, of shared memory width and bank conflicts, of conversions what is left of them after the passes;
/// below each what its author can do about it.
pub(super) fn accesses(func: &Func) -> Result<Vec<String>, Diagnostics> {
    let entries = costs::of(func)?.into_iter();
    let lines = entries.map(|entry| entry.to_string());
    let lines = lines.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>());
    Ok(lines.collect())
}

/// What a warp waits or moves in vain at all its accesses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Waste {
    /// Wavefronts of shared memory that bank conflicts cause.
    pub(super) bank_conflicts: u32,
    /// Sectors of global memory beyond those that the used bytes need.
    pub(super) excess_sectors: u32,
}

impl Waste {
    pub(super) fn of(func: &Func) -> Result<Waste, Diagnostics> {
        let entries = costs::of(func)?;
        let sum = |of: fn(&Cost) -> u32| entries.iter().map(|entry| of(&entry.cost)).sum();
        Ok(Waste {
            bank_conflicts: sum(|cost| match cost {
                Cost::Shared(_, cost) => cost.conflicts,
                Cost::Global(..) | Cost::Conversion(_) => 0,
            }),
            excess_sectors: sum(excess_sectors),
        })
    }
}

/// Sectors of global memory that an access touches beyond those that the used bytes need.
pub(super) fn excess_sectors(cost: &Cost) -> u32 {
    match cost {
        Cost::Global(_, cost) => {
            let needed = cost.used_bytes.div_ceil(cost.sector_bytes);
            cost.sectors.saturating_sub(needed)
        }
        Cost::Shared(..) | Cost::Conversion(_) => 0,
    }
}

/// What is wasted, as lines for a header; none where it is nothing.
pub(super) fn waste(func: &Func) -> Result<Vec<String>, Diagnostics> {
    let waste = Waste::of(func)?;
    let lines = [
        (waste.bank_conflicts, "shared memory", "bank conflicts"),
        (waste.excess_sectors, "global memory", "excess sectors"),
    ];
    let line = |(number, memory, what): (u32, &str, &str)| {
        (number > 0).then(|| format!("{memory}: {number} {what}"))
    };
    Ok(lines.into_iter().filter_map(line).collect())
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

/// How often each opcode occurs that [`facts`] does not count, as lines for a header: a line for each family, so that a
/// change is short.
pub(super) fn opcodes(compiled: &Compiled) -> Vec<String> {
    let stats = ptx::Stats::of_module(compiled.module());
    let mut families: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (opcode, count) in stats.others() {
        let of_family = families.entry(family(opcode)).or_default();
        of_family.push(format!("{count} {opcode}"));
    }
    let line = |(family, opcodes): (&str, Vec<String>)| format!("{family}: {}", opcodes.join(", "));
    families.into_iter().map(line).collect()
}

/// The family of an opcode: by what it does, or else by the type that it computes on, which stands last.
fn family(opcode: &str) -> &'static str {
    let mut pieces = opcode.split('.');
    let (first, last) = (
        pieces.next().unwrap_or_default(),
        pieces.next_back().unwrap_or_default(),
    );
    match (first, last) {
        ("createpolicy" | "mapa" | "tensormap", _) => "others",
        ("cvt", _) => "conversions",
        ("cvta" | "ld" | "mov" | "prmt", _) => "moves",
        ("selp" | "set" | "setp" | "slct", _) | (_, "pred") => "predicates",
        (_, kind) if kind.trim_start_matches('b').starts_with('f') => "floats",
        (_, kind) if kind.starts_with(['b', 's', 'u']) && kind.ends_with(char::is_numeric) => {
            "integers"
        }
        _ => "others",
    }
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

/// A file name for each variant: `vector_add-1024`. Where several kernels of the package have one name, the modules of all but the
/// first are part of it. The first is the one nearest to the crate's root, and then by name, so that it keeps its files where another
/// one of its name is added below.
pub(super) struct FileNames {
    first: BTreeMap<String, &'static str>,
}

impl FileNames {
    /// For the variants of a catalog.
    pub(super) fn new(catalog: &Catalog) -> FileNames {
        let mut first: BTreeMap<String, &'static str> = BTreeMap::new();
        for kernel in &catalog.kernels {
            let module = kernel.entry.module;
            let known = first.entry(kernel.entry.name.to_string()).or_insert(module);
            *known = [*known, module]
                .into_iter()
                .min_by_key(rank)
                .unwrap_or(module);
        }
        FileNames { first }
    }

    /// The name without ending.
    pub(super) fn name(&self, kernel: &KernelItem, variant: &Variant) -> String {
        let name = kernel.entry.name;
        let arguments = variant.display.strip_prefix(name).unwrap_or_default();
        let mut text = String::new();
        if self.first.get(name) != Some(&kernel.entry.module) {
            text.push_str(&kernel.entry.module.replace("::", "-"));
            text.push('-');
        }
        text.push_str(name);
        text.push_str(&plain(arguments));
        text
    }
}

/// The depth of a module, and its name.
fn rank<'m>(module: &&'m str) -> (usize, &'m str) {
    (module.matches("::").count(), module)
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
    use super::{family, plain, without_head};

    #[test]
    fn an_opcode_is_of_one_family() {
        for (opcode, expected) in [
            ("cvt.rn.bf16x2.f32", "conversions"),
            ("ld.param.b64", "moves"),
            ("and.pred", "predicates"),
            ("setp.lt.f32", "predicates"),
            ("fma.rn.ftz.bf16x2", "floats"),
            ("ex2.approx.ftz.f32", "floats"),
            ("mad.wide.s32", "integers"),
            ("lop3.b32", "integers"),
            ("griddepcontrol.wait", "others"),
            ("mapa.shared::cluster.u32", "others"),
            ("ret", "others"),
        ] {
            assert_eq!(family(opcode), expected, "{opcode}");
        }
    }

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
