//! The snapshots of the selected variants as they are now.

use std::collections::{BTreeMap, BTreeSet};

use diag::Diagnostics;
use ir::Func;

use crate::harness::Exit;
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
        let (mut goldens, mut looked_at) = (Vec::new(), BTreeSet::new());
        for kernel in &catalog.kernels {
            let of_kernel = selected
                .iter()
                .filter(|(owner, _)| std::ptr::eq(*owner, kernel));
            let of_kernel: Vec<&Variant> = of_kernel.map(|(_, variant)| *variant).collect();
            if of_kernel.is_empty() {
                continue;
            }
            // Whose texts a kernel keeps may change with any of its variants.
            for variant in &kernel.variants {
                let name = maker.names.name(kernel, variant);
                looked_at.extend([Kind::Ir, Kind::Ptx].map(|kind| kind.file_name(&name)));
            }
            goldens.extend(maker.goldens(kernel, &of_kernel)?);
        }
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

/// A variant, compiled.
struct Made<'c> {
    name: String,
    variant: &'c Variant,
    compiled: Compiled,
    instructions: u32,
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

    /// The snapshots of one kernel: the facts of the selected variants, and the texts of the smallest of all.
    fn goldens(&self, kernel: &KernelItem, selected: &[&Variant]) -> Done<Vec<Golden>> {
        let made = kernel
            .variants
            .iter()
            .map(|variant| self.compile(kernel, variant));
        let made: Vec<Made> = made.collect::<Done<_>>()?;
        let smallest = made
            .iter()
            .min_by_key(|made| (made.instructions, &made.name));
        let mut goldens = Vec::new();
        for one in &made {
            let is_smallest = smallest.is_some_and(|smallest| std::ptr::eq(smallest, one));
            let is_selected = selected
                .iter()
                .any(|variant| std::ptr::eq(*variant, one.variant));
            if !is_smallest && !is_selected {
                continue;
            }
            let func = self.resolved(one)?;
            if is_selected {
                goldens.push(self.facts(one, &func)?);
            }
            if is_smallest {
                let ir = ir_text(func, &KEPT_STAGE).map_err(|found| self.refuse(&found))?;
                let texts = [(Kind::Ir, ir), (Kind::Ptx, one.compiled.ptx().to_owned())];
                goldens.extend(texts_of(one, made.len(), texts));
            }
        }
        Ok(goldens)
    }

    fn resolved(&self, made: &Made<'_>) -> Done<Func> {
        let traced = made.variant.instance.trace();
        traced
            .map(|traced| traced.func)
            .map_err(|found| self.refuse(&found))
    }

    fn refuse(&self, found: &Diagnostics) -> Exit {
        self.speaker.diagnostics(found);
        Exit::Diagnostics
    }

    fn compile<'c>(&self, kernel: &KernelItem, variant: &'c Variant) -> Done<Made<'c>> {
        let compiled = self.compiler.compile(&variant.instance);
        let compiled = compiled.map_err(|error| self.speaker.error(&variant.display, &error))?;
        let instructions = ptx::Stats::of_module(compiled.module()).instructions();
        Ok(Made {
            name: self.names.name(kernel, variant),
            variant,
            compiled,
            instructions,
        })
    }

    fn facts(&self, made: &Made<'_>, func: &Func) -> Done<Golden> {
        let Made { name, compiled, .. } = made;
        let waste = waste(func).map_err(|found| self.refuse(&found))?;
        let fitness = compiled.check_assembly();
        fitness.map_err(|error| self.speaker.error(name, &error))?;
        let mut lines = facts(compiled);
        lines.extend(waste);
        lines.extend(opcodes(compiled));
        Ok(Golden {
            name: name.clone(),
            kind: Kind::Facts,
            text: comment(&lines),
            assembly: self.assembly(compiled.ptx(), &compiled.info().entry)?,
        })
    }

    /// What ptxas says, where there is one.
    fn assembly(&self, ptx: &str, entry: &str) -> Done<Option<String>> {
        if !self.toolchain.assembles() {
            return Ok(None);
        }
        match self.toolchain.assemble(ptx) {
            Ok(Image::Cubin { assembled, .. }) => {
                let version = self.toolchain.ptxas().map(|ptxas| ptxas.version);
                let line = assembled.report.entry(entry).zip(version);
                Ok(line.map(|(report, version)| {
                    let messages = assembled.report.messages.iter();
                    let said = messages.map(|message| format!(", warning: {}", message.text));
                    assembly_line(report, version) + &said.collect::<String>()
                }))
            }
            Ok(Image::Ptx(_)) => unreachable!("assembling gives a cubin or fails"),
            Err(error) => Err(self.speaker.error(entry, &error)),
        }
    }
}

/// The texts of the smallest of `variants` variants that are short enough to be read.
fn texts_of(
    made: &Made<'_>,
    variants: usize,
    texts: [(Kind, String); 2],
) -> impl Iterator<Item = Golden> {
    let which = match variants {
        1 => "",
        _ => ", the variant with the fewest instructions",
    };
    let header = format!("kernel: {}{which}", made.compiled.display());
    let short = texts
        .into_iter()
        .filter(|(_, text)| text.lines().count() <= LONGEST);
    short.map(move |(kind, text)| Golden {
        name: made.name.clone(),
        kind,
        text: comment(std::slice::from_ref(&header)) + &text,
        assembly: None,
    })
}
