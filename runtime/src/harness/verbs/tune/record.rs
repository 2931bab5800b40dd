//! Records of candidates: a file of JSON objects, one a line, appended as results come. Files are merged by concatenation.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::halving::HEATS;
use crate::case::Sizes;
use crate::harness::files;
use crate::harness::request::TuneTimes;
use crate::tuned::Machine;

/// The form of a line; a line of another form is passed over, and said to be.
const FORMAT: u32 = 1;

/// What was found out about one candidate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Record {
    format: u32,
    #[serde(flatten)]
    pub(super) key: Key,
    /// What was compiled: a digest of the PTX and the grids of its launches.
    pub(super) digest: String,
    pub(super) predicted_us: Option<f64>,
    #[serde(flatten)]
    pub(super) outcome: Outcome,
}

/// What it is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Key {
    /// The case with its module.
    pub(super) case: String,
    pub(super) sizes: BTreeMap<String, usize>,
    pub(super) machine: Machine,
    pub(super) candidate: String,
}

/// How it ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "lowercase")]
pub(super) enum Outcome {
    /// Its results were right.
    Right,
    /// They were not.
    Wrong { message: String },
    /// It did not compile or load, crashed, hung or faulted.
    Failed { message: String },
    /// It was right, and timed; microseconds of each round.
    Timed {
        /// From 0; each has more rounds than the one before.
        heat: usize,
        seed: u64,
        single_us: Vec<f32>,
        back_to_back_us: Vec<f32>,
        /// The clock of the multiprocessors behind it.
        clock_mhz: Option<u32>,
    },
}

impl Outcome {
    /// Whether a search may have written it: a heat that there is, and times.
    fn is_possible(&self) -> bool {
        let Outcome::Timed {
            heat,
            single_us,
            back_to_back_us,
            ..
        } = self
        else {
            return true;
        };
        let is_time = |us: &f32| us.is_finite() && *us > 0.0;
        let are_times = |all: &[f32]| !all.is_empty() && all.iter().all(is_time);
        *heat < HEATS.len() && are_times(single_us) && are_times(back_to_back_us)
    }
}

impl Record {
    pub(super) fn new(
        key: Key,
        digest: &str,
        predicted_us: Option<f64>,
        outcome: Outcome,
    ) -> Record {
        Record {
            format: FORMAT,
            key,
            digest: digest.to_string(),
            predicted_us,
            outcome,
        }
    }
}

/// Sizes in an order that does not depend on the declaration.
pub(super) fn sizes_of(sizes: &Sizes) -> BTreeMap<String, usize> {
    let sizes = sizes.iter().map(|(name, value)| (name.to_string(), value));
    sizes.collect()
}

/// The record of a candidate as it is compiled now.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Known {
    pub(super) is_right: bool,
    /// Why it is out.
    pub(super) failure: Option<Outcome>,
    /// Medians of its heats.
    pub(super) heats: Vec<TuneTimes>,
    /// Which of them were recorded.
    is_recorded: [bool; HEATS.len()],
    pub(super) predicted_us: Option<f64>,
}

impl Known {
    fn note(&mut self, record: &Record) {
        self.predicted_us = record.predicted_us;
        match &record.outcome {
            Outcome::Right => {
                self.is_right = true;
                // It was tried anew.
                self.failure = None;
            }
            outcome @ (Outcome::Wrong { .. } | Outcome::Failed { .. }) => {
                self.failure = Some(outcome.clone());
            }
            Outcome::Timed {
                heat,
                single_us,
                back_to_back_us,
                ..
            } => {
                self.is_right = true;
                self.failure = None;
                let times = TuneTimes {
                    single_ns: median_ns(single_us),
                    back_to_back_ns: median_ns(back_to_back_us),
                };
                // Of two of one heat the later holds, behind which later heats of another moment count no more; lines of several files may come in any order, so that a heat may be missing.
                if std::mem::replace(&mut self.is_recorded[*heat], true) {
                    self.heats.truncate(*heat + 1);
                    self.is_recorded[*heat + 1..].fill(false);
                }
                if *heat < self.heats.len() {
                    self.heats[*heat] = times;
                } else {
                    self.heats.resize(*heat + 1, times);
                }
            }
        }
    }
}

pub(super) fn median_ns(microseconds: &[f32]) -> u64 {
    let series = crate::case::Series {
        samples_ms: microseconds.to_vec(),
    };
    let median = series.median_ms();
    if median.is_finite() {
        (f64::from(median) * 1e3).round() as u64
    } else {
        u64::from(u32::MAX)
    }
}

