//! `snapshot`: compares facts, IR and PTX with the accepted snapshots.

mod explain;
mod make;
mod show;

use std::io::{BufRead, IsTerminal};

use serde_json::json;

use super::limits;
use crate::harness::Exit;
use crate::harness::catalog::Catalog;
use crate::harness::context::{Context, Done};
use crate::harness::golden::{Difference, Folder};
use crate::harness::request::SnapshotMode;
use crate::harness::select::Selection;
use crate::harness::speak::{Speaker, Verdict, count};
use crate::report::Remark;
pub(in crate::harness) use explain::explain_losses;
use make::Now;
use show::{name, show, show_facts, shown};

pub(in crate::harness) fn snapshot(
    context: &Context,
    filters: &[String],
    mode: SnapshotMode,
) -> Done {
    check_folder(context)?;
    let catalog = context.declared_catalog()?;
    let mut verdict = Verdict::good();
    verdict.note(hold_limits(context, &catalog, filters, mode)?);
    verdict.note(compare(context, &catalog, filters, mode)?);
    Ok(verdict.exit())
}

/// Compares the limits of the configuration, or brings them to what is found.
fn hold_limits(
    context: &Context,
    catalog: &Catalog,
    filters: &[String],
    mode: SnapshotMode,
) -> Done {
    let selected = context.variants(catalog, filters)?;
    let held = match mode {
        SnapshotMode::Check | SnapshotMode::Review => limits::measure(context, catalog, &selected)?,
        SnapshotMode::Accept | SnapshotMode::Ratchet => {
            limits::measure_with_others(context, catalog, &selected)?
        }
    };
    let changes = held.changes();
    match mode {
        SnapshotMode::Check | SnapshotMode::Review => {}
        SnapshotMode::Accept => {
            limits::write(&changes.iter().collect::<Vec<_>>(), context)?;
            held.remark_unmeasured(context, "left as they are");
            return Ok(Exit::Success);
        }
        SnapshotMode::Ratchet => {
            let lower = changes.iter().filter(|change| change.is_lower());
            limits::write(&lower.collect::<Vec<_>>(), context)?;
        }
    }
    Ok(held.report(context))
}

fn compare(context: &Context, catalog: &Catalog, filters: &[String], mode: SnapshotMode) -> Done {
    if lacks_named_folder(context) {
        match mode {
            SnapshotMode::Accept => {}
            SnapshotMode::Ratchet => return Ok(refuse_absent_folder(context)),
            // All are new, and so this fails.
            SnapshotMode::Check | SnapshotMode::Review => {
                context
                    .speaker
                    .remark(&Remark::note(absent_folder(context)));
            }
        }
    } else if !context.limits().is_empty()
        && !context.snapshot_folder().is_dir()
        && mode != SnapshotMode::Accept
    {
        // Who has limits and no snapshots asks for no snapshots by lowering limits.
        return Ok(Exit::Success);
    }
    let now = Now::make(context, catalog, filters)?;
    now.remark_uncompared(&context.speaker);
    let writes = matches!(mode, SnapshotMode::Accept | SnapshotMode::Ratchet);
    let compare = if writes {
        Folder::refresh
    } else {
        Folder::compare
    };
    let differences = now.differences(compare);
    if differences.is_empty() {
        context
            .speaker
            .remark(&Remark::note("all snapshots are as accepted"));
        return Ok(Exit::Success);
    }
    if mode == SnapshotMode::Check {
        explain_losses(&differences, catalog, context);
        return Ok(refuse(&differences, &context.speaker));
    }
    keep_assembly(&differences, &context.speaker)?;
    if mode == SnapshotMode::Ratchet {
        explain_losses(&differences, catalog, context);
        ratchet(&differences, &context.speaker)
    } else if mode == SnapshotMode::Accept {
        accept(&differences, &context.speaker)
    } else {
        review(&differences, &context.speaker)
    }
}

/// An error where something else stands in the place of the folder, before anything is compiled.
fn check_folder(context: &Context) -> Done<()> {
    let folder = context.snapshot_folder();
    if !folder.exists() || folder.is_dir() {
        return Ok(());
    }
    let text = format!(
        "{} is no folder, and the snapshots are kept there",
        folder.display()
    );
    let help = "remove it, or name another folder by `snapshots = \"...\"` in tilekit.toml";
    Err(context
        .speaker
        .failure(&Remark::error(text).with_help(help)))
}

