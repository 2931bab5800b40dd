//! Costs that are greater than accepted: each with what was accepted, and the lines that it comes from.

use protocol::config::Quantity;

use crate::harness::catalog::{Catalog, Variant};
use crate::harness::context::Context;
use crate::harness::golden::{Change, Difference};
use crate::harness::verbs::inspect::Blame;
use crate::kernel::Compiler;
use crate::report::Remark;

/// Says what costs more than accepted; was there anything?
pub(in crate::harness) fn explain_losses(
    differences: &[Difference],
    catalog: &Catalog,
    context: &Context,
) -> bool {
    let worse = differences
        .iter()
        .map(|difference| (difference, difference.losses()))
        .filter(|(_, losses)| !losses.is_empty());
    let mut is_any = false;
    for (difference, losses) in worse {
        explain(difference, &losses, catalog, context);
        is_any = true;
    }
    is_any
}

fn explain(difference: &Difference, losses: &[Change], catalog: &Catalog, context: &Context) {
    let name = difference.variant();
    let mut variants = catalog.variants().map(|(_, variant)| variant);
    let variant = variants.find(|variant| variant.display == name);
    let lines = |loss: &Change| variant.map_or_else(Vec::new, |it| lines_of(it, loss, context));
    let first = losses.iter().map(one).collect::<Vec<_>>().join(", ");
    let mut remark = Remark::error(format!("`{name}` costs more than accepted: {first}"));
    for loss in losses {
        let lines = lines(loss);
        if !lines.is_empty() {
            remark = remark.with_note(format!("{}: {}", loss.name, lines.join(", ")));
        }
    }
    let help = format!(
        "`cargo tilekit inspect '{name}' --source` shows the lines; `cargo tilekit snapshot --accept '{name}'` accepts the loss"
    );
    context.speaker.failure(&remark.with_help(help));
}

/// `72 registers, where 64 were accepted`
fn one(loss: &Change) -> String {
    let Change { name, old, new } = loss;
    format!("{new} {name} (accepted {old})")
}

fn lines_of(variant: &Variant, loss: &Change, context: &Context) -> Vec<String> {
    // That it compiles is known: its snapshot was made.
    let Ok(compiled) = Compiler::default().compile(&variant.instance) else {
        return Vec::new();
    };
    let blame = Blame::of(variant, &compiled, &context.sources());
    let quantities = quantities(&loss.name);
    quantities
        .iter()
        .flat_map(|quantity| blame.lines(quantity))
        .collect()
}

/// What a fact of a snapshot is a sum of.
fn quantities(fact: &str) -> Vec<Quantity> {
    match fact {
        "registers" => vec![Quantity::Registers],
        "bytes spilled" => vec![Quantity::SpillStoreBytes, Quantity::SpillLoadBytes],
        "bytes of stack" => vec![Quantity::StackBytes],
        "bytes of shared memory" | "bytes of static shared memory" => vec![Quantity::SharedBytes],
        "bank conflicts" => vec![Quantity::BankConflicts],
        "excess sectors" => vec![Quantity::ExcessSectors],
        "instructions" => vec![Quantity::Instructions],
        kind => vec![Quantity::Kind(kind.to_string())],
    }
}
