//! Which of the author's lines a cost comes from.

use std::collections::BTreeMap;

use protocol::config::Quantity;

use super::collect;
use super::sheet::Sheet;
use super::terminal::line_name;
use crate::harness::catalog::Variant;
use crate::kernel::Compiled;
use crate::report::Sources;

/// Lines that are named of one cost, those with the most of it.
const MOST_NAMED: usize = 4;

/// The costs of a variant by line.
pub(in crate::harness::verbs) struct Blame<'c> {
    compiled: &'c Compiled,
    /// None where the variant cannot be described, which is said elsewhere.
    sheet: Option<Sheet>,
}

impl<'c> Blame<'c> {
    pub(in crate::harness::verbs) fn of(
        variant: &Variant,
        compiled: &'c Compiled,
        sources: &Sources,
    ) -> Blame<'c> {
        Blame {
            compiled,
            sheet: collect::sheet(variant, compiled, sources).ok(),
        }
    }

    /// The lines that a cost comes from, such as `12 stores at src/lib.rs:7`; none where they are not known.
    pub(in crate::harness::verbs) fn lines(&self, quantity: &Quantity) -> Vec<String> {
        let Some(sheet) = &self.sheet else {
            return Vec::new();
        };
        match quantity {
            Quantity::Registers => alive(sheet),
            Quantity::SpillStoreBytes => spilled(sheet, "stores", |stores, _| stores),
            Quantity::SpillLoadBytes => spilled(sheet, "loads", |_, loads| loads),
            Quantity::StackBytes => spilled(sheet, "accesses to the stack", |stores, loads| {
                stores + loads
            }),
            Quantity::SharedBytes => shared(sheet),
            Quantity::BankConflicts => {
                let accesses = sheet.accesses.iter();
                of_places(
                    sheet,
                    accesses.map(|access| (access.place, access.conflicts)),
                    "conflicts",
                )
            }
            Quantity::ExcessSectors => {
                let accesses = sheet.accesses.iter();
                of_places(
                    sheet,
                    accesses.map(|access| (access.place, access.excess_sectors)),
                    "sectors",
                )
            }
            Quantity::Instructions => {
                let rows = sheet.ptx.iter().filter(|row| row.is_code);
                of_places(sheet, rows.map(|row| (row.place, 1)), "instructions")
            }
            Quantity::Kind(kind) => {
                let counts = ptx::kind_by_line(self.compiled.module(), kind);
                let counts = counts
                    .into_iter()
                    .map(|((file, line), count)| (format!("{file}:{line}"), count));
                named(counts.collect(), kind)
            }
        }
    }
}

fn alive(sheet: &Sheet) -> Vec<String> {
    let alive = sheet.totals.alive.iter();
    alive
        .map(|(alive, place)| format!("{alive} alive at {}", line_name(sheet, *place)))
        .collect()
}

fn spilled(sheet: &Sheet, what: &str, number: fn(u32, u32) -> u32) -> Vec<String> {
    let local = sheet.totals.local.iter();
    of_places(
        sheet,
        local.map(|local| (local.place, number(local.stores, local.loads))),
        what,
    )
}

fn shared(sheet: &Sheet) -> Vec<String> {
    let mut rows: Vec<_> = sheet.shared.iter().collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.bytes));
    let rows = rows.into_iter().take(MOST_NAMED);
    rows.map(|row| {
        let at = line_name(sheet, row.place);
        format!("{} bytes of {} at {at}", row.bytes, row.user)
    })
    .collect()
}

fn of_places(
    sheet: &Sheet,
    numbers: impl Iterator<Item = (Option<usize>, u32)>,
    what: &str,
) -> Vec<String> {
    let mut sums: BTreeMap<String, u32> = BTreeMap::new();
    for (place, number) in numbers {
        *sums.entry(line_name(sheet, place)).or_default() += number;
    }
    named(sums.into_iter().collect(), what)
}

/// `12 stores at src/lib.rs:7`, the most first.
fn named(mut sums: Vec<(String, u32)>, what: &str) -> Vec<String> {
    sums.retain(|(_, number)| *number > 0);
    sums.sort_by_key(|(_, number)| std::cmp::Reverse(*number));
    let lines = sums.into_iter().take(MOST_NAMED);
    lines
        .map(|(at, number)| format!("{number} {what} at {at}"))
        .collect()
}
