//! Where the paths of a branch reconverge, the immediate postdominator of its block; and loops that poll.

use crate::program::{AccessSpace, AtomicOp, NONE, Op, Step};

/// Fills in the `join` of every branch.
pub(crate) fn set_joins(steps: &mut [Step]) {
    let graph = Graph::new(steps);
    let dominators = graph.immediate_postdominators();
    for (block, &end) in graph.ends.iter().enumerate() {
        if let Op::Branch { join, .. } = &mut steps[end as usize].op {
            let meeting = dominators[block];
            *join = if meeting < graph.starts.len() {
                graph.starts[meeting]
            } else {
                NONE
            };
        }
    }
}

/// Does a loop read global memory by strong loads or by compare-and-swap? That is how a CTA waits for another one, which the programming model allows
/// where the other is resident or sure to become so.
pub(crate) fn polls_global(steps: &[Step]) -> bool {
    let is_global = |space| matches!(space, AccessSpace::Global | AccessSpace::Generic);
    let is_poll = |step: &Step| match &step.op {
        Op::Load(access) => access.strong.is_some() && is_global(access.space),
        Op::Atomic(atomic) => atomic.op == AtomicOp::CompareSwap && is_global(atomic.space),
        _ => false,
    };
    let mut polls = steps.iter().enumerate().filter(|(_, step)| is_poll(step));
    polls.any(|(at, _)| {
        let mut after = steps[at..].iter();
        after.any(|step| matches!(step.op, Op::Branch { target, .. } if target as usize <= at))
    })
}

/// Basic blocks; the block after the last one stands for the end of the thread.
struct Graph {
    starts: Vec<u32>,
    /// Last step of each block.
    ends: Vec<u32>,
    successors: Vec<Vec<usize>>,
}

/// Postdominator of a block from which the end cannot be reached.
const UNREACHED: usize = usize::MAX;

impl Graph {
    fn new(steps: &[Step]) -> Self {
        let mut is_start = vec![false; steps.len() + 1];
        is_start[0] = true;
        for (index, step) in steps.iter().enumerate() {
            match step.op {
                Op::Branch { target, .. } => {
                    is_start[target as usize] = true;
                    is_start[index + 1] = true;
                }
                Op::Exit | Op::Trap => is_start[index + 1] = true,
                _ => {}
            }
        }
        let starts: Vec<u32> = (0..steps.len())
            .filter(|&i| is_start[i])
            .map(|i| i as u32)
            .collect();
        let ends: Vec<u32> = (0..starts.len())
            .map(|block| starts.get(block + 1).copied().unwrap_or(steps.len() as u32) - 1)
            .collect();
        let block_of = |step: u32| starts.partition_point(|&start| start <= step) - 1;
        let finish = starts.len();
        let successors = ends
            .iter()
            .enumerate()
            .map(|(block, &end)| {
                let step = &steps[end as usize];
                let is_guarded = step.guard != 0 || step.flip != 0;
                let next = (block + 1).min(finish);
                match step.op {
                    Op::Branch { target, .. } if is_guarded => vec![block_of(target), next],
                    Op::Branch { target, .. } => vec![block_of(target)],
                    Op::Exit | Op::Trap if is_guarded => vec![finish, next],
                    Op::Exit | Op::Trap => vec![finish],
                    _ => vec![next],
                }
            })
            .collect();
        Self {
            starts,
            ends,
            successors,
        }
    }

    /// Cooper, Harvey and Kennedy's algorithm on the reversed graph.
    fn immediate_postdominators(&self) -> Vec<usize> {
        let finish = self.starts.len();
        let (order, number) = self.reverse_postorder();
        let mut dominator = vec![UNREACHED; finish + 1];
        dominator[finish] = finish;
        let mut changed = true;
        while changed {
            changed = false;
            for &block in order.iter().skip(1) {
                let reached = self.successors[block]
                    .iter()
                    .copied()
                    .filter(|&s| dominator[s] != UNREACHED);
                let meeting = reached.reduce(|a, b| intersect(&dominator, &number, a, b));
                if let Some(meeting) = meeting
                    && dominator[block] != meeting
                {
                    dominator[block] = meeting;
                    changed = true;
                }
            }
        }
        dominator.truncate(finish);
        dominator
    }

    /// Blocks in reverse postorder of the reversed graph, from the end of the thread, and the number of each.
    fn reverse_postorder(&self) -> (Vec<usize>, Vec<usize>) {
        let finish = self.starts.len();
        let mut predecessors = vec![Vec::new(); finish + 1];
        for (block, successors) in self.successors.iter().enumerate() {
            for &successor in successors {
                predecessors[successor].push(block);
            }
        }
        let mut seen = vec![false; finish + 1];
        seen[finish] = true;
        let mut order = Vec::with_capacity(finish + 1);
        let mut stack = vec![(finish, 0)];
        while let Some((block, next)) = stack.pop() {
            match predecessors[block].get(next) {
                Some(&predecessor) => {
                    stack.push((block, next + 1));
                    if !seen[predecessor] {
                        seen[predecessor] = true;
                        stack.push((predecessor, 0));
                    }
                }
                None => order.push(block),
            }
        }
        order.reverse();
        let mut number = vec![usize::MAX; finish + 1];
        for (index, &block) in order.iter().enumerate() {
            number[block] = index;
        }
        (order, number)
    }
}

fn intersect(dominator: &[usize], number: &[usize], a: usize, b: usize) -> usize {
    let (mut a, mut b) = (a, b);
    while a != b {
        while number[a] > number[b] {
            a = dominator[a];
        }
        while number[b] > number[a] {
            b = dominator[b];
        }
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(op: Op, is_guarded: bool) -> Step {
        Step {
            guard: u32::from(is_guarded),
            flip: 0,
            watch: NONE,
            fragments: NONE,
            op,
        }
    }

    fn branch(target: u32) -> Op {
        Op::Branch { target, join: NONE }
    }

    fn check(steps: Vec<Step>, expected: &[(usize, u32)]) {
        let mut steps = steps;
        set_joins(&mut steps);
        for &(index, expected) in expected {
            let Op::Branch { join, .. } = steps[index].op else {
                panic!("step {index} is no branch")
            };
            assert_eq!(join, expected, "step {index}");
        }
    }

    #[test]
    fn if_and_else_reconverge_at_their_join() {
        let nop = || step(Op::Nothing, false);
        check(
            vec![
                step(branch(3), true),
                nop(),
                step(branch(4), false),
                nop(),
                nop(),
                step(Op::Exit, false),
            ],
            &[(0, 4), (2, 4)],
        );
    }

    #[test]
    fn the_paths_of_a_loop_reconverge_after_it() {
        let nop = || step(Op::Nothing, false);
        check(
            vec![
                nop(),
                nop(),
                step(branch(1), true),
                nop(),
                step(Op::Exit, false),
            ],
            &[(2, 3)],
        );
    }

    #[test]
    fn paths_that_exit_do_not_reconverge() {
        check(
            vec![
                step(branch(2), true),
                step(Op::Exit, false),
                step(Op::Exit, false),
            ],
            &[(0, NONE)],
        );
        check(
            vec![step(branch(0), false), step(Op::Exit, false)],
            &[(0, NONE)],
        );
    }
}
