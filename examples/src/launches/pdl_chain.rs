//! Launches that overlap (programmatic dependent launch): each kernel of a chain lets the next one begin at once, and waits
//! for the one before it only where it needs that one's results. What comes before the wait, here the weights, is read while
//! the launch before still runs.

use tilekit::prelude::*;

/// `out[i] = x[i] * weight[i]` for `i < n`, where the launch before may have written `x` but not `weight`.
#[kernel(warps = 4, instances(<1024>))]
pub fn pdl_chain<const BLOCK: usize>(x: Ptr<f32>, weight: Ptr<f32>, out: Ptr<f32>, n: i32) {
    launch_dependents();
    let at = program_id(0) * BLOCK + arange(0..BLOCK, Coalesced);
    let inside = at < n;
    let weight = weight.at(at).mask(inside).load();
    launch_wait();
    let product = x.at(at).mask(inside).load() * weight;
    out.at(at).mask(inside).store(product);
}

#[case(sizes(n = [1, 3_001, 1 << 20]))]
fn pdl_chain_case(case: &mut Case) -> CaseResult {
    const BLOCK: usize = 1024;
    let n = case.size("n");
    let x = case.normal::<f32>("x", [n]);
    let weight = case.normal::<f32>("weight", [n]);
    let (first, second) = (
        case.output::<f32>("first", [n]),
        case.output::<f32>("second", [n]),
    );
    let programs = n.div_ceil(BLOCK);
    let ends = n as i32;
    case.launch_programmatic(
        pdl_chain::<BLOCK>,
        grid(programs),
        (&x, &weight, &first, ends),
    )?;
    case.launch_programmatic(
        pdl_chain::<BLOCK>,
        grid(programs),
        (&first, &weight, &second, ends),
    )?;
    case.expect(&first, |[i]| x[i] * weight[i], Exactly)?;
    case.expect(&second, |[i]| x[i] * weight[i] * weight[i], Exactly)?;
    case.moves_bytes(2 * 3 * 4 * n);
    Ok(())
}
