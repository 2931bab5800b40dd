//! What the hardware counted, beside what the model of the emulator says.

use std::fmt::Write;

use machine::cupti::{METRICS, STALLS};
use serde_json::{Map, Value, json};

use super::chart::time;
use crate::case::{BenchOptions, Counters, WaitLine, Waits, probe};
use crate::device::Device;
use crate::emulated::{EmulatorOptions, Modelled};
use crate::harness::Exit;
use crate::harness::catalog::{CaseItem, RunItem};
use crate::harness::context::{Context, Done};
use crate::harness::device::Emulation;
use crate::harness::replaced::Replaced;
use crate::harness::verbs::run::Runner;
use crate::report::{Remark, Sources};

/// How many reasons of stalls are printed; records have all.
const MOST_STALLS: usize = 4;

/// Whether counters of this device can be read.
///
/// # Errors
/// It is no GPU, there is no CUPTI, or it refuses: said before anything is timed.
pub(super) fn check(context: &Context, device: &Device) -> Done<()> {
    if !device.is_cuda() {
        let text = "--counters reads counters of a GPU, and the device is the emulator";
        let remark = match device.why_emulator() {
            Some(why) => Remark::error(text).with_note(why.to_string()),
            None => Remark::error(text),
        };
        let help = "leave out `--counters`: without a GPU `bench` models times, and bytes of L2 and DRAM with `--message-format json`";
        context.speaker.failure(&remark.with_help(help));
        return Err(match device.why_emulator() {
            Some(_) => Exit::NoGpu,
            None => Exit::Usage,
        });
    }
    probe(device).map_err(|error| context.speaker.error("--counters", &error))
}

/// What the model says of the same launches.
pub(super) struct Prediction {
    runner: Runner,
}

impl Prediction {
    /// By the kernels that `replaced` leaves; tensors may have so many bytes.
    pub(super) fn new(replaced: &Replaced, limit_bytes: usize) -> Prediction {
        let emulation = Emulation {
            is_modelling: true,
            ..Emulation::default()
        };
        let options: EmulatorOptions = emulation.options();
        let device = Device::emulator_with(options);
        let compiler = Context::compiler(replaced);
        Prediction {
            runner: Runner::benching(
                &device,
                compiler,
                Some(limit_bytes),
                BenchOptions::default(),
            ),
        }
    }

    /// The launches of a run by name, or why there is nothing to say.
    pub(super) fn of(
        &self,
        case: &CaseItem,
        run: &RunItem,
    ) -> Result<Vec<(String, Modelled)>, String> {
        if let Some(why) = self.runner.why_not(run) {
            return Err(why);
        }
        let outcome = case.entry.run(&run.sizes, self.runner.mode());
        outcome.result.map_err(|error| error.to_string())?;
        let launches = outcome.report.launches.iter();
        let modelled =
            launches.filter_map(|launch| Some((launch.instance.display(), launch.modelled?)));
        Ok(modelled.collect())
    }
}

/// What the model says of each of these: names that come several times are taken in order.
pub(super) fn matched<'m>(
    counted: &[&Counters],
    mut modelled: Vec<&'m (String, Modelled)>,
) -> Vec<Option<&'m Modelled>> {
    let mut take = |counters: &&Counters| {
        let place = modelled
            .iter()
            .position(|(name, _)| *name == counters.name)?;
        Some(&modelled.remove(place).1)
    };
    counted.iter().map(&mut take).collect()
}

