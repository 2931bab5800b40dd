//! The runs that are tuned: their candidates, which of them are tried, and what each is compiled to.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use machine::cache::digest;
use ptx::PrintOptions;

use super::record::{Key, Known, Records, sizes_of};
use crate::case::{Candidate, CaseEntry, Mode, Sizes};
use crate::error::Result;
use crate::harness::request::{TuneCandidate, TuneJob, TuneRequest};
use crate::harness::verbs::mutate::workers::{cores, in_parallel};
use crate::kernel::{Compiler, Instance};
use crate::tuned::Machine;

/// A run of a case with a space.
pub(super) struct Work {
    /// Its number among those of the request.
    pub(super) number: usize,
    pub(super) entry: &'static CaseEntry,
    pub(super) sizes: Sizes,
    /// What messages about it begin with.
    pub(super) about: String,
    /// The whole space.
    pub(super) space: Vec<Candidate>,
    /// Those that are tried, in the order of the model.
    pub(super) tried: Vec<Tried>,
    /// Candidates that do not compile, with why.
    pub(super) uncompiled: Vec<(usize, String)>,
}

/// A candidate that is tried.
pub(super) struct Tried {
    /// Its place in the space.
    pub(super) at: usize,
    /// What it is compiled to.
    pub(super) digest: String,
}

/// The fewest candidates that are tried where there is a model.
const FEWEST: usize = 8;

/// The model is not trusted more than so: what it says takes longer than its best by more is not tried.
const WITHIN: f64 = 1.5;

/// The legal candidates that are tried, in the order of the model; without one, all.
pub(super) fn chosen(space: &[Candidate], request: &TuneRequest) -> Vec<usize> {
    let legal = (0..space.len()).filter(|&at| space[at].refused.is_none());
    let mut order: Vec<usize> = legal.collect();
    let time = |at: usize| space[at].predicted_us.unwrap_or(0.0);
    order.sort_by(|a, b| time(*a).total_cmp(&time(*b)));
    let has_model = order.iter().all(|&at| space[at].predicted_us.is_some());
    let Some(&best) = order.first().filter(|_| has_model && !request.exhaustive) else {
        return order;
    };
    let near = order.iter().filter(|&&at| time(at) <= WITHIN * time(best));
    let near = near.count().max(FEWEST).min(request.most);
    order.truncate(near);
    order
}

impl Work {
    /// The case with its module.
    pub(super) fn case(&self) -> String {
        path_of(self.entry)
    }

    /// What records of a candidate are found by.
    pub(super) fn key(&self, at: usize, machine: &Machine) -> Key {
        Key {
            case: self.case(),
            sizes: sizes_of(&self.sizes),
            machine: machine.clone(),
            candidate: self.space[at].name.clone(),
        }
    }

    /// What a process is to do of it; candidates that failed before are out.
    pub(super) fn job(&self, records: &Records, machine: &Machine) -> TuneJob {
        let candidates = self.tried.iter().filter_map(|tried| {
            let key = self.key(tried.at, machine);
            let known = records.get(&key, &tried.digest).cloned();
            let Known {
                is_right,
                failure,
                heats,
                ..
            } = known.unwrap_or_default();
            failure.is_none().then_some(TuneCandidate {
                at: tried.at,
                name: key.candidate,
                is_checked: is_right,
                heats,
            })
        });
        TuneJob {
            number: self.number,
            case: self.case(),
            sizes: values_of(&self.sizes),
            candidates: candidates.collect(),
        }
    }
}

/// The case with its module, as records name it.
pub(super) fn path_of(entry: &CaseEntry) -> String {
    format!("{}::{}", entry.module, entry.name)
}

pub(super) fn values_of(sizes: &Sizes) -> Vec<(String, usize)> {
    let values = sizes.iter().map(|(name, value)| (name.to_string(), value));
    values.collect()
}

/// Digests of instances, each compiled once.
#[derive(Default)]
pub(super) struct Digests(Mutex<HashMap<String, String>>);

