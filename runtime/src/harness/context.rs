//! What every verb works with.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use super::catalog::{CaseItem, Catalog, KernelItem, Overrides, RunItem, Variant};
use super::config::{Config, ConfigError, KernelLimits};
use super::device::Emulation;
use super::replaced::Replaced;
use super::request::{
    ColorChoice, DeviceChoice, OutputOptions, PROTOCOL, PackagePlace, Request, SizeOverride, Verb,
};
use super::select::{Selection, near, unknown_names, unlaunched_names};
use super::speak::Speaker;
use super::{Exit, Harness};
use crate::case::CaseEntry;
use crate::device::Device;
use crate::kernel::Compiler;
use crate::report::{Remark, Sources};

/// A package, what is configured for it, and a way to speak.
pub(super) struct Context {
    pub(super) place: PackagePlace,
    pub(super) speaker: Speaker,
    crates: &'static [&'static str],
    config: Config,
    device: Option<DeviceChoice>,
    sizes_of_environment: Vec<SizeOverride>,
    sizes_of_command: Vec<SizeOverride>,
}

/// How a verb ends, or why it ended early; the failure has been reported.
pub(super) type Done<T = Exit> = Result<T, Exit>;

impl Context {
    /// What a request says.
    pub(super) fn of_request(harness: &Harness, request: Request) -> Done<Context> {
        let Request {
            package,
            output,
            device,
            sizes,
            ..
        } = request;
        gluon_lang::source::name_files_below(&package.workspace);
        let sources = Sources::below([package.workspace.clone(), package.root.clone()]);
        let data = opened(super::process::take_stdout())?;
        let speaker = Speaker::new(output, sources, data);
        speaker.watch_ptxas();
        Context::new(harness, package, speaker, device, sizes)
    }

    /// What holds without a request, as a test of the package.
    pub(super) fn of_test(harness: &Harness, output: OutputOptions) -> Done<Context> {
        let root = PathBuf::from(harness.root);
        let place = PackagePlace {
            name: harness.package.to_string(),
            workspace: root.clone(),
            artifacts: root.join("target/tilekit/test"),
            overrides: PathBuf::new(),
            root: root.clone(),
        };
        let data = opened(super::process::shared_stdout())?;
        let speaker = Speaker::new(output, Sources::below([root]), data);
        Context::new(
            harness,
            place,
            speaker,
            Some(DeviceChoice::Emulator),
            Vec::new(),
        )
    }

    fn new(
        harness: &Harness,
        place: PackagePlace,
        speaker: Speaker,
        device: Option<DeviceChoice>,
        sizes: Vec<SizeOverride>,
    ) -> Done<Context> {
        let config = Config::of_package(&place.root).map_err(|error| {
            speaker.say(&error.render(speaker.format(), true));
            Exit::Usage
        })?;
        let complain = |error: String| {
            speaker.failure(&Remark::error(error));
            Exit::Usage
        };
        // An empty variable says nothing, as everywhere.
        let named = std::env::var("TILEKIT_DEVICE")
            .ok()
            .filter(|name| !name.is_empty())
            .map(|name| name.parse());
        let device_of_environment = named
            .transpose()
            .map_err(|error| complain(format!("TILEKIT_DEVICE: {error}")))?;
        let listed = std::env::var("TILEKIT_SIZES").unwrap_or_default();
        let sizes_of_environment: Result<Vec<SizeOverride>, String> =
            listed.split_whitespace().map(str::parse).collect();
        let sizes_of_environment =
            sizes_of_environment.map_err(|error| complain(format!("TILEKIT_SIZES: {error}")))?;
        Ok(Context {
            place,
            crates: harness.crates,
            device: device.or(device_of_environment).or(config.device),
            config,
            sizes_of_environment,
            sizes_of_command: sizes,
            speaker,
        })
    }

    /// A request of this package at these sizes, to another process of this program. It says nothing but errors.
    pub(super) fn request_like(&self, device: DeviceChoice, verb: Verb) -> Request {
        Request {
            protocol: PROTOCOL,
            package: self.place.clone(),
            output: OutputOptions {
                color: ColorChoice::Never,
                quiet: true,
                ..OutputOptions::default()
            },
            device: Some(device),
            sizes: self.sizes_of_command.clone(),
            verb,
        }
    }

