//! Instructions that lanes execute together: shuffles, votes, matches, reductions, `bar.warp.sync`.

use crate::fault::{FaultKind, LaneSet, Stepped, Trouble};
use crate::lanes::{LANES, Lanes32, lanes_of};
use crate::machine::state::scene::{Flow, Scene, Worker};
use crate::machine::state::warp::Wait;
use crate::program::{File, NONE, Op, Shuffle};
use ptx::{ReduxOp, ShflMode, VoteOp};

impl Worker<'_> {
    /// Executes when all lanes of the member mask have arrived; otherwise the path waits for them.
    pub(crate) fn exchange(&mut self, scene: &mut Scene<'_>, op: &Op) -> Stepped<Flow> {
        let members = self.members(scene, op)?;
        let needed = members & scene.warp.alive;
        let Some(lanes) = gather_lanes(scene, needed, op) else {
            return Ok(Flow::Park(Wait::Lanes));
        };
        release_others(scene, lanes, op);
        scene.mask = lanes;
        let is_barrier = matches!(op, Op::WarpSync { .. });
        if is_barrier || !self.context.launch.checks.strict {
            scene.warp.converge(lanes);
        } else {
            scene.warp.meet(lanes);
        }
        match op {
            Op::Shuffle(shuffle) => shuffle_lanes(scene, shuffle, members)?,
            Op::Vote {
                kind,
                dst,
                src,
                flip,
                ..
            } => vote(scene, *kind, *dst, (*src, *flip), members),
            Op::Match {
                all,
                file,
                dst,
                second,
                src,
                ..
            } => match_lanes(scene, *all, *file, (*dst, *second, *src), members),
            Op::Redux {
                op,
                signed,
                dst,
                src,
                ..
            } => redux(scene, *op, *signed, (*dst, *src), members),
            Op::Elect { dst, predicate, .. } => {
                let leader = (members & lanes).trailing_zeros();
                scene
                    .warp
                    .regs
                    .put32(*dst, lanes, &Lanes32([leader; LANES]));
                scene
                    .warp
                    .regs
                    .put_predicate(*predicate, lanes, 1u32 << (leader & 31));
            }
            _ => {}
        }
        Ok(Flow::Next)
    }

    /// The member mask, on which all lanes must agree and of which each must be a part.
    fn members(&self, scene: &Scene<'_>, op: &Op) -> Stepped<u32> {
        let slot = match op {
            Op::Shuffle(shuffle) => shuffle.members,
            Op::Vote { members, .. }
            | Op::Match { members, .. }
            | Op::Redux { members, .. }
            | Op::Elect { members, .. }
            | Op::WarpSync { members } => *members,
            _ => unreachable!("every other op is not an exchange"),
        };
        let cells = &scene.warp.regs.words[slot as usize].0;
        let members = cells[scene.mask.trailing_zeros() as usize];
        let differing = lanes_of(scene.mask)
            .filter(|&lane| cells[lane] != members)
            .fold(0, |all, lane| all | 1 << lane);
        if differing != 0 {
            let message = format!(
                "lanes {} pass another member mask than {members:#010x}",
                LaneSet(differing)
            );
            return Err(Trouble::new(FaultKind::IllegalOperand, differing, message));
        }
        let strangers = scene.mask & !members;
        if strangers != 0 {
            let message = format!(
                "lanes {} execute an instruction whose member mask {members:#010x} leaves them out",
                LaneSet(strangers)
            );
            return Err(Trouble::new(FaultKind::IllegalOperand, strangers, message));
        }
        Ok(members)
    }
}

/// The lanes that execute together, once all required lanes have arrived.
fn gather_lanes(scene: &Scene<'_>, needed: u32, op: &Op) -> Option<u32> {
    if needed & !scene.mask == 0 {
        return Some(scene.mask);
    }
    let anywhere = matches!(op, Op::WarpSync { .. });
    let waiting = scene
        .warp
        .paths
        .iter()
        .filter(|path| path.wait == Wait::Lanes);
    let together = waiting
        .filter(|path| path.pc == scene.path.pc || anywhere)
        .fold(scene.mask, |lanes, path| lanes | path.mask);
    (needed & !together == 0).then_some(together)
}

/// Moves the other paths that took part past the instruction.
fn release_others(scene: &mut Scene<'_>, lanes: u32, op: &Op) {
    let anywhere = matches!(op, Op::WarpSync { .. });
    let pc = scene.path.pc;
    for path in &mut scene.warp.paths {
        if path.wait == Wait::Lanes && path.mask & lanes != 0 && (path.pc == pc || anywhere) {
            path.pc += 1;
            path.wait = Wait::Ready;
        }
    }
}

/// The lane that `lane` reads from, and whether it is in range (PTX ISA 9.7.9.6).
fn source_lane(mode: ShflMode, lane: u32, b: u32, c: u32) -> (u32, bool) {
    let (b, clamp, segment) = (b & 31, c & 31, c >> 8 & 31);
    let last = lane & segment | clamp & !segment;
    let first = lane & segment;
    let (source, is_in) = match mode {
        ShflMode::Up => {
            let source = lane.wrapping_sub(b);
            (source, source as i32 >= last as i32)
        }
        ShflMode::Down => (lane + b, lane + b <= last),
        ShflMode::Bfly => (lane ^ b, lane ^ b <= last),
        ShflMode::Idx => {
            let source = first | b & !segment;
            (source, source <= last)
        }
    };
    if is_in { (source, true) } else { (lane, false) }
}

