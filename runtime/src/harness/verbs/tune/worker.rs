//! Processes that check and time candidates, from the side of who starts them: one for each GPU, started again when a candidate has ended it.

use std::io::{self, BufRead, BufReader, Read};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use super::said::Said;
use crate::harness::request::{REQUEST_VARIABLE, Request, TuneJob, TuneShare, TuneTimes, Verb};

/// A process gets this much longer than it gives itself: one that the driver holds does not end itself.
const GRACE: Duration = Duration::from_mins(1);

/// Has processes do a share one after the other until all of it is done. `tell` gets every line, and those about candidates that ended a process.
///
/// # Errors
/// A process cannot be started, or ends before it has begun.
pub(super) fn work_off(
    template: &Request,
    mut share: TuneShare,
    tell: &dyn Fn(Said),
) -> io::Result<()> {
    while !share.jobs.is_empty() {
        let mut watch = Watch::default();
        let ended = one_process(template, &share, &mut |said| {
            watch.note(&said);
            tell(said);
        });
        let ended = ended?;
        for said in &watch.all {
            advance(&mut share.jobs, said);
        }
        if share.jobs.is_empty() {
            break;
        }
        match watch.at_work {
            Some((job, at)) => {
                let failed = Said::Failed {
                    job,
                    at,
                    message: ended,
                };
                advance(&mut share.jobs, &failed);
                tell(failed);
            }
            // It has said itself what ended it.
            None if watch.has_told => {}
            None => return Err(io::Error::other(ended)),
        }
    }
    Ok(())
}

/// What a process has said.
#[derive(Default)]
struct Watch {
    all: Vec<Said>,
    /// Which candidate is at work.
    at_work: Option<(usize, usize)>,
    /// There is less to do than before.
    has_told: bool,
}

impl Watch {
    fn note(&mut self, said: &Said) {
        match said {
            Said::At { job, at } => self.at_work = Some((*job, *at)),
            Said::Failed { .. } | Said::Wrong { .. } | Said::Done { .. } => {
                self.at_work = None;
                self.has_told = true;
            }
            Said::Right { .. } | Said::Timed { .. } => {}
        }
        self.all.push(said.clone());
    }
}

/// What is left to do after a line.
fn advance(jobs: &mut Vec<TuneJob>, said: &Said) {
    let (Said::At { job, .. }
    | Said::Right { job, .. }
    | Said::Wrong { job, .. }
    | Said::Failed { job, .. }
    | Said::Timed { job, .. }
    | Said::Done { job, .. }) = said;
    let Some(place) = jobs.iter().position(|known| known.number == *job) else {
        return;
    };
    let candidates = &mut jobs[place].candidates;
    match said {
        Said::At { .. } => {}
        Said::Done { .. } => {
            jobs.remove(place);
        }
        Said::Wrong { at, .. } | Said::Failed { at, .. } => {
            candidates.retain(|known| known.at != *at);
        }
        Said::Right { at, .. } => {
            let mut found = candidates.iter_mut().filter(|known| known.at == *at);
            if let Some(candidate) = found.next() {
                candidate.is_checked = true;
            }
        }
        Said::Timed {
            at,
            heat,
            single_us,
            back_to_back_us,
            ..
        } => {
            let mut found = candidates.iter_mut().filter(|known| known.at == *at);
            if let Some(candidate) = found.next() {
                candidate.heats.truncate(*heat);
                candidate.heats.push(TuneTimes {
                    single_ns: super::record::median_ns(single_us),
                    back_to_back_ns: super::record::median_ns(back_to_back_us),
                });
            }
        }
    }
}

