//! `run` and `test`: runs cases and checks their results.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::snapshot::hold_accepted;
use super::{check_variant, limits};
use crate::case::{Bed, BenchOptions, CaseReport, Mode};
use crate::device::{Device, DeviceFacts};
use crate::error::Error;
use crate::harness::catalog::{CaseItem, Catalog, RunItem};
use crate::harness::context::{Context, Done};
use crate::harness::device::{Emulation, short_name};
use crate::harness::replaced::Replaced;
use crate::harness::request::Checking;
use crate::harness::speak::{Speaker, Verdict, count};
use crate::kernel::{Compiled, Compiler};
use crate::report::Remark;

/// A launch on a GPU that takes longer has hung: the largest cases take seconds.
const LAUNCH_LIMIT: Duration = Duration::from_mins(1);

/// What random inputs depend on. The same everywhere, so that a failure is met again.
const SEED: u64 = 0x7113_5eed;

/// Runs cases on a device.
pub(in crate::harness) struct Runner {
    mode: Mode,
    device: String,
    facts: DeviceFacts,
    limit_bytes: Option<usize>,
}

/// A run that was not wrong.
pub(in crate::harness) struct Passed {
    /// What was compared, with norm, bound and value.
    pub(in crate::harness) checks: Vec<String>,
    /// All its launches together.
    pub(in crate::harness) wall: Duration,
    /// Was a kernel used as edited by hand?
    pub(in crate::harness) is_edited: bool,
    /// What was launched: kernel, grid, threads, shared memory.
    launches: Vec<String>,
}

/// How a run is shown.
pub(in crate::harness) enum Shown {
    /// It was right.
    Passed(Passed),
    /// It is too large for the emulator, or for more GPUs than there are.
    Skipped(String),
    /// It was wrong.
    Failed(Error),
}

impl Runner {
    /// On `device`; `limit_bytes` is the most that a case's tensors may have there.
    pub(in crate::harness) fn new(
        device: &Device,
        compiler: Compiler,
        limit_bytes: Option<usize>,
    ) -> Runner {
        Runner {
            mode: Mode::Check(bed(device, compiler)),
            device: short_name(device),
            facts: device.facts().clone(),
            limit_bytes,
        }
    }

    /// The same, but to time launches and not to compare.
    pub(super) fn benching(
        device: &Device,
        compiler: Compiler,
        limit_bytes: Option<usize>,
        options: BenchOptions,
    ) -> Runner {
        Runner {
            mode: Mode::Bench(bed(device, compiler), options),
            device: short_name(device),
            facts: device.facts().clone(),
            limit_bytes,
        }
    }

    /// Why a run is left out here: the emulator takes a minute for what a GPU does in a millisecond.
    pub(in crate::harness) fn why_not(&self, run: &RunItem) -> Option<String> {
        let bytes = run.described.tensor_bytes;
        (bytes > self.limit_bytes?).then(|| {
            format!(
                "{} MiB of tensors: for a GPU, or choose sizes with -s",
                bytes.div_ceil(1 << 20)
            )
        })
    }

    /// Is time modelled and nothing measured?
    pub(super) fn is_modelling(&self) -> bool {
        matches!(&self.mode, Mode::Bench(bed, _) if bed.device.is_modelling())
    }

    pub(super) fn mode(&self) -> &Mode {
        &self.mode
    }

    pub(super) fn device(&self) -> &str {
        &self.device
    }

    pub(super) fn facts(&self) -> &DeviceFacts {
        &self.facts
    }

    /// Runs a case once.
    pub(in crate::harness) fn run(&self, case: &CaseItem, run: &RunItem) -> Shown {
        if let Some(why) = self.why_not(run) {
            return Shown::Skipped(why);
        }
        let outcome = case.entry.run(&run.sizes, &self.mode);
        match outcome.result {
            Ok(()) if outcome.report.agreements.is_empty() => {
                Shown::Failed(Error::NothingExpected {
                    case: case.entry.name.to_string(),
                })
            }
            Ok(()) => Shown::Passed(Passed::of(&outcome.report)),
            Err(error @ Error::TooFewGpus { .. }) => Shown::Skipped(error.to_string()),
            Err(error) => Shown::Failed(error),
        }
    }
}

