//! Cases whose instance `cargo tilekit tune` chooses; what it finds is what [`dispatch`](super::dispatch) has records of.

use tilekit::case::Space;
use tilekit::prelude::*;

use super::case_product::{Lies, Product};
use super::epilogue::Plain;
use super::factor::{Operand, ResultOf};
use super::form::Side;
use super::instances::{INSTANCES, Instance};
use super::need::Need;
use super::plan::Plan;

/// Every instance and the tiles of no list that the model says are faster, of which those are legal that can compute what is needed; the model is that of the plan.
fn space(need: Need) -> Space<Instance> {
    let able = move |instance: &Instance| Plan::able(*instance, &need);
    let legal = move |instance: &Instance| match able(instance) {
        Some(_) => Ok(()),
        None => Err(format!(
            "{instance} does not take these operands, or its grid is too large"
        )),
    };
    let predict = move |instance: &Instance| able(instance).map_or(0.0, |plan| plan.microseconds);
    let all = Plan::candidates(&need).into_iter();
    let all = all.map(|(instance, _)| instance);
    let unlisted = all.filter(|instance| !INSTANCES.contains(instance));
    let candidates = INSTANCES.into_iter().chain(unlisted);
    Space::of(candidates).legal(legal).predict(predict)
}

fn tuned<T: Operand, O: ResultOf<T, Addend = O>>(case: &mut Case, lies: Lies) -> CaseResult {
    let product = Product::<T, O>::new(case, lies);
    let need = product.need();
    let instance = case.tune(space(need))?;
    let plan = Plan::able(instance, &need).expect("a legal candidate");
    product.compute(case, (&plan, &[]), Plain, |_, _, sum| sum)
}

#[case(sizes(m = [65, 16, 200], n = [129, 72, 136], k = [136, 520, 72]))]
fn tuned_bf16(case: &mut Case) -> CaseResult {
    tuned::<bf16, bf16>(case, Lies::ALONG_K)
}

#[case(sizes(m = [64, 136], n = [72, 128], k = [136, 200], along_m = [1, 0], along_n = [1, 1]))]
fn tuned_major_bf16(case: &mut Case) -> CaseResult {
    let sides = ["along_m", "along_n"].map(|name| Side {
        is_mn_major: case.size(name) == 1,
        is_batched: false,
        is_settled: false,
    });
    tuned::<bf16, bf16>(case, Lies { sides, batches: 1 })
}

#[case(sizes(m = [72], n = [136], k = [200]))]
fn tuned_e4m3_bf16(case: &mut Case) -> CaseResult {
    tuned::<E4m3, bf16>(case, Lies::ALONG_K)
}
