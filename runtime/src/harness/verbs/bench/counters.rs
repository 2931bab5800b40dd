//! What the hardware counted, beside what the model of the emulator says.

use std::fmt::Write;

use machine::cupti::{METRICS, STALLS};
use serde_json::{Map, Value, json};

use super::waits;
use crate::case::{Counters, probe};
use crate::device::Device;
use crate::emulated::Modelled;
use crate::harness::Exit;
use crate::harness::context::{Context, Done};
use crate::report::{Remark, Sources};
use crate::trace::summary::time;

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
    for figure in FIGURES {
        let values = figure.keys.iter().map(|key| counters.value(key));
        let Some(counted) = values.sum::<Option<f64>>() else {
            continue;
        };
        let modelled = modelled.and_then(figure.modelled).unwrap_or_default();
        row(figure.name, &(figure.write)(counted), &modelled);
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
        let _ = writeln!(text, "    not counted: {}", counters.missing.join(", "));
    }
    if let Some(waits) = &counters.waits {
        text.push_str(&waits::text(waits, sources));
    }
    text
}

/// Letters of a row's name.
const WIDTH: usize = 28;

/// A figure: its name, the metrics whose sum it is, how that is written, and what is modelled of it.
struct Figure {
    name: &'static str,
    keys: &'static [&'static str],
    write: fn(f64) -> String,
    modelled: fn(&Modelled) -> Option<String>,
}

const fn figure(
    name: &'static str,
    keys: &'static [&'static str],
    write: fn(f64) -> String,
    modelled: fn(&Modelled) -> Option<String>,
) -> Figure {
    Figure {
        name,
        keys,
        write,
        modelled,
    }
}

/// Of what nothing is modelled.
fn nothing(_: &Modelled) -> Option<String> {
    None
}

const FIGURES: &[Figure] = &[
    figure("time of the launch", &["time_ns"], time, |m| {
        Some(time(m.microseconds * 1e3))
    }),
    figure(
        "clock of the SMs",
        &["sm_clock_hz"],
        |hz| megahertz(hz / 1e6),
        |m| Some(megahertz(m.clock_mhz)),
    ),
    figure(
        "tensor cores active",
        &["tensor_active_percent"],
        percent,
        |m| Some(percent(m.tensor_use * 100.0)),
    ),
    figure("DRAM: read", &["dram_read_bytes"], bytes, nothing),
    figure("DRAM: written", &["dram_written_bytes"], bytes, nothing),
    figure(
        "DRAM: both",
        &["dram_read_bytes", "dram_written_bytes"],
        bytes,
        |m| Some(bytes(m.dram_bytes as f64)),
    ),
    figure("DRAM: busy", &["dram_busy_percent"], percent, nothing),
    figure("L2: to and from SMs", &["sm_l2_bytes"], bytes, |m| {
        Some(bytes(m.l2_bytes as f64))
    }),
    figure("L2: in all", &["l2_bytes"], bytes, nothing),
    figure("L2: hits", &["l2_hit_percent"], percent, nothing),
    figure("bank conflicts: loads", &["load_conflicts"], grouped, |m| {
        Some(grouped(m.bank_conflicts[0] as f64))
    }),
    figure(
        "bank conflicts: stores",
        &["store_conflicts"],
        grouped,
        |m| Some(grouped(m.bank_conflicts[1] as f64)),
    ),
    figure(
        "bank conflicts: wgmma",
        &["wgmma_conflicts"],
        grouped,
        nothing,
    ),
    figure(
        "wavefronts of shared memory",
        &["shared_wavefronts"],
        grouped,
        nothing,
    ),
    figure("instructions of warps", &["instructions"], grouped, |m| {
        Some(grouped(m.warp_instructions as f64) + " PTX")
    }),
    figure("issue slots used", &["issue_percent"], percent, nothing),
    figure(
        "warps on an SM, of the most",
        &["warps_percent"],
        percent,
        nothing,
    ),
];

fn percent(share: f64) -> String {
    format!("{share:.1} %")
}

fn megahertz(clock: f64) -> String {
    format!("{clock:.0} MHz")
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
pub(super) fn grouped(number: f64) -> String {
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
        "waits": counters.waits.as_ref().map(waits::event),
    })
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
                bank_conflicts: [0; 2],
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
