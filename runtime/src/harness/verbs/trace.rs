//! `trace`: what happens when in the launches of one run of a case.

mod build;

use std::fmt::Write;
use std::path::PathBuf;

use lowering::trace::{Keep, TraceLevel, TraceOptions};
use serde_json::{Value, json};

use super::run::bed;
use crate::case::{Bed, BenchOptions, CaseReport, LaunchReport, Mode, Timing};
use crate::device::Device;
use crate::harness::Exit;
use crate::harness::catalog::{CaseItem, RunItem};
use crate::harness::context::{Context, Done};
use crate::harness::device::Emulation;
use crate::harness::files;
use crate::harness::replaced::Replaced;
use crate::harness::request::{TraceKeep, TraceLevel as AskedLevel, TraceRequest};
use crate::report::Remark;
use crate::trace::Recording;
use crate::trace::names::Names;
use crate::trace::page::Page;
use crate::trace::perfetto::perfetto;
use crate::trace::picture::{Nothing, Picture};
use crate::trace::summary::{Summary, time};
use crate::trace::timeline::{CtaTime, Timeline};
use build::Builds;

pub(in crate::harness) fn trace(context: &Context, request: &TraceRequest) -> Done {
    let catalog = context.catalog(&request.filters)?;
    let selected = context.runs(&catalog, &request.filters)?;
    let replaced = context.replaced()?;
    let emulation = Emulation {
        is_timed: true,
        ..Emulation::default()
    };
    let device = context.open_device(emulation)?;
    let (case, run) = one_run(context, request, &device, &selected)?;
    let options = options(request, run);
    let builds = build::builds(context, &replaced, run, options)?;
    let run = Traced {
        context,
        request,
        device: &device,
        about: case.about(run),
        case,
        run,
        options,
    };
    let report = run.recorded(&replaced)?;
    let overhead = run.overhead(&replaced)?;
    let launches = report.launches.iter().enumerate();
    for (number, launch) in launches {
        run.show(launch, number, (&builds, overhead.as_ref()))?;
    }
    Ok(Exit::Success)
}

/// The run that is meant: of one case, the first that can run here.
fn one_run<'c>(
    context: &Context,
    request: &TraceRequest,
    device: &Device,
    selected: &[(&'c CaseItem, &'c RunItem)],
) -> Done<(&'c CaseItem, &'c RunItem)> {
    let mut names: Vec<&str> = selected.iter().map(|(case, _)| case.entry.name).collect();
    names.dedup();
    if names.len() > 1 {
        let meant = request.filters.join("`, `");
        let remark = Remark::error(format!("`{meant}` can mean {} cases", names.len()))
            .with_help(format!("choose one of {}", names.join(", ")));
        context.speaker.failure(&remark);
        return Err(Exit::Usage);
    }
    let limit = context.tensor_limit(device);
    let fits = |run: &RunItem| limit.is_none_or(|limit| run.described.tensor_bytes <= limit);
    let runs = selected
        .iter()
        .filter(|(_, run)| !run.described.launches.is_empty());
    let Some(&found) = runs.clone().find(|(_, run)| fits(run)) else {
        let remark = Remark::error(format!("`{}` launches nothing that fits here", names[0]))
            .with_help("choose smaller sizes with -s");
        context.speaker.failure(&remark);
        return Err(Exit::Usage);
    };
    if selected.len() > 1 {
        let text = format!(
            "{} has {} runs; this is {}",
            names[0],
            selected.len(),
            found.1.sizes
        );
        let note = Remark::note(text).with_help("choose the sizes of another one with -s");
        context.speaker.remark(&note);
    }
    Ok(found)
}

/// Bytes that the buffer of a launch has at most, unless the number of records is given.
const USUAL_BYTES: u64 = 512 << 20;
/// Partitions that a kernel usually has at most.
const USUAL_PARTITIONS: u64 = 8;
const USUAL_RECORDS: u64 = 4096;

