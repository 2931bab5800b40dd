//! How the runs of a mutant in a process of its own ended.

use std::collections::BTreeMap;

use machine::Error as MachineError;
use serde::{Deserialize, Serialize};

use super::sanitizer::Said;
use crate::error::Error;
use crate::report::fault_diagnostic;

/// How it ended, the first thing that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "kebab-case")]
pub(super) enum Ended {
    /// All runs gave the right result.
    Passed,
    /// A result was wrong.
    Wrong {
        /// The run, with its sizes.
        run: String,
        message: String,
    },
    /// The emulator reported it, where that is the device.
    Reported {
        /// The code of the diagnostic.
        code: String,
        run: String,
        message: String,
    },
    /// The driver reported an error of the launch or of the kernel, such as an illegal address.
    Driver { run: String, message: String },
    /// It was stopped, for it took too long: probably a deadlock.
    TimeLimit { message: String },
    /// The process ended in another way.
    Died { message: String },
    /// The launch was refused before it began, or ptxas' notes were.
    Refused { run: String, message: String },
    /// ptxas or the driver's compiler did not take the text.
    NotCompiled { run: String, message: String },
}

impl Ended {
    /// What an error of a run means.
    pub(super) fn of(error: &Error, run: String) -> Ended {
        let text = error.to_string();
        let message = text.lines().next().unwrap_or_default().to_string();
        match error {
            Error::Fault(fault) => Ended::Reported {
                code: fault_diagnostic(fault).code.number().to_string(),
                run,
                message,
            },
            Error::WrongResult { .. }
            | Error::WrittenOutside { .. }
            | Error::CasePanicked { .. }
            | Error::NothingExpected { .. } => Ended::Wrong { run, message },
            Error::KernelFailed { .. }
            | Error::Cuda(_)
            | Error::Launch { .. }
            | Error::OutOfMemory { .. }
            | Error::Machine(MachineError::Cuda(_)) => Ended::Driver { run, message },
            Error::Jit { .. } => Ended::NotCompiled { run, message },
            Error::Machine(MachineError::Ptxas(failure)) if failure.is_rejection => {
                Ended::NotCompiled { run, message }
            }
            _ => Ended::Refused { run, message },
        }
    }

    /// Whether the device failed it, by any sign that shows while it runs.
    pub(super) fn fails(&self) -> bool {
        match self {
            Ended::Wrong { .. }
            | Ended::Reported { .. }
            | Ended::Driver { .. }
            | Ended::TimeLimit { .. }
            | Ended::Died { .. } => true,
            Ended::Passed | Ended::Refused { .. } | Ended::NotCompiled { .. } => false,
        }
    }

    /// Whether it may be the doing of another process that used the device at the same time.
    pub(super) fn may_be_of_another(&self) -> bool {
        matches!(self, Ended::Driver { .. } | Ended::Died { .. })
    }

    /// It in a word, and what was said.
    pub(super) fn text(&self) -> String {
        match self {
            Ended::Passed => "passed".to_string(),
            Ended::Wrong { run, message } => format!("wrong result in {run}: {message}"),
            Ended::Reported { code, run, message } => format!("{code} in {run}: {message}"),
            Ended::Driver { run, message } => format!("error of the driver in {run}: {message}"),
            Ended::TimeLimit { message } => format!("time limit: {message}"),
            Ended::Died { message } => format!("the process ended: {message}"),
            Ended::Refused { run, message } => format!("refused in {run}: {message}"),
            Ended::NotCompiled { run, message } => format!("not compiled in {run}: {message}"),
        }
    }
}

/// What a process writes of the mutant that it ran.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Report {
    #[serde(flatten)]
    pub(super) ended: Ended,
    /// The longest launch, as the host saw it, milliseconds.
    pub(super) launch_ms: f64,
}

/// What became of one mutant, or of a kernel as it is, which is recorded.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Tried {
    #[serde(flatten)]
    pub(super) ended: Ended,
    pub(super) launch_ms: f64,
    /// The whole process.
    pub(super) wall_ms: u64,
    /// Whether no other process used the device at the same time.
    pub(super) is_alone: bool,
    /// What tools said.
    #[serde(default)]
    pub(super) tools: BTreeMap<String, Said>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuda::CudaFailure;

    #[test]
    fn errors_are_told_apart_by_what_they_say_of_a_mutant() {
        let of = |error: Error| Ended::of(&error, "case `a`".into());
        let failure = || CudaFailure {
            call: "cuStreamSynchronize",
            code: 700,
            name: "CUDA_ERROR_ILLEGAL_ADDRESS".into(),
            text: "an illegal memory access was encountered".into(),
        };
        let driver = of(Error::KernelFailed {
            kernel: Some("k".into()),
            failure: failure(),
        });
        assert!(matches!(driver, Ended::Driver { .. }), "{driver:?}");
        assert!(driver.fails() && driver.may_be_of_another());
        let compiled = of(Error::Jit {
            failure: failure(),
            log: Vec::new(),
        });
        assert!(matches!(compiled, Ended::NotCompiled { .. }) && !compiled.fails());
        let refused = of(Error::NeverWaits { kernel: "k".into() });
        assert!(matches!(refused, Ended::Refused { .. }) && !refused.fails());
        let wrong = of(Error::WrittenOutside {
            output: "out".into(),
            index: vec![3],
        });
        assert!(wrong.fails() && !wrong.may_be_of_another());
    }

    #[test]
    fn a_report_reads_back() {
        for ended in [
            Ended::Passed,
            Ended::TimeLimit {
                message: "5 s".into(),
            },
        ] {
            let report = Report {
                ended,
                launch_ms: 0.25,
            };
            let text = serde_json::to_string(&report).expect("text");
            assert_eq!(
                serde_json::from_str::<Report>(&text).expect("a report"),
                report
            );
        }
    }
}