/// The memory of the host that nothing else uses, where the system says.
fn available_bytes() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: usize = line.trim().strip_suffix(" kB")?.parse().ok()?;
    kib.checked_mul(1024)
}

pub(super) fn bed(device: &Device, compiler: Compiler) -> Bed {
    Bed {
        device: device.clone(),
        compiler,
        launch_limit: LAUNCH_LIMIT,
        // What is too large for the emulator is left out before it begins; tensors are made on the host for every device.
        tensor_limit_bytes: available_bytes(),
        seed: SEED,
        cache: None,
    }
}

impl Passed {
    fn of(report: &CaseReport) -> Passed {
        let compiled = || {
            report
                .launches
                .iter()
                .filter_map(|launch| launch.compiled.as_ref())
        };
        let launches = report
            .launches
            .iter()
            .zip(compiled())
            .map(|(launch, compiled)| {
                let info = compiled.info();
                let (threads, shared_bytes) = (info.threads, info.shared_bytes);
                format!(
                    "{}: {} CTAs of {threads} threads, {shared_bytes} bytes of shared memory",
                    compiled.display(),
                    launch.grid
                )
            });
        Passed {
            launches: launches.collect(),
            checks: report.agreements.iter().map(ToString::to_string).collect(),
            wall: report
                .launches
                .iter()
                .filter_map(|launch| launch.wall)
                .sum(),
            is_edited: compiled().any(Compiled::is_replaced),
        }
    }
}

pub(in crate::harness) fn run(
    context: &mut Context,
    filters: &[String],
    (seed, checking): (Option<u64>, Checking),
) -> Done {
    let catalog = context.catalog(filters)?;
    let replaced = context.replaced()?;
    let emulation = Emulation {
        seed,
        checking,
        ..Emulation::default()
    };
    run_cases(context, &catalog, filters, &replaced, emulation).map(Verdict::exit)
}

pub(in crate::harness) fn test(
    context: &mut Context,
    filters: &[String],
    (seeds, checking): (Option<u64>, Checking),
) -> Done {
    let catalog = context.catalog(filters)?;
    let compiler = Compiler::default();
    let mut verdict = Verdict::good();
    for (_, variant) in context.variants(&catalog, filters)? {
        if let Err(exit) = check_variant(variant, &compiler, &context.speaker) {
            verdict.note(exit);
        }
    }
    verdict.note(hold_costs(context, &catalog, filters)?);
    let orders: Vec<Option<u64>> = match seeds {
        None => vec![None],
        Some(seeds) => (0..seeds).map(Some).collect(),
    };
    for seed in orders {
        let replaced = Replaced::default();
        let emulation = Emulation {
            seed,
            checking,
            ..Emulation::default()
        };
        verdict.note(run_cases(context, &catalog, filters, &replaced, emulation)?.exit());
    }
    Ok(verdict.exit())
}

/// Whether the selected variants cost no more than their limits, and than what was accepted.
fn hold_costs(context: &Context, catalog: &Catalog, filters: &[String]) -> Done {
    let held = limits::measure(context, catalog, &context.variants(catalog, filters)?)?;
    let mut verdict = Verdict::good();
    verdict.note(held.report(context));
    // Others may need what a limit of several allows.
    if filters.is_empty() {
        held.remark_slack(context);
    }
    verdict.note(hold_accepted(context, filters)?);
    Ok(verdict.exit())
}