/// Whether the configuration names a folder that is not there: with a misspelt one nothing would be compared, and nobody told.
fn lacks_named_folder(context: &Context) -> bool {
    context.names_snapshot_folder() && !context.snapshot_folder().is_dir()
}

fn absent_folder(context: &Context) -> String {
    format!(
        "there is no folder {}, which `snapshots` of the configuration names",
        context.snapshot_folder().display()
    )
}

fn refuse_absent_folder(context: &Context) -> Exit {
    let help =
        "correct the name, or write the first snapshots with `cargo tilekit snapshot --accept`";
    let remark = Remark::error(absent_folder(context)).with_help(help);
    context.speaker.failure(&remark);
    Exit::Snapshots
}

/// Everything that differs from the accepted snapshots.
pub(in crate::harness) fn differences(
    context: &Context,
    catalog: &Catalog,
) -> Done<Vec<Difference>> {
    let now = Now::make(context, catalog, &[])?;
    Ok(now.differences(Folder::compare))
}

/// Whether the selected variants cost no more than accepted; differences that cost nothing are counted.
pub(in crate::harness) fn hold_accepted(context: &Context, filters: &[String]) -> Done {
    if !context.snapshot_folder().is_dir() && !context.names_snapshot_folder() {
        return Ok(Exit::Success);
    }
    let catalog = context.declared_catalog()?;
    // At other sizes variants may be meant of which nothing is kept.
    let selection = Selection::new(filters, &catalog);
    let mut variants = catalog.variants();
    if !variants.any(|(kernel, variant)| selection.variant(kernel, variant)) {
        return Ok(Exit::Success);
    }
    if lacks_named_folder(context) {
        return Ok(refuse_absent_folder(context));
    }
    let now = Now::make(context, &catalog, filters)?;
    now.remark_uncompared(&context.speaker);
    let differences = now.differences(Folder::compare);
    if explain_losses(&differences, &catalog, context) {
        return Ok(Exit::Snapshots);
    }
    if !differences.is_empty() {
        let number = differences.len();
        let text = format!(
            "{} not as accepted, at no greater cost",
            count(number, "snapshot")
        );
        let help = "`cargo tilekit snapshot` shows what differs, and --ratchet writes it";
        context.speaker.remark(&Remark::note(text).with_help(help));
    }
    Ok(Exit::Success)
}

/// Refuses to write snapshots that would lose their line of registers and spills.
fn keep_assembly(differences: &[Difference], speaker: &Speaker) -> Done<()> {
    let losing = differences
        .iter()
        .filter(|difference| difference.loses_assembly())
        .count();
    if losing == 0 {
        return Ok(());
    }
    let text = format!(
        "no ptxas was found: {} would lose the line of registers and spills, and nothing was written",
        count(losing, "snapshot")
    );
    let help = "set PTXAS or CUDA_HOME, or `cargo tilekit doctor --fix`; \
                or delete the line `// ptxas ...` of these snapshots first";
    speaker.failure(&Remark::error(text).with_help(help));
    Err(Exit::Toolchain)
}

/// Shows the facts of all that changed, then each difference.
fn refuse(differences: &[Difference], speaker: &Speaker) -> Exit {
    for difference in differences {
        show_facts(difference, speaker);
    }
    for difference in differences {
        match difference {
            Difference::Changed { .. } => show(difference, speaker),
            // A whole file is read where it is accepted.
            Difference::Missing { .. } | Difference::Stale { .. } => name(difference, speaker),
        }
    }
    let of = |word: &str| {
        differences
            .iter()
            .filter(|difference| difference.word() == word)
            .count()
    };
    let text = format!(
        "{} not as accepted: {} changed, {} new, {} stale",
        count(differences.len(), "snapshot"),
        of("changed"),
        of("new"),
        of("stale")
    );
    let help = "look at each with `cargo tilekit snapshot --review`, or take all with --accept";
    speaker.failure(&Remark::error(text).with_help(help));
    Exit::Snapshots
}

fn accept(differences: &[Difference], speaker: &Speaker) -> Done {
    for difference in differences {
        take(difference, speaker)?;
    }
    Ok(Exit::Success)
}

