//! The most that kernels may cost, by the tables `[limits.KERNEL]` of the configuration: `test` holds kernels to them, `snapshot
//! --ratchet` lowers them to what is found, and `snapshot --accept` raises them.

mod apply;
mod measure;
mod write;

use std::collections::BTreeMap;

use protocol::config::{Limit, Quantity};
use serde_json::json;

use super::inspect::Blame;
use crate::harness::Exit;
use crate::harness::catalog::{Catalog, KernelItem, Variant};
use crate::harness::context::{Context, Done};
use crate::harness::speak::count;
use crate::kernel::{Compiled, Compiler};
use crate::report::Remark;
use crate::toolchain::Toolchain;
pub(super) use apply::check_names;
use apply::limits_of;
use measure::Costs;
pub(super) use write::write;

/// One limit of one variant, and what was found.
struct Measured {
    variant: String,
    /// Whether the variant was asked for; others are measured since they have the limit too.
    is_meant: bool,
    quantity: Quantity,
    limit: Limit,
    /// None where only ptxas could say it, and there is none.
    found: Option<u64>,
    /// Lines of the author's that it comes from, where it is too much.
    lines: Vec<String>,
}

/// The limits of a variant that are of interest.
type Limits = BTreeMap<Quantity, Limit>;

/// What was found of all limits that were looked at.
#[derive(Default)]
pub(in crate::harness) struct Held {
    all: Vec<Measured>,
}

/// Measures what is limited of these variants.
pub(in crate::harness) fn measure(
    context: &Context,
    catalog: &Catalog,
    variants: &[(&KernelItem, &Variant)],
) -> Done<Held> {
    let tables = context.limits();
    let found = variants.iter().map(|&(kernel, variant)| Wanted {
        variant,
        limits: limits_of(tables, kernel, variant),
        is_meant: true,
    });
    measure_wanted(context, catalog, found)
}

/// The same, and the limits that these variants have in common with others are measured of those too: what such a limit may be,
/// they say together. Limits that none of these variants has are left alone.
pub(super) fn measure_with_others(
    context: &Context,
    catalog: &Catalog,
    variants: &[(&KernelItem, &Variant)],
) -> Done<Held> {
    let tables = context.limits();
    let own = variants
        .iter()
        .flat_map(|(kernel, variant)| limits_of(tables, kernel, variant).into_values());
    let own: Vec<Limit> = own.collect();
    let found = catalog.variants().map(|(kernel, variant)| {
        let mut limits = limits_of(tables, kernel, variant);
        limits.retain(|_, limit| own.contains(limit));
        let is_meant = variants
            .iter()
            .any(|(_, meant)| std::ptr::eq(*meant, variant));
        Wanted {
            variant,
            limits,
            is_meant,
        }
    });
    measure_wanted(context, catalog, found)
}

/// A variant of which these limits are to be measured.
struct Wanted<'c> {
    variant: &'c Variant,
    limits: Limits,
    is_meant: bool,
}

fn measure_wanted<'c>(
    context: &Context,
    catalog: &Catalog,
    all: impl Iterator<Item = Wanted<'c>>,
) -> Done<Held> {
    if context.limits().is_empty() {
        return Ok(Held::default());
    }
    check_names(context, catalog)?;
    let toolchain = Toolchain::find(None);
    let mut held = Held::default();
    for wanted in all.filter(|wanted| !wanted.limits.is_empty()) {
        held.all.extend(of_variant(context, wanted, &toolchain)?);
    }
    Ok(held)
}

fn of_variant(context: &Context, wanted: Wanted<'_>, toolchain: &Toolchain) -> Done<Vec<Measured>> {
    let Wanted {
        variant,
        limits,
        is_meant,
    } = wanted;
    let fail = |error| context.speaker.error(&variant.display, &error);
    let compiled = Compiler::default()
        .compile(&variant.instance)
        .map_err(fail)?;
    let costs = Costs::of(variant, &compiled, toolchain).map_err(fail)?;
    let measured = limits.into_iter().map(|(quantity, limit)| Measured {
        variant: variant.display.clone(),
        is_meant,
        found: costs.get(&quantity),
        quantity,
        limit,
        lines: Vec::new(),
    });
    let mut measured: Vec<Measured> = measured.collect();
    name_lines(context, variant, &compiled, &mut measured);
    Ok(measured)
}

/// Finds the lines that exceed a limit that is reported; no sheet is made where none is exceeded.
fn name_lines(context: &Context, variant: &Variant, compiled: &Compiled, all: &mut [Measured]) {
    let mut exceeding = all
        .iter_mut()
        .filter(|found| found.is_exceeded())
        .peekable();
    if exceeding.peek().is_none() {
        return;
    }
    let blame = Blame::of(variant, compiled, &context.sources());
    for found in exceeding {
        found.lines = blame.lines(&found.quantity);
    }
}

impl Measured {
    fn is_exceeded(&self) -> bool {
        self.is_meant && self.found.is_some_and(|found| found > self.limit.most)
    }
}

impl Held {
    /// Says what is exceeded, each at its limit and with its lines; and what could not be measured.
    pub(in crate::harness) fn report(&self, context: &Context) -> Exit {
        let exceeded: Vec<&Measured> = self
            .all
            .iter()
            .filter(|found| found.is_exceeded())
            .collect();
        for found in &exceeded {
            say(found, context);
        }
        self.remark_unmeasured(context, "not compared");
        if exceeded.is_empty() {
            Exit::Success
        } else {
            Exit::Snapshots
        }
    }

    /// Says how many limits could not be measured, and what became of them.
    pub(super) fn remark_unmeasured(&self, context: &Context, what: &str) {
        let unmeasured = self
            .all
            .iter()
            .filter(|found| found.is_meant && found.found.is_none());
        let unmeasured = unmeasured.count();
        if unmeasured > 0 {
            let text = format!(
                "{} of registers, spills and stack {what}: no ptxas was found",
                count(unmeasured, "limit")
            );
            let help = "PTXAS chooses the program, `cargo tilekit doctor --fix` fetches it";
            context.speaker.remark(&Remark::note(text).with_help(help));
        }
    }

    /// Says how many limits could be lower.
    pub(super) fn remark_slack(&self, context: &Context) {
        let lower = self
            .changes()
            .iter()
            .filter(|change| change.is_lower())
            .count();
        if lower > 0 {
            let text = format!("{} could be lower", count(lower, "limit"));
            let help = "`cargo tilekit snapshot --ratchet` writes what was found";
            context.speaker.remark(&Remark::note(text).with_help(help));
        }
    }
}

fn say(found: &Measured, context: &Context) {
    let Measured {
        variant,
        quantity,
        limit,
        lines,
        ..
    } = found;
    let number = found.found.unwrap_or(0);
    let mistake = limit.mistake(format!(
        "`{variant}` has {number} {}, and its limit is {}",
        quantity.noun(),
        limit.most
    ));
    let mistake = match &lines[..] {
        [] => mistake,
        lines => mistake.with_note(lines.join(", ")),
    };
    let help = format!(
        "`cargo tilekit inspect '{variant}' --source` shows the lines; `cargo tilekit snapshot --accept '{variant}'` raises the limit"
    );
    let speaker = &context.speaker;
    speaker.say(&mistake.with_help(help).render(speaker.format(), true));
    if speaker.is_json() {
        speaker.event(&json!({
            "reason": "tilekit-limit", "variant": variant, "quantity": quantity.noun(), "found": number, "most": limit.most,
            "lines": lines,
        }));
    }
}
