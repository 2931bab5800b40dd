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
    quantity: Quantity,
    limit: Limit,
    /// None where only ptxas could say it, and there is none.
    found: Option<u64>,
    /// Lines of the author's that it comes from, where it is too much.
    lines: Vec<String>,
}

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
    if tables.is_empty() {
        return Ok(Held::default());
    }
    check_names(context, catalog)?;
    let toolchain = Toolchain::find(None);
    let mut held = Held::default();
    for (kernel, variant) in variants {
        let limits = limits_of(tables, kernel, variant);
        if !limits.is_empty() {
            held.all
                .extend(of_variant(context, variant, limits, &toolchain)?);
        }
    }
    Ok(held)
}

/// The selected variants, and all others that have a limit in common with one of them.
pub(super) fn with_relatives<'c>(
    context: &Context,
    catalog: &'c Catalog,
    selected: &[(&'c KernelItem, &'c Variant)],
) -> Vec<(&'c KernelItem, &'c Variant)> {
    let limits = |(kernel, variant): (&KernelItem, &Variant)| -> Vec<Limit> {
        limits_of(context.limits(), kernel, variant)
            .into_values()
            .collect()
    };
    let meant: Vec<Limit> = selected.iter().copied().flat_map(limits).collect();
    let is_related =
        |found: &(&KernelItem, &Variant)| limits(*found).iter().any(|limit| meant.contains(limit));
    catalog.variants().filter(is_related).collect()
}

fn of_variant(
    context: &Context,
    variant: &Variant,
    limits: BTreeMap<Quantity, Limit>,
    toolchain: &Toolchain,
) -> Done<Vec<Measured>> {
    let fail = |error| context.speaker.error(&variant.display, &error);
    let compiled = Compiler::default()
        .compile(&variant.instance)
        .map_err(fail)?;
    let costs = Costs::of(variant, &compiled, toolchain).map_err(fail)?;
    let measured = limits.into_iter().map(|(quantity, limit)| Measured {
        variant: variant.display.clone(),
        found: costs.get(&quantity),
        quantity,
        limit,
        lines: Vec::new(),
    });
    let mut measured: Vec<Measured> = measured.collect();
    name_lines(context, variant, &compiled, &mut measured);
    Ok(measured)
}

/// Finds the lines that exceed a limit; no sheet is made where none is exceeded.
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
        self.found.is_some_and(|found| found > self.limit.most)
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
        self.remark_unmeasured(context);
        if exceeded.is_empty() {
            Exit::Success
        } else {
            Exit::Snapshots
        }
    }

    fn remark_unmeasured(&self, context: &Context) {
        let unmeasured = self.all.iter().filter(|found| found.found.is_none());
        let unmeasured = unmeasured.count();
        if unmeasured > 0 {
            let text = format!(
                "{} of registers, spills and stack not compared: no ptxas was found",
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