/// Accepts what costs no more than what was accepted, and refuses the rest. The PTX of a kernel is accepted with its facts.
fn ratchet(differences: &[Difference], speaker: &Speaker) -> Done {
    let (worse, others): (Vec<_>, Vec<_>) = differences
        .iter()
        .partition(|difference| !difference.losses().is_empty());
    let is_refused = |difference: &&Difference| {
        let is_beside = |worse: &&Difference| worse.stem() == difference.stem();
        worse.iter().any(is_beside)
    };
    for difference in others.into_iter().filter(|found| !is_refused(found)) {
        take(difference, speaker)?;
    }
    if worse.is_empty() {
        return Ok(Exit::Success);
    }
    for difference in &worse {
        show_facts(difference, speaker);
    }
    let text = format!("{} worse than accepted", count(worse.len(), "variant"));
    let help = "`cargo tilekit inspect KERNEL --source` names the lines; `cargo tilekit snapshot --accept KERNEL` accepts the loss";
    speaker.failure(&Remark::error(text).with_help(help));
    Ok(Exit::Snapshots)
}

fn take(difference: &Difference, speaker: &Speaker) -> Done<()> {
    let path = shown(difference);
    difference
        .accept()
        .map_err(|error| speaker.failure(&Remark::error(error.to_string())))?;
    speaker.tell(
        &format!("{path}\n"),
        || json!({ "reason": "tilekit-accepted", "status": difference.word(), "path": path }),
    );
    Ok(())
}

fn review(differences: &[Difference], speaker: &Speaker) -> Done {
    if !std::io::stdin().is_terminal() {
        let remark = Remark::error("--review asks questions, and standard input is no terminal");
        speaker.failure(&remark.with_help("use --check or --accept"));
        return Err(Exit::Usage);
    }
    let mut answers = std::io::stdin().lock().lines().map_while(Result::ok);
    review_with(differences, &mut answers, speaker)
}

/// Asks for each; what is left over counts as not accepted.
fn review_with(
    differences: &[Difference],
    answers: &mut dyn Iterator<Item = String>,
    speaker: &Speaker,
) -> Done {
    let mut left = 0;
    for (at, difference) in differences.iter().enumerate() {
        show_facts(difference, speaker);
        show(difference, speaker);
        match ask(at + 1, differences.len(), answers, speaker) {
            Answer::Accept => take(difference, speaker)?,
            Answer::Skip => left += 1,
            Answer::Quit => {
                left += differences.len() - at;
                break;
            }
        }
    }
    if left == 0 {
        return Ok(Exit::Success);
    }
    speaker.remark(&Remark::note(format!(
        "{left} snapshots are left as they were"
    )));
    Ok(Exit::Snapshots)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Accept,
    Skip,
    Quit,
}

fn ask(
    at: usize,
    total: usize,
    answers: &mut dyn Iterator<Item = String>,
    speaker: &Speaker,
) -> Answer {
    loop {
        speaker.say(&format!(
            "[{at}/{total}] a = accept, s = skip (leave it as it was), q = quit: "
        ));
        let Some(line) = answers.next() else {
            return Answer::Quit;
        };
        match line.trim() {
            "a" | "accept" => return Answer::Accept,
            "s" | "skip" | "r" | "reject" => return Answer::Skip,
            "q" | "quit" => return Answer::Quit,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::request::OutputOptions;
    use crate::report::Sources;

    #[test]
    fn answers_decide_what_is_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let missing = |name: &str| Difference::Missing {
            path: folder.path().join(name),
            new: "x\n".into(),
        };
        let differences = [missing("a"), missing("b"), missing("c"), missing("d")];
        let speaker = Speaker::new(
            OutputOptions {
                quiet: true,
                ..OutputOptions::default()
            },
            Sources::default(),
            tempfile::tempfile().expect("a temporary file"),
        );
        let mut answers = ["what?", "a", "s", "accept"].into_iter().map(String::from);
        let exit = review_with(&differences, &mut answers, &speaker);
        assert_eq!(
            exit,
            Ok(Exit::Snapshots),
            "one was skipped, and the answers ended before the last"
        );
        let exists: Vec<bool> = differences
            .iter()
            .map(|difference| difference.path().exists())
            .collect();
        assert_eq!(exists, [true, false, true, false]);
    }
}
