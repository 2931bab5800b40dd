//! Names that a printer numbers (`%12` of tile IR, `%r3` and `$L_for_2` of PTX), kept as they were accepted.
//!
//! One more instruction moves the number of every register after it. A number says nothing, so a new text takes the
//! accepted names wherever the instructions are the same, and differs in the lines whose instructions differ. The
//! renaming is one to one: texts that come out equal are the same code.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Range;

use similar::{Algorithm, DiffOp, capture_diff_slices};

use super::Kind;

/// `new` with the names of `accepted` in the lines that both have.
pub(super) fn with_names_of(accepted: &str, new: &str, kind: Kind) -> String {
    let Some(syntax) = Syntax::of(kind, &[accepted, new]) else {
        return new.to_owned();
    };
    let (old_lines, new_lines) = (syntax.lines(accepted), syntax.lines(new));
    let mut names = Renaming::voted(&old_lines, &new_lines);
    for name in new_lines.iter().flat_map(|line| &line.names) {
        names.complete(name);
    }
    let text: Vec<String> = new
        .split_inclusive('\n')
        .map(|line| syntax.renamed(line, &names))
        .collect();
    match syntax {
        Syntax::Ir => text.concat(),
        Syntax::Ptx(_) => syntax.with_counts(text).concat(),
    }
}

/// A name as its family and its number in it: the second label `$L_for_2` is number 1 of `$L_for`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Name {
    family: String,
    number: u32,
}

/// A line without the numbers of its names, and the names.
struct Line {
    code: String,
    names: Vec<Name>,
}

/// What a text numbers.
enum Syntax {
    /// Values: `%12`, and `%sum.1` for the second value that an author calls `sum`.
    Ir,
    /// Labels, and registers of these declared families (`%r`, `%rd`).
    Ptx(BTreeSet<String>),
}

impl Syntax {
    /// That of a kind of text; facts name no value.
    fn of(kind: Kind, texts: &[&str]) -> Option<Syntax> {
        match kind {
            Kind::Facts => None,
            Kind::Ir => Some(Syntax::Ir),
            Kind::Ptx => {
                let lines = texts.iter().flat_map(|text| text.lines());
                Some(Syntax::Ptx(
                    lines
                        .filter_map(declared)
                        .map(|(family, _)| family.to_owned())
                        .collect(),
                ))
            }
        }
    }

    fn lines(&self, text: &str) -> Vec<Line> {
        text.split_inclusive('\n')
            .map(|line| self.line(line))
            .collect()
    }

    fn line(&self, line: &str) -> Line {
        let mut names = Vec::new();
        let code = self.replaced(line, |name| {
            let family = format!("{}#", name.family);
            names.push(name);
            family
        });
        match declared(line) {
            Some((family, _)) => Line {
                code: format!(".reg {family}"),
                names,
            },
            None => Line { code, names },
        }
    }

    fn renamed(&self, line: &str, names: &Renaming) -> String {
        self.replaced(line, |name| {
            names
                .to
                .get(&name)
                .map_or_else(|| self.spelled(&name), |to| self.spelled(to))
        })
    }

    /// The line with each numbered name replaced.
    fn replaced(&self, line: &str, mut by: impl FnMut(Name) -> String) -> String {
        let mut text = String::with_capacity(line.len());
        let mut end = 0;
        for place in tokens(line) {
            if let Some(name) = self.name(&line[place.clone()]) {
                text.push_str(&line[end..place.start]);
                text.push_str(&by(name));
                end = place.end;
            }
        }
        text + &line[end..]
    }

    fn name(&self, token: &str) -> Option<Name> {
        let (family, number) = match self {
            Syntax::Ir if token.starts_with('$') => return None,
            Syntax::Ir if is_number(&token[1..]) => ("%", token[1..].parse().ok()?),
            Syntax::Ir => match token.rsplit_once('.') {
                Some((family, number)) if is_number(number) => (family, number.parse().ok()?),
                _ => (token, 0),
            },
            Syntax::Ptx(_) if token.starts_with('$') => match token.rsplit_once('_') {
                Some((family, number)) if is_number(number) => {
                    (family, number.parse::<u32>().ok()?.checked_sub(1)?)
                }
                _ => (token, 0),
            },
            Syntax::Ptx(families) => {
                let family = token.trim_end_matches(|c: char| c.is_ascii_digit());
                let number = token[family.len()..].parse().ok()?;
                families.contains(family).then_some((family, number))?
            }
        };
        Some(Name {
            family: family.to_owned(),
            number,
        })
    }