/// For people: a row for each figure, then the lines at which warps wait.
pub(super) fn text(counters: &Counters, modelled: Option<&Modelled>, sources: &Sources) -> String {
    let (name, passes) = (&counters.name, counters.passes);
    let mut text = format!("  counters of `{name}`, {passes} passes\n");
    let column = if modelled.is_some() {
        "modelled (H200)"
    } else {
        ""
    };
    let mut row = |name: &str, measured: &str, modelled: &str| {
        let line = format!("    {name:<WIDTH$}  {measured:>14}  {modelled:>15}");
        let _ = writeln!(text, "{}", line.trim_end());
    };
    row("", "counted", column);
    for (name, measured, modelled) in rows(counters, modelled) {
        row(name, &measured, &modelled.unwrap_or_default());
    }
    let stalls: Vec<String> = counters
        .stalls()
        .iter()
        .take(MOST_STALLS)
        .filter(|(_, share)| *share >= 0.5)
        .map(|(reason, share)| format!("{share:.0} % {} ({reason})", meaning(reason)))
        .collect();
    if !stalls.is_empty() {
        let _ = writeln!(text, "    warps wait for: {}", stalls.join(", "));
    }
    if !counters.missing.is_empty() {
        let _ = writeln!(
            text,
            "    not counted on this GPU: {}",
            counters.missing.join(", ")
        );
    }
    if let Some(waits) = &counters.waits {
        text.push_str(&waits_text(waits, sources));
    }
    text
}

/// How many lines are printed, and the least share of one; records have all.
const MOST_LINES: usize = 8;
const LEAST_SHARE: f64 = 0.01;
/// Letters of a line of source.
const SOURCE: usize = 60;

/// The lines at which warps wait, each with its share, its text and what for.
fn waits_text(waits: &Waits, sources: &Sources) -> String {
    let dropped = match waits.dropped {
        0 => String::new(),
        dropped => format!(", {} more had no room", grouped(dropped as f64)),
    };
    let all = grouped(waits.samples as f64);
    let mut text = format!("    where warps wait, {all} samples{dropped}\n");
    let share = |line: &WaitLine| line.samples as f64 / waits.samples.max(1) as f64;
    let shown = waits.lines.iter().take(MOST_LINES);
    for line in shown.filter(|line| share(line) >= LEAST_SHARE) {
        let place = format!("{}:{}", line.file, line.line);
        let reason = line.reasons.first().map_or("", |(reason, _)| reason);
        let _ = writeln!(
            text,
            "      {:>4.0} %  {place}  ({reason})",
            share(line) * 100.0
        );
        let source = sources.text(&line.file);
        let source = source
            .as_ref()
            .and_then(|all| all.lines().nth(line.line as usize - 1));
        if let Some(source) = source {
            let cut: String = source.trim().chars().take(SOURCE).collect();
            let _ = writeln!(text, "              {cut}");
        }
    }
    text
}

/// Letters of a row's name.
const WIDTH: usize = 28;

/// The name of a figure, what was counted, and what is modelled.
type Row = (&'static str, String, Option<String>);

fn rows(counters: &Counters, modelled: Option<&Modelled>) -> Vec<Row> {
    let value = |key: &str| counters.value(key);
    let mut rows: Vec<Row> = Vec::new();
    let mut row = |name, measured: Option<String>, modelled: Option<String>| {
        rows.extend(measured.map(|measured| (name, measured, modelled)));
    };
    let percent = |share: f64| format!("{share:.1} %");
    let of_key = |key: &str| value(key).map(percent);
    let time = |ns: f64| time(ns / 1e6);
    row(
        "time of the launch",
        value("time_ns").map(time),
        modelled.map(|m| time(m.microseconds * 1e3)),
    );
    let clock = value("sm_clock_hz").map(|hz| format!("{:.0} MHz", hz / 1e6));
    row(
        "clock of the SMs",
        clock,
        modelled.map(|m| format!("{:.0} MHz", m.clock_mhz)),
    );
    row(
        "tensor cores active",
        of_key("tensor_active_percent"),
        modelled.map(|m| percent(m.tensor_use * 100.0)),
    );
    let dram = value("dram_read_bytes").zip(value("dram_written_bytes"));
    row("DRAM: read", dram.map(|(read, _)| bytes(read)), None);
    row(
        "DRAM: written",
        dram.map(|(_, written)| bytes(written)),
        None,
    );
    let both = dram.map(|(read, written)| bytes(read + written));
    row(
        "DRAM: both",
        both,
        modelled.map(|m| bytes(m.dram_bytes as f64)),
    );
    row("DRAM: busy", of_key("dram_busy_percent"), None);
    row(
        "L2: to and from SMs",
        value("sm_l2_bytes").map(bytes),
        modelled.map(|m| bytes(m.l2_bytes as f64)),
    );
    row("L2: in all", value("l2_bytes").map(bytes), None);
    row("L2: hits", of_key("l2_hit_percent"), None);
    let count = |key: &str| value(key).map(grouped);
    row("bank conflicts: loads", count("load_conflicts"), None);
    row("bank conflicts: stores", count("store_conflicts"), None);
    row("bank conflicts: wgmma", count("wgmma_conflicts"), None);
    row(
        "wavefronts of shared memory",
        count("shared_wavefronts"),
        None,
    );
    row(
        "instructions of warps",
        count("instructions"),
        modelled.map(|m| grouped(m.warp_instructions as f64) + " PTX"),
    );
    row("issue slots used", of_key("issue_percent"), None);
    row("warps on an SM, of the most", of_key("warps_percent"), None);
    rows
}

fn meaning(reason: &str) -> &'static str {
    let found = STALLS.iter().find(|(known, _)| *known == reason);
    found.map_or("", |(_, meaning)| meaning)
}

