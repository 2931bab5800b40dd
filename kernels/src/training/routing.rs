//! Routing of tokens to experts: the gate and its gradient, and where each choice's row stands among those of its expert.

use tilekit::prelude::*;

use super::rows_case::close;

/// The most experts of a token.
const PLACES: usize = 16;

/// Rows of a program of the gate, one for each warp.
const ROWS: usize = 4;

/// What a program of the gate has of its rows: `[ROWS, 1]`, `[1, EXPERTS]` and `[1, PLACES]`, and the softmax of the logits.
struct Gate {
    row: Tensor<i32>,
    col: Tensor<i32>,
    place: Tensor<i32>,
    logits: Tensor<f32>,
    shares: Tensor<f32>,
}

impl Gate {
    #[device]
    fn load<T: Float, const EXPERTS: usize>(
        logits: Ptr<T>,
        row_stride: Scalar<i64>,
        [tokens, experts]: [Scalar<i32>; 2],
    ) -> Gate {
        let tile = Blocked::new([1, 1], [1, 32], [ROWS, 1], [1, 0]);
        let row = program_id(0) * ROWS + arange(0..ROWS, Slice::new(1, tile.clone()));
        let row = row.expand_dims(1);
        let col = arange(0..EXPERTS, Slice::new(0, tile.clone())).expand_dims(0);
        let place = arange(0..PLACES, Slice::new(0, tile)).expand_dims(0);
        let inside = (row < tokens) & (col < experts);
        let at = row.cast::<i64>() * row_stride + col;
        let source = logits.at(at).mask(inside).other(T::NEG_INFINITY);
        let logits = source.load().cast::<f32>();
        let most = logits.max(1).expand_dims(1);
        let e = ((logits - most) * LOG2_E).exp2();
        let shares = e / e.sum(1).expand_dims(1);
        Gate {
            row,
            col,
            place,
            logits,
            shares,
        }
    }
}

/// Integers in the order of logits, all of them above `i32::MIN`: the bits of those that are 0 or more, and of the others in reverse. NaN counts as -inf, and -0 as 0.
#[device]
fn in_order(logits: Tensor<f32>) -> Tensor<i32> {
    let bits = (logits.maximum(f32::NEG_INFINITY) + 0.0).bitcast::<i32>();
    bits ^ ((bits >> 31) & i32::MAX)
}

/// The gate: `chosen[token, :]` has the `k` experts of the largest `logits[token, :]`, the largest first and of equal ones the one with the lowest number, and
/// `weights[token, :]` their softmax over all experts; over the chosen alone if `normalize` is 1. Experts whose logits are -inf or NaN come last. `experts <= EXPERTS`, and `k` is at most 16.
#[kernel(warps = ROWS, instances(<bf16, 64>, <bf16, 256>, <f32, 64>, <f32, 256>), signature(
    logits: [tokens, experts],
    weights: [tokens, k],
    chosen: [tokens, k],
    row_stride = logits.stride(0),
    grid = cdiv(tokens, ROWS),
    requires(experts <= EXPERTS, k <= PLACES, k <= experts),
))]
pub fn route<T: Float, const EXPERTS: usize>(
    logits: Ptr<T>,
    weights: Ptr<f32>,
    chosen: Ptr<i32>,
    row_stride: i64,
    tokens: i32,
    experts: i32,
    k: i32,
    normalize: i32,
) {
    launch_dependents();
    launch_wait();
    let gate = Gate::load::<T, EXPERTS>(logits, row_stride, [tokens, experts]);
    // No logit has the place of what is chosen already and of columns without an expert.
    let mut left = select(gate.col < experts, in_order(gate.logits), i32::MIN);
    let mut found = full_like(gate.place + gate.row, 0);
    let mut shares = full_like(found, 0).cast::<f32>();
    for slot in range(0, k) {
        let best = left.argmax(1).expand_dims(1);
        let is_best = gate.col == best;
        let share = select(is_best, gate.shares, 0.0).sum(1).expand_dims(1);
        let is_slot = gate.place == slot;
        found = select(is_slot, best, found);
        shares = select(is_slot, share, shares);
        left = select(is_best, i32::MIN, left);
    }
    let of_chosen = shares.sum(1).expand_dims(1);
    let is_normalized = full_like(of_chosen, 0.0) + normalize.cast::<f32>() > 0.5;
    let shares = shares / select(is_normalized, of_chosen, 1.0);
    let at = gate.row * k + gate.place;
    let inside = (gate.row < tokens) & (gate.place < k);
    weights.at(at).mask(inside).store(shares);
    chosen.at(at).mask(inside).store(found);
}

