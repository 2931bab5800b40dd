//! Starts processes of this program that run one mutant each, and reads how they ended.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};
use std::{fs, io};

use machine::process::output_within;

use super::ended::{Ended, Report};
use crate::harness::context::Context;
use crate::harness::request::{
    DeviceChoice, REQUEST_VARIABLE, Request, TrialMutation, TrialRequest, Verb,
};
use crate::harness::verbs::mutate::subject::Mutant;

/// A process gets this much longer than it gives itself: one that the driver holds does not end itself.
const GRACE: Duration = Duration::from_secs(10);

/// How this program is started for a mutant.
pub(super) struct Children {
    program: PathBuf,
    template: Request,
    /// Cores for each.
    threads: usize,
    filters: Vec<String>,
}

/// What one process may do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) repeats: u64,
    pub(super) launch: Duration,
    pub(super) total: Duration,
}

/// How a process ended.
pub(super) struct Finished {
    pub(super) report: Report,
    /// From its start to its end.
    pub(super) wall: Duration,
}

impl Children {
    /// Processes for mutants of the runs that `filters` select, on this device.
    ///
    /// # Errors
    /// The operating system does not say what this program is.
    pub(super) fn new(
        context: &Context,
        device: DeviceChoice,
        threads: usize,
        filters: &[String],
    ) -> io::Result<Children> {
        Ok(Children {
            program: std::env::current_exe()?,
            // The verb is another for each.
            template: context.request_like(
                device,
                Verb::List {
                    filters: Vec::new(),
                },
            ),
            threads,
            filters: filters.to_vec(),
        })
    }

    /// Runs one: `before` is the command that starts it, such as a sanitizer with its options.
    ///
    /// # Errors
    /// The process cannot be started, or files for it not be made.
    pub(super) fn run(
        &self,
        kernel: &str,
        mutant: Option<&Mutant<'_>>,
        limits: Limits,
        before: &[OsString],
    ) -> io::Result<Finished> {
        let folder = tempfile::Builder::new()
            .prefix("tilekit-trial-")
            .tempdir()?;
        let (asked, report) = (
            folder.path().join("request.json"),
            folder.path().join("report.json"),
        );
        let request = Request {
            verb: Verb::Trial(TrialRequest {
                kernel: kernel.to_string(),
                mutation: mutant.map(|mutant| TrialMutation {
                    kind: mutant.mutation.kind.name().to_string(),
                    body: mutant.mutation.body,
                    statement: mutant.mutation.statement,
                }),
                filters: self.filters.clone(),
                repeats: limits.repeats,
                launch_limit_ms: limits.launch.as_millis() as u64,
                total_limit_ms: limits.total.as_millis() as u64,
                report: report.clone(),
            }),
            ..self.template.clone()
        };
        request.write(&asked)?;
        let mut command = self.command(before);
        command
            .env(REQUEST_VARIABLE, &asked)
            .env("RAYON_NUM_THREADS", self.threads.to_string());
        let started = Instant::now();
        let limit = limits.total + GRACE;
        let output = output_within(&mut command, limit)?;
        Ok(Finished {
            report: report_of(&report, output.as_ref(), limit),
            wall: started.elapsed(),
        })
    }

    fn command(&self, before: &[OsString]) -> Command {
        let Some((tool, options)) = before.split_first() else {
            return Command::new(&self.program);
        };
        let mut command = Command::new(tool);
        command.args(options).arg(&self.program);
        command
    }
}

/// What the process wrote, or what its end says where it did not get to that.
fn report_of(path: &Path, output: Option<&Output>, limit: Duration) -> Report {
    let written = fs::read_to_string(path).ok();
    if let Some(report) = written.and_then(|text| serde_json::from_str(&text).ok()) {
        return report;
    }
    let ended = match output {
        None => Ended::TimeLimit {
            message: format!("killed after {} s", limit.as_secs()),
        },
        Some(output) => end_of(output),
    };
    Report {
        ended,
        launch_ms: 0.0,
    }
}

fn end_of(output: &Output) -> Ended {
    let said = String::from_utf8_lossy(&output.stderr);
    let mut lines = said.lines().filter(|line| !line.trim().is_empty());
    if output.status.code() == Some(crate::HANG_EXIT_CODE) {
        let message = said.lines().find_map(|line| line.strip_prefix("error: "));
        let message = message.unwrap_or("it did not end").to_string();
        return Ended::TimeLimit { message };
    }
    let said = lines
        .next_back()
        .map_or(String::new(), |line| format!("; {line}"));
    Ended::Died {
        message: format!("{}{said}", output.status),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is made of a process that runs this script, which may write its report to `$1`.
    fn check(script: &str, limit_ms: u64, expected: &str) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("report.json");
        let mut command = Command::new("sh");
        command.args(["-c", script, "sh"]).arg(&path);
        let limit = Duration::from_millis(limit_ms);
        let output = output_within(&mut command, limit).expect("there is a shell");
        assert_eq!(
            report_of(&path, output.as_ref(), limit).ended.text(),
            expected,
            "{script}"
        );
    }

    #[test]
    fn a_process_that_does_not_end_is_killed_and_one_that_gives_up_says_why() {
        check("exec sleep 600", 100, "time limit: killed after 0 s");
        check(
            "echo 'error: `k` did not end' >&2; exit 107",
            60_000,
            "time limit: `k` did not end",
        );
    }

    #[test]
    fn a_process_that_aborts_is_one_verdict() {
        check(
            "echo first >&2; echo last >&2; exit 3",
            60_000,
            "the process ended: exit status: 3; last",
        );
        check(
            "kill -ABRT $$",
            60_000,
            "the process ended: signal: 6 (SIGABRT)",
        );
        check("exit 0", 60_000, "the process ended: exit status: 0");
    }

    #[test]
    fn what_was_reported_counts_however_the_process_ended() {
        let script = r#"echo '{"outcome":"passed","launch_ms":1.5}' >$1; exit 1"#;
        check(script, 60_000, "passed");
        // Cut off.
        check(
            r#"echo '{"outcome":"pas' >$1"#,
            60_000,
            "the process ended: exit status: 0",
        );
    }
}
