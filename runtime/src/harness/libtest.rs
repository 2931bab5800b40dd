//! The harness as an ordinary test: what `cargo test` and nextest expect of a test program.
//!
//! Every run of a case is a test on the emulator; beside them, every variant that no case launches is compiled, and the
//! snapshots are compared if the package has any.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use super::catalog::{CaseItem, Catalog, RunItem, Variant};
use super::context::Context;
use super::request::{ColorChoice, OutputOptions};
use super::speak::Speaker;
use super::verbs::{Runner, Shown, check_variant, differences, explain_losses, measure_limits};
use super::{Exit, Harness};
use crate::device::Device;
use crate::error::Error;
use crate::kernel::Compiler;

/// The arguments that are understood; others of libtest's that change nothing here are read over.
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of libtest's")]
#[derive(Debug, Default, PartialEq, Eq)]
struct Arguments {
    filters: Vec<String>,
    skips: Vec<String>,
    is_exact: bool,
    is_list: bool,
    is_terse: bool,
    /// `--ignored`: only tests that are usually left out.
    is_ignored_only: bool,
    /// `--include-ignored`: those too.
    is_ignored_too: bool,
    threads: Option<usize>,
    color: ColorChoice,
}

impl Arguments {
    fn read(words: impl Iterator<Item = String>) -> Result<Arguments, String> {
        let mut arguments = Arguments::default();
        let mut words = words.peekable();
        while let Some(word) = words.next() {
            let (name, value) = match word.split_once('=') {
                Some((name, value)) if name.starts_with("--") => {
                    (name.to_string(), Some(value.to_string()))
                }
                _ => (word.clone(), None),
            };
            let mut value = || {
                value
                    .clone()
                    .or_else(|| words.next())
                    .ok_or(format!("{name} needs a value"))
            };
            match name.as_str() {
                "--list" => arguments.is_list = true,
                "--exact" => arguments.is_exact = true,
                "--ignored" => arguments.is_ignored_only = true,
                "-q" | "--quiet" => arguments.is_terse = true,
                "--format" => arguments.is_terse = value()? == "terse",
                "--skip" => arguments.skips.push(value()?),
                "--color" => {
                    arguments.color = match value()?.as_str() {
                        "always" => ColorChoice::Always,
                        "never" => ColorChoice::Never,
                        _ => ColorChoice::Auto,
                    }
                }
                "--test-threads" => {
                    let count = value()?;
                    let count = count
                        .parse()
                        .map_err(|_| format!("--test-threads {count} is no number"))?;
                    arguments.threads = Some(count);
                }
                "--include-ignored" => arguments.is_ignored_too = true,
                "--nocapture" | "--no-capture" | "--show-output" | "--test" | "--bench" => {}
                "--logfile" | "--report-time" | "--shuffle-seed" | "-Z" => drop(value()?),
                flag if flag.starts_with('-') => return Err(format!("unknown argument `{flag}`")),
                _ => arguments.filters.push(word),
            }
        }
        Ok(arguments)
    }

    /// Does a test that is usually left out run?
    fn includes_ignored(&self) -> bool {
        self.is_ignored_only || self.is_ignored_too
    }

    fn selects(&self, name: &str) -> bool {
        let fits = |filter: &String| {
            if self.is_exact {
                name == filter
            } else {
                name.contains(filter.as_str())
            }
        };
        (self.filters.is_empty() || self.filters.iter().any(fits)) && !self.skips.iter().any(fits)
    }
}

/// One test.
enum Test<'c> {
    Run(&'c CaseItem, &'c RunItem),
    Compile(&'c Variant),
    Snapshots,
    Limits,
}

/// Runs the tests that the arguments of the process select.
pub(super) fn main(harness: &Harness) -> Exit {
    let arguments = match Arguments::read(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(error) => {
            eprintln!("error: {error}");
            return Exit::Usage;
        }
    };
    let output = OutputOptions {
        color: arguments.color,
        ..OutputOptions::default()
    };
    let done = Context::of_test(harness, output).and_then(|context| {
        let catalog = context.catalog(&[])?;
        Ok(run_all(&context, &catalog, &arguments))
    });
    done.unwrap_or_else(|exit| exit)
}