fn shuffle_lanes(scene: &mut Scene<'_>, shuffle: &Shuffle, members: u32) -> Stepped {
    let regs = &mut scene.warp.regs;
    let (values, lanes, clamps) = (
        regs.words[shuffle.src as usize].0,
        regs.words[shuffle.lane as usize].0,
        regs.words[shuffle.clamp as usize].0,
    );
    let mut out = Lanes32([0; LANES]);
    let mut in_range = 0;
    for lane in lanes_of(scene.mask) {
        let (source, is_in) = source_lane(shuffle.mode, lane as u32, lanes[lane], clamps[lane]);
        if scene.mask >> source & 1 == 0 {
            let why = if members >> source & 1 == 0 {
                "which is not in the member mask"
            } else {
                "which has exited"
            };
            let message =
                format!("lane {lane} reads the register of lane {source}, {why} {members:#010x}");
            let why_ended = format!("lane {lane} reads the register of lane {source}, {why}");
            let message = if members >> source & 1 == 0 {
                message
            } else {
                why_ended
            };
            return Err(Trouble::new(FaultKind::IllegalOperand, 1 << lane, message));
        }
        out.0[lane] = values[source as usize];
        in_range |= u32::from(is_in) << lane;
    }
    regs.put32(shuffle.dst, scene.mask, &out);
    if shuffle.in_range != NONE {
        regs.put_predicate(shuffle.in_range, scene.mask, in_range);
    }
    Ok(())
}

fn vote(scene: &mut Scene<'_>, kind: VoteOp, dst: u32, (src, flip): (u32, u32), members: u32) {
    let regs = &mut scene.warp.regs;
    let lanes = members & scene.mask;
    let yes = (regs.predicates[src as usize] ^ flip) & lanes;
    let answer = match kind {
        VoteOp::All => yes == lanes,
        VoteOp::Any => yes != 0,
        VoteOp::Uni => yes == lanes || yes == 0,
        VoteOp::Ballot => return regs.put32(dst, scene.mask, &Lanes32([yes; LANES])),
    };
    regs.put_predicate(dst, scene.mask, if answer { u32::MAX } else { 0 });
}

fn match_lanes(
    scene: &mut Scene<'_>,
    all: bool,
    file: File,
    (dst, second, src): (u32, u32, u32),
    members: u32,
) {
    let regs = &mut scene.warp.regs;
    let lanes = members & scene.mask;
    let values: [u64; LANES] = match file {
        File::Double => regs.doubles[src as usize].0,
        _ => regs.words[src as usize].0.map(u64::from),
    };
    let equal_to = |value: u64| {
        lanes_of(lanes)
            .filter(|&l| values[l] == value)
            .fold(0u32, |all, l| all | 1 << l)
    };
    let mut out = Lanes32([0; LANES]);
    for lane in lanes_of(scene.mask) {
        let equal = equal_to(values[lane]);
        out.0[lane] = if all && equal != lanes { 0 } else { equal };
    }
    let is_uniform = out.0[scene.mask.trailing_zeros() as usize] == lanes;
    regs.put32(dst, scene.mask, &out);
    if second != NONE {
        regs.put_predicate(second, scene.mask, if is_uniform { u32::MAX } else { 0 });
    }
}

fn redux(scene: &mut Scene<'_>, op: ReduxOp, signed: bool, (dst, src): (u32, u32), members: u32) {
    let regs = &mut scene.warp.regs;
    let values = regs.words[src as usize].0;
    let combine = |a: u32, b: u32| match op {
        ReduxOp::Add => a.wrapping_add(b),
        ReduxOp::Min if signed => (a as i32).min(b as i32) as u32,
        ReduxOp::Max if signed => (a as i32).max(b as i32) as u32,
        ReduxOp::Min => a.min(b),
        ReduxOp::Max => a.max(b),
        ReduxOp::And => a & b,
        ReduxOp::Or => a | b,
        ReduxOp::Xor => a ^ b,
    };
    let result = lanes_of(members & scene.mask)
        .map(|lane| values[lane])
        .reduce(combine)
        .unwrap_or(0);
    regs.put32(dst, scene.mask, &Lanes32([result; LANES]));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shuffle_reads_the_lane_that_its_mode_selects() {
        assert_eq!(source_lane(ShflMode::Bfly, 5, 1, 0x1f), (4, true));
        assert_eq!(source_lane(ShflMode::Down, 30, 4, 0x1f), (30, false));
        assert_eq!(source_lane(ShflMode::Down, 3, 4, 0x1f), (7, true));
        assert_eq!(source_lane(ShflMode::Up, 3, 4, 0), (3, false));
        assert_eq!(source_lane(ShflMode::Up, 9, 4, 0), (5, true));
        assert_eq!(source_lane(ShflMode::Idx, 9, 0, 0x1f), (0, true));
        // Segments of eight lanes.
        assert_eq!(source_lane(ShflMode::Idx, 13, 2, 0x181f), (10, true));
        assert_eq!(source_lane(ShflMode::Down, 14, 3, 0x181f), (14, false));
        assert_eq!(source_lane(ShflMode::Up, 9, 2, 0x1800), (9, false));
    }
}
