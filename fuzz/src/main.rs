//! Reads mutated texts for a given time: `cargo run -p tilekit-fuzz -- SURFACE SECONDS [SEED] [JOBS]`.
//!
//! Each failure that is not like one before is shrunk and kept in `target/fuzz/SURFACE`; the exit code is 1 if there is
//! any. What runs stands in `target/fuzz/SURFACE/running-SEED-JOB`, where a process that ends at once leaves it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use fuzz::{Answer, Choices, Failure, Surface, attempt, mutate, seeds, shrink};

/// Longer than any right text takes, by much.
const LIMIT: Duration = Duration::from_secs(20);

struct Search {
    surface: Surface,
    first: u64,
    seeds: Vec<String>,
    end: Instant,
    folder: PathBuf,
    next: AtomicU64,
    accepted: AtomicU64,
    failures: Mutex<Vec<Failure>>,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let names = Surface::ALL.map(Surface::name).join("|");
    let usage = format!("usage: fuzz {names} SECONDS [SEED] [JOBS]");
    let surface = arguments
        .first()
        .and_then(|name| name.parse::<Surface>().ok());
    let number = |at: usize, unsaid: u64| {
        arguments
            .get(at)
            .map_or(Some(unsaid), |text| text.parse().ok())
    };
    let (Some(surface), Some(seconds), Some(seed), Some(jobs)) =
        (surface, number(1, 60), number(2, 0), number(3, 1))
    else {
        eprintln!("{usage}");
        return ExitCode::from(2);
    };
    let folder = Path::new("target/fuzz").join(surface.name());
    fs::create_dir_all(&folder).expect("target can be written");
    let search = Search {
        surface,
        first: seed,
        seeds: seeds(surface),
        end: Instant::now() + Duration::from_secs(seconds),
        folder,
        next: AtomicU64::new(seed << 32),
        accepted: AtomicU64::new(0),
        failures: Mutex::default(),
    };
    thread::scope(|scope| {
        for job in 0..jobs {
            let search = &search;
            scope.spawn(move || search.run(job));
        }
    });
    let texts = search.next.into_inner() - (seed << 32);
    let failures = search
        .failures
        .into_inner()
        .expect("no job ends by a panic");
    println!(
        "{surface}: {texts} texts, {} accepted, {} failures",
        search.accepted.into_inner(),
        failures.len()
    );
    ExitCode::from(u8::from(!failures.is_empty()))
}

impl Search {
    fn run(&self, job: u64) {
        let running = self.folder.join(format!("running-{}-{job}", self.first));
        while Instant::now() < self.end {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let mut choices = Choices::Seeded(number);
            let seed = &self.seeds[choices.below(self.seeds.len())];
            let text = mutate(seed, &self.seeds, &mut choices);
            fs::write(&running, &text).expect("target can be written");
            match attempt(self.surface, &text, LIMIT) {
                Ok(Answer::Accepted) => drop(self.accepted.fetch_add(1, Ordering::Relaxed)),
                Ok(Answer::Refused(_)) => {}
                Err(failure) => self.failed(number, &text, &failure),
            }
        }
    }

    fn failed(&self, number: u64, text: &str, failure: &Failure) {
        let mut failures = self.failures.lock().expect("no job ends by a panic");
        if failures.iter().any(|known| known.is_like(failure)) {
            return;
        }
        failures.push(failure.clone());
        drop(failures);
        let is_same = |text: &str| {
            attempt(self.surface, text, LIMIT).is_err_and(|other| other.is_like(failure))
        };
        let small = if matches!(failure, Failure::Slow(_)) {
            text.to_owned()
        } else {
            shrink(text, is_same)
        };
        let file = self.folder.join(format!("{number:016x}"));
        fs::write(&file, &small).expect("target can be written");
        let said: String = format!("{failure:?}").chars().take(600).collect();
        println!("{}\n{said}\n{small}\n", file.display());
    }
}