/// The gradient of [`route`]: `dlogits` from `dweights`, and `weights` and `chosen` as the gate gave them.
#[kernel(warps = ROWS, instances(<bf16, 64>, <bf16, 256>, <f32, 64>, <f32, 256>), signature(
    logits: [tokens, experts],
    weights: [tokens, k],
    chosen: [tokens, k],
    dweights: [tokens, k],
    dlogits: [tokens, experts],
    row_stride = logits.stride(0),
    grid = cdiv(tokens, ROWS),
    requires(dlogits.stride(0) == logits.stride(0), experts <= EXPERTS, k <= PLACES),
))]
pub fn route_backward<T: Float, const EXPERTS: usize>(
    logits: Ptr<T>,
    weights: Ptr<f32>,
    chosen: Ptr<i32>,
    dweights: Ptr<f32>,
    dlogits: Ptr<T>,
    row_stride: i64,
    tokens: i32,
    experts: i32,
    k: i32,
    normalize: i32,
) {
    launch_dependents();
    launch_wait();
    let gate = Gate::load::<T, EXPERTS>(logits, row_stride, [tokens, experts]);
    let inside = gate.row < tokens;
    let mut along = full_like(gate.shares, 0.0);
    let mut held = full_like(gate.shares, 0.0);
    let mut total = full_like(gate.shares, 0.0).sum(1).expand_dims(1);
    for slot in range(0, k) {
        let at = gate.row * k + slot;
        let expert = chosen.at(at).mask(inside).other(-1).load();
        let [weight, gradient] = [weights, dweights].map(|x| x.at(at).mask(inside).other(0).load());
        let is_chosen = gate.col == expert;
        along = select(is_chosen, weight * gradient, along);
        held = select(is_chosen, weight, held);
        total += weight * gradient;
    }
    // What the weights sum up to depends on all logits, or on those of the chosen.
    let is_normalized = full_like(gate.shares, 0.0) + normalize.cast::<f32>() > 0.5;
    let shares = select(is_normalized, held, gate.shares);
    let at = gate.row.cast::<i64>() * row_stride + gate.col;
    let target = dlogits.at(at).mask(inside & (gate.col < experts));
    target.store((along - shares * total).cast::<T>());
}

/// Choices that a program looks at together.
const TILE: usize = 4096;