/// Runs one process; says how it ended, with the last that it wrote to standard error.
fn one_process(
    template: &Request,
    share: &TuneShare,
    tell: &mut dyn FnMut(Said),
) -> io::Result<String> {
    let request = tempfile::Builder::new()
        .prefix("tilekit-tune-")
        .suffix(".json")
        .tempfile()?;
    let asked = Request {
        verb: Verb::TuneShare(share.clone()),
        ..template.clone()
    };
    asked.write(request.path())?;
    let mut child = Command::new(std::env::current_exe()?)
        .env(REQUEST_VARIABLE, request.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let lines = lines_of(child.stdout.take().expect("it is piped"));
    let errors = lines_of(child.stderr.take().expect("it is piped"));
    let limit = Duration::from_millis(share.time_limit_ms) + GRACE;
    let is_silent = listen(&lines, limit, tell);
    if is_silent {
        child.kill()?;
    }
    let status = child.wait()?;
    let last = errors.into_iter().fold(None, better);
    if is_silent {
        return Ok(format!("killed after {} s of silence", limit.as_secs()));
    }
    Ok(end_of(status, last))
}

/// Passes lines on until the process has closed its output; says whether it was silent for too long.
fn listen(lines: &Receiver<String>, limit: Duration, tell: &mut dyn FnMut(Said)) -> bool {
    loop {
        match lines.recv_timeout(limit) {
            Ok(line) => {
                // What is no line of ours, a case has printed.
                if let Ok(said) = serde_json::from_str(&line) {
                    tell(said);
                }
            }
            Err(RecvTimeoutError::Timeout) => return true,
            Err(RecvTimeoutError::Disconnected) => return false,
        }
    }
}

fn lines_of(stream: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, lines) = channel();
    thread::spawn(move || {
        let read = BufReader::new(stream).lines().map_while(Result::ok);
        for line in read {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    lines
}

/// The line that says most: an error, or the last one.
fn better(last: Option<String>, line: String) -> Option<String> {
    let is_error = |line: &String| line.starts_with("error");
    match last {
        Some(last) if is_error(&last) && !is_error(&line) => Some(last),
        last if line.trim().is_empty() => last,
        _ => Some(line),
    }
}

fn end_of(status: ExitStatus, said: Option<String>) -> String {
    let said = said.map_or(String::new(), |line| {
        format!("; {}", line.strip_prefix("error: ").unwrap_or(&line))
    });
    format!("the process ended: {status}{said}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::request::TuneCandidate;

    fn jobs() -> Vec<TuneJob> {
        let candidate = |at: usize| TuneCandidate {
            at,
            name: at.to_string(),
            is_checked: false,
            heats: Vec::new(),
        };
        vec![TuneJob {
            number: 7,
            case: "a::b".into(),
            sizes: Vec::new(),
            candidates: vec![candidate(0), candidate(3)],
        }]
    }

    #[test]
    fn what_was_said_need_not_be_done_again() {
        let mut left = jobs();
        let timed = |us: f32| Said::Timed {
            job: 7,
            at: 3,
            heat: 0,
            single_us: vec![us],
            back_to_back_us: vec![us],
            clock_mhz: None,
        };
        for said in [
            Said::At { job: 7, at: 3 },
            Said::Right { job: 7, at: 3 },
            timed(2.5),
            Said::Failed {
                job: 7,
                at: 0,
                message: "hung".into(),
            },
        ] {
            advance(&mut left, &said);
        }
        let [candidate] = &left[0].candidates[..] else {
            panic!("one is left");
        };
        assert!(candidate.is_checked && candidate.at == 3);
        assert_eq!(candidate.heats[0].single_ns, 2500);
        advance(
            &mut left,
            &Said::Done {
                job: 7,
                seconds: 1.0,
            },
        );
        assert!(left.is_empty());
    }

    #[test]
    fn an_error_says_more_than_what_follows_it() {
        let lines = ["error: `k` did not end", "", "note: at x"];
        let said = lines
            .iter()
            .fold(None, |last, line| better(last, (*line).to_string()));
        assert_eq!(said.as_deref(), Some("error: `k` did not end"));
        let said = ["one", "two", ""]
            .iter()
            .fold(None, |last, line| better(last, (*line).to_string()));
        assert_eq!(said.as_deref(), Some("two"));
    }
}
