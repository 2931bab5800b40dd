//! Faults of the tests, whole: what each says is compared with the text that was accepted for it, in `tests/reports.txt`.
//! `UPDATE_REPORTS=1 cargo test -p tilekit-emulator --test execution` writes those, to be read.

use emulator::Fault;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::{env, fs, thread};

/// The reports by the name of their test and their number in it.
type Reports = BTreeMap<(String, usize), String>;

static ACCEPTED: LazyLock<Mutex<Reports>> = LazyLock::new(|| {
    let text = fs::read_to_string(file()).unwrap_or_default();
    Mutex::new(parse(&text))
});

thread_local! {
    /// What this test has run: a kernel reports once, whichever orders it runs in.
    static SEEN: RefCell<HashSet<String>> = RefCell::default();
}

fn file() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/reports.txt")
}

fn parse(text: &str) -> Reports {
    let sections = text
        .split("\n== ")
        .map(|section| section.trim_start_matches("== "));
    let parsed = sections.filter_map(|section| {
        let (head, report) = section.split_once('\n')?;
        let (test, number) = head.rsplit_once(' ')?;
        Some((
            (test.to_owned(), number.parse().ok()?),
            report.trim_end().to_owned(),
        ))
    });
    parsed.collect()
}

fn print(reports: &Reports) -> String {
    let mut text = String::new();
    for ((test, number), report) in reports {
        let _ = writeln!(text, "== {test} {number}\n{report}\n");
    }
    text
}

/// Compares the fault of a run with what was accepted; `run` tells the runs of a test apart.
///
/// # Panics
/// Where it says something else.
pub(crate) fn check(run: &str, fault: &Fault) {
    let hex = |number: u64| format!("{number:#x}");
    let address = fault.address.map_or_else(|| "none".to_owned(), hex);
    let bytes = fault
        .bytes
        .map_or_else(|| "none".to_owned(), |n| n.to_string());
    accept(run, format!("{fault}\n  address {address}, bytes {bytes}"));
}

/// The same of any text: what a launch counts, and how long the model says that it takes.
///
/// # Panics
/// Where it is another one.
pub(crate) fn accept(run: &str, found: String) {
    // A thread that a test starts has no name, and its faults have no fixed order.
    let Some(test) = thread::current().name().map(str::to_owned) else {
        return;
    };
    let number = SEEN.with_borrow_mut(|seen| seen.insert(run.to_owned()).then_some(seen.len()));
    let Some(number) = number else {
        return;
    };
    let mut accepted = ACCEPTED.lock().unwrap_or_else(PoisonError::into_inner);
    if env::var_os("UPDATE_REPORTS").is_some() {
        if number == 1 {
            accepted.retain(|(of, _), _| *of != test);
        }
        accepted.insert((test, number), found);
        fs::write(file(), print(&accepted)).expect("the tests of a checkout can be written");
        return;
    }
    let wanted = accepted.get(&(test, number)).cloned().unwrap_or_default();
    drop(accepted);
    assert_eq!(found, wanted, "UPDATE_REPORTS=1 accepts what is said now");
}