fn options(request: &TraceRequest, run: &RunItem) -> TraceOptions {
    let ctas = run
        .described
        .launches
        .iter()
        .map(|launch| launch.grid.ctas());
    let ctas = ctas.max().unwrap_or(1).max(1);
    let room = USUAL_BYTES / u64::from(lowering::trace::RECORD_BYTES) / USUAL_PARTITIONS / ctas;
    let room = room.clamp(lowering::trace::LEAST_RECORDS.into(), USUAL_RECORDS);
    TraceOptions {
        level: match request.level {
            AskedLevel::Partitions => TraceLevel::Partitions,
            AskedLevel::Tiles => TraceLevel::Tiles,
            AskedLevel::Steps => TraceLevel::Steps,
        },
        keep: match request.keep {
            TraceKeep::First => Keep::First,
            TraceKeep::Last => Keep::Last,
        },
        records: request.records.unwrap_or(1 << room.ilog2()),
    }
}

/// One run and how it is traced.
struct Traced<'a> {
    context: &'a Context,
    request: &'a TraceRequest,
    device: &'a Device,
    case: &'a CaseItem,
    run: &'a RunItem,
    about: String,
    options: TraceOptions,
}

/// What records cost on a GPU, each time as a share of the time without.
struct Overhead {
    single: f32,
    single_spread: f32,
    back_to_back: f32,
    back_to_back_spread: f32,
    /// Milliseconds without records, one launch.
    plain_ms: f32,
}