    /// What kernels run on.
    pub(super) fn device_choice(&self) -> DeviceChoice {
        self.device.unwrap_or_default()
    }

    /// The most bytes of tensors that a case may have on `device`: all there is on a GPU, and where sizes are chosen.
    pub(super) fn tensor_limit(&self, device: &Device) -> Option<usize> {
        let is_limited = !device.is_cuda() && self.sizes_of_command.is_empty();
        is_limited.then(|| self.emulator_limit_bytes())
    }

    /// The most bytes of tensors that a case of declared sizes may have on the emulator.
    pub(super) fn emulator_limit_bytes(&self) -> usize {
        let mib = self.config.emulator_tensor_mib.unwrap_or(64);
        mib.saturating_mul(1 << 20)
    }

    /// The author's files.
    pub(super) fn sources(&self) -> Sources {
        Sources::below([self.place.workspace.clone(), self.place.root.clone()])
    }

    /// The sizes in place of those that cases declare, in the order in which they count.
    pub(super) fn chosen_sizes(&self) -> [&[SizeOverride]; 2] {
        [&self.sizes_of_environment, &self.sizes_of_command]
    }

    /// The folder of the package's snapshots.
    pub(super) fn snapshot_folder(&self) -> PathBuf {
        let folder = self
            .config
            .snapshots
            .as_deref()
            .unwrap_or(Path::new("snapshots"));
        without_detours(&self.place.root.join(folder))
    }

    /// Whether the configuration says which folder that is.
    pub(super) fn names_snapshot_folder(&self) -> bool {
        self.config.snapshots.is_some()
    }

    /// Kernels and cases, at the sizes that are configured and chosen. A size of the command line is for the cases that `filters`
    /// select and that have it: others may refuse it, or take long.
    pub(super) fn catalog(&self, filters: &[String]) -> Done<Catalog> {
        self.check_configured_cases()?;
        self.check_configured_sizes()?;
        let is_narrowed = !filters.is_empty() && !self.sizes_of_command.is_empty();
        if !is_narrowed {
            self.check_chosen_sizes(&CaseEntry::all(), "no case")?;
            return self.find(&|entry| self.sizes_for(entry, &self.sizes_of_command));
        }
        let mut catalog = self.find(&|entry| self.sizes_for(entry, &[]))?;
        let meant = Selection::cases_at_any_size(filters, &catalog);
        let (subject, meant) = if meant.is_empty() {
            ("no case", CaseEntry::all())
        } else {
            ("no case that is selected", meant)
        };
        self.check_chosen_sizes(&meant, subject)?;
        let overrides = |entry: &CaseEntry| self.sizes_for(entry, &self.sizes_of_command);
        let resized = catalog.resize(&meant, &overrides);
        resized.map_err(|error| self.speaker.error("", &error))?;
        Ok(catalog)
    }

    /// The most that kernels may cost, by the names of kernels and variants.
    pub(super) fn limits(&self) -> &BTreeMap<String, KernelLimits> {
        &self.config.limits
    }

    /// Says a mistake of the configuration.
    pub(super) fn misconfigured(&self, mistake: &ConfigError) -> Exit {
        self.speaker
            .say(&mistake.render(self.speaker.format(), true));
        Exit::Usage
    }

    fn check_configured_cases(&self) -> Done<()> {
        for name in self.config.cases.keys() {
            if CaseEntry::all().iter().all(|entry| entry.name != name) {
                let remark = Remark::error(format!(
                    "the configuration has `[cases.{name}]`, and there is no such case"
                ));
                let mut names: Vec<&str> =
                    CaseEntry::all().iter().map(|entry| entry.name).collect();
                names.dedup();
                self.speaker.failure(&offering(remark, &names));
                return Err(Exit::Usage);
            }
        }
        Ok(())
    }

