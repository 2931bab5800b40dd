//! `snapshot`: compares IR and PTX with what was accepted.

use std::collections::BTreeMap;
use std::io::{BufRead, IsTerminal};

use serde_json::json;

use crate::harness::Exit;
use crate::harness::artifact::{FileNames, KEPT_STAGE, assembly_line, comment, facts, ir_text};
use crate::harness::catalog::{Catalog, Variant};
use crate::harness::context::{Context, Done};
use crate::harness::golden::{Difference, Folder, Golden, Kind, render_diff};
use crate::harness::request::SnapshotMode;
use crate::harness::speak::{Speaker, count};
use crate::kernel::Compiler;
use crate::report::Remark;
use crate::toolchain::{Image, Toolchain};

pub(in crate::harness) fn snapshot(
    context: &Context,
    filters: &[String],
    mode: SnapshotMode,
) -> Done {
    let catalog = context.declared_catalog()?;
    let now = Now::make(context, &catalog, filters)?;
    now.remark_uncompared(&context.speaker);
    let compare = if mode == SnapshotMode::Accept {
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
        return Ok(refuse(&differences, &context.speaker));
    }
    keep_assembly(&differences, &context.speaker)?;
    if mode == SnapshotMode::Accept {
        accept(&differences, &context.speaker)
    } else {
        review(&differences, &context.speaker)
    }
}

/// Everything that differs from what was accepted.
pub(in crate::harness) fn differences(
    context: &Context,
    catalog: &Catalog,
) -> Done<Vec<Difference>> {
    let now = Now::make(context, catalog, &[])?;
    Ok(now.differences(Folder::compare))
}

/// The snapshots of the selected variants as they are now, beside the folder of those accepted.
struct Now {
    folder: Folder,
    goldens: Vec<Golden>,
    is_filtered: bool,
}

impl Now {
    fn make(context: &Context, catalog: &Catalog, filters: &[String]) -> Done<Now> {
        let variants = context.variants(catalog, filters)?;
        let names = FileNames::new(catalog);
        let options = lowering::Options {
            emits_locations: false,
            ..lowering::Options::default()
        };
        let maker = Maker {
            compiler: Compiler::new(options),
            toolchain: Toolchain::find(None),
            speaker: &context.speaker,
        };
        let mut goldens = Vec::new();
        for (kernel, variant) in variants {
            goldens.extend(maker.goldens(&names.name(kernel, variant), variant)?);
        }
        Ok(Now {
            folder: Folder(context.snapshot_folder()),
            goldens,
            is_filtered: !filters.is_empty(),
        })
    }

    fn differences(&self, compare: fn(&Folder, &Golden) -> Option<Difference>) -> Vec<Difference> {
        let mut differences: Vec<Difference> = self
            .goldens
            .iter()
            .filter_map(|golden| compare(&self.folder, golden))
            .collect();
        // With a filter, what is not selected still has its files.
        if !self.is_filtered {
            differences.extend(self.folder.orphans(&self.goldens));
        }
        differences
    }

    /// Says which figures of ptxas were accepted and could not be compared.
    fn remark_uncompared(&self, speaker: &Speaker) {
        let mut releases: BTreeMap<String, usize> = BTreeMap::new();
        for golden in &self.goldens {
            if let Some(release) = self.folder.uncompared(golden) {
                *releases.entry(release).or_default() += 1;
            }
        }
        let here = self.goldens.iter().find_map(Golden::release);
        let here = here.map_or("no ptxas was found".to_string(), |release| {
            format!("{release} is at hand")
        });
        for (release, number) in releases {
            let text = format!(
                "registers and spills of {} were not compared: they are those of {release}, and {here}",
                count(number, "snapshot")
            );
            speaker.remark(&Remark::note(text).with_help("PTXAS chooses the program"));
        }
    }
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
    let help = "set PTXAS or CUDA_HOME, or `pip install nvidia-cuda-nvcc`; \
                to do without, delete the line `// ptxas ...` of these snapshots first";
    speaker.failure(&Remark::error(text).with_help(help));
    Err(Exit::Toolchain)
}

