//! Random layouts of registers.

use layout::Layout;

use super::dice::Dice;

/// Who runs a kernel, as powers of two.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Team {
    pub(crate) warp_bits: u32,
    pub(crate) cta_bits: u32,
}

/// A layout of any kind for tensors of some rank.
pub(crate) fn layout(dice: &mut Dice, team: Team, rank: usize) -> Layout {
    let text = any(dice, team, rank);
    text.parse().unwrap_or_else(|e| panic!("{text}: {e}"))
}

fn any(dice: &mut Dice, team: Team, rank: usize) -> String {
    match dice.below(6) {
        2 => linear(dice, team, rank),
        3 if rank < 4 => {
            let parent = any(dice, team, rank + 1);
            format!("Slice({}, {parent})", dice.below(rank + 1))
        }
        4 if rank == 2 || rank == 3 => accumulator(dice, team, rank),
        5 if rank == 2 || rank == 3 => operand(dice, team, rank),
        _ => blocked(dice, team, rank),
    }
}

fn blocked(dice: &mut Dice, team: Team, rank: usize) -> String {
    let bits = dice.below(5) as u32;
    format!(
        "Blocked({:?}, {:?}, {:?}, {:?}{})",
        dice.spread(rank, bits),
        dice.spread(rank, 5),
        dice.spread(rank, team.warp_bits),
        dice.order(rank),
        named("cta", &ctas(dice, team, rank)),
    )
}

/// One basis a bit of the CTA's rank: powers of two without gaps along each dimension, in any order, or zeros.
fn ctas(dice: &mut Dice, team: Team, rank: usize) -> Vec<Vec<u32>> {
    let dims: Vec<usize> = (0..team.cta_bits).map(|_| dice.below(rank + 1)).collect();
    let mut next = vec![1; rank];
    let mut bases: Vec<Vec<u32>> = dims
        .into_iter()
        .map(|dim| {
            let mut basis = vec![0; rank];
            if let Some(step) = next.get_mut(dim) {
                basis[dim] = *step;
                *step *= 2;
            }
            basis
        })
        .collect();
    dice.shuffle(&mut bases);
    bases
}

/// Every bit of some shape somewhere, and zeros between them.
fn linear(dice: &mut Dice, team: Team, rank: usize) -> String {
    let mut lists: [Vec<Vec<u32>>; 4] = Default::default();
    let lengths = [64, 5, team.warp_bits as usize, team.cta_bits as usize];
    let bits = dice.below(11) as u32;
    let mut units = Vec::new();
    for (dim, size) in dice.spread(rank, bits).into_iter().enumerate() {
        units.extend((0..size.trailing_zeros()).map(|bit| {
            let mut basis = vec![0; rank];
            basis[dim] = 1 << bit;
            basis
        }));
    }
    dice.shuffle(&mut units);
    for unit in units {
        let mut list = dice.pick(&[0, 1, 1, 2, 3]);
        if lists[list].len() == lengths[list] {
            list = 0;
        }
        lists[list].push(unit);
    }
    for (list, length) in lists.iter_mut().zip(lengths).skip(1) {
        list.resize(length, vec![0; rank]);
        dice.shuffle(list);
    }
    if dice.once_in(4) {
        let at = dice.below(lists[0].len() + 1);
        lists[0].insert(at, vec![0; rank]);
    }
    let [register, lane, warp, block] = &lists;
    let text = [
        ("register", register),
        ("lane", lane),
        ("warp", warp),
        ("block", block),
    ]
    .map(|(name, list)| named(name, list))
    .concat();
    format!("Linear({})", text.trim_start_matches(", "))
}

fn accumulator(dice: &mut Dice, team: Team, rank: usize) -> String {
    let cta = named("cta", &ctas(dice, team, rank));
    if rank == 2 && team.warp_bits >= 2 && dice.once_in(2) {
        let mut warps = dice.spread(2, team.warp_bits - 2);
        warps[0] *= 4;
        let n = dice.pick(&[8, 16, 32, 64]);
        return format!("Wgmma({warps:?}, [64, {n}, 16]{cta})");
    }
    let tile = if rank == 2 { "[16, 8]" } else { "[1, 16, 8]" };
    format!("Mma({:?}, {tile}{cta})", dice.spread(rank, team.warp_bits))
}

fn operand(dice: &mut Dice, team: Team, rank: usize) -> String {
    if dice.once_in(3) {
        let side = dice.below(2);
        return format!("DotOperand({side}, {}, 0)", blocked(dice, team, rank));
    }
    let parent = accumulator(dice, team, rank);
    let side = if parent.starts_with("Wgmma") {
        0
    } else {
        dice.below(2)
    };
    let k_width = dice.pick(&[1, 2, 4, 8]);
    format!("DotOperand({side}, {parent}, {k_width})")
}

/// A list of bases as an argument, if there is one.
fn named(name: &str, bases: &[Vec<u32>]) -> String {
    if bases.is_empty() {
        String::new()
    } else {
        format!(", {name}={bases:?}")
    }
}
