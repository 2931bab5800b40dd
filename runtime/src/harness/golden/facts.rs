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

#[derive(Default)]
struct Facts {
    numbers: BTreeMap<String, u64>,
    order: Vec<String>,
    /// Those that ptxas said.
    of_ptxas: Vec<String>,
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
        }
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

    #[test]
    fn figures_of_ptxas_that_one_side_lacks_are_no_change() {
        let without = OLD.replace("// ptxas 13.0.88: 16 registers, 0 bytes spilled\n", "");
        check(OLD, &without, &[]);
        check(&without, OLD, &[]);
    }
}