    /// The sizes of a case that are configured or among these of the command line, where it has them.
    fn sizes_for(
        &self,
        entry: &CaseEntry,
        of_command: &[SizeOverride],
    ) -> Vec<(String, Vec<usize>)> {
        let known: Vec<&str> = entry.sizes.iter().map(|list| list.name).collect();
        let chosen: Vec<SizeOverride> = of_command
            .iter()
            .filter(|size| known.contains(&size.name.as_str()))
            .cloned()
            .collect();
        self.config
            .sizes_of(entry.name, &known, &self.sizes_of_environment, &chosen)
    }

    /// Kernels and cases at the sizes that the package declares: what does not depend on who asks.
    pub(super) fn declared_catalog(&self) -> Done<Catalog> {
        self.find(&|_| Vec::new())
    }

    fn find(&self, overrides: Overrides<'_>) -> Done<Catalog> {
        let found = Catalog::find(self.crates, overrides);
        let catalog = found.map_err(|error| self.speaker.error("", &error))?;
        if catalog.is_empty() {
            return Err(self.nothing_found(&catalog));
        }
        Ok(catalog)
    }

    /// A size of the command line that none of these cases has is a misspelt one: it would change nothing and say nothing.
    fn check_chosen_sizes(&self, cases: &[&CaseEntry], subject: &str) -> Done<()> {
        let names = self.sizes_of_command.iter().map(|size| &size.name);
        self.check_sizes(names, cases, (subject, ""))
    }

    fn check_configured_sizes(&self) -> Done<()> {
        let about = ("no case", ", which the configuration chooses");
        self.check_sizes(self.config.sizes.keys(), &CaseEntry::all(), about)
    }

