//! Child processes with limits of time and output.
#![allow(
    unsafe_code,
    reason = "a child asks the system to end with its parent before it executes the program"
)]

use std::io::{self, Read};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// What is kept of each stream; a real answer is far shorter.
const MOST_BYTES: u64 = 16 << 20;

/// How often a program that has closed its streams is looked at until it ends.
const PAUSE: Duration = Duration::from_millis(2);

/// Runs `command` to its end without input; `None` if it did not end within `limit`, and was stopped. It is stopped with this process
/// too.
///
/// # Errors
/// What the operating system says.
pub fn output_within(command: &mut Command, limit: Duration) -> io::Result<Option<Output>> {
    output_watched(command, limit, Duration::MAX, &|_| ())
}

/// The same; `tell` is called each time that it has run for `interval` more, with the time that it has run.
///
/// # Errors
/// What the operating system says.
pub fn output_watched(
    command: &mut Command,
    limit: Duration,
    interval: Duration,
    tell: &dyn Fn(Duration),
) -> io::Result<Option<Output>> {
    let begin = Instant::now();
    let deadline = begin + limit;
    ends_with_parent(command);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let stdout = listen(child.stdout.take().expect("standard output is piped"));
    let stderr = listen(child.stderr.take().expect("standard error is piped"));
    let next = |from: &Receiver<Vec<u8>>| {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match from.recv_timeout(left.min(interval)) {
                Ok(said) => return Some(said),
                Err(RecvTimeoutError::Timeout) if left > interval => tell(begin.elapsed()),
                Err(_) => return None,
            }
        }
    };
    let ended = next(&stdout).and_then(|stdout| Some((stdout, next(&stderr)?)));
    let Some((stdout, stderr)) = ended else {
        return stop(child);
    };
    match wait_until(&mut child, deadline)? {
        Some(status) => Ok(Some(Output {
            status,
            stdout,
            stderr,
        })),
        None => stop(child),
    }
}

/// Has the system end the program when this process ends, however that is: nobody waits for it any more.
fn ends_with_parent(command: &mut Command) {
    #[cfg(target_os = "linux")]
    {
        use std::os::unix::process::CommandExt;

        use rustix::process::{Signal, set_parent_process_death_signal};

        let ask = || Ok(set_parent_process_death_signal(Some(Signal::KILL))?);
        // SAFETY: between fork and exec this makes one system call and touches no memory, no lock and no allocator.
        unsafe { command.pre_exec(ask) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = command;
}

/// Reads a stream beside the program; what cannot be read any more is left out.
fn listen(stream: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut said = Vec::new();
        let _ = stream.take(MOST_BYTES).read_to_end(&mut said);
        // The output of a stopped program is discarded.
        let _ = sender.send(said);
    });
    receiver
}

fn wait_until(child: &mut Child, deadline: Instant) -> io::Result<Option<ExitStatus>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= deadline {
            return Ok(None);
        }
        thread::sleep(PAUSE);
    }
}

fn stop(mut child: Child) -> io::Result<Option<Output>> {
    child.kill()?;
    child.wait()?;
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(script: &str, limit_ms: u64) -> Option<Output> {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        output_within(&mut command, Duration::from_millis(limit_ms)).expect("there is a shell")
    }

    #[test]
    fn both_streams_and_the_status_come_back() {
        let ended = run("echo out; echo err >&2; exit 3", 60_000).expect("it ends");
        assert_eq!(
            (ended.status.code(), &ended.stdout[..], &ended.stderr[..]),
            (Some(3), &b"out\n"[..], &b"err\n"[..])
        );
    }

    #[test]
    fn a_program_that_does_not_end_is_stopped() {
        // The second closes its streams, and the third leaves a child that keeps them open.
        for script in [
            "exec sleep 100",
            "exec >&- 2>&-; exec sleep 100",
            "sleep 5 & sleep 100",
        ] {
            let begin = Instant::now();
            assert!(run(script, 100).is_none(), "{script}");
            assert!(begin.elapsed() < Duration::from_mins(1), "{script}");
        }
    }

    #[test]
    fn a_program_that_takes_long_is_told_of() {
        let told = std::cell::Cell::new(0);
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 1; echo done"]);
        let interval = Duration::from_millis(100);
        let tell = |_| told.set(told.get() + 1);
        let ended = output_watched(&mut command, Duration::from_mins(1), interval, &tell);
        let ended = ended.expect("there is a shell").expect("it ends");
        assert_eq!(&ended.stdout[..], b"done\n");
        assert!((2..=10).contains(&told.get()), "{}", told.get());
    }

    #[test]
    fn endless_output_is_truncated() {
        let ended = run("exec yes", 60_000).expect("its pipe is closed");
        assert_eq!(ended.stdout.len() as u64, MOST_BYTES);
        assert!(!ended.status.success());
    }
}
