//! `build --timings`: how long each step from the Rust function to PTX and to a cubin takes.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use lowering::Options;
use serde_json::json;

use crate::error::Result;
use crate::harness::catalog::Variant;
use crate::harness::context::{Context, Done};
use crate::harness::speak::{Speaker, Verdict};
use crate::kernel::Compiler;
use crate::report::Remark;
use crate::toolchain::Toolchain;

/// Runs of which the median counts, after a first one that is shown apart: it pays for what is set up once.
const RUNS: usize = 21;

/// ptxas takes long enough for few runs to tell.
const PTXAS_RUNS: usize = 5;

pub(in crate::harness) fn timings(context: &Context, filters: &[String]) -> Done {
    let catalog = context.declared_catalog()?;
    let variants = context.variants(&catalog, filters)?;
    if cfg!(debug_assertions) {
        let text =
            "these are times of an unoptimised build; without --profile, --timings uses release";
        context.speaker.remark(&Remark::warning(text));
    }
    let toolchain = Toolchain::find(None);
    let mut verdict = Verdict::good();
    for (_, variant) in variants {
        match measure(variant, &toolchain) {
            Ok(times) => times.show(&variant.display, &context.speaker),
            Err(error) => verdict.note(context.speaker.error(&variant.display, &error)),
        }
    }
    Ok(verdict.exit())
}

/// The steps in order; each with its time in every run.
#[derive(Default)]
struct Times {
    names: Vec<&'static str>,
    runs: BTreeMap<&'static str, Vec<Duration>>,
}

/// From the function to PTX text.
const TOTAL: &str = "trace to PTX";

fn measure(variant: &Variant, toolchain: &Toolchain) -> Result<Times> {
    let compiler = Compiler::new(Options {
        verify_each_pass: false,
        ..Options::default()
    });
    let mut times = Times::default();
    for _ in 0..=RUNS {
        times.add_run(&compiler, variant)?;
    }
    let ptxas = match toolchain.ptxas() {
        Some(ptxas) => ptxas,
        None if toolchain.assembles() => return Err(toolchain.no_ptxas()),
        None => return Ok(times),
    };
    let compiled = compiler.compile(&variant.instance)?;
    for _ in 0..=PTXAS_RUNS {
        let start = Instant::now();
        ptxas.assemble(compiled.ptx())?;
        times.add("ptxas", start.elapsed());
    }
    Ok(times)
}

impl Times {
    /// Compiles once and prints the PTX.
    fn add_run(&mut self, compiler: &Compiler, variant: &Variant) -> Result<()> {
        let start = Instant::now();
        let compiled = compiler.compile(&variant.instance)?;
        let printing = Instant::now();
        std::hint::black_box(compiled.ptx());
        let end = Instant::now();
        let mut steps: Vec<(&'static str, Duration)> = Vec::new();
        for step in compiled.steps() {
            // A pass that stands twice in the pipeline has one line.
            match steps.iter_mut().find(|(name, _)| *name == step.name) {
                Some((_, time)) => *time += step.time,
                None => steps.push((step.name, step.time)),
            }
        }
        steps.push(("print", end.duration_since(printing)));
        steps.push((TOTAL, end.duration_since(start)));
        for (name, time) in steps {
            self.add(name, time);
        }
        Ok(())
    }

    fn add(&mut self, name: &'static str, time: Duration) {
        if !self.names.contains(&name) {
            self.names.push(name);
        }
        self.runs.entry(name).or_default().push(time);
    }

    fn show(&self, display: &str, speaker: &Speaker) {
        let head = format!("{display:<26} {:>12}  {:>12}\n", "median", "first run");
        speaker.tell(
            &head,
            || json!({ "reason": "tilekit-timings", "variant": display, "runs": RUNS }),
        );
        for name in &self.names {
            let runs = &self.runs[name];
            let (first, median) = (ms(runs[0]), ms(median(&runs[1..])));
            speaker.tell(&format!("  {name:<24} {median:>9.3} ms  {first:>9.3} ms\n"), || {
                json!({ "reason": "tilekit-timing", "variant": display, "step": name, "median_ms": median,
                        "first_ms": first, "runs": runs.len() - 1 })
            });
        }
    }
}

fn median(times: &[Duration]) -> Duration {
    let mut sorted = times.to_vec();
    sorted.sort();
    sorted[sorted.len() / 2]
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
