//! NVIDIA's `compute-sanitizer`: mutants run under its tools, and what it says of them.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use machine::ptxas::Environment;
use serde::{Deserialize, Serialize};

/// The tools that it has.
pub(super) const TOOLS: [&str; 4] = ["memcheck", "racecheck", "synccheck", "initcheck"];

/// What a tool says of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "said", rename_all = "lowercase")]
pub(super) enum Said {
    /// Nothing.
    Clean,
    /// Errors or hazards.
    Reported {
        /// How many.
        count: u64,
        /// The first.
        message: String,
    },
    /// It did not come to an end, or cannot check this device.
    Failed { message: String },
}

/// The program, where ptxas is looked for too.
pub(super) fn find() -> Option<PathBuf> {
    let environment = Environment::of_process();
    let mut found = environment.programs("compute-sanitizer");
    found.next().map(|(path, _)| path)
}

/// The command that runs a program under `tool` and writes to `log`.
pub(super) fn command(program: &Path, tool: &str, log: &Path) -> Vec<OsString> {
    let mut command = vec![program.as_os_str().to_owned()];
    command.extend(["--tool", tool, "--log-file"].map(OsString::from));
    command.push(log.as_os_str().to_owned());
    command
}

/// What it wrote.
pub(super) fn read(log: &Path) -> Said {
    match fs::read_to_string(log) {
        Ok(text) => parse(&text),
        Err(error) => Said::Failed {
            message: format!("it wrote no log ({error})"),
        },
    }
}

/// Beginnings of what it says of itself and of the program's end, and not of the kernel.
const NO_FINDINGS: [&str; 6] = [
    "COMPUTE-SANITIZER",
    "ERROR SUMMARY",
    "RACECHECK SUMMARY",
    "LEAK SUMMARY",
    "Target application",
    "Process ",
];

fn parse(text: &str) -> Said {
    let lines = || {
        let lines = text.lines();
        lines.filter_map(|line| line.strip_prefix("========= "))
    };
    let about_itself = |line: &&str| {
        line.contains("not supported")
            || line.contains("Internal Sanitizer")
            || line.contains("Unable to")
    };
    if let Some(line) = lines().find(about_itself) {
        return Said::Failed {
            message: line.trim().to_string(),
        };
    }
    let summary = |line: &str| {
        let (kind, rest) = line.split_once(" SUMMARY: ")?;
        let count = rest.split_whitespace().next()?.parse::<u64>().ok()?;
        (kind != "LEAK").then_some(count)
    };
    // The last line counts all.
    let Some(count) = lines().filter_map(|line| summary(line.trim())).next_back() else {
        let said = text.lines().next_back().unwrap_or("nothing");
        return Said::Failed {
            message: format!("no summary in its log; its last line is: {said}"),
        };
    };
    if count == 0 {
        return Said::Clean;
    }
    let is_finding = |line: &&str| {
        let line = line.trim();
        !line.is_empty() && NO_FINDINGS.iter().all(|start| !line.starts_with(start))
    };
    Said::Reported {
        count,
        message: lines()
            .find(is_finding)
            .unwrap_or_default()
            .trim()
            .to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let found = match parse(text) {
            Said::Clean => "clean".to_string(),
            Said::Reported { count, message } => format!("{count}: {message}"),
            Said::Failed { message } => format!("failed: {message}"),
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn logs_are_read_by_their_summary() {
        check(
            "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n",
            "clean",
        );
        check(
            "========= COMPUTE-SANITIZER\n\
             ========= Error: Race reported between Write access at k+0x1d0 and Read access at k+0x210 [96 hazards]\n\
             =========     \n\
             ========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)\n",
            "1: Error: Race reported between Write access at k+0x1d0 and Read access at k+0x210 [96 hazards]",
        );
        check(
            "========= COMPUTE-SANITIZER\n\
             ========= Barrier error detected. Divergent thread(s) in block\n\
             =========     at k+0x60\n\
             ========= Target application returned an error\n\
             ========= ERROR SUMMARY: 32 errors\n",
            "32: Barrier error detected. Divergent thread(s) in block",
        );
    }

    #[test]
    fn a_tool_that_cannot_check_says_nothing_of_the_kernel() {
        check(
            "========= COMPUTE-SANITIZER\n========= Error: Device not supported. Please refer to the documentation\n\
             ========= ERROR SUMMARY: 1 error\n",
            "failed: Error: Device not supported. Please refer to the documentation",
        );
        check(
            "========= COMPUTE-SANITIZER\n",
            "failed: no summary in its log; its last line is: ========= COMPUTE-SANITIZER",
        );
    }
}
