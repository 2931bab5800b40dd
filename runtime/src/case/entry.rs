//! How cases are found and run.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::quiet::{Quiet, told};
use super::{Case, CaseReport, CaseResult, Mode, Pick, Ready, SizeList, Sizes};
use crate::error::{Error, Result};
use crate::kept;

/// A case that the program contains. `#[case]` submits one, `inventory` collects them.
#[derive(Debug)]
pub struct CaseEntry {
    /// The function's name.
    pub name: &'static str,
    /// The module it stands in, as `crate::module`.
    pub module: &'static str,
    /// The source file.
    pub file: &'static str,
    /// The line of its name, from 1.
    pub line: u32,
    /// The sizes that it declares.
    pub sizes: &'static [SizeList],
    /// The function itself.
    pub function: fn(&mut Case) -> CaseResult,
}

inventory::collect!(CaseEntry);

/// What became of one run.
#[derive(Debug)]
pub struct CaseOutcome {
    /// What was done, up to the failure if there is one.
    pub report: CaseReport,
    /// How it ended.
    pub result: CaseResult,
}

impl CaseEntry {
    /// Every case of the program, by module and line.
    pub fn all() -> Vec<&'static CaseEntry> {
        let mut all: Vec<&CaseEntry> = inventory::iter::<CaseEntry>().collect();
        all.sort_by_key(|case| (case.module, case.line, case.name));
        all
    }

    /// The sizes of each run: those declared, or those of the command line in their place.
    ///
    /// # Errors
    /// [`Error::UnknownSize`] or [`Error::UnevenSizes`].
    pub fn runs(&self, overrides: &[(String, Vec<usize>)]) -> Result<Vec<Sizes>> {
        let mut runs = Sizes::runs(self.name, self.sizes, overrides);
        if let Err(Error::UnevenSizes { place, .. }) = &mut runs {
            *place = Some(format!("{}:{}", self.file, self.line));
        }
        runs
    }

    /// Runs it once. A panic of the case function is an error that names it.
    pub fn run(&self, sizes: &Sizes, mode: &Mode) -> CaseOutcome {
        self.run_candidate(sizes, mode, None).0
    }

    /// The same, with this candidate of its space; gives its launches too, if they are right and to be timed later.
    pub(crate) fn run_candidate(
        &self,
        sizes: &Sizes,
        mode: &Mode,
        pick: Pick,
    ) -> (CaseOutcome, Option<Ready>) {
        let mut case = match Case::picking(self.name, sizes.clone(), mode.clone(), pick) {
            Ok(case) => case,
            Err(error) => {
                let outcome = CaseOutcome {
                    report: CaseReport::default(),
                    result: Err(error),
                };
                return (outcome, None);
            }
        };
        let _quiet = Quiet::begin();
        let mut work = || {
            catch_unwind(AssertUnwindSafe(|| {
                (self.function)(&mut case)?;
                // What is compared with nothing is timed at the end.
                case.time_chain()
            }))
        };
        let (result, used) = match mode {
            Mode::Ready { .. } => kept::collect(work),
            _ => (work(), Vec::new()),
        };
        let result = result.unwrap_or_else(|payload| {
            let (message, place) = told(&*payload);
            Err(Error::CasePanicked {
                case: self.name.to_string(),
                place: place.unwrap_or_else(|| format!("{}:{}", self.file, self.line)),
                message,
            })
        });
        let ready = case.ready(used).filter(|_| result.is_ok());
        let outcome = CaseOutcome {
            report: case.into_report(),
            result,
        };
        (outcome, ready)
    }
}
