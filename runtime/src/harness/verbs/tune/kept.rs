//! `tune --show` and `tune --export`: what the records say, without measuring.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use super::halving::fastest;
use super::record::{Key, Known, Records};
use super::work::{Digests, path_of};
use crate::case::{Candidate, CaseEntry, Mode, Sizes};
use crate::harness::Exit;
use crate::harness::context::{Context, Done};
use crate::harness::files;
use crate::harness::request::{SizeOverride, TuneRequest, TuneTimes};
use crate::harness::select::Selection;
use crate::harness::speak::count;
use crate::report::Remark;
use crate::tuned::Tuned;

/// The records of one run on one machine.
struct Group<'r> {
    /// Of its first candidate.
    key: &'r Key,
    /// Each candidate with every digest: what was compiled before may be compiled again.
    members: Vec<(&'r Key, &'r str, &'r Known)>,
}

impl<'r> Group<'r> {
    /// All runs that are meant.
    fn all(records: &'r Records, is_meant: &dyn Fn(&Key) -> bool) -> Vec<Group<'r>> {
        let mut groups: BTreeMap<_, Group<'r>> = BTreeMap::new();
        for (key, digest, known) in records.all() {
            if !is_meant(key) {
                continue;
            }
            let name = (&key.machine, &key.case, &key.sizes);
            let members = Vec::new();
            let group = groups.entry(name).or_insert(Group { key, members });
            group.members.push((key, digest, known));
        }
        groups.into_values().collect()
    }

    /// The order of the model, without one that of the space, as when it was tuned: it decides between those that are level.
    fn sort(&mut self, run: Option<&Run>) {
        let order = |&(key, _, known): &(&Key, &str, &Known)| {
            let place = run.and_then(|run| run.place(&key.candidate));
            (
                known.predicted_us.unwrap_or(0.0),
                place.unwrap_or(usize::MAX),
            )
        };
        self.members.sort_by(|a, b| {
            let ((time, place), (other_time, other_place)) = (order(a), order(b));
            time.total_cmp(&other_time).then(place.cmp(&other_place))
        });
    }

    /// The fastest, and how many were timed.
    fn fastest(&self) -> Option<(usize, usize)> {
        let usable = |at: &usize| self.members[*at].2.failure.is_none();
        let usable: Vec<usize> = (0..self.members.len()).filter(usable).collect();
        let heats: Vec<&[TuneTimes]> = usable
            .iter()
            .map(|&at| &self.members[at].2.heats[..])
            .collect();
        let is_timed = |at: &&usize| !self.members[**at].2.heats.is_empty();
        let timed = usable.iter().filter(is_timed);
        let timed: HashSet<&str> = timed
            .map(|&at| self.members[at].0.candidate.as_str())
            .collect();
        fastest(&heats).map(|place| (usable[place], timed.len()))
    }

    /// The fastest of those that are not stale; where all are, the fastest. What has gone from a space, or is not tried any more, keeps its records.
    fn best(mut self, digests: &Digests) -> Option<(Tuned, State)> {
        let run = Run::of(self.key);
        self.sort(run.as_ref());
        let mut stale = None;
        while let Some((at, timed)) = self.fastest() {
            let tuned = self.tuned(at, timed)?;
            let state = state(&tuned, run.as_ref(), digests);
            if matches!(state, State::Current) {
                return Some((tuned, state));
            }
            stale = stale.or(Some((tuned, state)));
            self.members.remove(at);
        }
        stale
    }

    fn tuned(&self, at: usize, timed: usize) -> Option<Tuned> {
        let (key, digest, known) = self.members[at];
        let times = known.heats.last()?;
        Some(Tuned {
            case: key.case.clone(),
            sizes: key.sizes.clone(),
            candidate: key.candidate.clone(),
            machine: key.machine.clone(),
            digest: digest.to_string(),
            single_us: times.single_ns as f64 / 1e3,
            back_to_back_us: times.back_to_back_ns as f64 / 1e3,
            predicted_us: known.predicted_us,
            timed,
        })
    }

    fn text(&self) -> String {
        let sizes = self.key.sizes.iter();
        let sizes: Vec<String> = sizes
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        format!("{} {}", self.key.case, sizes.join(" "))
    }
}

/// Whether the program still compiles to what a record is of.
enum State {
    Current,
    Stale,
    /// There is no such case or candidate any more.
    Gone,
}

fn state(tuned: &Tuned, run: Option<&Run>, digests: &Digests) -> State {
    let found = run.and_then(|run| Some((run, run.place(&tuned.candidate)?)));
    match found.map(|(run, at)| digests.of(run.entry, &run.sizes, at)) {
        None => State::Gone,
        Some(Ok(digest)) if digest == tuned.digest => State::Current,
        Some(_) => State::Stale,
    }
}

/// A run of records that the program still has.
struct Run {
    entry: &'static CaseEntry,
    sizes: Sizes,
    space: Vec<Candidate>,
}

impl Run {
    fn of(key: &Key) -> Option<Run> {
        let mut entries = CaseEntry::all().into_iter();
        let entry = entries.find(|entry| path_of(entry) == key.case)?;
        let declared = entry.sizes.iter().map(|list| list.name);
        let values: Option<Vec<(String, usize)>> = declared
            .map(|name| Some((name.to_string(), *key.sizes.get(name)?)))
            .collect();
        let sizes = Sizes::of(&values?);
        let space = entry.run(&sizes, &Mode::Describe).report.space?.candidates;
        Some(Run {
            entry,
            sizes,
            space,
        })
    }

