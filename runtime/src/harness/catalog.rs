//! The kernels and cases of a program, each kernel with the variants that are known.

use std::collections::HashMap;

use gluon_lang::rt::{KernelEntry, inventory};

use crate::case::{CaseEntry, CaseReport, Mode, Sizes};
use crate::error::{Error, Result};
use crate::kernel::{Instance, display_of};

/// What a package offers.
pub(super) struct Catalog {
    /// Its kernels, by module and line.
    pub(super) kernels: Vec<KernelItem>,
    /// Its cases, by module and line.
    pub(super) cases: Vec<CaseItem>,
    /// Other crates of the program that have kernels.
    pub(super) elsewhere: Vec<String>,
}

/// A kernel and its known variants.
pub(super) struct KernelItem {
    pub(super) entry: &'static KernelEntry,
    pub(super) variants: Vec<Variant>,
}

/// A kernel with its compile-time parameters.
#[derive(Clone)]
pub(super) struct Variant {
    /// Its function.
    pub(super) instance: Instance,
    /// Such as `vector_add<1024>`.
    pub(super) display: String,
    /// Cases that launch it.
    pub(super) cases: Vec<&'static str>,
}

/// A case and its runs.
pub(super) struct CaseItem {
    pub(super) entry: &'static CaseEntry,
    pub(super) runs: Vec<RunItem>,
}

/// One run of a case.
pub(super) struct RunItem {
    pub(super) sizes: Sizes,
    /// What it launches.
    pub(super) described: CaseReport,
    /// Why that is not known.
    pub(super) failure: Option<Error>,
}

/// The sizes that replace those of a case.
pub(super) type Overrides<'a> = &'a dyn Fn(&CaseEntry) -> Vec<(String, Vec<usize>)>;

impl Catalog {
    /// Everything of the crates called `crates`; all crates if there is none.
    ///
    /// # Errors
    /// Overrides that do not fit a case.
    pub(super) fn find(crates: &[&str], overrides: Overrides<'_>) -> Result<Catalog> {
        let is_ours = |module: &str| crates.is_empty() || crates.contains(&crate_of(module));
        let mut cases = Vec::new();
        for entry in CaseEntry::all()
            .into_iter()
            .filter(|entry| is_ours(entry.module))
        {
            cases.push(CaseItem::new(entry, &overrides(entry))?);
        }
        let mut entries: Vec<&'static KernelEntry> = inventory::iter::<KernelEntry>().collect();
        entries.sort_by_key(|entry| (entry.module, entry.line, entry.name));
        let (ours, others): (Vec<_>, Vec<_>) =
            entries.into_iter().partition(|entry| is_ours(entry.module));
        let mut elsewhere: Vec<String> = others
            .iter()
            .map(|entry| crate_of(entry.module).to_string())
            .collect();
        elsewhere.dedup();
        let launches = Launches::of(&cases);
        let kernels = ours
            .into_iter()
            .map(|entry| KernelItem::new(entry, &launches))
            .collect();
        Ok(Catalog {
            kernels,
            cases,
            elsewhere,
        })
    }

    /// Describes these cases again, at other sizes.
    ///
    /// # Errors
    /// Overrides that do not fit a case.
    pub(super) fn resize(
        &mut self,
        meant: &[&'static CaseEntry],
        overrides: Overrides<'_>,
    ) -> Result<()> {
        for case in &mut self.cases {
            if meant.iter().any(|entry| std::ptr::eq(*entry, case.entry)) {
                *case = CaseItem::new(case.entry, &overrides(case.entry))?;
            }
        }
        let launches = Launches::of(&self.cases);
        for kernel in &mut self.kernels {
            *kernel = KernelItem::new(kernel.entry, &launches);
        }
        Ok(())
    }

    /// Every variant of every kernel.
    pub(super) fn variants(&self) -> impl Iterator<Item = (&KernelItem, &Variant)> {
        self.kernels
            .iter()
            .flat_map(|kernel| kernel.variants.iter().map(move |variant| (kernel, variant)))
    }

    /// Whether a variant is launched under this name; also where one cannot be traced, for it might be that.
    pub(super) fn may_have_entry(&self, name: &str) -> bool {
        self.variants()
            .any(|(_, variant)| match variant.instance.trace() {
                Ok(traced) => *traced.func.name == *name,
                Err(_) => true,
            })
    }

    /// Is there nothing?
    pub(super) fn is_empty(&self) -> bool {
        self.kernels.is_empty() && self.cases.is_empty()
    }
}

/// The crate of `crate::module`.
fn crate_of(module: &str) -> &str {
    module.split("::").next().unwrap_or(module)
}

impl KernelItem {
    /// The whole name of a variant, such as `examples::vector_add::vector_add<1024>`: two modules may have a kernel of
    /// one name.
    pub(super) fn path_of(&self, variant: &Variant) -> String {
        format!("{}::{}", self.entry.module, variant.display)
    }

