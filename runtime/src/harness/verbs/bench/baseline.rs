//! Figures that are kept under a name, and later ones compared with them.
//!
//! A baseline is a file of JSON objects, one a run, as `--record` writes them, each with the machine that it was measured on: a
//! comparison across machines would say nothing of the kernel.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::device::Device;
use crate::harness::context::{Context, Done};
use crate::harness::files;
use crate::harness::speak::count;
use crate::harness::{Exit, request::BenchRequest};
use crate::report::Remark;
use crate::tuned::Machine;

/// The baselines of a request: what is compared with, and what is collected to be kept.
pub(super) struct Baselines {
    machine: Value,
    hot: bool,
    most_loss: f64,
    against: Option<(String, Vec<Value>)>,
    saved: Option<Saved>,
    compared: usize,
    lost: usize,
}

/// A baseline that is added to.
struct Saved {
    path: PathBuf,
    /// What it has, of this machine and of others.
    kept: Vec<Value>,
    new: Vec<Value>,
}

impl Saved {
    /// The baseline of this file, which may not be there yet.
    fn open(path: PathBuf) -> Result<Saved, String> {
        let kept = if path.exists() {
            read(&path)?
        } else {
            Vec::new()
        };
        let new = Vec::new();
        Ok(Saved { path, kept, new })
    }
}

impl Baselines {
    /// Reads what the request names.
    ///
    /// # Errors
    /// A baseline that is not there, cannot be read, or was measured on other machines alone: said before anything is timed.
    pub(super) fn open(
        context: &Context,
        request: &BenchRequest,
        device: &Device,
    ) -> Done<Baselines> {
        let machine = machine(device);
        let folder = context.place.artifacts.join("baselines");
        let path = |name: &String| folder.join(format!("{name}.jsonl"));
        let refuse = |remark: Remark| {
            context.speaker.failure(&remark);
            Exit::Usage
        };
        let mut against = None;
        if let Some(name) = &request.against {
            let kept = read(&path(name)).map_err(|error| {
                let known = names(&folder);
                let known = if known.is_empty() {
                    "none".to_string()
                } else {
                    known.join(", ")
                };
                let help = format!("`--save {name}` keeps one; kept for this profile: {known}");
                refuse(
                    Remark::error(format!("there is no baseline `{name}`: {error}"))
                        .with_help(help),
                )
            })?;
            let (ours, others): (Vec<Value>, Vec<Value>) = kept
                .into_iter()
                .partition(|kept| kept["machine"] == machine);
            if let (true, Some(other)) = (ours.is_empty(), others.first()) {
                let text = format!("the baseline `{name}` was measured on another machine");
                let remark = Remark::error(text)
                    .with_note(format!("then: {}", shown(&other["machine"])))
                    .with_note(format!("now: {}", shown(&machine)));
                return Err(refuse(remark.with_help(
                    "measure both on one: times of two machines cannot be compared",
                )));
            }
            against = Some((name.clone(), ours));
        }
        let saved = match &request.save {
            Some(name) => Some(Saved::open(path(name)).map_err(|error| {
                let text = format!("the baseline `{name}` cannot be added to: {error}");
                refuse(Remark::error(text).with_help("delete the file to begin anew"))
            })?),
            None => None,
        };
        Ok(Baselines {
            machine,
            hot: request.hot,
            most_loss: f64::from(request.most_loss_percent) / 100.0,
            against,
            saved,
            compared: 0,
            lost: 0,
        })
    }

    /// Compares the figures of one run, and keeps them to be saved.
    pub(super) fn note(&mut self, context: &Context, prefix: &str, event: &Value) {
        let mut entry = event.clone();
        entry["machine"] = self.machine.clone();
        entry["hot"] = self.hot.into();
        if let Some((name, kept)) = &self.against {
            match kept.iter().find(|kept| is_of(kept, &entry)) {
                None => {
                    let text = format!("{} is not in the baseline `{name}`", prefix.trim_end());
                    context.speaker.remark(&Remark::note(text));
                }
                Some(kept) => {
                    let change = Change::of(kept, &entry);
                    self.compared += 1;
                    let is_lost = change.is_loss(self.most_loss);
                    self.lost += usize::from(is_lost);
                    let text = format!("{prefix}{}\n", change.text(name, is_lost));
                    context
                        .speaker
                        .tell(&text, || change.event(name, &entry, is_lost));
                }
            }
        }
        if let Some(saved) = &mut self.saved {
            saved.new.push(entry);
        }
    }

    /// Writes what is to be kept, beside what the file has of other runs, and says how the comparison ended.
    pub(super) fn conclude(self, context: &Context) -> Exit {
        let mut exit = Exit::Success;
        if let Some((name, _)) = &self.against {
            let percent = self.most_loss * 100.0;
            let text = format!(
                "{} of {} slower than the baseline `{name}` by more than {percent} %",
                self.lost,
                count(self.compared, "run")
            );
            if self.lost > 0 {
                context.speaker.failure(&Remark::error(text));
                exit = Exit::Slower;
            } else {
                context.speaker.remark(&Remark::note(text));
            }
        }
        let Some(saved) = self.saved.filter(|saved| !saved.new.is_empty()) else {
            return exit;
        };
        let path = saved.path;
        let mut all = saved.kept;
        all.retain(|kept| {
            let is_replaced = |new| kept["machine"] == self.machine && is_of(kept, new);
            !saved.new.iter().any(is_replaced)
        });
        all.extend(saved.new);
        let lines: Vec<String> = all.iter().map(Value::to_string).collect();
        let text = format!("{}\n", lines.join("\n"));
        match files::write_whole(&path, text.as_bytes()) {
            Ok(()) => {
                let text = format!("{} kept in {}", count(all.len(), "run"), path.display());
                context.speaker.remark(&Remark::note(text));
                exit
            }
            Err(error) => context.speaker.failure(&Remark::error(error.to_string())),
        }
    }
}

