//! The snapshots of the selected variants as they are now.

use std::collections::{BTreeMap, BTreeSet};

use ir::Func;

use crate::case::parallel;
use crate::error::{Error, Result};
use crate::harness::artifact::{
    FileNames, KEPT_STAGE, assembly_line, comment, facts, ir_text, opcodes, waste,
};
use crate::harness::catalog::{Catalog, KernelItem, Variant};
use crate::harness::context::{Context, Done};
use crate::harness::golden::{Difference, Folder, Golden, Kind, LONGEST};
use crate::harness::speak::{Speaker, count};
use crate::kernel::{Compiled, Compiler};
use crate::report::Remark;
use crate::toolchain::{Image, Toolchain};

/// The snapshots as they are now, beside the folder of those accepted.
pub(super) struct Now {
    folder: Folder,
    goldens: Vec<Golden>,
    /// The files that are looked at; all, if nothing was filtered.
    looked_at: Option<BTreeSet<String>>,
}

impl Now {
    pub(super) fn make(context: &Context, catalog: &Catalog, filters: &[String]) -> Done<Now> {
        let selected = context.variants(catalog, filters)?;
        let maker = Maker::new(context, catalog);
        let mut looked_at = BTreeSet::new();
        let mut tasks = Vec::new();
        for kernel in &catalog.kernels {
            let is_selected = |variant: &Variant| {
                let mut selected = selected.iter();
                selected.any(|(_, other)| std::ptr::eq(*other, variant))
            };
            if !kernel.variants.iter().any(is_selected) {
                continue;
            }
            // Whose texts a kernel keeps may change with any of its variants.
            for variant in &kernel.variants {
                let name = maker.names.name(kernel, variant);
                looked_at.extend([Kind::Ir, Kind::Ptx].map(|kind| kind.file_name(&name)));
                tasks.push(Task {
                    kernel,
                    variant,
                    name,
                    is_selected: is_selected(variant),
                });
            }
        }
        let goldens = maker.goldens(&tasks)?;
        Ok(Now {
            folder: Folder(context.snapshot_folder()),
            goldens,
            looked_at: (!filters.is_empty()).then_some(looked_at),
        })
    }

    pub(super) fn differences(
        &self,
        compare: fn(&Folder, &Golden) -> Option<Difference>,
    ) -> Vec<Difference> {
        let mut differences: Vec<Difference> = self
            .goldens
            .iter()
            .filter_map(|golden| compare(&self.folder, golden))
            .collect();
        let is_looked_at = |name: &str| {
            self.looked_at
                .as_ref()
                .is_none_or(|names| names.contains(name))
        };
        differences.extend(self.folder.stale(&self.goldens, is_looked_at));
        differences
    }

    /// Says which figures of ptxas were accepted and could not be compared.
    pub(super) fn remark_uncompared(&self, speaker: &Speaker) {
        let mut releases: BTreeMap<String, usize> = BTreeMap::new();
        for golden in &self.goldens {
            if let Some(release) = self.folder.uncompared(golden) {
                *releases.entry(release).or_default() += 1;
            }
        }
        let here = self.goldens.iter().find_map(Golden::release);
        let here = here.map_or("no ptxas was found".to_string(), |release| {
            format!("{release} is at hand")
        });
        for (release, number) in releases {
            let text = format!(
                "registers and spills of {} were not compared: they are those of {release}, and {here}",
                count(number, "snapshot")
            );
            speaker.remark(&Remark::note(text).with_help("PTXAS chooses the program"));
        }
    }
}

/// A variant of which something is kept.
struct Task<'c> {
    kernel: &'c KernelItem,
    variant: &'c Variant,
    name: String,
    /// Whether its facts are asked for; others decide which variant is the smallest.
    is_selected: bool,
}

/// What is left of a variant once it has been compiled: some hundred modules of PTX would not fit in memory.
struct Made {
    instructions: u32,
    facts: Option<Golden>,
    /// Unless it is longer than what is kept.
    ptx: Option<String>,
}

struct Maker<'a> {
    names: FileNames,
    compiler: Compiler,
    toolchain: Toolchain,
    speaker: &'a Speaker,
}

