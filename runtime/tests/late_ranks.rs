//! Ranks that do not come: on GPUs an error within the limit, in a process that ends; on the emulator the flag that is waited for.
//!
//! On GPUs each mistake has a process of its own, since nothing else gets the GPU back.

use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tilekit::prelude::*;
use tilekit::report::fault_diagnostic;
use tilekit::{EmulatorOptions, Error};

/// Each rank waits for `wanted` signals of the one before and gives the next one as many as `given`; `is_alive` fails the assertion.
#[kernel(warps = 1, cooperative)]
fn wait_for_previous(
    counts: Ptr<i32>,
    counts_of: PeerMap<i32>,
    next: i32,
    given: i32,
    wanted: i32,
    is_alive: i32,
) {
    let signals = Signals::new(counts, counts_of);
    device_assert(is_alive == 1, "the rank is alive");
    signals.signal(next, scalar(0), given);
    signals.wait(scalar(0), wanted);
}

/// The same with a limit of each wait, nanoseconds.
#[kernel(warps = 1, cooperative)]
fn wait_within(
    counts: Ptr<i32>,
    counts_of: PeerMap<i32>,
    next: i32,
    given: i32,
    limit: i64,
    late: Ptr<i64>,
) {
    let signals = Signals::new(counts, counts_of).within(limit, late);
    signals.signal(next, scalar(5), given);
    signals.wait(scalar(5), scalar(3));
}

/// What goes wrong on rank 1.
#[derive(Clone, Copy, PartialEq)]
enum Mistake {
    /// It signals too seldom.
    Silent,
    /// Its kernel fails before it signals.
    Dead,
    /// It is not launched.
    Absent,
    /// It signals too seldom, and the waits have a limit.
    Limited,
}

const MISTAKES: [(&str, Mistake); 4] = [
    ("limited", Mistake::Limited),
    ("silent", Mistake::Silent),
    ("dead", Mistake::Dead),
    ("absent", Mistake::Absent),
];

/// How long the ranks wait.
const LIMIT: Duration = Duration::from_millis(500);

/// Launches so on all ranks; gives what that ends with.
fn make(mistake: Mistake, world: &World) -> tilekit::Result<()> {
    let counts = world.symmetric::<i32>(8)?;
    let next = |rank: usize| ((rank + 1) % world.ranks()) as i32;
    if mistake == Mistake::Limited {
        let kernel = world.load(&wait_within.compile(&Compiler::default())?)?;
        return kernel.launch(world, grid(1), |rank| {
            // Rank 0 gives rank 1 too few.
            let given = if rank == 0 { 1 } else { 3 };
            let (own, of_ranks) = (counts.part(rank), counts.peers(rank));
            let limit = 100_000_000;
            (own, of_ranks, next(rank), given, limit, world.late(rank))
        });
    }
    let kernel = world.load(&wait_for_previous.compile(&Compiler::default())?)?;
    let arguments = |rank: usize| {
        let given = i32::from(rank != 1 || mistake != Mistake::Silent);
        let is_alive = i32::from(rank != 1 || mistake != Mistake::Dead);
        let (own, of_ranks) = (counts.part(rank), counts.peers(rank));
        (own, of_ranks, next(rank), given, 1, is_alive)
    };
    if mistake == Mistake::Absent {
        for rank in (0..world.ranks()).filter(|&rank| rank != 1) {
            let (kernel, stream) = (kernel.of_rank(rank), world.stream(rank));
            kernel.launch(stream, grid(1), arguments(rank))?;
        }
        return world.synchronize();
    }
    kernel.launch(world, grid(1), arguments)
}

/// All GPUs.
fn all_gpus() -> Option<World> {
    (2..=16).map_while(|ranks| World::cuda(ranks).ok()).last()
}

/// Set in the process of a mistake.
const CHILD: &str = "TILEKIT_TEST_MISTAKE";

#[test]
fn on_gpus_a_missing_rank_is_an_error_within_the_limit_and_the_process_ends() {
    if let Ok(name) = std::env::var(CHILD) {
        let (_, mistake) = MISTAKES
            .into_iter()
            .find(|(known, _)| *known == name)
            .expect("a known one");
        let world = all_gpus().expect("two GPUs").with_limit(LIMIT);
        let started = Instant::now();
        let ended = make(mistake, &world);
        println!(
            "after {:.2} s: {}",
            started.elapsed().as_secs_f32(),
            ended.expect_err("the rank behind it waits")
        );
        return;
    }
    let Some(world) = all_gpus() else {
        println!("skipped: fewer than two GPUs");
        return;
    };
    let ranks = world.ranks();
    let late = format!(
        "on 1 of {ranks} ranks: [{}]; each waits for a signal",
        2 % ranks
    );
    for (name, mistake) in MISTAKES {
        let said = run_child(name);
        println!("{name}: {said}");
        let expected = match mistake {
            Mistake::Silent | Mistake::Absent => &late,
            // A failure of one GPU may end the kernels of those that access its memory; else they are late.
            Mistake::Dead => "rank 1: `wait_for_previous` failed on the GPU: ",
            Mistake::Limited => {
                "rank 1: slot 5 was waited for in vain, 2 of the signals did not come within the limit of the wait: `wait_within` failed"
            }
        };
        assert!(said.contains(expected), "{name}: {said}");
    }
}

/// What the process of a mistake says, which has to end by itself.
#[track_caller]
fn run_child(name: &str) -> String {
    let this_test = "on_gpus_a_missing_rank_is_an_error_within_the_limit_and_the_process_ends";
    let program = std::env::current_exe().expect("this test");
    let mut command = Command::new(program);
    command
        .args(["--exact", this_test, "--nocapture"])
        .env(CHILD, name);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let started = Instant::now();
    let has_ended = loop {
        if child.try_wait().expect("it is a child").is_some() {
            break true;
        }
        if started.elapsed() > Duration::from_secs(15) {
            let _ = child.kill();
            break false;
        }
        thread::sleep(Duration::from_millis(20));
    };
    let output = child.wait_with_output().expect("it has ended");
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(has_ended, "{name} does not end by itself: {said}");
    println!(
        "{name} ended after {:.2} s",
        started.elapsed().as_secs_f32()
    );
    said.into_owned()
}

#[test]
fn the_emulator_names_what_a_rank_waits_for() {
    for (seed, (_, mistake)) in (0..).zip(&MISTAKES[..3]) {
        let options = EmulatorOptions {
            seed,
            ..EmulatorOptions::default()
        };
        let world = World::emulators(2, options).unwrap();
        let Err(Error::Fault(fault)) = make(*mistake, &world) else {
            panic!("rank 0 waits for ever");
        };
        let text = fault_diagnostic(&fault).to_string() + &fault.to_string();
        // Before a limit is reached: that nobody changes what is polled is seen at once.
        let expected = match mistake {
            Mistake::Dead => "rank 1, CTA (0,0,0)",
            _ => "deadlock across 2 devices",
        };
        assert!(text.contains(expected), "{text}");
    }
}