    /// The place of a candidate in the space.
    fn place(&self, name: &str) -> Option<usize> {
        self.space
            .iter()
            .position(|candidate| candidate.name == name)
    }
}

/// Says of which runs records are meant: those at the sizes of the command line, of cases that `filters` select for every verb, and of those that have gone and have one of them in their names.
fn meant<'f>(context: &'f Context, filters: &'f [String]) -> Done<impl Fn(&Key) -> bool + use<'f>> {
    let [_, sizes] = context.chosen_sizes();
    let paths = |entries: Vec<&CaseEntry>| -> HashSet<String> {
        entries.into_iter().map(path_of).collect()
    };
    let known = paths(CaseEntry::all());
    let selected = if filters.is_empty() && sizes.is_empty() {
        known.clone()
    } else {
        let catalog = context.catalog(filters)?;
        paths(Selection::cases_at_any_size(filters, &catalog))
    };
    Ok(move |key: &Key| {
        let has_part = |filter: &String| key.case.contains(filter.as_str());
        let is_named = || filters.is_empty() || filters.iter().any(has_part);
        let is_selected =
            selected.contains(&key.case) || (!known.contains(&key.case) && is_named());
        is_selected && are_chosen(&key.sizes, sizes)
    })
}

/// Whether a case is run at these sizes where such values are chosen: the i-th of every list go together, a single value goes with all, the later of two
/// lists of a size counts, and one of a size that the case does not have says nothing of it.
fn are_chosen(sizes: &BTreeMap<String, usize>, chosen: &[SizeOverride]) -> bool {
    let of_size = |(name, value): (&String, &usize)| {
        let list = chosen.iter().rev().find(|list| list.name == *name)?;
        Some((*value, &list.values[..]))
    };
    let columns: Vec<(usize, &[usize])> = sizes.iter().filter_map(of_size).collect();
    let runs = columns.iter().map(|(_, values)| values.len()).max();
    (0..runs.unwrap_or(1)).any(|run| {
        let is_there = |(value, values): &(usize, &[usize])| match values {
            [only] => only == value,
            values => values.get(run) == Some(value),
        };
        columns.iter().all(is_there)
    })
}

fn nothing(context: &Context) -> Exit {
    let remark = Remark::error("no records of timed candidates are of what is selected");
    let help = "`cargo tilekit tune` on a machine with a GPU makes them; `--records FILE` names another file";
    context.speaker.failure(&remark.with_help(help));
    Exit::NothingSelected
}

/// Shows the fastest candidate of every run.
pub(super) fn show(context: &Context, request: &TuneRequest, records: &Records) -> Done {
    let digests = Digests::default();
    let groups = Group::all(records, &meant(context, &request.filters)?);
    if groups.is_empty() {
        return Err(nothing(context));
    }
    for group in groups {
        let (key, about) = (group.key, group.text());
        let Some((tuned, state)) = group.best(&digests) else {
            let text = format!("{about}: none timed on {}\n", key.machine);
            context.speaker.tell(&text, || {
                serde_json::json!({"reason": "tilekit-record", "case": key.case, "sizes": key.sizes,
                    "machine": key.machine, "fastest": null})
            });
            continue;
        };
        let state = match state {
            State::Current => "",
            State::Stale => "  STALE: its kernels have changed",
            State::Gone => "  STALE: there is no such candidate any more",
        };
        let text = format!(
            "{about}: {}  single {:.2} us  back to back {:.2} us  of {} timed on {}{state}\n",
            tuned.candidate, tuned.single_us, tuned.back_to_back_us, tuned.timed, tuned.machine
        );
        context.speaker.tell(&text, || {
            let mut event = serde_json::to_value(&tuned).expect("numbers and texts");
            event["reason"] = "tilekit-record".into();
            event["is_stale"] = (!state.is_empty()).into();
            event
        });
    }
    Ok(Exit::Success)
}

/// By whatever names, where both are there.
fn is_same_file(one: &Path, other: &Path) -> bool {
    let [one, other] = [one, other].map(|path| path.canonicalize().ok());
    one.is_some() && one == other
}

/// Writes the fastest candidates that are not stale, of the runs that have one.
pub(super) fn export(
    context: &Context,
    request: &TuneRequest,
    (records, of_records): (&Records, &Path),
    file: &Path,
) -> Done {
    if is_same_file(file, of_records) {
        let text = format!("{} is the file of records", file.display());
        let help = "export to another: only the fastest candidates are written, and records are what they are chosen from";
        let remark = Remark::error(text).with_help(help);
        context.speaker.failure(&remark);
        return Err(Exit::Usage);
    }
    let digests = Digests::default();
    let mut lines = String::new();
    let mut written = 0;
    let is_meant = meant(context, &request.filters)?;
    let groups = Group::all(records, &is_meant).into_iter();
    for (tuned, state) in groups.filter_map(|group| group.best(&digests)) {
        if matches!(state, State::Current) {
            lines += &serde_json::to_string(&tuned).expect("numbers and texts");
            lines.push('\n');
            written += 1;
        } else {
            let text = format!(
                "`{}` of {} is stale, and left out: tune it again",
                tuned.candidate, tuned.case
            );
            context.speaker.remark(&Remark::warning(text));
        }
    }
    if written == 0 {
        return Err(nothing(context));
    }
    let result = files::write_whole(file, lines.as_bytes());
    result.map_err(|error| super::unusable(context, &error))?;
    let text = format!("{} written to {}", count(written, "run"), file.display());
    context.speaker.remark(&Remark::note(text));
    Ok(Exit::Success)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_choose_the_runs_that_they_are_tuned_at() {
        let check = |chosen: &[&str], expected: &[(usize, usize)]| {
            let read = chosen.iter().map(|text| text.parse().expect("a size"));
            let chosen: Vec<SizeOverride> = read.collect();
            let is_chosen = |&(n, m): &(usize, usize)| {
                are_chosen(&[("n".into(), n), ("m".into(), m)].into(), &chosen)
            };
            let all = [(1, 3), (1, 4), (2, 3), (2, 4)].into_iter();
            assert_eq!(all.filter(is_chosen).collect::<Vec<_>>(), expected);
        };
        check(&[], &[(1, 3), (1, 4), (2, 3), (2, 4)]);
        check(&["n=2"], &[(2, 3), (2, 4)]);
        check(&["n=5"], &[]);
        check(&["n=1,2", "m=3,4"], &[(1, 3), (2, 4)]);
        check(&["n=1,2", "m=4"], &[(1, 4), (2, 4)]);
        check(&["n=1", "n=2", "m=3"], &[(2, 3)]);
        check(&["k=7", "m=4"], &[(1, 4), (2, 4)]);
    }
}
