//! What it costs that CTAs ask L2 for the same lines at the same time.

use super::factor::{INSTRUCTION_ROWS, STAGE_BYTES, UNIT_BYTES};
use super::instances::Instance;
use super::need::Need;
use super::plan::Plan;
use super::times::together;

/// Cycles for which a request occupies a line of L2, of rows that begin at multiples of 32 bytes and of 16.
const OF_SECTORS: f64 = 7.0;
const OF_UNITS: f64 = 14.0;
/// Steps along K until which it shows: those of many come apart, and what is behind the first is waited for anyway.
const STEPS: usize = 8;
/// Cycles a microsecond while little is computed.
const CLOCK: f64 = 1.755e3;
/// Microseconds of a launch beside these requests.
const BESIDE: f64 = 1.8;

/// A plan by the model of its tiles alone, with what they wait for lines that others ask for too.
pub(super) fn beside_others(plan: Plan, need: &Need) -> Plan {
    let least = least_microseconds(plan.instance, need);
    let together = |least| together(plan.microseconds, least);
    Plan {
        microseconds: least.map_or(plan.microseconds, together),
        ..plan
    }
}

/// Microseconds that an instance takes at least by the lines that most of its CTAs ask for; none where rows begin at lines or steps are many: L2 gives whole lines as fast as they are asked for. A line of short rows
/// is asked for once for each row in it, and where rows begin within a line twice: of 30 x 6232 x 24 98 CTAs ask for the same 12 lines, 327 times each. Clusters that multicast ask once for all of their CTAs. Fitted
/// to 44 products of one and two steps along K on an H200; those of H100s, to which it was not, are chosen better by it too.
fn least_microseconds(instance: Instance, need: &Need) -> Option<f64> {
    let pitch = (need.size[2] * need.element_bytes[0]).next_multiple_of(UNIT_BYTES);
    let cycles = match pitch {
        _ if pitch.is_multiple_of(STAGE_BYTES) || need.steps() > STEPS => return None,
        _ if pitch.is_multiple_of(32) => OF_SECTORS,
        _ => OF_UNITS,
    };
    let line = STAGE_BYTES as f64;
    let share = pitch as f64 / line;
    let requests = (1.0 / share).max(1.0) * (1.0 + share.min(1.0));
    let [m, n, _] = need.size;
    let [over_m, over_n] = loaded_once(instance)?;
    // Rows of A are those of all tiles along N.
    let readers = [n.div_ceil(over_n), m.div_ceil(over_m)];
    let along_k = readers.iter().zip(need.is_mn_major);
    let most = along_k.filter_map(|(&readers, is_mn_major)| (!is_mn_major).then_some(readers));
    let most = most.max()? as f64;
    Some(BESIDE + most * requests * cycles / CLOCK)
}

/// Rows of M and of N for which an operand is loaded once. What L2 gives to parts of K at a time differs, and other kernels were not fitted.
fn loaded_once(instance: Instance) -> Option<[usize; 2]> {
    let exchanged = |turned: bool, [x, y]: [usize; 2]| if turned { [y, x] } else { [x, y] };
    match instance {
        Instance::Many(tile) | Instance::Wave(tile) => {
            let [rows, columns] = tile.shape();
            Some([tile.ctas * rows, columns])
        }
        Instance::Few(tile) => {
            let shape = [tile.groups * INSTRUCTION_ROWS, tile.columns];
            Some(exchanged(tile.turned, shape))
        }
        Instance::Cluster(tile) => {
            let ([rows, columns], [along_x, along_y]) = (tile.shape(), tile.along);
            Some(exchanged(tile.turned, [along_x * rows, along_y * columns]))
        }
        Instance::Persistent(tile) => {
            let ([rows, columns], [along_x, along_y]) = (tile.shape(), tile.along);
            Some(exchanged(tile.turned, [along_x * rows, along_y * columns]))
        }
        Instance::Split(_)
        | Instance::Any(_)
        | Instance::Copied(_)
        | Instance::Precise(_)
        | Instance::PreciseParts(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CTAs that share no operand took 1.14 to 1.26 times as long on an H200.
    #[test]
    fn short_rows_that_many_ctas_read_are_multicast() {
        for size in [
            [98, 1488, 24],
            [89, 3104, 24],
            [227, 1840, 40],
            [24, 11416, 48],
        ] {
            let plan = Plan::best(&Need::of_16_bits(size)).expect("a plan");
            let tile = match plan.instance {
                Instance::Cluster(tile) => tile,
                other => panic!("{size:?}: {other}"),
            };
            assert!(tile.ctas() > 1, "{size:?}: {plan}");
        }
    }

    #[test]
    fn rows_that_begin_at_lines_or_along_m_and_n_cost_nothing_more() {
        let best =
            |need: &Need| least_microseconds(Plan::best(need).expect("a plan").instance, need);
        let aligned = Need::of_16_bits([30, 6232, 64]);
        assert_eq!(best(&aligned), None);
        let short = Need::of_16_bits([30, 6232, 24]);
        assert!(best(&short).is_some());
        let along_n = Need {
            is_mn_major: [true; 2],
            ..short
        };
        assert_eq!(best(&along_n), None);
    }
}