    fn spelled(&self, name: &Name) -> String {
        let Name { family, number } = name;
        match self {
            Syntax::Ir if family == "%" => format!("%{number}"),
            Syntax::Ir if *number > 0 => format!("{family}.{number}"),
            Syntax::Ptx(_) if !family.starts_with('$') => format!("{family}{number}"),
            Syntax::Ptx(_) if *number > 0 => format!("{family}_{}", number + 1),
            _ => family.clone(),
        }
    }

    /// The lines with declarations of at least as many registers as each body names.
    fn with_counts(&self, mut lines: Vec<String>) -> Vec<String> {
        for at in 0..lines.len() {
            let Some((family, count)) = declared(&lines[at]) else {
                continue;
            };
            let body = lines[at + 1..].iter().take_while(|line| *line != "}\n");
            let names = body.flat_map(|line| self.line(line).names);
            let named = names.filter(|name| name.family == family);
            let needed = named.map(|name| name.number + 1).max().unwrap_or(0);
            if count.parse().is_ok_and(|count: u32| count < needed) {
                lines[at] = lines[at].replace(&format!("<{count}>"), &format!("<{needed}>"));
            }
        }
        lines
    }
}

/// Names of a new text, and those that they become.
#[derive(Default)]
struct Renaming {
    to: HashMap<Name, Name>,
    taken: HashSet<Name>,
    /// The least number of each family that may be free.
    next: HashMap<String, u32>,
}

impl Renaming {
    /// The names that most lines of both texts agree on.
    fn voted(old: &[Line], new: &[Line]) -> Renaming {
        let mut votes: HashMap<(&Name, &Name), (usize, usize)> = HashMap::new();
        for (number, pair) in same_names(old, new).enumerate() {
            votes.entry(pair).or_insert((0, number)).0 += 1;
        }
        let mut votes: Vec<_> = votes.into_iter().collect();
        votes.sort_by_key(|&(_, (count, first))| (std::cmp::Reverse(count), first));
        let mut names = Renaming::default();
        for ((old, new), _) in votes {
            if !names.to.contains_key(new) && names.taken.insert(old.clone()) {
                names.to.insert(new.clone(), old.clone());
            }
        }
        names
    }

    /// A name that no accepted line has becomes the first that is free.
    fn complete(&mut self, name: &Name) {
        if self.to.contains_key(name) {
            return;
        }
        let next = self.next.entry(name.family.clone()).or_default();
        let mut free = Name {
            family: name.family.clone(),
            number: *next,
        };
        while !self.taken.insert(free.clone()) {
            free.number += 1;
        }
        *next = free.number + 1;
        self.to.insert(name.clone(), free);
    }
}

/// The names that stand at the same place of a line of both texts.
fn same_names<'l>(old: &'l [Line], new: &'l [Line]) -> impl Iterator<Item = (&'l Name, &'l Name)> {
    let code = |lines: &'l [Line]| {
        lines
            .iter()
            .map(|line| line.code.as_str())
            .collect::<Vec<_>>()
    };
    let equal = |op| match op {
        DiffOp::Equal {
            old_index,
            new_index,
            len,
        } => Some((old_index, new_index, len)),
        _ => None,
    };
    let ops = capture_diff_slices(Algorithm::Patience, &code(old), &code(new));
    let runs = ops.into_iter().filter_map(equal);
    let lines = runs.flat_map(move |(a, b, len)| old[a..a + len].iter().zip(&new[b..b + len]));
    lines.flat_map(|(old, new)| old.names.iter().zip(&new.names))
}

/// Where a line has names: `%` or `$` and what follows it.
fn tokens(line: &str) -> impl Iterator<Item = Range<usize>> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    line.match_indices(['%', '$'])
        .filter_map(move |(start, _)| {
            let rest = &line[start + 1..];
            let len = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
            let len = rest[..len].trim_end_matches('.').len();
            (len > 0).then_some(start..start + 1 + len)
        })
}