/// What times depend on beside the kernel: a GPU with its power limit and driver, or the threads of a CPU, of this host.
fn machine(device: &Device) -> Value {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let facts = device.facts();
    let known = Machine::of(device, device.ordinal().unwrap_or(0));
    json!({
        "host": host.trim(), "name": facts.name, "multiprocessors": facts.multiprocessors,
        "power_limit_watts": known.power_limit_watts, "driver": known.driver, "is_modelled": device.is_modelling(),
    })
}

fn shown(machine: &Value) -> String {
    let text = |key: &str| machine[key].as_str().unwrap_or("unknown").to_string();
    let mut facts = vec![format!("{} multiprocessors", machine["multiprocessors"])];
    if let Some(watts) = machine["power_limit_watts"].as_u64() {
        facts.push(format!("{watts} W"));
    }
    let driver = machine["driver"]
        .as_str()
        .filter(|driver| !driver.is_empty());
    facts.extend(driver.map(|driver| format!("driver {driver}")));
    if machine["is_modelled"] == true {
        facts.push("times of a model".to_string());
    }
    let (name, host, facts) = (text("name"), text("host"), facts.join(", "));
    format!("{name} ({facts}) of host `{host}`")
}

/// Are both figures of one run? The kernel may be another one: that is often what is compared.
fn is_of(kept: &Value, new: &Value) -> bool {
    ["case", "sizes", "hot"]
        .iter()
        .all(|key| kept[key] == new[key])
}

fn read(path: &std::path::Path) -> Result<Vec<Value>, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let parse = |(at, line)| {
        let wrong = |error| format!("{}:{}: {error}", path.display(), at + 1);
        serde_json::from_str(line).map_err(wrong)
    };
    text.lines().enumerate().map(parse).collect()
}

fn names(folder: &std::path::Path) -> Vec<String> {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = files.map(|file| file.path());
    let kept = paths.filter(|path| path.extension().is_some_and(|ending| ending == "jsonl"));
    let mut names: Vec<String> = kept
        .filter_map(|path| Some(path.file_stem()?.to_string_lossy().into_owned()))
        .collect();
    names.sort();
    names
}

/// The times of a run then and now, milliseconds.
struct Change {
    back_to_back: [f64; 2],
    single: [f64; 2],
}

impl Change {
    fn of(kept: &Value, new: &Value) -> Change {
        let both = |key: &str| [kept, new].map(|entry| entry[key].as_f64().unwrap_or(f64::NAN));
        Change {
            back_to_back: both("median_ms"),
            single: both("single_ms"),
        }
    }

    /// Speed now over speed then.
    fn ratios(&self) -> [f64; 2] {
        [self.back_to_back, self.single].map(|[then, now]| then / now)
    }

    /// Does one of both take longer by more than this share? A time that is missing is no gain.
    fn is_loss(&self, most: f64) -> bool {
        let times = [self.back_to_back, self.single];
        times
            .iter()
            .any(|[then, now]| now.is_nan() || then.is_nan() || *now > then * (1.0 + most))
    }

    fn text(&self, name: &str, is_lost: bool) -> String {
        let [back_to_back, single] = self.ratios();
        let word = if is_lost { "SLOWER " } else { "" };
        format!(
            "{word}{back_to_back:.3}x of `{name}` ({:.4} -> {:.4} ms), single {single:.3}x ({:.4} -> {:.4} ms)",
            self.back_to_back[0], self.back_to_back[1], self.single[0], self.single[1]
        )
    }

    fn event(&self, name: &str, entry: &Value, is_lost: bool) -> Value {
        let [back_to_back, single] = self.ratios();
        json!({
            "reason": "tilekit-bench-change", "case": entry["case"], "sizes": entry["sizes"], "baseline": name,
            "median_ratio": back_to_back, "single_ratio": single, "slower": is_lost,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(median: f64, single: f64) -> Value {
        json!({"case": "c", "sizes": {"n": 3}, "hot": false, "median_ms": median, "single_ms": single})
    }

    #[track_caller]
    fn check(now: &Value, is_loss: bool, text: &str) {
        let change = Change::of(&entry(1.0, 2.0), now);
        assert_eq!(change.is_loss(0.05), is_loss);
        assert_eq!(change.text("base", is_loss), text);
    }

    #[test]
    fn a_loss_is_one_of_more_than_is_allowed() {
        check(
            &entry(1.04, 1.0),
            false,
            "0.962x of `base` (1.0000 -> 1.0400 ms), single 2.000x (2.0000 -> 1.0000 ms)",
        );
        check(
            &entry(1.06, 1.0),
            true,
            "SLOWER 0.943x of `base` (1.0000 -> 1.0600 ms), single 2.000x (2.0000 -> 1.0000 ms)",
        );
        check(
            &entry(0.5, 2.2),
            true,
            "SLOWER 2.000x of `base` (1.0000 -> 0.5000 ms), single 0.909x (2.0000 -> 2.2000 ms)",
        );
        let missing = Change::of(&entry(1.0, 2.0), &json!({"median_ms": 1.0}));
        assert!(missing.is_loss(0.05), "a time that is missing is no gain");
    }

    #[test]
    fn runs_are_told_apart_by_case_sizes_and_heat() {
        let of =
            |case: &str, n: u32, hot: bool| json!({"case": case, "sizes": {"n": n}, "hot": hot});
        assert!(is_of(&of("a", 1, false), &of("a", 1, false)));
        for other in [of("b", 1, false), of("a", 2, false), of("a", 1, true)] {
            assert!(!is_of(&of("a", 1, false), &other), "{other}");
        }
    }
}
