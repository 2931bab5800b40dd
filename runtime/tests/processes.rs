//! Ranks that are processes: on several GPUs they share memory and signal each other, and one that is killed is an error of the others within their limit.
#![cfg(unix)]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tilekit::prelude::*;
use tilekit::{Error, ProcessWorld};

/// Set in the process of a rank: the scenario, the rank, how many there are and the path.
const CHILD: &str = "TILEKIT_TEST_RANK";

/// Each rank stores `x` at the next one and adds up what it got. The number of calls lies in memory.
#[kernel(warps = 4, cooperative)]
fn hand_on(
    x: Ptr<i32>,
    sum: Ptr<i32>,
    got: Ptr<i32>,
    got_of: PeerMap<i32>,
    counts: Ptr<i32>,
    counts_of: PeerMap<i32>,
    calls: Ptr<i32>,
    next: i32,
    before: i32,
    limit: i64,
    late: Ptr<i64>,
) {
    let (cta, at) = (
        program_id(0),
        program_id(0) * 128 + arange(0..128, Coalesced),
    );
    let signals = Signals::new(counts, counts_of).within(limit, late);
    let call = calls.at(cta).load() + 1;
    signals.wait(cta + 8, call - 1);
    got_of.of(next).at(at).store(x.at(at).load() + call);
    signals.signal(next, cta, scalar(1));
    signals.wait(cta, call);
    sum.at(at).store(sum.at(at).load() + got.at(at).load());
    signals.signal(before, cta + 8, scalar(1));
    calls.at(cta).store(call);
}

/// What the process of a rank does; after `dies_after` calls it is gone.
fn run_rank(
    path: &Path,
    [rank, ranks]: [usize; 2],
    dies_after: Option<i32>,
) -> tilekit::Result<()> {
    let world = ProcessWorld::join(path, rank, ranks, Duration::from_secs(10))?;
    let (next, before) = ((rank + 1) % ranks, (rank + ranks - 1) % ranks);
    let got = world.symmetric::<i32>(1024)?;
    let counts = world.symmetric::<i32>(16)?;
    let x = Buffer::from_slice(
        world.device(),
        &(0..1024)
            .map(|at| at * (1 + rank as i32))
            .collect::<Vec<_>>(),
    )?;
    let (sum, calls) = (
        Buffer::zeros(world.device(), 1024)?,
        Buffer::zeros(world.device(), 8)?,
    );
    let kernel = hand_on
        .compile(&Compiler::default())?
        .load(world.device())?;
    // Code is loaded before anybody waits.
    world.barrier()?;
    for call in 0..5 {
        if dies_after == Some(call) {
            std::process::abort();
        }
        let (own, of_ranks) = (counts.part(), counts.peers());
        let second = 1_000_000_000;
        let arguments = (
            &x,
            &sum,
            got.part(),
            got.peers(),
            own,
            of_ranks,
            &calls,
            next as i32,
            before as i32,
            second,
            world.late(),
        );
        kernel.launch(world.stream(), grid(8), arguments)?;
    }
    world.synchronize()?;
    let wanted: Vec<i32> = (0..1024)
        .map(|at| 5 * at * (1 + before as i32) + 15)
        .collect();
    assert_eq!(sum.to_vec()?, wanted);
    world.barrier()?;
    let refused = world
        .symmetric::<i32>(16 + rank)
        .map(drop)
        .expect_err("of two lengths")
        .to_string();
    let expected = "rank 0 makes symmetric memory of 16 elements of i32, and rank 1 symmetric memory of 17 elements of i32";
    assert!(refused.contains(expected), "{refused}");
    println!("rank {rank} is right");
    Ok(())
}

/// Starts the process of a rank with this scenario.
fn start(scenario: &str, [rank, ranks]: [usize; 2], path: &Path) -> Child {
    let mut command = Command::new(std::env::current_exe().expect("this test"));
    let this_test = "processes_share_memory_and_one_that_is_killed_is_an_error_of_the_others";
    command.args(["--exact", this_test, "--nocapture"]);
    command.env(
        CHILD,
        format!("{scenario} {rank} {ranks} {}", path.display()),
    );
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    child.expect("it starts")
}

/// What a process says, which has to end by itself.
#[track_caller]
fn end(mut child: Child) -> String {
    let started = Instant::now();
    let has_ended = loop {
        if child.try_wait().expect("it is a child").is_some() {
            break true;
        }
        if started.elapsed() > Duration::from_secs(20) {
            let _ = child.kill();
            break false;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let output = child.wait_with_output().expect("it has ended");
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(has_ended, "it does not end by itself: {said}");
    said.into_owned()
}

#[test]
fn processes_share_memory_and_one_that_is_killed_is_an_error_of_the_others() {
    if let Ok(told) = std::env::var(CHILD) {
        let words: Vec<&str> = told.split(' ').collect();
        let number = |at: usize| words[at].parse::<usize>().expect("a number");
        let (rank, ranks, path) = (number(1), number(2), PathBuf::from(words[3]));
        let dies_after = (words[0] == "dies" && rank == 1).then_some(2);
        match run_rank(&path, [rank, ranks], dies_after) {
            Ok(()) => {}
            Err(error) => println!("rank {rank}: {error}"),
        }
        return;
    }
    let Some(world) = (2..=16).map_while(|ranks| World::cuda(ranks).ok()).last() else {
        println!("skipped: fewer than two GPUs");
        return;
    };
    let ranks = world.ranks();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("meet");
    let run = |scenario: &str| -> Vec<String> {
        let all = (0..ranks).map(|rank| start(scenario, [rank, ranks], &path));
        let all: Vec<Child> = all.collect();
        all.into_iter().map(end).collect()
    };
    for (rank, said) in run("lives").iter().enumerate() {
        assert!(said.contains(&format!("rank {rank} is right")), "{said}");
    }
    let started = Instant::now();
    let survivors = run("dies");
    println!(
        "after {:.1} s: {survivors:?}",
        started.elapsed().as_secs_f32()
    );
    for (rank, survivor) in survivors.iter().enumerate().filter(|(rank, _)| *rank != 1) {
        let waited = format!("rank {rank}: slot ");
        for expected in [
            &waited,
            " was waited for in vain, 1 of the signals did not come",
        ] {
            assert!(survivor.contains(expected), "{survivor}");
        }
    }
    let killed = "rank 1: the process of rank 1 has ended";
    assert!(survivors[0].contains(killed), "{}", survivors[0]);
}

#[test]
fn a_process_alone_says_who_has_not_come() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("meet");
    let joined =
        |rank, ranks| ProcessWorld::join(&path, rank, ranks, Duration::from_millis(20)).map(drop);
    let text = joined(0, 3).expect_err("nobody else comes").to_string();
    assert_eq!(text, "ranks [1, 2] of 3 have not joined within 0.02 s");
    assert!(matches!(joined(1, 2), Err(Error::Ranks { .. })));
    assert!(joined(0, 0).is_err());
}
