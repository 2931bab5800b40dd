//! Loads of operands that no launch in front writes: they need not wait for it.

use tilekit::prelude::*;

use super::form::Side;

/// Loads one operand of a step into the stage.
pub(super) type Load<'a, S> = &'a dyn Fn(Scalar<i32>, &Filling<S>);

/// Whether nothing is read of what a launch in front may write. Then results wait for it instead.
pub(super) fn are_settled(sides: [Side; 2]) -> bool {
    sides.iter().all(|side| side.is_settled)
}

/// Loads the steps from `first` to `end`, each `by`-th, of the one tile of a program into a ring of so many stages. Where one operand alone is settled, it is loaded as far as there are stages before the launch in
/// front has ended, and the other one behind that into the same stages.
#[device]
pub(super) fn load_steps<P: Payload>(
    (pipeline, stages): (Pipeline<P>, usize),
    sides: [Side; 2],
    (first, end, by): (Scalar<i32>, Scalar<i32>, usize),
    load: [Load<'_, P::Stage>; 2],
) -> PipelineState {
    if sides[0].is_settled == sides[1].is_settled {
        if !sides[0].is_settled {
            launch_wait();
        }
        return load_both(pipeline, pipeline.start(), (first, end, by), load);
    }
    let (settled, other) = if sides[0].is_settled { (0, 1) } else { (1, 0) };
    let ahead = minimum(cdiv(maximum(end - first, 0), by), stages as i32);
    let mut at = pipeline.start();
    for index in range(0, ahead) {
        let stage = pipeline.producer_acquire(at);
        load[settled](first + index * by, &stage);
        at = pipeline.commit(stage).advance();
    }
    launch_wait();
    let mut again = pipeline.start();
    for index in range(0, ahead) {
        let stage = pipeline.producer_resume(again);
        load[other](first + index * by, &stage);
        again = pipeline.commit(stage).advance();
    }
    load_both(pipeline, at, (first + ahead * by, end, by), load)
}

/// Loads both operands of these steps, from this stage on.
#[device]
fn load_both<P: Payload>(
    pipeline: Pipeline<P>,
    mut at: PipelineState,
    (first, end, by): (Scalar<i32>, Scalar<i32>, usize),
    load: [Load<'_, P::Stage>; 2],
) -> PipelineState {
    for step in range(first, end).step(by) {
        let stage = pipeline.producer_acquire(at);
        load[0](step, &stage);
        load[1](step, &stage);
        at = pipeline.commit(stage).advance();
    }
    at
}