/// Sorts choices by expert, and by their order in `chosen` where experts are equal. The rows of expert `e` are `offsets[e]..offsets[e + 1]`: `token[row]` is the token of a row
/// and `place[choice]` the row of a choice, -1 for one whose expert is outside of `0..experts`, which has none. A program for each expert, of which there is
/// one at least, reads all choices twice; the same choices give the same rows.
#[kernel(warps = 8, signature(
    chosen: [tokens, k],
    token: [choices],
    place: [tokens, k],
    offsets: [ends],
    grid = experts,
    requires(choices == tokens * k, experts > 0, ends == experts + 1),
))]
pub fn place_by_expert(
    chosen: Ptr<i32>,
    token: Ptr<i64>,
    place: Ptr<i32>,
    offsets: Ptr<i32>,
    choices: i32,
    k: i32,
    experts: i32,
) {
    launch_dependents();
    launch_wait();
    let expert = program_id(0);
    let lane = arange(0..TILE, Blocked::new([4], [32], [8], [0]));
    let read = |first: Scalar<i32>| {
        let at = lane + first;
        (at, chosen.at(at).mask(at < choices).other(-1).load())
    };
    let mut before = scalar(0);
    for first in range(0, choices).step(TILE) {
        let (at, of) = read(first);
        before += ((of >= 0) & (of < expert)).cast::<i32>().sum(0).scalar();
        let has_none = (at < choices) & ((of < 0) | (of >= experts)) & (expert == 0);
        place.at(at).mask(has_none).store(full_like(at, -1));
    }
    offsets.at(expert).store(before);
    let mut next = before;
    for first in range(0, choices).step(TILE) {
        let (at, of) = read(first);
        let is_own = of == expert;
        let (rank, count) = is_own.cast::<i32>().cumsum_with_total(0);
        let row = next + rank - 1;
        place.at(at).mask(is_own).store(row);
        token.at(row).mask(is_own).store((at / k).cast::<i64>());
        next += count.scalar();
    }
    offsets
        .at(expert + 1)
        .mask(expert == experts - 1)
        .store(next);
}

/// What a gate of a case gives: of each token the experts, and all shares.
fn chosen_on_host(logits: &[f64], k: usize) -> (Vec<usize>, Vec<f64>) {
    let most = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let e: Vec<f64> = logits.iter().map(|v| (v - most).exp()).collect();
    let total: f64 = e.iter().sum();
    // NaN ranks as -inf.
    let rank = |expert: usize| logits[expert].max(f64::NEG_INFINITY);
    let mut order: Vec<usize> = (0..logits.len()).collect();
    order.sort_by(|&a, &b| rank(b).total_cmp(&rank(a)));
    order.truncate(k);
    (order, e.iter().map(|e| e / total).collect())
}

/// Logits of a case and what the gate makes of them.
struct GateCase<T> {
    logits: Input<T>,
    tokens: usize,
    experts: usize,
    k: usize,
    normalize: bool,
}

impl<T: Float + DeviceElement> GateCase<T> {
    fn new(case: &mut Case) -> Self {
        Self::masked(case, |_| false)
    }

    /// Some experts have no logits: -inf for tokens of even numbers, NaN for the others. One that has one has the least there is, which stands before them.
    fn masked(case: &mut Case, is_masked: fn(usize) -> bool) -> Self {
        let (tokens, experts) = (case.size("tokens"), case.size("experts"));
        // 7 has no factor in common with the number of experts, and the numbers are exact in bf16.
        let logits = case.input::<T>("logits", [tokens, experts], move |at| {
            let (token, expert) = (at / experts, at % experts);
            let step = (expert * 7 + token * 3) % experts;
            let logit = match (is_masked(expert), token % 2) {
                (false, _) if is_masked(0) && expert == 5 => f64::from(f32::MIN),
                (false, _) => step as f64 * 0.0625 - 2.0,
                (true, 0) => f64::NEG_INFINITY,
                (true, _) => f64::NAN,
            };
            T::nearest(Number::Float(logit)).expect("a float")
        });
        GateCase {
            logits,
            tokens,
            experts,
            k: case.size("k"),
            normalize: case.size("normalize") == 1,
        }
    }

    fn row(&self, token: usize) -> Vec<f64> {
        let row = &self.logits.host()[token * self.experts..][..self.experts];
        row.iter().map(|v| v.number().to_f64()).collect()
    }

    /// The experts of a token, their weights and all shares.
    fn gate(&self, token: usize) -> (Vec<usize>, Vec<f64>, Vec<f64>) {
        let (chosen, shares) = chosen_on_host(&self.row(token), self.k);
        let held: Vec<f64> = chosen.iter().map(|&expert| shares[expert]).collect();
        let total: f64 = if self.normalize {
            held.iter().sum()
        } else {
            1.0
        };
        (chosen, held.iter().map(|w| w / total).collect(), shares)
    }

