//! Two sheets beside one another.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// What is compared of a sheet.
#[derive(Debug, Deserialize)]
pub(super) struct Sheet {
    pub(super) variant: String,
    totals: Totals,
    files: Vec<File>,
    lines: Vec<Line>,
}

#[derive(Debug, Deserialize)]
struct Totals {
    threads: u64,
    shared_bytes: u64,
    registers: Option<u64>,
    alive: Option<(u64, Option<usize>)>,
    spilled_bytes: Option<u64>,
    occupancy: Option<Occupancy>,
    ptx: BTreeMap<String, u64>,
    ptx_instructions: u64,
    sass: BTreeMap<String, u64>,
    sass_instructions: u64,
}

#[derive(Debug, Deserialize)]
struct Occupancy {
    ctas: u64,
    warps: u64,
}

#[derive(Debug, Deserialize)]
struct File {
    name: String,
    lines: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Line {
    file: usize,
    #[serde(rename = "line")]
    number: usize,
    own: Tally,
}

/// What a line costs itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Tally {
    pub(super) ptx: u64,
    pub(super) sass: u64,
    pub(super) alive: u64,
    pub(super) global_bytes: u64,
    pub(super) conflicts: u64,
}

/// A figure of the whole that differs.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Figure {
    pub(super) name: String,
    /// None where it is not known.
    pub(super) old: Option<u64>,
    pub(super) new: Option<u64>,
}

/// A line whose costs differ, or that one side alone has.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct LineChange {
    pub(super) file: String,
    /// Its number on each side.
    pub(super) old_line: Option<usize>,
    pub(super) new_line: Option<usize>,
    pub(super) text: String,
    pub(super) old: Tally,
    pub(super) new: Tally,
}

/// What differs.
#[derive(Debug)]
pub(super) struct Comparison {
    pub(super) figures: Vec<Figure>,
    pub(super) lines: Vec<LineChange>,
}

impl Comparison {
    pub(super) fn of(old: &Sheet, new: &Sheet) -> Comparison {
        Comparison {
            figures: figures(&old.totals, &new.totals),
            lines: lines(old, new),
        }
    }
}

impl Totals {
    /// The figures by name, in the order in which they are shown.
    fn named(&self) -> [(&'static str, Option<u64>); 9] {
        [
            ("threads", Some(self.threads)),
            ("registers", self.registers),
            ("registers alive", self.alive.map(|(alive, _)| alive)),
            ("bytes spilled", self.spilled_bytes),
            ("bytes of shared memory", Some(self.shared_bytes)),
            ("CTAs an SM", self.occupancy.as_ref().map(|held| held.ctas)),
            (
                "warps an SM",
                self.occupancy.as_ref().map(|held| held.warps),
            ),
            ("PTX instructions", Some(self.ptx_instructions)),
            (
                "machine instructions",
                Some(self.sass_instructions).filter(|count| *count > 0),
            ),
        ]
    }
}

fn figures(old: &Totals, new: &Totals) -> Vec<Figure> {
    let named = old.named().into_iter().zip(new.named());
    let named = named.map(|((name, old), (_, new))| (name.to_string(), old, new));
    let counts = |form: &str, old: &BTreeMap<String, u64>, new: &BTreeMap<String, u64>| {
        let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
        let count =
            |of: &BTreeMap<String, u64>, name: &String| Some(of.get(name).copied().unwrap_or(0));
        let figure = |name: &String| {
            (
                format!("{form}: {name}"),
                count(old, name),
                count(new, name),
            )
        };
        names.into_iter().map(figure).collect::<Vec<_>>()
    };
    // Without machine code on one side there is nothing to compare its kinds with.
    let has_both = old.sass_instructions > 0 && new.sass_instructions > 0;
    let sass = if has_both {
        counts("machine", &old.sass, &new.sass)
    } else {
        Vec::new()
    };
    let all = named.chain(sass).chain(counts("PTX", &old.ptx, &new.ptx));
    all.filter(|(_, old, new)| old != new)
        .map(|(name, old, new)| Figure { name, old, new })
        .collect()
}

fn lines(old: &Sheet, new: &Sheet) -> Vec<LineChange> {
    let names: BTreeSet<&str> = [old, new]
        .into_iter()
        .flat_map(|sheet| sheet.files.iter().map(|file| file.name.as_str()))
        .collect();
    let mut changes = Vec::new();
    for name in names {
        let [before, now] = [old, new].map(|sheet| Costs::of(sheet, name));
        for (old_line, new_line) in aligned(before.text, now.text) {
            let change = LineChange {
                file: name.to_string(),
                text: text_of(&now, new_line)
                    .or(text_of(&before, old_line))
                    .unwrap_or_default(),
                old: before.cost(old_line),
                new: now.cost(new_line),
                old_line,
                new_line,
            };
            if change.old != change.new {
                changes.push(change);
            }
        }
    }
    changes
}

/// The costs of one file's lines.
struct Costs<'s> {
    text: &'s [String],
    of: BTreeMap<usize, Tally>,
}

