//! Results of mutants in a file, so that an interrupted run goes on.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::subject::{Mutant, Subject};
use crate::harness::context::{Context, Done};
use crate::report::Remark;

/// What results depend on: the first line of the file.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Heading {
    /// The harness, which holds kernels, compiler and emulator: its length and a hash of its bytes.
    harness: (u64, u64),
    seeds: u64,
    /// Sizes that are chosen instead of those of the cases, and how else runs differ.
    chosen: String,
}

/// The result of one mutant: each other line. Of two lines for one mutant the later one holds.
#[derive(Debug, Serialize, Deserialize)]
struct Record<T> {
    #[serde(flatten)]
    key: Key,
    #[serde(flatten)]
    outcome: T,
}

/// What a result is of.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Key {
    kernel: String,
    kind: String,
    body: usize,
    statement: usize,
    /// The runs that were tried.
    runs: Vec<usize>,
}

/// Where results go, and under which conditions they hold.
pub(super) struct Book {
    /// The file's name.
    pub(super) name: &'static str,
    pub(super) seeds: u64,
    /// What they depend on beside harness, seeds and sizes.
    pub(super) conditions: String,
    /// Whether to forget what was known.
    pub(super) is_fresh: bool,
}

/// The file and what it held.
pub(super) struct Records<T> {
    known: HashMap<Key, T>,
    file: File,
    path: PathBuf,
}

impl<T: Clone + Serialize + DeserializeOwned> Records<T> {
    /// Reads what the same harness has recorded, or begins a new file.
    pub(super) fn open(context: &Context, book: &Book) -> Done<Records<T>> {
        let path = context.place.artifacts.join(book.name);
        let opened = open(&path, context, book);
        opened.map_err(|error| {
            let text = format!("{}: {error}", path.display());
            context.speaker.failure(&Remark::error(text))
        })
    }

    /// The result, if it is known.
    pub(super) fn get(&self, key: &Key) -> Option<&T> {
        self.known.get(key)
    }

    /// Notes a result.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn add(&mut self, key: Key, outcome: &T) -> io::Result<()> {
        let record = Record {
            key,
            outcome: outcome.clone(),
        };
        let line = serde_json::to_string(&record)? + "\n";
        let written = self.file.write_all(line.as_bytes());
        self.known.insert(record.key, record.outcome);
        written.map_err(|error| {
            let text = format!("{} cannot be written: {error}", self.path.display());
            io::Error::new(error.kind(), text)
        })
    }
}

fn open<T: DeserializeOwned>(
    path: &Path,
    context: &Context,
    book: &Book,
) -> io::Result<Records<T>> {
    let heading = Heading {
        harness: stamp()?,
        seeds: book.seeds,
        chosen: format!("{:?}{}", context.chosen_sizes(), book.conditions),
    };
    let text = fs::read_to_string(path).unwrap_or_default();
    let known = if book.is_fresh {
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
fn read<T: DeserializeOwned>(text: &str, heading: &Heading) -> Option<HashMap<Key, T>> {
    let mut lines = text.lines();
    let found: Heading = serde_json::from_str(lines.next()?).ok()?;
    if found != *heading || !text.ends_with('\n') {
        return None;
    }
    let records = lines.filter_map(|line| serde_json::from_str::<Record<T>>(line).ok());
    Some(records.map(|record| (record.key, record.outcome)).collect())
}

impl Key {
    /// Of a mutant.
    pub(super) fn of(mutant: &Mutant<'_>) -> Key {
        Key {
            kernel: mutant.subject.name.clone(),
            kind: mutant.mutation.kind.name().to_string(),
            body: mutant.mutation.body,
            statement: mutant.mutation.statement,
            runs: mutant.subject.runs.clone(),
        }
    }

    /// Of a kernel as it is.
    pub(super) fn unchanged(subject: &Subject) -> Key {
        Key {
            kernel: subject.name.clone(),
            kind: "unchanged".to_string(),
            body: 0,
            statement: 0,
            runs: subject.runs.clone(),
        }
    }
}

/// The length of this program and a hash of its bytes: a copy of it on another machine is the same harness.
fn stamp() -> io::Result<(u64, u64)> {
    let mut program = File::open(std::env::current_exe()?)?;
    let mut hasher = DefaultHasher::new();
    let mut piece = vec![0; 1 << 20];
    let mut length = 0;
    loop {
        let count = program.read(&mut piece)?;
        if count == 0 {
            return Ok((length, hasher.finish()));
        }
        length += count as u64;
        piece[..count].hash(&mut hasher);
    }
}

#[cfg(test)]
mod tests {
    use super::super::trial::Outcome;
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
        let known: HashMap<Key, Outcome> = read(&text, &heading(4)).expect("the same harness");
        assert_eq!(known.get(&key), Some(&record.outcome));
        assert!(read::<Outcome>(&text, &heading(5)).is_none());
        assert!(
            read::<Outcome>(&text[..text.len() - 3], &heading(4)).is_none(),
            "cut off"
        );
        assert!(read::<Outcome>("", &heading(4)).is_none());
    }
}