    /// The instance as which a run launches a variant, if it does.
    pub(super) fn launched<'r>(&self, variant: &Variant, run: &'r RunItem) -> Option<&'r Instance> {
        let mut instances = run.described.launches.iter().map(|launch| &launch.instance);
        instances
            .find(|instance| is_of(instance, self.entry) && instance.display() == variant.display)
    }

    fn new(entry: &'static KernelEntry, launches: &Launches<'_>) -> KernelItem {
        let declared = entry
            .instances
            .iter()
            .map(|instance| Instance::declared(entry, instance));
        let mut variants: Vec<Variant> = declared.map(Variant::new).collect();
        let function = format!("{}::{}", entry.module, entry.name);
        for (instance, case) in launches.0.get(&*function).into_iter().flatten() {
            add(&mut variants, instance, case);
        }
        KernelItem { entry, variants }
    }
}

/// What cases launch, by the path of the kernel's function.
struct Launches<'c>(HashMap<&'c str, Vec<(&'c Instance, &'static str)>>);

impl<'c> Launches<'c> {
    fn of(cases: &'c [CaseItem]) -> Self {
        let mut launches: HashMap<_, Vec<_>> = HashMap::new();
        for case in cases {
            for launch in case.runs.iter().flat_map(|run| &run.described.launches) {
                let of_function = launches.entry(function_of(&launch.instance)).or_default();
                of_function.push((&launch.instance, case.entry.name));
            }
        }
        Self(launches)
    }
}

/// `a::softmax` of `a::softmax<bf16>`.
fn function_of(instance: &Instance) -> &str {
    let path = instance.path();
    path.split('<').next().unwrap_or(path)
}

/// Is `instance` one of the kernel?
fn is_of(instance: &Instance, entry: &KernelEntry) -> bool {
    function_of(instance)
        .strip_prefix(entry.module)
        .and_then(|rest| rest.strip_prefix("::"))
        == Some(entry.name)
}

fn add(variants: &mut Vec<Variant>, instance: &Instance, case: &'static str) {
    // Cases launch the same instance many times, and its name takes a while to write.
    let known = variants
        .iter()
        .position(|variant| variant.instance == *instance);
    let at = known.unwrap_or_else(|| place(variants, instance));
    if !variants[at].cases.contains(&case) {
        variants[at].cases.push(case);
    }
}

/// Where the variant of this instance is.
fn place(variants: &mut Vec<Variant>, instance: &Instance) -> usize {
    let new = Variant::new(instance.clone());
    // The author writes a declared instance in his own way; spaces and paths are no difference.
    let found = variants
        .iter()
        .position(|variant| variant.display == new.display);
    found.unwrap_or_else(|| {
        variants.push(new);
        variants.len() - 1
    })
}

impl Variant {
    fn new(instance: Instance) -> Variant {
        let display = instance.display();
        Variant {
            instance,
            display,
            cases: Vec::new(),
        }
    }
}

/// `a::softmax<bf16>` of `a::softmax<half::bf16>`: only the arguments without their modules.
fn whole_name_of(path: &str) -> String {
    let function = path.split('<').next().unwrap_or(path);
    match function.rsplit_once("::") {
        Some((module, _)) => format!("{module}::{}", display_of(path)),
        None => display_of(path),
    }
}

impl CaseItem {
    /// Its name with its module.
    pub(super) fn path(&self) -> String {
        format!("{}::{}", self.entry.module, self.entry.name)
    }

    /// What a message about a run begins with: ``case `softmax` at rows=8``.
    pub(super) fn about(&self, run: &RunItem) -> String {
        let (name, sizes) = (self.entry.name, run.sizes.to_string());
        if sizes.is_empty() {
            return format!("case `{name}`");
        }
        format!("case `{name}` at {sizes}")
    }

    fn new(entry: &'static CaseEntry, overrides: &[(String, Vec<usize>)]) -> Result<CaseItem> {
        let runs = entry.runs(overrides)?.into_iter().map(|sizes| {
            let outcome = entry.run(&sizes, &Mode::Describe);
            RunItem {
                sizes,
                described: outcome.report,
                failure: outcome.result.err(),
            }
        });
        Ok(CaseItem {
            entry,
            runs: runs.collect(),
        })
    }
}

impl RunItem {
    /// The kernels that it launches, each once: `vector_add<1024>`.
    pub(super) fn kernels(&self) -> Vec<String> {
        self.names(display_of)
    }

    /// The same with their modules: `examples::vector_add::vector_add<1024>`.
    pub(super) fn kernel_paths(&self) -> Vec<String> {
        self.names(whole_name_of)
    }

    fn names(&self, name_of: impl Fn(&str) -> String) -> Vec<String> {
        let mut names = Vec::new();
        for launch in &self.described.launches {
            let name = name_of(launch.instance.path());
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_names_keep_the_module_of_the_function_alone() {
        for (path, expected) in [
            (
                "a::b::softmax<half::bfloat::bf16, 4096>",
                "a::b::softmax<bf16, 4096>",
            ),
            ("a::plain", "a::plain"),
        ] {
            assert_eq!(whole_name_of(path), expected);
        }
    }
}