fn run_all(context: &Context, catalog: &Catalog, arguments: &Arguments) -> Exit {
    let device = Device::emulator();
    let limit = (!arguments.includes_ignored()).then(|| context.emulator_limit_bytes());
    let session = Session {
        context,
        catalog,
        usual: Runner::new(
            &device,
            Compiler::default(),
            Some(context.emulator_limit_bytes()),
        ),
        runner: Runner::new(&device, Compiler::default(), limit),
    };
    let all = tests_of(context, catalog);
    let total = all.len();
    let is_wanted = |name: &str, test: &Test| {
        arguments.selects(name)
            && (!arguments.is_ignored_only || session.why_ignored(test).is_some())
    };
    let tests: Vec<(String, Test)> = all
        .into_iter()
        .filter(|(name, test)| is_wanted(name, test))
        .collect();
    if arguments.is_list {
        list(&tests, arguments, &context.speaker);
        return Exit::Success;
    }
    context
        .speaker
        .print(&format!("\nrunning {} tests\n", tests.len()));
    let order = run_in_parallel(&session, &tests, arguments);
    let (failed, ignored) = (order.failed, order.ignored);
    let (word, exit) = if failed == 0 {
        ("ok", Exit::Success)
    } else {
        ("FAILED", Exit::KernelFailed)
    };
    context.speaker.print(&format!(
        "\ntest result: {word}. {} passed; {failed} failed; {ignored} ignored; 0 measured; {} filtered out\n\n",
        tests.len() - failed - ignored,
        total - tests.len()
    ));
    exit
}

fn list(tests: &[(String, Test)], arguments: &Arguments, speaker: &Speaker) {
    let mut lines: Vec<String> = tests
        .iter()
        .map(|(name, _)| format!("{name}: test\n"))
        .collect();
    if !arguments.is_terse {
        lines.push(format!("\n{} tests, 0 benchmarks\n", tests.len()));
    }
    speaker.print(&lines.concat());
}

/// What tests run with.
struct Session<'c> {
    context: &'c Context,
    catalog: &'c Catalog,
    /// Leaves out what is usually left out.
    usual: Runner,
    /// Runs what is wanted now.
    runner: Runner,
}

impl Session<'_> {
    /// Why a test is usually left out.
    fn why_ignored(&self, test: &Test) -> Option<String> {
        match test {
            Test::Run(_, run) => self.usual.why_not(run),
            Test::Compile(_) | Test::Snapshots | Test::Limits => None,
        }
    }
}

/// Every test by name. Names hold no spaces, as nextest wants them.
fn tests_of<'c>(context: &Context, catalog: &'c Catalog) -> Vec<(String, Test<'c>)> {
    let mut tests = Vec::new();
    for case in &catalog.cases {
        for run in &case.runs {
            let sizes: Vec<String> = run
                .sizes
                .iter()
                .map(|(name, value)| format!("{name}={value}"))
                .collect();
            let at = if sizes.is_empty() {
                String::new()
            } else {
                format!("/{}", sizes.join(","))
            };
            tests.push((
                format!("{}::{}{at}", case.entry.module, case.entry.name),
                Test::Run(case, run),
            ));
        }
    }
    for (kernel, variant) in catalog
        .variants()
        .filter(|(_, variant)| variant.cases.is_empty())
    {
        let name = format!(
            "{}::{}/compiles",
            kernel.entry.module,
            variant.display.replace(' ', "")
        );
        tests.push((name, Test::Compile(variant)));
    }
    // One that is named and not there fails: all snapshots are new.
    if context.snapshot_folder().is_dir() || context.names_snapshot_folder() {
        tests.push(("snapshots".to_string(), Test::Snapshots));
    }
    if !context.limits().is_empty() {
        tests.push(("limits".to_string(), Test::Limits));
    }
    tests
}

/// Runs the tests on some threads and prints each result in order.
fn run_in_parallel(
    session: &Session<'_>,
    tests: &[(String, Test)],
    arguments: &Arguments,
) -> InOrder {
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    let threads = arguments
        .threads
        .unwrap_or(cores)
        .clamp(1, tests.len().max(1));
    let next = AtomicUsize::new(0);
    let order = Mutex::new(InOrder::new(tests.len()));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some((_, test)) = tests.get(at) else {
                        break;
                    };
                    let outcome = session.run(test);
                    let mut order = order.lock().unwrap_or_else(PoisonError::into_inner);
                    order.finished(at, outcome, &mut |at, outcome| {
                        show(session.context, &tests[at].0, outcome);
                    });
                }
            });
        }
    });
    order.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// How a test ended.
#[derive(Debug)]
enum Outcome {
    Passed,
    /// It was left out, for this reason.
    Ignored(String),
    /// What is wrong was shown when it was found.
    Failed(String),
    /// It failed with this error, still to be shown.
    Wrong(Box<Error>),
}