    fn check_sizes<'n>(
        &self,
        mut names: impl Iterator<Item = &'n String>,
        cases: &[&CaseEntry],
        (subject, origin): (&str, &str),
    ) -> Done<()> {
        let sizes = cases.iter().flat_map(|entry| entry.sizes);
        let mut known: Vec<&str> = sizes.map(|list| list.name).collect();
        known.sort_unstable();
        known.dedup();
        let Some(name) = names.find(|name| !known.contains(&name.as_str())) else {
            return Ok(());
        };
        let remark = Remark::error(format!("{subject} has a size `{name}`{origin}"));
        self.speaker.failure(&offering(remark, &known));
        Err(Exit::Usage)
    }

    fn nothing_found(&self, catalog: &Catalog) -> Exit {
        let names: Vec<&str> = self.crates.iter().copied().skip(1).collect();
        let mut remark = Remark::error(format!("no kernels were found in {}", names.join(", ")));
        for other in &catalog.elsewhere {
            remark = remark.with_note(format!(
                "there are kernels in `{other}`, which the harness does not name"
            ));
        }
        let help = "a kernel is a function with `#[kernel]`; if they are in another crate or behind a feature, name the \
                    crate in tests/tilekit.rs (`tilekit::harness!(this_crate, other_crate);`), write `use other_crate as \
                    _;` where nothing else mentions it, or turn the feature on with -F";
        self.speaker.failure(&remark.with_help(help));
        Exit::NothingSelected
    }

    /// What was selected, or why that is nothing, or a name among others that nothing has: what it stands for would be left out in silence.
    pub(super) fn expect_some<T>(
        &self,
        found: Vec<T>,
        filters: &[String],
        catalog: &Catalog,
    ) -> Done<Vec<T>> {
        let unknown;
        let mut filters = filters;
        if !found.is_empty() {
            unknown = unknown_names(filters, catalog);
            if unknown.is_empty() {
                return Ok(found);
            }
            filters = &unknown;
        }
        let remark = if filters.is_empty() {
            Remark::error(
                "no variants: kernels without cases and without declared instances have none",
            )
            .with_help(
                "write a `#[case]` that launches the kernel, or `#[kernel(instances(<...>))]`",
            )
        } else {
            Remark::error(format!("nothing is called `{}`", filters.join("` or `"))).with_help(
                format!(
                    "perhaps {}; `cargo tilekit list` names all",
                    near(filters, catalog).join(", ")
                ),
            )
        };
        self.speaker.failure(&remark);
        Err(Exit::NothingSelected)
    }

    /// The selected runs of cases, or why there are none, or a name of kernels that no case launches.
    pub(super) fn runs<'c>(
        &self,
        catalog: &'c Catalog,
        filters: &[String],
    ) -> Done<Vec<(&'c CaseItem, &'c RunItem)>> {
        let selection = Selection::new(filters, catalog);
        let all = catalog
            .cases
            .iter()
            .flat_map(|case| case.runs.iter().map(move |run| (case, run)));
        let found: Vec<_> = all.filter(|(case, run)| selection.run(case, run)).collect();
        let unlaunched = unlaunched_names(filters, catalog);
        let is_unlaunched = filters.is_empty() && found.is_empty() && !catalog.kernels.is_empty();
        if unlaunched.is_empty() && !is_unlaunched {
            return self.expect_some(found, filters, catalog);
        }
        let what = if is_unlaunched {
            "a kernel of this package".to_string()
        } else {
            format!("`{}`", unlaunched.join("` or `"))
        };
        let remark = Remark::error(format!("no case launches {what}"));
        let help = "write a `#[case]` that launches the kernel; `cargo tilekit list` names the cases of each";
        self.speaker.failure(&remark.with_help(help));
        Err(Exit::NothingSelected)
    }

    /// The selected variants.
    pub(super) fn variants<'c>(
        &self,
        catalog: &'c Catalog,
        filters: &[String],
    ) -> Done<Vec<(&'c KernelItem, &'c Variant)>> {
        let selection = Selection::new(filters, catalog);
        let found = catalog
            .variants()
            .filter(|(kernel, variant)| selection.variant(kernel, variant))
            .collect();
        self.expect_some(found, filters, catalog)
    }

    /// The kernels edited by hand; says which there are, and which of them no kernel of the package is any more.
    pub(super) fn replaced(&self) -> Done<Replaced> {
        let found = Replaced::read(&self.place.overrides);
        let replaced = found.map_err(|error| {
            self.speaker.failure(&Remark::error(error));
            Exit::Usage
        })?;
        if replaced.is_empty() {
            return Ok(replaced);
        }
        let catalog = self.declared_catalog()?;
        for (entry, kernel) in replaced.iter() {
            let origin = &kernel.origin;
            let remark = if catalog.may_have_entry(entry) {
                Remark::note(format!("`{entry}` is used as edited by hand in {origin}"))
                    .with_help("`cargo tilekit build --reset` removes the edited text")
            } else {
                Remark::warning(format!(
                    "`{entry}` was edited by hand in {origin}, and no kernel has this entry any more"
                ))
                .with_help("`cargo tilekit build --reset` removes the edited text")
            };
            self.speaker.remark(&remark);
        }
        Ok(replaced)
    }

    /// A compiler that uses the kernels edited by hand.
    pub(super) fn compiler(replaced: &Replaced) -> Compiler {
        let replaced = replaced.clone();
        Compiler::default()
            .replacing(move |entry| replaced.get(entry).map(|kernel| kernel.text.clone()))
    }

    /// The device for a run, introduced.
    pub(super) fn open_device(&self, emulation: Emulation) -> Done<Device> {
        let device = super::device::open(self.device_choice(), emulation, &self.speaker)?;
        super::device::introduce(&device, emulation, &self.speaker);
        Ok(device)
    }
}

/// Standard output, or why there is none.
fn opened(stdout: std::io::Result<std::fs::File>) -> Done<std::fs::File> {
    stdout.map_err(|error| {
        eprintln!("error: standard output cannot be used: {error}");
        Exit::Internal
    })
}

/// With the names that there are.
fn offering(remark: Remark, names: &[&str]) -> Remark {
    match names {
        [] => remark.with_help("there are none"),
        names => remark.with_help(format!("there are {}", names.join(", "))),
    }
}

/// The same path without `..`, as far as names tell; links are rare in a checkout.
fn without_detours(path: &Path) -> PathBuf {
    let mut short = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                short.pop();
            }
            Component::CurDir => {}
            other => short.push(other),
        }
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn detours_are_left_out() {
        assert_eq!(
            without_detours(Path::new("/w/examples/../snapshots/./kernels")),
            Path::new("/w/snapshots/kernels")
        );
    }
}