    fn extents(&self) -> (i64, i32, i32, i32, i32) {
        let [tokens, experts, k] = [self.tokens, self.experts, self.k].map(|x| x as i32);
        (
            self.experts as i64,
            tokens,
            experts,
            k,
            self.normalize.into(),
        )
    }
}

fn route_of<T: Float + DeviceElement, const EXPERTS: usize>(
    case: &mut Case,
    gate: &GateCase<T>,
) -> CaseResult {
    let shape = [gate.tokens, gate.k];
    let (weights, chosen) = (
        case.output::<f32>("weights", shape),
        case.output::<i32>("chosen", shape),
    );
    let (stride, tokens, experts, k, normalize) = gate.extents();
    let arguments = (
        &gate.logits,
        &weights,
        &chosen,
        stride,
        tokens,
        experts,
        k,
        normalize,
    );
    let programs = gate.tokens.div_ceil(ROWS);
    case.launch_programmatic(route::<T, EXPERTS>, programs, arguments)?;
    let all = || (0..gate.tokens).map(|token| gate.gate(token));
    case.expect_all(
        &chosen,
        || {
            all()
                .flat_map(|(chosen, ..)| chosen)
                .map(|e| e as i64)
                .collect::<Vec<i64>>()
        },
        Exactly,
    )?;
    case.expect_all(
        &weights,
        || {
            all()
                .flat_map(|(_, weights, _)| weights)
                .collect::<Vec<f64>>()
        },
        close::<f32>(1e-7),
    )?;
    case.moves_bytes(gate.tokens * gate.experts * size_of::<T>());
    Ok(())
}

#[case(sizes(tokens = [13, 5, 6], experts = [64, 33, 8], k = [2, 8, 8], normalize = [1, 0, 1]))]
fn route_bf16(case: &mut Case) -> CaseResult {
    let gate = GateCase::new(case);
    route_of::<bf16, 64>(case, &gate)
}

#[case(sizes(tokens = [7], experts = [200], k = [16, 1], normalize = [1, 0]))]
fn route_f32(case: &mut Case) -> CaseResult {
    let gate = GateCase::new(case);
    route_of::<f32, 256>(case, &gate)
}

/// Fewer experts than are chosen have logits, and each is chosen once.
#[case(sizes(tokens = [5, 3], experts = [33, 64], k = [8, 16], normalize = [0, 1]))]
fn route_masked(case: &mut Case) -> CaseResult {
    let gate = GateCase::masked(case, |expert| expert % 16 != 5);
    route_of::<bf16, 64>(case, &gate)
}

#[case(sizes(tokens = [5], experts = [33], k = [8], normalize = [0]))]
fn route_masked_f32(case: &mut Case) -> CaseResult {
    let gate = GateCase::masked(case, |expert| expert % 16 != 5);
    route_of::<f32, 64>(case, &gate)
}