impl Session<'_> {
    fn run(&self, test: &Test) -> Outcome {
        match test {
            Test::Run(case, run) => match self.runner.run(case, run) {
                Shown::Passed(_) => Outcome::Passed,
                Shown::Skipped(why) => Outcome::Ignored(why),
                Shown::Failed(error) => Outcome::Wrong(Box::new(error)),
            },
            Test::Compile(variant) => {
                let checked = check_variant(variant, &Compiler::default(), &self.context.speaker);
                checked.map_or(Outcome::Failed(String::new()), |_| Outcome::Passed)
            }
            Test::Snapshots => self.compare_snapshots(),
            Test::Limits => self.hold_limits(),
        }
    }

    fn hold_limits(&self) -> Outcome {
        let variants: Vec<_> = self.catalog.variants().collect();
        let held = measure_limits(self.context, self.catalog, &variants);
        match held.map(|held| held.report(self.context)) {
            Ok(Exit::Success) => Outcome::Passed,
            Ok(_) | Err(_) => Outcome::Failed(String::new()),
        }
    }

    fn compare_snapshots(&self) -> Outcome {
        const NAMED: usize = 4;
        let Ok(found) = differences(self.context, self.catalog) else {
            return Outcome::Failed(String::new());
        };
        if found.is_empty() {
            return Outcome::Passed;
        }
        explain_losses(&found, self.catalog, self.context);
        let named: Vec<String> = found
            .iter()
            .take(NAMED)
            .map(|difference| difference.path().display().to_string())
            .collect();
        let more = match found.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let worse = found
            .iter()
            .filter(|difference| !difference.losses().is_empty());
        let worse = match worse.count() {
            0 => String::new(),
            worse => format!("; {worse} cost more than accepted"),
        };
        Outcome::Failed(format!(
            ": `cargo tilekit snapshot` shows what differs in {}{more}{worse}",
            named.join(", ")
        ))
    }
}

fn show(context: &Context, name: &str, outcome: &Outcome) {
    let word = match outcome {
        Outcome::Passed => "ok".to_string(),
        Outcome::Ignored(why) => format!("ignored, {why}"),
        Outcome::Failed(why) => format!("FAILED{why}"),
        Outcome::Wrong(_) => "FAILED".to_string(),
    };
    context.speaker.print(&format!("test {name} ... {word}\n"));
    if let Outcome::Wrong(error) = outcome {
        context.speaker.error(name, error);
    }
}

/// Holds results back until all before them are there.
struct InOrder {
    waiting: Vec<Option<Outcome>>,
    next: usize,
    failed: usize,
    ignored: usize,
}

impl InOrder {
    fn new(total: usize) -> InOrder {
        InOrder {
            waiting: (0..total).map(|_| None).collect(),
            next: 0,
            failed: 0,
            ignored: 0,
        }
    }

    fn finished(&mut self, at: usize, outcome: Outcome, show: &mut dyn FnMut(usize, &Outcome)) {
        match outcome {
            Outcome::Passed => {}
            Outcome::Ignored(_) => self.ignored += 1,
            Outcome::Failed(_) | Outcome::Wrong(_) => self.failed += 1,
        }
        self.waiting[at] = Some(outcome);
        while let Some(outcome) = self.waiting.get_mut(self.next).and_then(Option::take) {
            show(self.next, &outcome);
            self.next += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Arguments, String> {
        Arguments::read(line.split_whitespace().map(str::to_string))
    }

    #[test]
    fn the_arguments_of_cargo_test_and_nextest_are_understood() {
        let list = read("--list --format terse").expect("nextest's first call");
        assert!(list.is_list && list.is_terse);
        let exact = read("--exact a::b/n=3 --nocapture").expect("nextest's second call");
        assert!(exact.selects("a::b/n=3") && !exact.selects("a::b/n=33"));
        let some = read("add --skip big --test-threads=2 -q").expect("a filter");
        assert!(some.selects("vector_add") && !some.selects("add_big") && some.threads == Some(2));
        assert!(
            read("--list --ignored")
                .expect("nextest's other call")
                .includes_ignored()
        );
        assert!(read("--frobnicate").is_err() && read("--skip").is_err());
    }

    #[test]
    fn results_are_shown_in_order() {
        let mut order = InOrder::new(3);
        let mut seen = Vec::new();
        for (at, outcome) in [
            (2, Outcome::Ignored(String::new())),
            (0, Outcome::Passed),
            (1, Outcome::Failed(String::new())),
        ] {
            order.finished(at, outcome, &mut |at, _| seen.push(at));
        }
        assert_eq!(seen, [0, 1, 2]);
        assert_eq!((order.failed, order.ignored), (1, 1));
    }
}