fn run_cases(
    context: &mut Context,
    catalog: &Catalog,
    filters: &[String],
    replaced: &Replaced,
    emulation: Emulation,
) -> Done<Verdict> {
    let selected = context.runs(catalog, filters)?;
    let device = context.open_device(emulation)?;
    let limit = context.tensor_limit(&device);
    let runner = Runner::new(&device, Context::compiler(replaced), limit);
    let table = Table::new(&selected);
    context.speaker.begin(selected.len());
    let speaker = &context.speaker;
    let started = Instant::now();
    let mut tally = Tally::default();
    for (case, run) in selected {
        speaker.step(&format!("{} {}", name_of(case, run), run.sizes));
        let shown = runner.run(case, run);
        let text = table.line(case, run, (&runner.device, &shown), speaker);
        speaker.tell(&text, || event(case, run, &runner.device, &shown));
        if let Shown::Passed(passed) = &shown {
            passed.elaborate(speaker);
        }
        tally.note(&shown, case, run, speaker);
        speaker.stepped();
        if device.is_cuda() && tally.has_lost_the_gpu {
            break;
        }
    }
    speaker.end();
    tally.summarise(started.elapsed(), speaker);
    if let Some(seed) = emulation.seed.filter(|_| tally.failed > 0) {
        let options = emulation.checking.options();
        let text = format!(
            "`cargo tilekit run --seed {seed}{options}` and the case's name run a failed case in the same order"
        );
        speaker.remark(&Remark::note(text));
    }
    Ok(tally.verdict)
}

/// The kernels that a case launches, or the case itself where they are not known.
fn name_of(case: &CaseItem, run: &RunItem) -> String {
    let kernels = run.kernels();
    if kernels.is_empty() {
        case.entry.name.to_string()
    } else {
        kernels.join(" + ")
    }
}

/// Widths, so that lines stand below each other.
pub(super) struct Table {
    name: usize,
    sizes: usize,
    /// Kernels that several cases launch: there the case is named too.
    shared: Vec<String>,
}

impl Table {
    pub(super) fn new(runs: &[(&CaseItem, &RunItem)]) -> Table {
        let mut table = Table {
            name: 0,
            sizes: 0,
            shared: Vec::new(),
        };
        for (at, (case, run)) in runs.iter().enumerate() {
            let name = name_of(case, run);
            let is_other = |(other, its): &(&CaseItem, &RunItem)| {
                other.entry.name != case.entry.name && name_of(other, its) == name
            };
            if !table.shared.contains(&name) && runs[..at].iter().any(is_other) {
                table.shared.push(name);
            }
        }
        let width = |text: String| text.chars().count();
        table.name = runs
            .iter()
            .map(|(case, run)| width(table.name(case, run)))
            .max()
            .unwrap_or(0);
        table.sizes = runs
            .iter()
            .map(|(_, run)| width(run.sizes.to_string()))
            .max()
            .unwrap_or(0);
        table
    }

    fn name(&self, case: &CaseItem, run: &RunItem) -> String {
        let name = name_of(case, run);
        if self.shared.contains(&name) {
            format!("{name} by {}", case.entry.name)
        } else {
            name
        }
    }

    /// The columns that say what was run.
    pub(super) fn prefix(&self, case: &CaseItem, run: &RunItem) -> String {
        let (name, sizes) = (self.name(case, run), run.sizes.to_string());
        format!(
            "{name:<name_width$}  {sizes:<size_width$}  ",
            name_width = self.name,
            size_width = self.sizes
        )
    }

    fn line(
        &self,
        case: &CaseItem,
        run: &RunItem,
        (device, shown): (&str, &Shown),
        speaker: &Speaker,
    ) -> String {
        use anstyle::AnsiColor::{Green, Red, Yellow};
        let (word, color, rest) = match shown {
            Shown::Passed(passed) => ("ok", Green, passed.text()),
            Shown::Skipped(why) => ("skip", Yellow, why.clone()),
            Shown::Failed(error) => ("FAIL", Red, in_short(error, speaker)),
        };
        let style = anstyle::Style::new().bold().fg_color(Some(color.into()));
        format!(
            "{style}{word:<4}{style:#}  {}{device}  {rest}\n",
            self.prefix(case, run)
        )
    }
}