fn route_backward_of<T: Float + DeviceElement, const EXPERTS: usize>(
    case: &mut Case,
) -> CaseResult {
    let gate = GateCase::<T>::new(case);
    let shape = [gate.tokens, gate.k];
    let k = gate.k;
    let rows: Vec<(Vec<usize>, Vec<f64>, Vec<f64>)> =
        (0..gate.tokens).map(|token| gate.gate(token)).collect();
    let (of_weights, of_chosen) = (rows.clone(), rows.clone());
    let weights = case.input::<f32>("weights", shape, move |at| {
        of_weights[at / k].1[at % k] as f32
    });
    let chosen = case.input::<i32>("chosen", shape, move |at| {
        of_chosen[at / k].0[at % k] as i32
    });
    let dweights = case.normal::<f32>("dweights", shape);
    let dlogits = case.output::<T>("dlogits", [gate.tokens, gate.experts]);
    let (stride, tokens, experts, _, normalize) = gate.extents();
    let arguments = (
        &gate.logits,
        &weights,
        &chosen,
        &dweights,
        &dlogits,
        stride,
        tokens,
        experts,
        k as i32,
        normalize,
    );
    let programs = gate.tokens.div_ceil(ROWS);
    case.launch_programmatic(route_backward::<T, EXPERTS>, programs, arguments)?;
    let reference = || {
        let of_token = |token: usize| {
            let (chosen, weights, shares) = &rows[token];
            let gradients = &dweights.host()[token * k..][..k];
            let terms: Vec<f64> = weights
                .iter()
                .zip(gradients)
                .map(|(w, g)| w * f64::from(*g))
                .collect();
            let total: f64 = terms.iter().sum();
            let slot_of = |expert: usize| chosen.iter().position(|&other| other == expert);
            (0..gate.experts)
                .map(|expert| {
                    let slot = slot_of(expert);
                    let share = if gate.normalize {
                        slot.map_or(0.0, |slot| weights[slot])
                    } else {
                        shares[expert]
                    };
                    slot.map_or(0.0, |slot| terms[slot]) - share * total
                })
                .collect::<Vec<f64>>()
        };
        (0..gate.tokens).flat_map(of_token).collect::<Vec<f64>>()
    };
    case.expect_all(&dlogits, reference, close::<T>(1e-6))?;
    case.moves_bytes(2 * gate.tokens * gate.experts * size_of::<T>());
    Ok(())
}

#[case(sizes(tokens = [13, 5], experts = [64, 33], k = [2, 8], normalize = [1, 0]))]
fn route_backward_bf16(case: &mut Case) -> CaseResult {
    route_backward_of::<bf16, 64>(case)
}

#[case(sizes(tokens = [7], experts = [200], k = [16, 1], normalize = [1, 0]))]
fn route_backward_f32(case: &mut Case) -> CaseResult {
    route_backward_of::<f32, 256>(case)
}

#[case(sizes(tokens = [5000, 3], experts = [9, 5], k = [2, 1]))]
fn places_by_expert(case: &mut Case) -> CaseResult {
    let (tokens, experts, k) = (case.size("tokens"), case.size("experts"), case.size("k"));
    let choices = tokens * k;
    // Expert 3 has no choice, and some choices have no expert.
    let of = move |choice: usize| match choice % 11 {
        0 => -1,
        1 => experts as i32,
        rest => {
            let expert = (choice / 7 + rest) % experts;
            (if expert == 3 { 4 } else { expert }) as i32
        }
    };
    let chosen = case.input::<i32>("chosen", [tokens, k], of);
    let token = case.output::<i64>("token", [choices]);
    let place = case.output::<i32>("place", [tokens, k]);
    let offsets = case.output::<i32>("offsets", [experts + 1]);
    let [n, of_token, count] = [choices, k, experts].map(|x| x as i32);
    let arguments = (&chosen, &token, &place, &offsets, n, of_token, count);
    case.launch_programmatic(place_by_expert, experts, arguments)?;
    let of_expert = |expert: usize| (0..choices).filter(move |&c| of(c) == expert as i32);
    let sorted: Vec<usize> = (0..experts).flat_map(of_expert).collect();
    let places = || {
        let mut places = vec![-1_i64; choices];
        for (row, &choice) in sorted.iter().enumerate() {
            places[choice] = row as i64;
        }
        places
    };
    case.expect_all(&place, places, Exactly)?;
    let ends = || {
        let below = |expert: usize| sorted.iter().filter(|&&c| of(c) < expert as i32).count();
        (0..=experts)
            .map(|expert| below(expert) as i64)
            .collect::<Vec<i64>>()
    };
    case.expect_all(&offsets, ends, Exactly)?;
    let tokens_of = || sorted.iter().map(|&c| (c / k) as i64).collect::<Vec<i64>>();
    case.expect_part(&token, [sorted.len()], tokens_of, Exactly)?;
    case.moves_bytes(choices * 16);
    Ok(())
}
