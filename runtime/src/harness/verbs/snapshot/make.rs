//! The snapshots of the selected variants as they are now.

use std::collections::{BTreeMap, BTreeSet};

use crate::harness::Exit;
use crate::harness::artifact::{
    FileNames, KEPT_STAGE, assembly_line, comment, facts, ir_text, opcodes, waste,
};
use crate::harness::catalog::{Catalog, KernelItem, Variant};
use crate::harness::context::{Context, Done};
use crate::harness::golden::{Difference, Folder, Golden, Kind};
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
            // Which PTX a kernel keeps may change with any of its variants.
            let names = kernel
                .variants
                .iter()
                .map(|variant| maker.names.name(kernel, variant));
            looked_at.extend(names.map(|name| Kind::Ptx.file_name(&name)));
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

    /// The snapshots of one kernel: facts and IR of the selected variants, and the PTX of the smallest of all.
    fn goldens(&self, kernel: &KernelItem, selected: &[&Variant]) -> Done<Vec<Golden>> {
        let made = kernel
            .variants
            .iter()
            .map(|variant| self.compile(kernel, variant));
        let made: Vec<Made> = made.collect::<Done<_>>()?;
        let mut goldens = Vec::new();
        for made in &made {
            if selected
                .iter()
                .any(|variant| std::ptr::eq(*variant, made.variant))
            {
                goldens.push(self.ir(made)?);
            }
        }
        let smallest = made
            .iter()
            .min_by_key(|made| (made.instructions, &made.name));
        goldens.extend(smallest.map(|smallest| ptx(smallest, made.len())));
        Ok(goldens)
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

    /// The facts of a variant and its tile IR.
    fn ir(&self, made: &Made<'_>) -> Done<Golden> {
        let Made {
            name,
            variant,
            compiled,
            ..
        } = made;
        let traced = variant.instance.trace();
        let made = traced.and_then(|traced| {
            let waste = waste(&traced.func)?;
            Ok((ir_text(traced.func, &KEPT_STAGE)?, waste))
        });
        let (ir, waste) = made.map_err(|diagnostics| {
            self.speaker.diagnostics(&diagnostics);
            Exit::Diagnostics
        })?;
        let fitness = compiled.check_assembly();
        fitness.map_err(|error| self.speaker.error(name, &error))?;
        let mut header = facts(compiled);
        header.extend(waste);
        header.extend(opcodes(compiled));
        Ok(Golden {
            name: name.clone(),
            kind: Kind::Ir,
            text: format!("{}{ir}", comment(&header)),
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

/// The PTX of the smallest of `variants` variants.
fn ptx(made: &Made<'_>, variants: usize) -> Golden {
    let which = match variants {
        1 => "",
        _ => ", the variant with the fewest instructions",
    };
    let header = format!("kernel: {}{which}", made.compiled.display());
    Golden {
        name: made.name.clone(),
        kind: Kind::Ptx,
        text: comment(&[header]) + made.compiled.ptx(),
        assembly: None,
    }
}