struct Maker<'a> {
    compiler: Compiler,
    toolchain: Toolchain,
    speaker: &'a Speaker,
}

impl Maker<'_> {
    fn goldens(&self, name: &str, variant: &Variant) -> Done<[Golden; 2]> {
        let compiled = self.compiler.compile(&variant.instance);
        let compiled = compiled.map_err(|error| self.speaker.error(&variant.display, &error))?;
        let traced = variant
            .instance
            .trace()
            .and_then(|traced| ir_text(traced.func, &KEPT_STAGE));
        let ir = traced.map_err(|diagnostics| {
            self.speaker.diagnostics(&diagnostics);
            Exit::Diagnostics
        })?;
        let header = facts(&compiled);
        let ptx = format!("{}{}", comment(&header), compiled.ptx());
        let ir = format!("{}{ir}", comment(&header[..1]));
        compiled
            .check_assembly()
            .map_err(|error| self.speaker.error(name, &error))?;
        let assembly = self.assembly(compiled.ptx(), &compiled.info().entry)?;
        let golden = |kind, text, assembly| Golden {
            name: name.to_string(),
            kind,
            text,
            assembly,
        };
        Ok([golden(Kind::Ir, ir, None), golden(Kind::Ptx, ptx, assembly)])
    }

    /// What ptxas says, where there is one.
    fn assembly(&self, ptx: &str, entry: &str) -> Done<Option<String>> {
        if !self.toolchain.assembles() {
            return Ok(None);
        }
        let version = self.toolchain.ptxas().map(|ptxas| ptxas.version);
        match self.toolchain.assemble(ptx) {
            Ok(Image::Cubin { assembled, .. }) => Ok(assembled
                .report
                .entry(entry)
                .zip(version)
                .map(|(report, version)| assembly_line(report, version))),
            Ok(Image::Ptx(_)) => unreachable!("assembling gives a cubin or fails"),
            Err(error) => Err(self.speaker.error(entry, &error)),
        }
    }
}

/// The path as it is seen from the current folder.
fn shown(difference: &Difference) -> String {
    let path = difference.path();
    let here = std::env::current_dir().unwrap_or_default();
    path.strip_prefix(here)
        .unwrap_or(path)
        .display()
        .to_string()
}

fn show(difference: &Difference, speaker: &Speaker) {
    let path = shown(difference);
    let (old, new) = difference.texts();
    let word = difference.word();
    let diff = render_diff(
        &format!("{path} (accepted)"),
        &format!("{path} ({word})"),
        old,
        new,
    );
    speaker.tell(&diff, || {
        json!({
            "reason": "tilekit-snapshot", "status": word, "path": path,
            "diff": anstream::adapter::strip_str(&diff).to_string(),
        })
    });
}

fn name(difference: &Difference, speaker: &Speaker) {
    let path = shown(difference);
    let word = difference.word();
    speaker.tell(
        &format!("{path} ({word})\n"),
        || json!({ "reason": "tilekit-snapshot", "status": word, "path": path, "diff": null }),
    );
}

fn refuse(differences: &[Difference], speaker: &Speaker) -> Exit {
    for difference in differences {
        match difference {
            Difference::Changed { .. } => show(difference, speaker),
            // The whole text of a file tells nothing that its name does not.
            Difference::Missing { .. } | Difference::Orphaned { .. } => name(difference, speaker),
        }
    }
    let of = |word: &str| {
        differences
            .iter()
            .filter(|difference| difference.word() == word)
            .count()
    };
    let text = format!(
        "{} not as accepted: {} changed, {} new, {} orphaned",
        count(differences.len(), "snapshot"),
        of("changed"),
        of("new"),
        of("orphaned")
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
