//! Child processes with limits of time and output.

use std::io::{self, Read};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

/// What is kept of each stream; a real answer is far shorter.
const MOST_BYTES: u64 = 16 << 20;

/// How often a program that has closed its streams is looked at until it ends.
const PAUSE: Duration = Duration::from_millis(2);

/// Runs `command` to its end without input; `None` if it did not end within `limit`, and was stopped.
///
/// # Errors
/// What the operating system says.
pub fn output_within(command: &mut Command, limit: Duration) -> io::Result<Option<Output>> {
    let deadline = Instant::now() + limit;
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let stdout = listen(child.stdout.take().expect("standard output is piped"));
    let stderr = listen(child.stderr.take().expect("standard error is piped"));
    let left = |now: Instant| deadline.saturating_duration_since(now);
    let ended = (|| {
        let stdout = stdout.recv_timeout(left(Instant::now())).ok()?;
        let stderr = stderr.recv_timeout(left(Instant::now())).ok()?;
        Some((stdout, stderr))
    })();
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
    fn endless_output_is_truncated() {
        let ended = run("exec yes", 60_000).expect("its pipe is closed");
        assert_eq!(ended.stdout.len() as u64, MOST_BYTES);
        assert!(!ended.status.success());
    }
}