/// All records of a file.
#[derive(Default)]
pub(super) struct Records {
    /// By what they are about, then by digest, the digests in the order of their last lines.
    known: HashMap<Key, Vec<(String, Known)>>,
    /// Lines that are no records of this form.
    pub(super) unread: usize,
}

impl Records {
    /// Reads a file; one that is not there has none. The last line may have been cut off.
    ///
    /// # Errors
    /// The path, and what the operating system says, or what is there in place of a regular file.
    pub(super) fn read(path: &Path) -> io::Result<Records> {
        let bytes = files::read_regular(path)?.unwrap_or_default();
        // A line that is no text is no record; the others are.
        Ok(Records::of(&String::from_utf8_lossy(&bytes)))
    }

    pub(super) fn of(text: &str) -> Records {
        let mut records = Records::default();
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            match serde_json::from_str::<Record>(line) {
                Ok(record) if record.format == FORMAT && record.outcome.is_possible() => {
                    records.add(&record);
                }
                _ => records.unread += 1,
            }
        }
        records
    }

    pub(super) fn add(&mut self, record: &Record) {
        let of_key = self.known.entry(record.key.clone()).or_default();
        let place = of_key
            .iter()
            .position(|(digest, _)| *digest == record.digest);
        let (digest, mut known) = match place {
            Some(place) => of_key.remove(place),
            None => (record.digest.clone(), Known::default()),
        };
        known.note(record);
        of_key.push((digest, known));
    }

    /// The record of a candidate with this digest.
    pub(super) fn get(&self, key: &Key, digest: &str) -> Option<&Known> {
        let of_key = self.known.get(key)?;
        of_key
            .iter()
            .find(|(known, _)| known == digest)
            .map(|(_, known)| known)
    }

    /// Whether there are records, all of another digest.
    pub(super) fn is_stale(&self, key: &Key, digest: &str) -> bool {
        self.known.contains_key(key) && self.get(key, digest).is_none()
    }

    /// Everything, each candidate with what was recorded of every digest, in an order that does not depend on that of the lines but for digests of one candidate.
    pub(super) fn all(&self) -> Vec<(&Key, &str, &Known)> {
        let all = self.known.iter().flat_map(|(key, of_key)| {
            let of_digests = of_key.iter();
            of_digests.map(move |(digest, known)| (key, digest.as_str(), known))
        });
        let mut all: Vec<_> = all.collect();
        all.sort_by_key(|(key, ..)| *key);
        all
    }
}

/// Where records go.
pub(super) struct Appending {
    path: PathBuf,
    file: File,
}