/// One line; everything that was not shown before is said behind it.
fn in_short(error: &Error, speaker: &Speaker) -> String {
    match error {
        Error::Kernel(diagnostics) => match speaker.errors_to_show(diagnostics) {
            0 => "errors in the kernel, shown above".to_owned(),
            new => format!("{} in the kernel", count(new, "error")),
        },
        other => other
            .to_string()
            .lines()
            .next()
            .unwrap_or_default()
            .to_string(),
    }
}

impl Passed {
    fn elaborate(&self, speaker: &Speaker) {
        if speaker.is_verbose() {
            for launch in &self.launches {
                speaker.say(&format!("      {launch}\n"));
            }
        }
    }

    fn text(&self) -> String {
        let edited = if self.is_edited {
            "  (edited by hand)"
        } else {
            ""
        };
        format!(
            "{}  {}{edited}",
            self.checks.join(", "),
            time_text(self.wall)
        )
    }
}

/// Three digits and a unit.
pub(super) fn time_text(time: Duration) -> String {
    let ms = time.as_secs_f64() * 1e3;
    match ms {
        ..1.0 => format!("{ms:.3} ms"),
        ..10.0 => format!("{ms:.2} ms"),
        ..100.0 => format!("{ms:.1} ms"),
        ..1000.0 => format!("{ms:.0} ms"),
        _ => format!("{:.2} s", ms / 1e3),
    }
}

fn event(case: &CaseItem, run: &RunItem, device: &str, shown: &Shown) -> Value {
    let sizes: serde_json::Map<String, Value> = run
        .sizes
        .iter()
        .map(|(name, value)| (name.to_string(), value.into()))
        .collect();
    let (status, checks, wall_ms, why) = match shown {
        Shown::Passed(passed) => (
            "passed",
            passed.checks.clone(),
            Some(passed.wall.as_secs_f64() * 1e3),
            None,
        ),
        Shown::Skipped(why) => ("skipped", Vec::new(), None, Some(why.clone())),
        Shown::Failed(error) => ("failed", Vec::new(), None, Some(error.to_string())),
    };
    json!({
        "reason": "tilekit-case", "case": case.entry.name, "kernels": run.kernels(), "sizes": sizes, "device": device,
        "status": status, "checks": checks, "wall_ms": wall_ms, "why": why,
    })
}

/// What has become of the runs so far.
struct Tally {
    passed: usize,
    skipped: usize,
    failed: usize,
    has_lost_the_gpu: bool,
    verdict: Verdict,
}

impl Default for Tally {
    fn default() -> Tally {
        Tally {
            passed: 0,
            skipped: 0,
            failed: 0,
            has_lost_the_gpu: false,
            verdict: Verdict::good(),
        }
    }
}

impl Tally {
    fn note(&mut self, shown: &Shown, case: &CaseItem, run: &RunItem, speaker: &Speaker) {
        match shown {
            Shown::Passed(_) => self.passed += 1,
            Shown::Skipped(_) => self.skipped += 1,
            Shown::Failed(error) => {
                self.failed += 1;
                // A kernel that fails takes its context with it: nothing after it can be judged.
                self.has_lost_the_gpu |= matches!(error, Error::KernelFailed { .. });
                let about = case.about(run);
                self.verdict.note(speaker.error(&about, error));
            }
        }
    }

    fn summarise(&self, time: Duration, speaker: &Speaker) {
        if self.has_lost_the_gpu {
            let text = "the GPU is lost to this process after a failed kernel; the remaining cases were not run";
            speaker.remark(&Remark::warning(text));
        }
        let text = format!(
            "{} passed, {} failed, {} skipped in {}",
            self.passed,
            self.failed,
            self.skipped,
            time_text(time)
        );
        speaker.remark(&Remark::note(text));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits() {
        for (us, expected) in [
            (4, "0.004 ms"),
            (4_200, "4.20 ms"),
            (42_000, "42.0 ms"),
            (420_000, "420 ms"),
            (4_200_000, "4.20 s"),
        ] {
            assert_eq!(time_text(Duration::from_micros(us)), expected);
        }
    }
}
