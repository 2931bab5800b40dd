//! The facts in the header of a snapshot, as numbers that can be compared.

use std::collections::BTreeMap;

/// A fact that changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::harness) struct Change {
    /// Such as `add.s32` or `registers`.
    pub(in crate::harness) name: String,
    /// How much it was.
    pub(in crate::harness) old: u64,
    /// How much it is.
    pub(in crate::harness) new: u64,
}

/// What differs between the headers of two texts, in the order of the new header. A kind of instruction that one of them
/// does not name is there 0 times; figures of ptxas are compared where both have them.
pub(in crate::harness) fn changed_facts(old: &str, new: &str) -> Vec<Change> {
    let (old, new) = (Facts::of(old), Facts::of(new));
    let gone = old
        .order
        .iter()
        .filter(|name| !new.numbers.contains_key(*name));
    let names = new.order.iter().chain(gone);
    let change = |name: &String| {
        let (before, now) = (old.number(name, &new)?, new.number(name, &old)?);
        (before != now).then(|| Change {
            name: name.clone(),
            old: before,
            new: now,
        })
    };
    names.filter_map(change).collect()
}

/// The facts of which more is worse: what a thread and a CTA take of an SM, and what is executed.
const COSTS: [&str; 8] = [
    "instructions",
    "bytes of shared memory",
    "bytes of static shared memory",
    "registers",
    "bytes spilled",
    "bytes of stack",
    "bank conflicts",
    "excess sectors",
];

/// The costs that grew. Kinds of instructions that differ in the bytes which they move are one: more and narrower accesses are a
/// loss, fewer and wider ones are none.
pub(in crate::harness) fn losses(old: &str, new: &str) -> Vec<Change> {
    let (before, now) = (Facts::of(old), Facts::of(new));
    let (old_costs, new_costs) = (before.costs(), now.costs());
    let grown = |(name, &number): (&String, &u64)| {
        // Another release may well say something else.
        let is_unknown = before.release != now.release && now.of_ptxas.contains(name);
        let old = old_costs.get(name).copied().unwrap_or(0);
        (number > old && !is_unknown).then(|| Change {
            name: name.clone(),
            old,
            new: number,
        })
    };
    new_costs.iter().filter_map(grown).collect()
}

/// `ld.global` of `ld.global.16B`.
fn without_width(kind: &str) -> &str {
    let is_width = |end: &str| {
        end.strip_suffix('B')
            .is_some_and(|n| n.parse::<u32>().is_ok())
    };
    kind.rsplit_once('.')
        .filter(|(_, end)| is_width(end))
        .map_or(kind, |(family, _)| family)
}

#[derive(Default)]
struct Facts {
    numbers: BTreeMap<String, u64>,
    order: Vec<String>,
    /// Those that ptxas said.
    of_ptxas: Vec<String>,
    /// Its release: `ptxas 13.0.88`.
    release: Option<String>,
    /// Those that are kinds of instructions which decide how fast a kernel is.
    kinds: Vec<String>,
}

impl Facts {
    /// Those of the comment at the beginning of a text.
    fn of(text: &str) -> Facts {
        let mut facts = Facts::default();
        let header = text.lines().map_while(|line| line.strip_prefix("// "));
        for (subject, said) in header.filter_map(|line| line.split_once(": ")) {
            let mut said = said;
            if let Some((number, kinds)) = said.split_once(": ")
                && let Ok(number) = number.parse()
            {
                facts.add(subject, subject, number);
                said = kinds;
            }
            for (number, name) in said.split(", ").filter_map(|fact| fact.split_once(' ')) {
                if let Ok(number) = number.parse() {
                    facts.add(subject, name, number);
                }
            }
        }
        facts
    }

    fn add(&mut self, subject: &str, name: &str, number: u64) {
        if self.numbers.insert(name.to_owned(), number).is_none() {
            self.order.push(name.to_owned());
        }
        if subject.starts_with("ptxas ") {
            self.of_ptxas.push(name.to_owned());
            self.release = Some(subject.to_owned());
        } else if subject == "instructions" && name != subject {
            self.kinds.push(name.to_owned());
        }
    }