impl Appending {
    /// Opens the file, which is made if it is not there. A line that was cut off is ended first.
    ///
    /// # Errors
    /// The path, and what the operating system says.
    pub(super) fn open(path: &Path) -> io::Result<Appending> {
        let failed = |error: io::Error| files::failed(path, "written", &error);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(failed)?;
        }
        files::check_appendable(path)?;
        let text = fs::read(path).map_err(failed)?;
        let file = OpenOptions::new().append(true).open(path).map_err(failed)?;
        let mut appending = Appending {
            path: path.to_path_buf(),
            file,
        };
        if text.last().is_some_and(|last| *last != b'\n') {
            appending.write("\n")?;
        }
        Ok(appending)
    }

    /// Adds a line, at once: whatever ends the process then loses nothing.
    ///
    /// # Errors
    /// The path, and what the operating system says.
    pub(super) fn add(&mut self, record: &Record) -> io::Result<()> {
        self.write(&(serde_json::to_string(record)? + "\n"))
    }

    fn write(&mut self, text: &str) -> io::Result<()> {
        let written = self.file.write_all(text.as_bytes());
        written.map_err(|error| files::failed(&self.path, "written", &error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(candidate: &str, digest: &str, outcome: Outcome) -> Record {
        let machine = Machine {
            gpu: "NVIDIA H200".into(),
            multiprocessors: 132,
            power_limit_watts: Some(700),
            driver: "580.1".into(),
        };
        let key = Key {
            case: "mine::sum".into(),
            sizes: [("n".to_string(), 8)].into(),
            machine,
            candidate: candidate.into(),
        };
        Record::new(key, digest, Some(1.5), outcome)
    }

    fn timed(heat: usize, us: f32) -> Outcome {
        Outcome::Timed {
            heat,
            seed: 0,
            single_us: vec![us, us + 1.0, us + 2.0],
            back_to_back_us: vec![us],
            clock_mhz: Some(1980),
        }
    }

    fn text(records: &[Record]) -> String {
        let lines = records.iter().map(serde_json::to_string);
        let lines: Result<Vec<String>, _> = lines.collect();
        lines.expect("text").join("\n") + "\n"
    }

    #[test]
    fn lines_add_up_in_any_order_and_a_cut_one_is_passed_over() {
        let all = [
            record("a", "1", Outcome::Right),
            record("a", "1", timed(0, 4.0)),
            record("a", "1", timed(1, 5.0)),
            record(
                "b",
                "2",
                Outcome::Wrong {
                    message: "out[3]".into(),
                },
            ),
        ];
        let mut turned = all.clone();
        turned.reverse();
        let records = Records::of(&text(&all));
        let known = records.get(&all[0].key, "1").expect("known");
        assert!(known.is_right && known.failure.is_none());
        let medians: Vec<u64> = known.heats.iter().map(|heat| heat.single_ns).collect();
        assert_eq!(medians, [5000, 6000]);
        let other = Records::of(&text(&turned));
        assert_eq!(records.all(), other.all());
        assert!(
            records
                .get(&all[3].key, "2")
                .expect("known")
                .failure
                .is_some()
        );
        let cut = &text(&all)[..text(&all).len() - 9];
        let cut = Records::of(cut);
        assert_eq!((cut.unread, cut.all().len()), (1, 1));
    }

    /// A search with others, or with `--fresh`, in which it did not come as far.
    #[test]
    fn a_heat_that_is_timed_again_ends_those_behind_it() {
        let lines = [0, 1, 2, 1].map(|heat| record("a", "1", timed(heat, 4.0 + heat as f32)));
        let records = Records::of(&text(&lines));
        let known = records.get(&lines[0].key, "1").expect("known");
        assert_eq!(known.heats.len(), 2);
    }

    /// `--fresh` tries anew what failed for a reason that has gone, such as a full disk.
    #[test]
    fn a_candidate_that_is_right_has_failed_no_more() {
        let message = "no space left on device".to_string();
        let failed = record("a", "1", Outcome::Failed { message });
        let right = record("a", "1", Outcome::Right);
        let has_failed = |lines: &[Record]| {
            let records = Records::of(&text(lines));
            records
                .get(&right.key, "1")
                .expect("known")
                .failure
                .is_some()
        };
        assert!(!has_failed(&[failed.clone(), right.clone()]));
        assert!(has_failed(&[right.clone(), failed]));
    }

    #[test]
    fn a_line_that_is_no_text_is_passed_over() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("tune.jsonl");
        let one = text(&[record("a", "1", Outcome::Right)]);
        let lines = [b"\xff\xfe{\n", one.as_bytes()].concat();
        fs::write(&path, lines).expect("written");
        let records = Records::read(&path).expect("read");
        assert_eq!((records.unread, records.all().len()), (1, 1));
    }

    /// `/dev/full` was read until memory ran out.
    #[test]
    fn a_device_has_no_records() {
        let error = Records::read(Path::new("/dev/null"))
            .err()
            .expect("refused");
        let expected =
            "/dev/null cannot be read: found a character device, expected a regular file";
        assert_eq!(error.to_string(), expected);
    }

    /// A heat of 10^18 was asked memory for, and the fastest time was that of no launch.
    #[test]
    fn damaged_numbers_are_passed_over() {
        let damaged = [
            timed(1_000_000_000_000_000_000, 4.0),
            timed(0, -4.0),
            timed(0, 0.0),
            Outcome::Timed {
                heat: 0,
                seed: 0,
                single_us: Vec::new(),
                back_to_back_us: vec![4.0],
                clock_mhz: None,
            },
        ];
        let records = Records::of(&text(&damaged.map(|outcome| record("a", "1", outcome))));
        assert_eq!((records.unread, records.all().len()), (4, 0));
    }

    #[test]
    fn another_digest_is_stale() {
        let one = record("a", "1", timed(0, 4.0));
        let records = Records::of(&text(std::slice::from_ref(&one)));
        assert!(!records.is_stale(&one.key, "1"));
        assert!(records.is_stale(&one.key, "2"));
        let unknown = record("c", "1", Outcome::Right);
        assert!(!records.is_stale(&unknown.key, "1"));
    }

    #[test]
    fn a_line_that_was_cut_off_is_ended_before_the_next() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a/tune.jsonl");
        let one = record("a", "1", Outcome::Right);
        let mut file = Appending::open(&path).expect("a file");
        file.add(&one).expect("written");
        fs::write(&path, fs::read_to_string(&path).expect("text") + "{\"for").expect("written");
        let mut file = Appending::open(&path).expect("a file");
        file.add(&one).expect("written");
        let records = Records::read(&path).expect("read");
        assert_eq!((records.unread, records.all().len()), (1, 1));
        let none = Records::read(&folder.path().join("none")).expect("none");
        assert!(none.all().is_empty());
    }
}
