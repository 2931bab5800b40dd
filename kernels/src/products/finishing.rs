//! What an epilogue adds to the time of a plan: as long as a warpgroup takes for its sums, but for what the products of others hide. Constants are of an H200, of 26 plans of each of three sizes
//! (`bench/results/products/epilogues.md`).

use super::epilogue_kind::Finishing;
use super::factor::INSTRUCTION_ROWS;
use super::instances::Instance;
use super::need::Need;
use super::plan::Plan;

/// Microseconds that the epilogue adds to a plan whose product alone takes `product`. Of two warpgroups in turns each multiplies a tile and finishes it while the other one multiplies: both together take as long as the products, or half of products and epilogues.
pub(super) fn microseconds(plan: &Plan, product: f64, need: &Need) -> f64 {
    let sums = (plan.waves(need) * sums_of_warpgroup(plan.instance)) as f64;
    match plan.instance {
        Instance::Persistent(tile) if tile.groups == 1 => {
            let finished = in_turns(need.finishing, tile.buffers);
            finished.map_or(0.0, |rate| (sums / rate - product).max(0.0) / 2.0)
        }
        _ => alone(need.finishing).map_or(0.0, |rate| sums / rate),
    }
}

/// Sums that a warpgroup finishes in a microsecond while no other multiplies, beyond what it stores.
fn alone(finishing: Finishing) -> Option<f64> {
    match finishing {
        Finishing::Nothing | Finishing::Scale => None,
        Finishing::Compute => Some(11e3),
        Finishing::Numbers | Finishing::Reduce => Some(6.5e3),
        Finishing::Source => Some(2.2e3),
    }
}

/// Sums that a warpgroup finishes and stores in a microsecond beside another one that multiplies. With one buffer it waits until TMA has read what it stored before.
fn in_turns(finishing: Finishing, buffers: usize) -> Option<f64> {
    match finishing {
        Finishing::Nothing | Finishing::Scale => None,
        Finishing::Compute => Some(4e3),
        Finishing::Numbers => Some(3e3),
        Finishing::Reduce | Finishing::Source if buffers == 1 => Some(1.2e3),
        Finishing::Reduce | Finishing::Source => Some(1.5e3),
    }
}

/// Sums of a tile that a warpgroup finishes.
fn sums_of_warpgroup(instance: Instance) -> usize {
    match instance {
        Instance::Many(tile) | Instance::Wave(tile) => tile.rows * tile.columns,
        Instance::Any(tile) => INSTRUCTION_ROWS * tile.columns,
        Instance::Few(tile) => INSTRUCTION_ROWS * tile.columns / tile.ctas,
        Instance::Copied(tile) => INSTRUCTION_ROWS * tile.tile.columns / tile.tile.ctas,
        Instance::Split(tile) => INSTRUCTION_ROWS * tile.columns,
        Instance::Cluster(tile) => INSTRUCTION_ROWS * tile.columns / tile.parts,
        Instance::Precise(tile) | Instance::PreciseParts(tile) => INSTRUCTION_ROWS * tile.columns,
        Instance::Persistent(tile) => tile.instructions * INSTRUCTION_ROWS * tile.columns,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Measured with gelu: 104 / 114 us by the fastest tile of a product alone, 97 / 92 by one that is not exchanged. With a source: 137 / 139, and 127 / 127.
    #[test]
    fn epilogues_are_hidden_where_warpgroups_take_turns() {
        let plan = |finishing| {
            let need = Need {
                finishing,
                ..Need::of_16_bits([8192, 4096, 1024])
            };
            Plan::best(&need).expect("a call may need it").to_string()
        };
        assert!(plan(Finishing::Nothing).contains("in turns, A and B exchanged"));
        for finishing in [Finishing::Compute, Finishing::Numbers, Finishing::Source] {
            let plan = plan(finishing);
            let is_hidden = plan.contains("in turns") && !plan.contains("exchanged");
            assert!(is_hidden, "{finishing:?}: {plan}");
        }
        assert!(plan(Finishing::Source).starts_with("128x128"));
        // Long steps hide what a source takes.
        let need = Need {
            finishing: Finishing::Source,
            ..Need::of_16_bits([8192, 8192, 4096])
        };
        let plan = Plan::best(&need).expect("a call may need it").to_string();
        assert!(plan.contains("in turns"), "{plan}");
    }
}