impl<'a> Maker<'a> {
    fn new(context: &'a Context, catalog: &Catalog) -> Maker<'a> {
        let options = lowering::Options {
            emits_locations: false,
            ..lowering::Options::default()
        };
        Maker {
            names: FileNames::new(catalog),
            compiler: Compiler::new(options),
            toolchain: Toolchain::find(None),
            speaker: &context.speaker,
        }
    }

    /// The snapshots of all kernels: the facts of the selected variants, and the texts of the smallest of each kernel. Variants are
    /// compiled and assembled on all cores, and what is wrong is said of the first that is wrong.
    fn goldens(&self, tasks: &[Task<'_>]) -> Done<Vec<Golden>> {
        let made = parallel::map(tasks.len(), |at| self.make(&tasks[at]));
        let all = tasks.iter().zip(made).map(|(task, made)| match made {
            Ok(made) => Ok((task, made)),
            Err(error) => Err(self.speaker.error(&task.variant.display, &error)),
        });
        let mut all = all.collect::<Done<Vec<_>>>()?;
        let mut goldens = Vec::new();
        for of_kernel in all.chunk_by_mut(|(a, _), (b, _)| std::ptr::eq(a.kernel, b.kernel)) {
            goldens.extend(
                of_kernel
                    .iter_mut()
                    .filter_map(|(_, made)| made.facts.take()),
            );
            let smallest = of_kernel
                .iter()
                .min_by_key(|(task, made)| (made.instructions, &task.name));
            if let Some((task, made)) = smallest {
                goldens.extend(self.texts(task, made, of_kernel.len())?);
            }
        }
        Ok(goldens)
    }

    fn make(&self, task: &Task<'_>) -> Result<Made> {
        let compiled = self.compiler.compile(&task.variant.instance)?;
        let ptx = is_short(compiled.ptx()).then(|| compiled.ptx().to_owned());
        Ok(Made {
            instructions: ptx::Stats::of_module(compiled.module()).instructions(),
            facts: task
                .is_selected
                .then(|| self.facts(task, &compiled))
                .transpose()?,
            ptx,
        })
    }

    fn facts(&self, task: &Task<'_>, compiled: &Compiled) -> Result<Golden> {
        let waste = waste(&resolved(task)?).map_err(Error::Kernel)?;
        compiled.check_assembly()?;
        let mut lines = facts(compiled);
        lines.extend(waste);
        lines.extend(opcodes(compiled));
        Ok(Golden {
            name: task.name.clone(),
            kind: Kind::Facts,
            text: comment(&lines),
            assembly: self.assembly(compiled.ptx(), &compiled.info().entry)?,
        })
    }

    /// What ptxas says, where there is one.
    fn assembly(&self, ptx: &str, entry: &str) -> Result<Option<String>> {
        if !self.toolchain.assembles() {
            return Ok(None);
        }
        let Image::Cubin { assembled, .. } = self.toolchain.assemble(ptx)? else {
            unreachable!("assembling gives a cubin or fails")
        };
        let version = self.toolchain.ptxas().map(|ptxas| ptxas.version);
        let line = assembled.report.entry(entry).zip(version);
        Ok(line.map(|(report, version)| {
            let messages = assembled.report.messages.iter();
            let said = messages.map(|message| format!(", warning: {}", message.text));
            assembly_line(report, version) + &said.collect::<String>()
        }))
    }

    /// The texts of the smallest of `variants` variants that are short enough to be read.
    fn texts(&self, task: &Task<'_>, made: &Made, variants: usize) -> Done<Vec<Golden>> {
        let ir = resolved(task).and_then(|func| Ok(ir_text(func, &KEPT_STAGE)?));
        let ir = ir.map_err(|error| self.speaker.error(&task.variant.display, &error))?;
        let which = match variants {
            1 => "",
            _ => ", the variant with the fewest instructions",
        };
        let header = format!("kernel: {}{which}", task.variant.instance.display());
        let ir = is_short(&ir).then_some(ir);
        let texts = [(Kind::Ir, ir), (Kind::Ptx, made.ptx.clone())];
        let golden = |(kind, text): (Kind, Option<String>)| {
            Some(Golden {
                name: task.name.clone(),
                kind,
                text: comment(std::slice::from_ref(&header)) + &text?,
                assembly: None,
            })
        };
        Ok(texts.into_iter().filter_map(golden).collect())
    }
}

fn resolved(task: &Task<'_>) -> Result<Func> {
    Ok(task.variant.instance.trace()?.func)
}

/// Whether a text is one that somebody reads.
fn is_short(text: &str) -> bool {
    text.lines().count() <= LONGEST
}