/// The family and the number of registers that a line of PTX declares: `%r` and `20` of `.reg .b32 %r<20>;`.
fn declared(line: &str) -> Option<(&str, &str)> {
    let (_, registers) = line.trim().strip_prefix(".reg ")?.split_once(' ')?;
    registers.strip_suffix(">;")?.split_once('<')
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(kind: Kind, accepted: &str, new: &str, expected: &str) {
        assert_eq!(with_names_of(accepted, new, kind), expected);
        assert_eq!(
            with_names_of(expected, new, kind),
            expected,
            "accepted, it is the same"
        );
    }

    const ACCEPTED: &str = "{\n\t.reg .b32 %r<3>;\n\tmov.u32 %r0, %tid.x;\n\tadd.s32 %r1, %r0, 1;\n$L_for:\n\tshl.b32 %r2, %r1, 3;\n\tbra $L_for;\n}\n";

    #[test]
    fn registers_after_a_new_instruction_keep_their_names() {
        check(
            Kind::Ptx,
            ACCEPTED,
            "{\n\t.reg .b32 %r<4>;\n\tmov.u32 %r0, %tid.x;\n\tand.b32 %r1, %r0, 31;\n\tadd.s32 %r2, %r0, 1;\n$L_for:\n\tshl.b32 %r3, %r2, 3;\n\tbra $L_for;\n}\n",
            "{\n\t.reg .b32 %r<4>;\n\tmov.u32 %r0, %tid.x;\n\tand.b32 %r3, %r0, 31;\n\tadd.s32 %r1, %r0, 1;\n$L_for:\n\tshl.b32 %r2, %r1, 3;\n\tbra $L_for;\n}\n",
        );
    }

    #[test]
    fn labels_keep_their_names_after_another_of_their_kind() {
        check(
            Kind::Ptx,
            ACCEPTED,
            "{\n\t.reg .b32 %r<3>;\n$L_for:\n\tbra.uni $L_for;\n\tmov.u32 %r0, %tid.x;\n\tadd.s32 %r1, %r0, 1;\n$L_for_2:\n\tshl.b32 %r2, %r1, 3;\n\tbra $L_for_2;\n}\n",
            "{\n\t.reg .b32 %r<3>;\n$L_for_2:\n\tbra.uni $L_for_2;\n\tmov.u32 %r0, %tid.x;\n\tadd.s32 %r1, %r0, 1;\n$L_for:\n\tshl.b32 %r2, %r1, 3;\n\tbra $L_for;\n}\n",
        );
    }

    #[test]
    fn names_of_special_registers_and_of_other_texts_stay() {
        let text = "\tmov.u32 %r0, %envreg3;\n\tmov.b32 {%x1, y}, %tid.x;\n";
        check(Kind::Ptx, ACCEPTED, text, text);
    }

    #[test]
    fn an_operand_that_was_another_value_is_no_renaming() {
        let swapped = ACCEPTED.replace("%r1, 3", "%r0, 3");
        check(Kind::Ptx, ACCEPTED, &swapped, &swapped);
        let crossed = "\t.reg .b32 %r<2>;\n\tld.b32 %r0, [a];\n\tld.b32 %r1, [b];\n\tsub.s32 %r0, %r0, %r1;\n";
        let other = crossed.replace("%r0, %r0, %r1", "%r0, %r1, %r0");
        check(Kind::Ptx, crossed, &other, &other);
    }

    #[test]
    fn each_body_declares_what_it_names() {
        let bodies = |first, second| {
            format!(
                "{{\n\t.reg .b32 %r<{first}>;\n\tmov.b32 %r{}, 1;\n}}\n{{\n\t.reg .b32 %r<{second}>;\n\tmov.b32 %r{}, 2;\n}}\n",
                first - 1,
                second - 1
            )
        };
        check(Kind::Ptx, &bodies(1, 4), &bodies(1, 3), &bodies(1, 4));
    }

    #[test]
    fn values_of_tile_ir_keep_their_names() {
        check(
            Kind::Ir,
            "  %0 = constant {value=1} : i32\n  %sum = binary %m, %0 {op=add} : i32\n  %1 = cast %sum : i64\n",
            "  %0 = constant {value=7} : i32\n  %sum = binary %k, %0 {op=add} : i32\n  %1 = constant {value=1} : i32\n  %sum.1 = binary %m, %1 {op=add} : i32\n  %2 = cast %sum.1 : i64\n",
            "  %2 = constant {value=7} : i32\n  %sum.1 = binary %k, %2 {op=add} : i32\n  %0 = constant {value=1} : i32\n  %sum = binary %m, %0 {op=add} : i32\n  %1 = cast %sum : i64\n",
        );
    }

    #[test]
    fn a_text_that_is_new_is_numbered_from_zero() {
        check(
            Kind::Ir,
            "",
            "  %4 = constant\n  store %4\n",
            "  %0 = constant\n  store %0\n",
        );
    }
}
