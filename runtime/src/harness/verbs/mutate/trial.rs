//! What becomes of a mutant.

use serde::{Deserialize, Serialize};

use super::rehearse::{Rehearsals, STRICT, Schedule};
use super::subject::Mutant;
use crate::error::Error;
use crate::report::fault_diagnostic;

/// How the runs of a mutant ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "lowercase")]
pub(super) enum Outcome {
    /// The emulator reported it.
    Reported {
        /// The code of the diagnostic.
        code: String,
        /// Whether the diagnostic has a place in the source.
        located: bool,
        /// The run, with its sizes.
        run: String,
        seed: u64,
        /// Only a strict run reported it.
        #[serde(default)]
        strict: bool,
        /// The first line of the report.
        message: String,
    },
    /// Nothing was reported, but the result was wrong.
    Wrong {
        run: String,
        seed: u64,
        message: String,
    },
    /// It was not launched.
    Refused {
        run: String,
        seed: u64,
        message: String,
    },
    /// All runs went well.
    Survived,
}

/// Runs a mutant until something is found: the fastest run first, in one order of warps after another, and at last strictly where the
/// kernel as it is passes that.
pub(super) fn run(mutant: &Mutant<'_>, rehearsals: &Rehearsals<'_>) -> Outcome {
    let subject = mutant.subject;
    let broken = subject.broken(&mutant.mutation);
    let runs = rehearsals.of_subject(subject);
    let orders = (0..rehearsals.seeds).map(|seed| Schedule {
        seed,
        strict: false,
    });
    for schedule in orders.chain([STRICT]) {
        for rehearsal in &runs {
            if schedule.strict && !rehearsal.is_strict {
                continue;
            }
            let ended = rehearsal.perform(schedule, Some((&subject.path, &broken)));
            if let Err(error) = ended {
                return outcome_of(&error, rehearsal.about(), schedule);
            }
        }
    }
    Outcome::Survived
}

fn outcome_of(error: &Error, run: String, Schedule { seed, strict }: Schedule) -> Outcome {
    let text = error.to_string();
    let message = text.lines().next().unwrap_or_default().to_string();
    match error {
        Error::Fault(fault) => Outcome::Reported {
            code: fault_diagnostic(fault).code.number().to_string(),
            located: fault.place.is_some(),
            run,
            seed,
            strict,
            message,
        },
        Error::WrongResult { .. } | Error::WrittenOutside { .. } | Error::CasePanicked { .. } => {
            Outcome::Wrong { run, seed, message }
        }
        _ => Outcome::Refused { run, seed, message },
    }
}
