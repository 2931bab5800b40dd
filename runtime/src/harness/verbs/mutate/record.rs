//! Results of mutants in a file, so that an interrupted run goes on.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

use super::subject::Mutant;
use super::trial::Outcome;
use crate::harness::context::{Context, Done};
use crate::harness::request::MutateRequest;
use crate::report::Remark;

/// What results depend on: the first line of the file.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Heading {
    /// The harness, which holds kernels, compiler and emulator: its length and when it was built.
    harness: (u64, u128),
    seeds: u64,
    /// Sizes that are chosen instead of those of the cases, and names of cases.
    chosen: String,
}

/// The result of one mutant: each other line.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    #[serde(flatten)]
    key: Key,
    #[serde(flatten)]
    outcome: Outcome,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Key {
    kernel: String,
    kind: String,
    body: usize,
    statement: usize,
    /// The runs that were tried.
    runs: Vec<usize>,
}

/// The file and what it held.
pub(super) struct Records {
    known: HashMap<Key, Outcome>,
    file: File,
    path: PathBuf,
}

impl Records {
    /// Reads what the same harness has recorded, or begins a new file.
    pub(super) fn open(context: &Context, request: &MutateRequest) -> Done<Records> {
        let path = context.place.artifacts.join("mutate.jsonl");
        let opened = open(&path, context, request);
        opened.map_err(|error| {
            let text = format!("{}: {error}", path.display());
            context.speaker.failure(&Remark::error(text))
        })
    }

    /// The result of a mutant, if it is known.
    pub(super) fn get(&self, mutant: &Mutant<'_>) -> Option<&Outcome> {
        self.known.get(&key_of(mutant))
    }

    /// Notes a result.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn add(&mut self, mutant: &Mutant<'_>, outcome: &Outcome) -> io::Result<()> {
        let record = Record {
            key: key_of(mutant),
            outcome: outcome.clone(),
        };
        let line = serde_json::to_string(&record)? + "\n";
        let written = self.file.write_all(line.as_bytes());
        written.map_err(|error| {
            let text = format!("{} cannot be written: {error}", self.path.display());
            io::Error::new(error.kind(), text)
        })
    }
}

fn open(path: &Path, context: &Context, request: &MutateRequest) -> io::Result<Records> {
    let heading = Heading {
        harness: stamp()?,
        seeds: request.seeds,
        chosen: format!("{:?}", context.chosen_sizes()),
    };
    let text = fs::read_to_string(path).unwrap_or_default();
    let known = if request.fresh {
        None
    } else {
        read(&text, &heading)
    };
    fs::create_dir_all(&context.place.artifacts)?;
    let mut options = OpenOptions::new();
    let file = if known.is_some() {
        options.append(true).open(path)?
    } else {
        let mut file = options.create(true).write(true).truncate(true).open(path)?;
        file.write_all((serde_json::to_string(&heading)? + "\n").as_bytes())?;
        file
    };
    Ok(Records {
        known: known.unwrap_or_default(),
        file,
        path: path.to_path_buf(),
    })
}

/// What a file with this heading holds. The last line may have been cut off.
fn read(text: &str, heading: &Heading) -> Option<HashMap<Key, Outcome>> {
    let mut lines = text.lines();
    let found: Heading = serde_json::from_str(lines.next()?).ok()?;
    if found != *heading || !text.ends_with('\n') {
        return None;
    }
    let records = lines.filter_map(|line| serde_json::from_str::<Record>(line).ok());
    Some(records.map(|record| (record.key, record.outcome)).collect())
}

fn key_of(mutant: &Mutant<'_>) -> Key {
    Key {
        kernel: mutant.subject.name.clone(),
        kind: mutant.mutation.kind.name().to_string(),
        body: mutant.mutation.body,
        statement: mutant.mutation.statement,
        runs: mutant.subject.runs.clone(),
    }
}

/// The length of this program and when it was built.
fn stamp() -> io::Result<(u64, u128)> {
    let found = fs::metadata(std::env::current_exe()?)?;
    let built = found.modified()?.duration_since(UNIX_EPOCH);
    Ok((found.len(), built.map_or(0, |time| time.as_nanos())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heading(seeds: u64) -> Heading {
        Heading {
            harness: (5, 7),
            seeds,
            chosen: String::new(),
        }
    }

    #[test]
    fn records_read_back_unless_something_that_they_depend_on_differs() {
        let key = Key {
            kernel: "a::b<1>".into(),
            kind: "bar.sync".into(),
            body: 0,
            statement: 12,
            runs: vec![3],
        };
        let record = Record {
            key: key.clone(),
            outcome: Outcome::Wrong {
                run: "case `b`".into(),
                seed: 2,
                message: "out[3]".into(),
            },
        };
        let line = |value: String| value + "\n";
        let first = line(serde_json::to_string(&heading(4)).expect("text"));
        let second = line(serde_json::to_string(&record).expect("text"));
        let text = first + &second;
        let known = read(&text, &heading(4)).expect("the same harness");
        assert_eq!(known.get(&key), Some(&record.outcome));
        assert!(read(&text, &heading(5)).is_none());
        assert!(
            read(&text[..text.len() - 3], &heading(4)).is_none(),
            "cut off"
        );
        assert!(read("", &heading(4)).is_none());
    }
}
