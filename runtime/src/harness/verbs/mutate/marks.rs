//! Comments by which an author says that a mutant is equivalent: that what is missing in it is not needed.
//!
//! `// mutate: equivalent(bar.sync, fence): the loop below runs once` at the end of a line or in the comment right above it
//! speaks of these kinds of mutation of the line, also where the line is a call through which code was inlined. The reason may go on
//! in the lines of the comment below it.

use std::collections::{HashMap, HashSet};

use diag::Place;
use ptx::MutationKind;

use super::table::{Judged, Verdict};
use crate::harness::context::Context;
use crate::report::{Remark, Sources};

const BEGINNING: &str = "mutate: equivalent(";

/// Marks that were looked up.
pub(super) struct Marks {
    sources: Sources,
    /// By file and line of the code that they speak of.
    known: HashMap<(String, u32), Result<Vec<Mark>, String>>,
}

/// One mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    /// What it speaks of.
    kinds: Vec<MutationKind>,
    /// Why.
    pub(super) reason: String,
    /// `file:line` of the code.
    pub(super) at: String,
}

impl Marks {
    /// Marks in these sources.
    pub(super) fn new(sources: Sources) -> Marks {
        Marks {
            sources,
            known: HashMap::new(),
        }
    }

    /// The mark that speaks of a mutation at `place`, at its own line or that of a call.
    pub(super) fn find(&mut self, place: &Place, kind: MutationKind) -> Option<Mark> {
        let calls = place.calls.iter().map(|call| (&call.file, call.line));
        std::iter::once((&place.file, place.line))
            .chain(calls)
            .find_map(|(file, line)| {
                let marks = self.at_line(file, line);
                marks
                    .iter()
                    .find(|mark| mark.kinds.contains(&kind))
                    .cloned()
            })
    }

    fn at_line(&mut self, file: &str, line: u32) -> &[Mark] {
        let key = (file.to_string(), line);
        let sources = &self.sources;
        let found = self.known.entry(key).or_insert_with(|| {
            let text = sources.text(file);
            text.map_or(Ok(Vec::new()), |text| marks_at(&text, file, line))
        });
        found.as_deref().unwrap_or_default()
    }

    /// Says which marks cannot be read, and whether there are any.
    pub(super) fn complain(&self, context: &Context) -> bool {
        let mut errors: Vec<&String> = self
            .known
            .values()
            .filter_map(|marks| marks.as_ref().err())
            .collect();
        errors.sort();
        for error in &errors {
            context.speaker.failure(&Remark::error(error.as_str()));
        }
        !errors.is_empty()
    }
}

/// Warns of marks that no survivor among all mutants needs.
pub(super) fn warn_of_stale(context: &Context, judged: &[Judged<'_>]) {
    let is_used = |judged: &&Judged<'_>| matches!(judged.verdict, Verdict::Equivalent(_));
    let of = |judged: &Judged<'_>| match &judged.verdict {
        Verdict::Equivalent(mark) => Some(mark.at.clone()),
        Verdict::Found { mark } => mark.as_ref().map(|mark| mark.at.clone()),
        Verdict::Survived => None,
    };
    let used: HashSet<String> = judged.iter().filter(is_used).filter_map(of).collect();
    let mut stale: Vec<String> = judged
        .iter()
        .filter_map(of)
        .filter(|at| !used.contains(at))
        .collect();
    stale.sort();
    stale.dedup();
    for at in stale {
        let text = format!("{at} is marked equivalent, and every mutant there was found");
        context
            .speaker
            .remark(&Remark::warning(text).with_help("remove the mark"));
    }
}

/// The marks that speak of line `line` of `text`, from one.
fn marks_at(text: &str, file: &str, line: u32) -> Result<Vec<Mark>, String> {
    let lines: Vec<&str> = text.lines().collect();
    let Some(own) = (line as usize)
        .checked_sub(1)
        .filter(|at| *at < lines.len())
    else {
        return Ok(Vec::new());
    };
    let above = lines[..own]
        .iter()
        .rev()
        .take_while(|line| line.trim_start().starts_with("//"));
    let mut comments: Vec<&str> = above.copied().collect();
    comments.reverse();
    comments.extend(lines[own].split_once("//").map(|(_, comment)| comment));
    let at = format!("{file}:{line}");
    let mut marks: Vec<Mark> = Vec::new();
    for comment in comments {
        let comment = comment.trim().trim_start_matches('/').trim();
        if let Some(rest) = comment.strip_prefix(BEGINNING) {
            marks.push(mark(rest, &at)?);
        } else if let Some(mark) = marks.last_mut() {
            mark.reason = format!("{} {comment}", mark.reason);
        }
    }
    if let Some(mark) = marks.iter().find(|mark| mark.reason.is_empty()) {
        let kinds: Vec<&str> = mark.kinds.iter().map(|kind| kind.name()).collect();
        return Err(format!(
            "{at}: the mark of {} gives no reason; write `// {BEGINNING}{}): why the instruction is not needed`",
            kinds.join(", "),
            kinds.join(", ")
        ));
    }
    Ok(marks)
}

/// `bar.sync, fence): reason`
fn mark(rest: &str, at: &str) -> Result<Mark, String> {
    let Some((kinds, reason)) = rest.split_once("):") else {
        return Err(format!(
            "{at}: a mark has the form `// {BEGINNING}KIND, ..): reason`"
        ));
    };
    let kinds: Result<Vec<MutationKind>, String> =
        kinds.split(',').map(|kind| kind.trim().parse()).collect();
    Ok(Mark {
        kinds: kinds.map_err(|error| format!("{at}: {error}"))?,
        reason: reason.trim().to_string(),
        at: at.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
fn kernel() {
    // An ordinary comment.
    // mutate: equivalent(bar.sync, fence): the loop
    // runs once
    barrier();
    wait(); // mutate: equivalent(mbarrier.wait): nothing is in flight
    other();
    // mutate: equivalent(bar.sink): x
    wrong();
    // mutate: equivalent(bar.sync)
    formless();
    // mutate: equivalent(bar.sync):
    reasonless();
}
";

    fn marks(line: u32) -> String {
        let text = |mark: &Mark| format!("{:?} {} at {}", mark.kinds, mark.reason, mark.at);
        match marks_at(TEXT, "a.rs", line) {
            Ok(marks) => marks.iter().map(text).collect::<Vec<_>>().join("; "),
            Err(error) => error,
        }
    }

    #[test]
    fn a_mark_speaks_of_its_own_line_or_of_the_one_below() {
        assert_eq!(marks(5), "[BarSync, Fence] the loop runs once at a.rs:5");
        assert_eq!(marks(6), "[MbarrierWait] nothing is in flight at a.rs:6");
        assert_eq!(marks(7), "");
        assert_eq!((marks(0), marks(99)), (String::new(), String::new()));
    }

    #[test]
    fn a_mark_that_cannot_be_read_is_an_error_at_its_line() {
        assert!(
            marks(9).starts_with("a.rs:9: `bar.sink` is no kind of mutation"),
            "{}",
            marks(9)
        );
        assert!(
            marks(11).starts_with("a.rs:11: a mark has the form"),
            "{}",
            marks(11)
        );
        assert!(
            marks(13).starts_with("a.rs:13: the mark of bar.sync gives no reason"),
            "{}",
            marks(13)
        );
    }
}