impl Digests {
    /// What a candidate is compiled to: its PTX without places of the source, and its grids.
    ///
    /// # Errors
    /// What is wrong with the case at these sizes, or with a kernel.
    pub(super) fn of(&self, entry: &CaseEntry, sizes: &Sizes, at: usize) -> Result<String> {
        let (outcome, _) = entry.run_candidate(sizes, &Mode::Describe, Some(at));
        outcome.result?;
        let launches = outcome.report.launches.iter();
        let texts: Result<Vec<String>> = launches
            .map(|launch| {
                let of_code = self.of_instance(&launch.instance)?;
                Ok(format!("{of_code} {}", launch.grid))
            })
            .collect();
        Ok(digest(texts?.join("\n").as_bytes())[..16].to_string())
    }

    fn of_instance(&self, instance: &Instance) -> Result<String> {
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().get(instance.path()) {
            return Ok(known.clone());
        }
        let compiled = Compiler::default().compile(instance)?;
        let text = compiled.module().print(PrintOptions::WITHOUT_LOCATIONS);
        let digest = digest(text.as_bytes());
        lock().insert(instance.path().to_string(), digest.clone());
        Ok(digest)
    }

    /// Compiles the candidates of all runs on all cores. What does not compile is out.
    pub(super) fn fill(&self, work: &mut [Work], request: &TuneRequest, stepped: &dyn Fn()) {
        let wanted: Vec<(usize, usize)> = work
            .iter()
            .enumerate()
            .flat_map(|(run, one)| {
                let chosen = chosen(&one.space, request).into_iter();
                chosen.map(move |at| (run, at))
            })
            .collect();
        let mut found: Vec<Option<Result<String>>> = wanted.iter().map(|_| None).collect();
        let runs: Vec<(&CaseEntry, &Sizes)> =
            work.iter().map(|one| (one.entry, &one.sizes)).collect();
        in_parallel(
            wanted.len(),
            cores(),
            |place| {
                let (run, at) = wanted[place];
                self.of(runs[run].0, runs[run].1, at)
            },
            |place, result| {
                found[place] = Some(result);
                stepped();
            },
        );
        for ((run, at), result) in wanted.into_iter().zip(found) {
            match result {
                Some(Ok(digest)) => work[run].tried.push(Tried { at, digest }),
                Some(Err(error)) => {
                    let text = error.to_string();
                    let line = text.lines().next().unwrap_or_default().to_string();
                    work[run].uncompiled.push((at, line));
                }
                None => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::request::TuneTask;

    fn request(exhaustive: bool, most: usize) -> TuneRequest {
        TuneRequest {
            filters: Vec::new(),
            records: None,
            seed: 0,
            shard: None,
            exhaustive,
            most,
            time_limit_ms: 1000,
            fresh: false,
            task: TuneTask::Search,
        }
    }

    fn space(predicted: &[Option<f64>]) -> Vec<Candidate> {
        let candidate = |(at, us): (usize, &Option<f64>)| Candidate {
            name: at.to_string(),
            refused: (*us == Some(0.0)).then(|| "no".to_string()),
            predicted_us: *us,
        };
        predicted.iter().enumerate().map(candidate).collect()
    }

    #[test]
    fn a_model_orders_and_prunes_and_illegal_ones_never_run() {
        let mut us: Vec<Option<f64>> = (0..12).map(|at| Some(f64::from(30 - at))).collect();
        us.push(Some(0.0));
        // 19 to 28.5 are near, of 19 to 30.
        let order = chosen(&space(&us), &request(false, 24));
        assert_eq!(order, [11, 10, 9, 8, 7, 6, 5, 4, 3, 2]);
        assert_eq!(chosen(&space(&us), &request(false, 3)), [11, 10, 9]);
        assert_eq!(chosen(&space(&us), &request(true, 3)).len(), 12);
        let far: Vec<Option<f64>> = (1..12).map(|at| Some(10_f64.powi(at))).collect();
        assert_eq!(chosen(&space(&far), &request(false, 24)).len(), FEWEST);
    }

    #[test]
    fn without_a_model_all_are_tried_as_declared() {
        assert_eq!(
            chosen(&space(&[None, None, None]), &request(false, 2)),
            [0, 1, 2]
        );
    }
}