/// Such as `1.34 GB`.
fn bytes(bytes: f64) -> String {
    match bytes {
        bytes if bytes >= 1e9 => format!("{:.2} GB", bytes / 1e9),
        bytes if bytes >= 1e6 => format!("{:.2} MB", bytes / 1e6),
        bytes => format!("{:.2} kB", bytes / 1e3),
    }
}

/// Such as `1 234 567`.
fn grouped(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// For machines.
pub(super) fn event(counters: &Counters) -> Value {
    let value = |key: &'static str| Some((key.to_string(), counters.value(key)?.into()));
    let mut values: Map<String, Value> = METRICS.iter().filter_map(|m| value(m.key)).collect();
    let stalls: Map<String, Value> = counters
        .stalls()
        .into_iter()
        .map(|(reason, share)| (reason.to_string(), share.into()))
        .collect();
    values.insert("stall_percent".to_string(), stalls.into());
    json!({
        "name": counters.name, "passes": counters.passes, "values": values, "missing": counters.missing,
        "waits": counters.waits.as_ref().map(waits_event),
    })
}

fn waits_event(waits: &Waits) -> Value {
    let line = |line: &WaitLine| {
        let reasons: Map<String, Value> = line
            .reasons
            .iter()
            .map(|(reason, samples)| (reason.clone(), (*samples).into()))
            .collect();
        json!({ "file": line.file, "line": line.line, "samples": line.samples, "reasons": reasons })
    };
    let lines: Vec<Value> = waits.lines.iter().map(line).collect();
    json!({ "samples": waits.samples, "dropped": waits.dropped, "lines": lines })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_and_bytes_have_their_unit() {
        assert_eq!(grouped(0.0), "0");
        assert_eq!(grouped(999.0), "999");
        assert_eq!(grouped(1_234_567.0), "1 234 567");
        assert_eq!(bytes(1_340_000_000.0), "1.34 GB");
        assert_eq!(bytes(512.0), "0.51 kB");
    }

    #[test]
    fn launches_of_one_name_are_matched_in_order() {
        let named = |name: &str| {
            let mut counters = Counters::default();
            counters.name = name.to_string();
            counters
        };
        let (a, b) = (named("a"), named("b"));
        let model = |name: &str, microseconds| {
            let modelled = Modelled {
                microseconds,
                bound: crate::emulated::Bound::Dram,
                share: 1.0,
                clock_mhz: 1980.0,
                tensor_use: 0.0,
                l2_bytes: 0,
                dram_bytes: 0,
                warp_instructions: 0,
            };
            (name.to_string(), modelled)
        };
        let modelled = [model("a", 1.0), model("b", 2.0), model("a", 3.0)];
        let found = matched(&[&a, &a, &b, &b], modelled.iter().collect());
        let times: Vec<_> = found.iter().map(|m| m.map(|m| m.microseconds)).collect();
        assert_eq!(times, [Some(1.0), Some(3.0), Some(2.0), None]);
    }
}
