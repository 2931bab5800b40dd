//! Runs under the tools of `compute-sanitizer`: of each kernel as it is, and of its mutants where nothing is said of that.

use std::io;
use std::path::Path;
use std::time::Duration;

use super::ended::Ended;
use super::process::Limits;
use super::sanitizer::{self, Said};
use super::{Bench, Wanted, failure};
use crate::harness::context::{Context, Done};
use crate::harness::verbs::mutate::record::Key;
use crate::harness::verbs::mutate::subject::Subject;
use crate::harness::verbs::mutate::workers::in_parallel;
use crate::report::Remark;

/// What a run under a tool may take: a launch is ten to a thousand times slower there.
const LIMITS: Limits = Limits {
    repeats: 1,
    launch: Duration::from_mins(1),
    total: Duration::from_secs(90),
};

impl Bench<'_> {
    /// Runs mutants under the tools that are wanted, if they are there.
    pub(super) fn sanitize(&mut self, context: &mut Context, usable: &[usize]) -> Done<()> {
        if self.isolation.tools.is_empty() {
            return Ok(());
        }
        let Some(program) = sanitizer::find() else {
            let text = "no compute-sanitizer was found: nothing is run under its tools";
            let help = "it is part of the CUDA toolkit; put it on PATH, or set CUDA_HOME";
            context
                .speaker
                .remark(&Remark::warning(text).with_help(help));
            return Ok(());
        };
        for tool in &self.isolation.tools {
            self.run_under(context, (&program, tool), usable)?;
        }
        Ok(())
    }

    fn run_under(
        &mut self,
        context: &mut Context,
        (program, tool): (&Path, &str),
        usable: &[usize],
    ) -> Done<()> {
        let is_wanted = |at: &&usize| {
            let tried = self.records.get(&Key::of(&self.work.mutants[**at]));
            tried.is_some_and(|tried| {
                let fails = self.isolation.tools_for_all && tried.ended.fails();
                tried.ended == Ended::Passed || fails
            })
        };
        let chosen: Vec<usize> = usable.iter().filter(is_wanted).copied().collect();
        let is_broken = |subject: &&Subject| {
            let mut subjects = chosen.iter().map(|at| self.work.mutants[*at].subject);
            subjects.any(|broken| std::ptr::eq(broken, *subject))
        };
        let subjects: Vec<&Subject> = self.work.subjects.iter().filter(is_broken).collect();
        let unchanged = subjects
            .iter()
            .map(|subject| Wanted::new(Key::unchanged(subject), subject, None, LIMITS))
            .collect();
        context.speaker.begin(subjects.len() + chosen.len());
        self.run_these(context, (program, tool), unchanged)?;
        let mutants = chosen
            .iter()
            .map(|at| &self.work.mutants[*at])
            .filter(|mutant| self.says(&Key::unchanged(mutant.subject), tool) == Some(&Said::Clean))
            .map(|mutant| Wanted::new(Key::of(mutant), mutant.subject, Some(mutant), LIMITS))
            .collect();
        self.run_these(context, (program, tool), mutants)?;
        context.speaker.end();
        self.tell_unusable(context, tool, &subjects);
        Ok(())
    }

    fn says(&self, key: &Key, tool: &str) -> Option<&Said> {
        self.records.get(key)?.tools.get(tool)
    }

    /// Runs and records what is not known yet.
    fn run_these(
        &mut self,
        context: &Context,
        (program, tool): (&Path, &str),
        mut wanted: Vec<Wanted<'_>>,
    ) -> Done<()> {
        wanted.retain(|wanted| self.says(&wanted.key, tool).is_none());
        let children = &self.children;
        let records = &mut self.records;
        let mut failed = None;
        let run = |wanted: &Wanted<'_>| -> io::Result<Said> {
            let folder = tempfile::tempdir()?;
            let log = folder.path().join("log");
            let before = sanitizer::command(program, tool, &log);
            let finished = wanted.run(children, &before)?;
            Ok(match (sanitizer::read(&log), finished.report.ended) {
                // What it reported until the process was stopped counts.
                (Said::Failed { .. }, ended @ (Ended::TimeLimit { .. } | Ended::Died { .. })) => {
                    Said::Failed {
                        message: ended.text(),
                    }
                }
                (said, _) => said,
            })
        };
        in_parallel(
            wanted.len(),
            self.jobs,
            |at| {
                context
                    .speaker
                    .step(&format!("{tool}: {}", wanted[at].title()));
                let said = run(&wanted[at]);
                context.speaker.stepped();
                said
            },
            |at, said| {
                let noted = said.and_then(|said| {
                    let key = &wanted[at].key;
                    let Some(mut tried) = records.get(key).cloned() else {
                        return Ok(());
                    };
                    tried.tools.insert(tool.to_string(), said);
                    records.add(key.clone(), &tried)
                });
                failed = failed.take().or(noted.err());
            },
        );
        failed.map_or(Ok(()), |error| Err(failure(context, &error)))
    }

    /// Says of which kernels a tool says something as they are: of their mutants it is not asked.
    fn tell_unusable(&self, context: &Context, tool: &str, subjects: &[&Subject]) {
        for subject in subjects {
            let text = match self.says(&Key::unchanged(subject), tool) {
                Some(Said::Reported { count, message }) => format!("it reports {count}: {message}"),
                Some(Said::Failed { message }) => message.clone(),
                Some(Said::Clean) | None => continue,
            };
            let text = format!("{tool} of {} unchanged: {text}", subject.name);
            let note = "its mutants are not run under the tool";
            context
                .speaker
                .remark(&Remark::warning(text).with_note(note));
        }
    }
}