impl Traced<'_> {
    fn bed(&self, replaced: &Replaced, is_traced: bool) -> Bed {
        let compiler = Context::compiler(replaced);
        let compiler = if is_traced {
            compiler.tracing(self.options)
        } else {
            compiler
        };
        bed(self.device, compiler)
    }

    /// Runs the case with records. On a GPU the second of two runs counts: what the first one finds cold is warm. Results are compared there with those of
    /// the kernel without records ([`overhead`](Self::overhead)), since a reference on the host takes minutes at sizes that a GPU is timed at; on the emulator with the reference.
    fn recorded(&self, replaced: &Replaced) -> Done<CaseReport> {
        let bed = self.bed(replaced, true);
        let (mode, times) = if self.device.is_cuda() {
            (Mode::Launch(bed), 2)
        } else {
            (Mode::Check(bed), 1)
        };
        let mut last = None;
        for _ in 0..times {
            let outcome = self.case.entry.run(&self.run.sizes, &mode);
            if let Err(error) = &outcome.result {
                return Err(self.context.speaker.error(&self.about, error));
            }
            last = Some(outcome.report);
        }
        Ok(last.unwrap_or_default())
    }

    /// Times launches with and without records, interleaved, after a comparison of their results.
    fn overhead(&self, replaced: &Replaced) -> Done<Option<Overhead>> {
        if !self.device.is_cuda() {
            return Ok(None);
        }
        let options = BenchOptions {
            trace: Some(self.options),
            ..BenchOptions::default()
        };
        let mode = Mode::Bench(self.bed(replaced, false), options);
        let outcome = self.case.entry.run(&self.run.sizes, &mode);
        if let Err(error) = &outcome.result {
            return Err(self.context.speaker.error(&self.about, error));
        }
        // Of several chains, such as one that clears a counter, the longest is meant.
        let length = |timing: &&Timing| timing.ours().single.median_ms();
        let timings = outcome.report.timings.iter();
        let timing = timings.max_by(|x, y| length(x).total_cmp(&length(y)));
        let traced = timing.and_then(|t| t.entrants.iter().find(|e| e.name == "traced"));
        Ok(timing.zip(traced).map(|(timing, traced)| {
            let plain = timing.ours();
            Overhead {
                single: traced.single.ratio_to(&plain.single) - 1.0,
                single_spread: plain.single.spread(),
                back_to_back: traced.back_to_back.ratio_to(&plain.back_to_back) - 1.0,
                back_to_back_spread: plain.back_to_back.spread(),
                plain_ms: plain.single.median_ms(),
            }
        }))
    }

    /// One launch: its figures, and its files.
    fn show(
        &self,
        launch: &LaunchReport,
        number: usize,
        (builds, overhead): (&Builds, Option<&Overhead>),
    ) -> Done<()> {
        let (Some(recording), Some(compiled)) = (&launch.trace, &launch.compiled) else {
            let text = format!(
                "{} was edited by hand and records nothing",
                launch.instance.display()
            );
            let help = "`cargo tilekit build --reset` uses the compiled kernel again";
            let remark = Remark::error(text).with_help(help);
            self.context.speaker.failure(&remark);
            return Err(Exit::Usage);
        };
        let timeline = Timeline::of(recording);
        let names = Names::of(&recording.table, &self.context.sources());
        let summary = Summary::of(&timeline, &recording.table, &names);
        let build = builds.of(&launch.instance);
        let mut text = self.head(compiled.display(), launch, &timeline, summary.dropped);
        text.push_str(&summary.text());
        let build_text = build.map(build::Build::text).unwrap_or_default();
        text.push_str(&build_text);
        text.push_str(&overhead.map(Overhead::text).unwrap_or_default());
        let files = self.files(
            compiled.display(),
            launch,
            number,
            (&timeline, &names, &summary),
        )?;
        for (what, path) in &files {
            let _ = writeln!(text, "  {what}: {}", path.display());
        }
        self.context.speaker.tell(&text, || {
            json!({
                "reason": "tilekit-trace", "case": self.case.entry.name, "sizes": self.run.sizes.to_string(),
                "kernel": compiled.display(), "ctas": timeline.ctas.len(), "is_modelled": timeline.is_modelled,
                "ns": timeline.length_ns(), "sm_clock_mhz": timeline.clock_mhz,
                "globaltimer_step_ns": timeline.timer_step_ns, "records": self.options.records,
                "summary": summary.json(), "build": build.map(build::Build::json),
                "overhead": overhead.map(Overhead::json), "files": files.iter().map(|(_, path)| path).collect::<Vec<_>>(),
            })
        });
        Ok(())
    }

    /// Writes the page, and what Perfetto opens if that is wanted; says what they are.
    fn files(
        &self,
        kernel: &str,
        launch: &LaunchReport,
        number: usize,
        (timeline, names, summary): (&Timeline, &Names, &Summary),
    ) -> Done<Vec<(&'static str, PathBuf)>> {
        let Some(Recording { table, .. }) = &launch.trace else {
            return Ok(Vec::new());
        };
        let page = Page {
            kernel,
            about: self.about_page(launch, timeline),
            timeline,
            table,
            names,
            summary,
        };
        let path = numbered(&self.page_path(), number);
        self.write(&path, &page.html())?;
        let mut files = vec![("page", path)];
        if let Some(path) = &self.request.perfetto {
            let path = numbered(path, number);
            self.write(&path, &perfetto(timeline, table, names).to_string())?;
            files.push(("for https://ui.perfetto.dev", path));
        }
        if let Some(wanted) = &self.request.picture {
            let path = numbered(&wanted.file, number);
            let picture = Picture {
                title: kernel.to_string(),
                timeline,
                table,
                names,
                cta: wanted.cta,
                between: wanted.between.map(|between| between.map(|ns| ns as f64)),
            };
            let svg = picture
                .svg()
                .map_err(|nothing| self.nothing_to_draw(&nothing, wanted.cta, timeline))?;
            self.write(&path, &svg)?;
            files.push(("picture", path));
        }
        Ok(files)
    }

    fn nothing_to_draw(&self, nothing: &Nothing, cta: usize, timeline: &Timeline) -> Exit {
        let recorded = |cta: &CtaTime| cta.cta.to_string();
        let ctas: Vec<String> = timeline.ctas.iter().take(8).map(recorded).collect();
        let more = timeline.ctas.len().saturating_sub(ctas.len());
        let remark = match nothing {
            Nothing::Cta if ctas.is_empty() => Remark::error("no CTA has recorded anything")
                .with_help("trace a launch of a CTA that ends"),
            Nothing::Cta => {
                Remark::error(format!("CTA {cta} has recorded nothing")).with_help(format!(
                    "CTAs that have: {}{}",
                    ctas.join(", "),
                    if more > 0 {
                        format!(" and {more} more")
                    } else {
                        String::new()
                    }
                ))
            }
            Nothing::Between([begin, end]) => Remark::error("nothing lies between these times")
                .with_help(format!("CTA {cta} ran from {begin:.0} to {end:.0} ns")),
        };
        self.context.speaker.failure(&remark);
        Exit::Usage
    }

    fn page_path(&self) -> PathBuf {
        let usual = || {
            let folder = self.context.place.artifacts.join("trace");
            folder.join(format!("{}.html", self.case.entry.name))
        };
        self.request.html.clone().unwrap_or_else(usual)
    }

    /// The case, its sizes, where it ran and how long.
    fn about_page(&self, launch: &LaunchReport, timeline: &Timeline) -> String {
        let sizes = self.run.sizes.to_string();
        let device = &self.device.facts().name;
        format!(
            "{} {sizes}, {} CTAs, {device}, {}.",
            self.case.entry.name,
            launch.grid,
            time(timeline.length_ns())
        )
    }

    fn head(
        &self,
        kernel: &str,
        launch: &LaunchReport,
        timeline: &Timeline,
        dropped: u64,
    ) -> String {
        let mut text = format!("{}: {kernel}, {} CTAs\n", self.about, launch.grid);
        let length = time(timeline.length_ns());
        let _ = if timeline.is_modelled {
            writeln!(
                text,
                "  {length}, modelled: the order of events is real, lengths are those of a model of an H200"
            )
        } else {
            writeln!(
                text,
                "  {length} with records; SM clock {:.0} MHz, %globaltimer in steps of {} ns",
                timeline.clock_mhz,
                timeline.timer_step_ns.unwrap_or(0)
            )
        };
        let which = match self.options.keep {
            Keep::First => "first",
            Keep::Last => "last",
        };
        let _ = writeln!(
            text,
            "  kept the {which} {} records of each partition and CTA; {dropped} dropped",
            self.options.records
        );
        let without = match self.options.level {
            TraceLevel::Steps => return text,
            TraceLevel::Tiles => "loops over steps",
            TraceLevel::Partitions => "partitions",
        };
        let _ = writeln!(
            text,
            "  waits, copies and products inside of {without} are not recorded, and not counted below: --level steps has them"
        );
        text
    }

    fn write(&self, path: &std::path::Path, text: &str) -> Done<()> {
        let written = files::write_whole(path, text.as_bytes());
        written.map_err(|error| {
            let remark = Remark::error(error.to_string());
            self.context.speaker.failure(&remark);
            Exit::Usage
        })
    }
}

/// `trace.json` for the first launch, then `trace-2.json`.
fn numbered(path: &std::path::Path, number: usize) -> PathBuf {
    if number == 0 {
        return path.to_path_buf();
    }
    let part =
        |part: Option<&std::ffi::OsStr>| part.unwrap_or_default().to_string_lossy().to_string();
    let (stem, extension) = (part(path.file_stem()), part(path.extension()));
    path.with_file_name(format!("{stem}-{}.{extension}", number + 1))
}

impl Overhead {
    fn text(&self) -> String {
        format!(
            "  overhead of records: {:+.2} % single (spread {:.2} %), {:+.2} % back to back (spread {:.2} %); {:.4} ms without\n",
            self.single * 100.0,
            self.single_spread * 100.0,
            self.back_to_back * 100.0,
            self.back_to_back_spread * 100.0,
            self.plain_ms
        )
    }

    fn json(&self) -> Value {
        json!({
            "single": self.single, "single_spread": self.single_spread, "back_to_back": self.back_to_back,
            "back_to_back_spread": self.back_to_back_spread, "plain_ms": self.plain_ms,
        })
    }
}
