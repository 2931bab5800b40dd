//! `check --prove`: what the model of barriers says of each variant.

use prove::Verdict;
use serde_json::{Value, json};

use crate::error::Error;
use crate::harness::Exit;
use crate::harness::catalog::Variant;
use crate::harness::speak::{Speaker, count};
use crate::report::Remark;

/// How many variants were judged how.
#[derive(Debug, Default)]
pub(super) struct Proofs {
    proved: usize,
    found: usize,
    undecided: usize,
    bare: usize,
}

impl Proofs {
    /// Judges a variant, and says so in a line; the exit, and whether it is proved.
    pub(super) fn prove(&mut self, variant: &Variant, speaker: &Speaker) -> (Exit, bool) {
        let name = &variant.display;
        let planned = variant
            .instance
            .trace()
            .and_then(|traced| lowering::planned(traced.func));
        let func = match planned {
            Ok(func) => func,
            Err(error) => return (speaker.error(name, &Error::Kernel(error)), false),
        };
        match prove::prove(&func) {
            Verdict::Bare => {
                self.bare += 1;
                tell(
                    speaker,
                    name,
                    "bare",
                    "no mbarriers and no named barriers",
                    &Value::Null,
                );
                (Exit::Success, false)
            }
            Verdict::Proved { decisions } => {
                self.proved += 1;
                let decisions = json!({ "decisions": decisions });
                tell(
                    speaker,
                    name,
                    "proved",
                    "proved for all trip counts",
                    &decisions,
                );
                (Exit::Success, true)
            }
            Verdict::Undecided(undecided) => {
                self.undecided += 1;
                let place = undecided.at.as_ref();
                let at = place.map_or_else(String::new, |at| format!("{}:{}: ", at.file, at.line));
                let text = format!("not decided: {at}{}", undecided.reason);
                let more = json!({
                    "reason": undecided.reason,
                    "file": place.map(|at| &*at.file), "line": place.map(|at| at.line),
                });
                tell(speaker, name, "not-decided", &text, &more);
                (Exit::Success, false)
            }
            Verdict::Found(diagnostic) => {
                self.found += 1;
                let text = format!("found: {}", diagnostic.message);
                let more = json!({ "code": diagnostic.code.number() });
                tell(speaker, name, "found", &text, &more);
                speaker.diagnostics(&(*diagnostic).into());
                (Exit::Diagnostics, false)
            }
        }
    }

    /// All of it.
    pub(super) fn summary(&self) -> Remark {
        Remark::note(format!(
            "proved {} with barriers, {} not decided, {} found wrong; {} without barriers",
            count(self.proved, "variant"),
            self.undecided,
            self.found,
            self.bare
        ))
    }
}

fn tell(speaker: &Speaker, name: &str, verdict: &str, text: &str, more: &Value) {
    speaker.tell(&format!("{name}: {text}\n"), || {
        json!({ "reason": "tilekit-proof", "variant": name, "verdict": verdict, "details": more })
    });
}