impl<'s> Costs<'s> {
    fn of(sheet: &'s Sheet, name: &str) -> Costs<'s> {
        let number = sheet.files.iter().position(|file| file.name == name);
        let of = |line: &&Line| Some(line.file) == number;
        let lines = sheet.lines.iter().filter(of);
        Costs {
            text: number.map_or(&[], |at| &sheet.files[at].lines),
            of: lines.map(|line| (line.number, line.own)).collect(),
        }
    }

    fn cost(&self, line: Option<usize>) -> Tally {
        line.and_then(|line| self.of.get(&line))
            .copied()
            .unwrap_or_default()
    }
}

fn text_of(costs: &Costs<'_>, line: Option<usize>) -> Option<String> {
    costs.text.get(line?.checked_sub(1)?).cloned()
}

/// Pairs of lines, from 1, with the same text in a longest common subsequence, and between them those of one side alone.
fn aligned(old: &[String], new: &[String]) -> Vec<(Option<usize>, Option<usize>)> {
    let same = |(a, b): &(&String, &String)| a == b;
    let before = old.iter().zip(new).take_while(same).count();
    let rest = old.len().min(new.len()) - before;
    let after = old
        .iter()
        .rev()
        .zip(new.iter().rev())
        .take(rest)
        .take_while(same)
        .count();
    let (middle_old, middle_new) = (
        &old[before..old.len() - after],
        &new[before..new.len() - after],
    );
    let mut pairs: Vec<_> = (1..=before).map(|line| (Some(line), Some(line))).collect();
    let middle = common(middle_old, middle_new).into_iter();
    pairs.extend(middle.map(|(a, b)| (a.map(|a| a + before + 1), b.map(|b| b + before + 1))));
    pairs.extend(
        (0..after)
            .rev()
            .map(|back| (Some(old.len() - back), Some(new.len() - back))),
    );
    pairs
}

/// A longest common subsequence by its table: what differs of two sources is short.
fn common(old: &[String], new: &[String]) -> Vec<(Option<usize>, Option<usize>)> {
    let mut longest = vec![vec![0_u32; new.len() + 1]; old.len() + 1];
    for a in (0..old.len()).rev() {
        for b in (0..new.len()).rev() {
            longest[a][b] = if old[a] == new[b] {
                longest[a + 1][b + 1] + 1
            } else {
                longest[a + 1][b].max(longest[a][b + 1])
            };
        }
    }
    let (mut a, mut b) = (0, 0);
    let mut pairs = Vec::new();
    while a < old.len() || b < new.len() {
        if a < old.len() && b < new.len() && old[a] == new[b] {
            pairs.push((Some(a), Some(b)));
            (a, b) = (a + 1, b + 1);
        } else if b == new.len() || a < old.len() && longest[a + 1][b] >= longest[a][b + 1] {
            pairs.push((Some(a), None));
            a += 1;
        } else {
            pairs.push((None, Some(b)));
            b += 1;
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(old: &str, new: &str, expected: &[(usize, usize)]) {
        let lines = |text: &str| text.chars().map(String::from).collect::<Vec<_>>();
        let found = aligned(&lines(old), &lines(new));
        let found: Vec<(usize, usize)> = found
            .iter()
            .map(|(a, b)| (a.unwrap_or(0), b.unwrap_or(0)))
            .collect();
        assert_eq!(found, expected, "{old} {new}");
    }

    #[test]
    fn lines_are_paired_by_their_text() {
        check("", "", &[]);
        check("ab", "ab", &[(1, 1), (2, 2)]);
        check("ab", "axb", &[(1, 1), (0, 2), (2, 3)]);
        check("axb", "ayb", &[(1, 1), (2, 0), (0, 2), (3, 3)]);
        check("aa", "aaa", &[(1, 1), (2, 2), (0, 3)]);
        check("abc", "", &[(1, 0), (2, 0), (3, 0)]);
    }

    fn sheet(text: &[&str], line: usize, sass: u64, registers: u64) -> Sheet {
        let json = serde_json::json!({
            "variant": "k", "files": [{"name": "k.rs", "lines": text}],
            "totals": {"threads": 128, "shared_bytes": 0, "registers": registers, "alive": null, "spilled_bytes": 0,
                "occupancy": null, "ptx": {"ld.global.4B": 1}, "ptx_instructions": 9, "sass": {"global": sass}, "sass_instructions": sass},
            "lines": [{"file": 0, "line": line, "own": {"ptx": 4, "sass": sass, "alive": 0, "global_bytes": 0, "conflicts": 0}}],
        });
        serde_json::from_value(json).expect("a sheet")
    }

    #[test]
    fn a_moved_line_is_compared_with_itself() {
        let old = sheet(&["a", "load"], 2, 3, 16);
        let moved = sheet(&["// new", "a", "load"], 3, 3, 16);
        let found = Comparison::of(&old, &moved);
        assert!(
            found.lines.is_empty() && found.figures.is_empty(),
            "{found:?}"
        );
        let slower = sheet(&["// new", "a", "load"], 3, 5, 24);
        let found = Comparison::of(&old, &slower);
        let line = &found.lines[0];
        assert_eq!(
            (line.old_line, line.new_line, line.old.sass, line.new.sass),
            (Some(2), Some(3), 3, 5)
        );
        let names: Vec<&str> = found
            .figures
            .iter()
            .map(|figure| figure.name.as_str())
            .collect();
        assert_eq!(
            names,
            ["registers", "machine instructions", "machine: global"]
        );
    }
}