    /// The numbers of which more is worse.
    fn costs(&self) -> BTreeMap<String, u64> {
        let mut costs: BTreeMap<String, u64> = BTreeMap::new();
        for (name, number) in &self.numbers {
            if COSTS.contains(&name.as_str()) {
                costs.insert(name.clone(), *number);
            } else if self.kinds.contains(name) {
                *costs.entry(without_width(name).to_owned()).or_default() += number;
            }
        }
        costs
    }

    /// The number of `name`; none for a figure of ptxas that is known of the other text alone.
    fn number(&self, name: &String, other: &Facts) -> Option<u64> {
        let is_unknown = other.of_ptxas.contains(name);
        self.numbers
            .get(name)
            .copied()
            .or((!is_unknown).then_some(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "// kernel: add<64>\n// launch: 128 threads, 0 bytes of shared memory\n// instructions: 9: 2 ld.global.4B, 1 bra\n// others: 3 add.s32\n// ptxas 13.0.88: 16 registers, 0 bytes spilled\nret;\n// 5 of these\n";

    #[track_caller]
    fn check(old: &str, new: &str, expected: &[(&str, u64, u64)]) {
        let change = |&(name, old, new): &(&str, u64, u64)| Change {
            name: name.into(),
            old,
            new,
        };
        assert_eq!(
            changed_facts(old, new),
            expected.iter().map(change).collect::<Vec<_>>()
        );
    }

    #[test]
    fn changed_numbers_are_named() {
        check(OLD, OLD, &[]);
        check(
            OLD,
            &OLD.replace("9: 2", "10: 3")
                .replace("16 registers", "24 registers"),
            &[
                ("instructions", 9, 10),
                ("ld.global.4B", 2, 3),
                ("registers", 16, 24),
            ],
        );
    }

    #[test]
    fn a_kind_that_is_not_named_occurs_no_time() {
        check(OLD, &OLD.replace(", 1 bra", ""), &[("bra", 1, 0)]);
        check(
            OLD,
            &OLD.replace("3 add.s32", "3 add.s32, 2 fma.rn.f32"),
            &[("fma.rn.f32", 0, 2)],
        );
    }

    #[track_caller]
    fn check_losses(old: &str, new: &str, expected: &[&str]) {
        let found = losses(old, new);
        let names: Vec<&str> = found.iter().map(|change| change.name.as_str()).collect();
        assert_eq!(names, expected);
    }

    #[test]
    fn what_grew_is_a_loss_and_what_shrank_is_none() {
        check_losses(OLD, OLD, &[]);
        check_losses(
            OLD,
            &OLD.replace("16 registers", "24 registers"),
            &["registers"],
        );
        check_losses(OLD, &OLD.replace("16 registers", "8 registers"), &[]);
        check_losses(
            OLD,
            &OLD.replace("0 bytes spilled", "8 bytes spilled"),
            &["bytes spilled"],
        );
        check_losses(
            OLD,
            &OLD.replace("0 bytes of shared", "64 bytes of shared"),
            &["bytes of shared memory"],
        );
        check_losses(
            OLD,
            &OLD.replace("9: 2 ld", "10: 3 ld"),
            &["instructions", "ld.global"],
        );
        // Other opcodes count together, as instructions.
        check_losses(OLD, &OLD.replace("3 add.s32", "4 add.s32"), &[]);
    }

    #[test]
    fn wider_accesses_are_no_loss_and_narrower_ones_are() {
        check_losses(OLD, &OLD.replace("2 ld.global.4B", "1 ld.global.8B"), &[]);
        let wide = OLD.replace("2 ld.global.4B", "1 ld.global.16B");
        check_losses(
            &wide,
            &wide.replace("1 ld.global.16B", "4 ld.global.4B"),
            &["ld.global"],
        );
    }

    #[test]
    fn a_conflict_where_none_was_is_a_loss() {
        let now = OLD.replace(
            "// others",
            "// shared memory: 56 bank conflicts\n// others",
        );
        check_losses(OLD, &now, &["bank conflicts"]);
        check_losses(&now, OLD, &[]);
    }

    #[test]
    fn figures_of_ptxas_that_one_side_lacks_are_no_change() {
        let without = OLD.replace("// ptxas 13.0.88: 16 registers, 0 bytes spilled\n", "");
        check(OLD, &without, &[]);
        check(&without, OLD, &[]);
        check_losses(&without, OLD, &[]);
        let newer = OLD.replace("13.0.88: 16", "13.2.1: 18");
        check_losses(OLD, &newer, &[]);
    }
}
