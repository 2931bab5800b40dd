//! Masks that end: along a dimension they hold up to some element and not after it, as `index < bound` does.
//!
//! A run of such a mask holds whole where its last element holds, which saves every other comparison of the run. It is
//! claimed only where it follows from the facts about both sides, wrapping included: everything else is requested each
//! element.
//!
//! Matches on ops: a mask that ends is a pattern of comparisons and conjunctions.

use ir::Func;
use ir::entity::Value;
use ir::ops::Op;
use ir::ops::arith::{BinaryOp, Compare, CompareOp};

use super::axis::Axes;

/// Does every aligned run of `len` elements of `mask` along `dim` hold up to some element and not after it?
pub fn ends_within_runs(func: &Func, axes: &Axes, mask: Value, dim: usize, len: u32) -> bool {
    if axes.constancy(mask, dim) >= len {
        return true;
    }
    let Some(inst) = func.def_inst(mask) else {
        return false;
    };
    match func.op(inst) {
        Op::Compare(compare) => compare_ends(axes, compare, dim, len),
        Op::Binary(both) if both.op == BinaryOp::And => {
            ends_within_runs(func, axes, both.lhs, dim, len)
                && ends_within_runs(func, axes, both.rhs, dim, len)
        }
        Op::Broadcast(broadcast) => ends_within_runs(func, axes, broadcast.operand, dim, len),
        Op::ExpandDims(expand) => {
            let axis = expand.axis as usize;
            let inner = if dim < axis { dim } else { dim - 1 };
            // Along the new dimension there is one element, which the constancy above has covered.
            dim != axis && ends_within_runs(func, axes, expand.operand, inner, len)
        }
        _ => false,
    }
}

fn compare_ends(axes: &Axes, compare: &Compare, dim: usize, len: u32) -> bool {
    let (rising, bound) = match compare.op {
        CompareOp::Lt | CompareOp::Le => (compare.lhs, compare.rhs),
        CompareOp::Gt | CompareOp::Ge => (compare.rhs, compare.lhs),
        CompareOp::Eq | CompareOp::Ne => return false,
    };
    // A run that begins at a multiple of its length has no number in it at which its type wraps.
    let counts_up = axes.contiguity(rising, dim) >= len && axes.divisibility(rising, dim) >= len;
    counts_up && axes.constancy(bound, dim) >= len
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test::read;

    /// Runs of `len` of the mask that `body` calls `%m` end as claimed. `%i` counts from 0, `%at` from a multiple of 8
    /// that nobody knows, `%n` is equal everywhere.
    #[track_caller]
    fn check(body: &str, len: u32, expected: bool) {
        let text = format!(
            "
            #b = Blocked([8], [32], [4], [0])
            kernel @k(%n0: i32, %k0: i32, %start: i32 {{divisor=8}}, %x: ptr<i1>) warps(4) {{
              %i = arange {{start=0, end=1024}} : tensor<1024xi32, #b>
              %starts = splat %start : tensor<1024xi32, #b>
              %at = binary %starts, %i {{op=add}} : tensor<1024xi32, #b>
              %n = splat %n0 : tensor<1024xi32, #b>
              %k = splat %k0 : tensor<1024xi32, #b>
              {body}
              return
            }}"
        );
        let func = read(&text);
        let named = |name: &str| func.values().find(|v| func.name(*v) == Some(name));
        let mask = named("m").expect("the body makes `%m`");
        let found = ends_within_runs(&func, &Axes::of(&func), mask, 0, len);
        assert_eq!(found, expected, "of {len} in {body}");
    }

    fn compare(lhs: &str, op: &str, rhs: &str) -> String {
        format!("%m = compare %{lhs}, %{rhs} {{op={op}}} : tensor<1024xi1, #b>")
    }

    #[test]
    fn an_index_below_a_bound_ends() {
        for (lhs, op, rhs) in [
            ("i", "lt", "n"),
            ("at", "le", "n"),
            ("n", "gt", "at"),
            ("n", "ge", "i"),
        ] {
            check(&compare(lhs, op, rhs), 8, true);
        }
        // From 8 on, where a run begins is not known: it may begin right before the end of the type.
        check(&compare("at", "lt", "n"), 16, false);
        check(&compare("i", "lt", "n"), 16, true);
    }

    #[test]
    fn what_begins_or_skips_does_not_end() {
        for (lhs, op, rhs) in [
            ("i", "gt", "n"),
            ("i", "ge", "n"),
            ("n", "lt", "i"),
            ("i", "ne", "n"),
            ("i", "eq", "n"),
        ] {
            check(&compare(lhs, op, rhs), 8, false);
        }
        // Both sides count, so neither is a bound.
        check(&compare("i", "lt", "at"), 8, false);
    }

    #[test]
    fn an_index_that_may_wrap_within_a_run_does_not_end() {
        check(
            "%s = binary %i, %k {op=add} : tensor<1024xi32, #b>
              %m = compare %s, %n {op=lt} : tensor<1024xi1, #b>",
            8,
            false,
        );
        check(
            "%iu = cast %i : tensor<1024xu32, #b>
              %ku = cast %k : tensor<1024xu32, #b>
              %nu = cast %n : tensor<1024xu32, #b>
              %s = binary %iu, %ku {op=sub} : tensor<1024xu32, #b>
              %m = compare %s, %nu {op=lt} : tensor<1024xi1, #b>",
            8,
            false,
        );
        check(
            "%s = binary %i, %k {op=add} : tensor<1024xi32, #b>
              %w = cast %s : tensor<1024xi64, #b>
              %nw = cast %n : tensor<1024xi64, #b>
              %m = compare %w, %nw {op=lt} : tensor<1024xi1, #b>",
            8,
            false,
        );
    }

    #[test]
    fn masks_are_combined_only_as_far_as_that_follows() {
        let both = |op: &str| {
            format!(
                "%l = compare %i, %n {{op=lt}} : tensor<1024xi1, #b>
              %r = compare %at, %k {{op=lt}} : tensor<1024xi1, #b>
              %m = binary %l, %r {{op={op}}} : tensor<1024xi1, #b>"
            )
        };
        check(&both("and"), 8, true);
        check(&both("xor"), 8, false);
        check(&both("or"), 8, false);
        check(
            "%l = compare %i, %n {op=lt} : tensor<1024xi1, #b>
              %m = unary %l {op=not} : tensor<1024xi1, #b>",
            8,
            false,
        );
        check(
            "%l = compare %i, %n {op=lt} : tensor<1024xi1, #b>
              %r = compare %i, %k {op=lt} : tensor<1024xi1, #b>
              %m = select %l, %l, %r : tensor<1024xi1, #b>",
            8,
            false,
        );
        check(
            "%xs = splat %x : tensor<1024xptr<i1>, #b>
              %p = ptr_add %xs, %i : tensor<1024xptr<i1>, #b>
              %m = load %p : tensor<1024xi1, #b>",
            8,
            false,
        );
    }

    #[test]
    fn what_is_equal_in_every_run_ends() {
        check(&compare("n", "ne", "k"), 1024, true);
        // `i / 8` is equal eight times over.
        check(
            "%c = constant {value=3} : tensor<1024xi32, #b>
              %s = binary %i, %c {op=shr} : tensor<1024xi32, #b>
              %m = compare %s, %k {op=ne} : tensor<1024xi1, #b>",
            8,
            true,
        );
        check(
            "%c = constant {value=3} : tensor<1024xi32, #b>
              %s = binary %i, %c {op=shr} : tensor<1024xi32, #b>
              %m = compare %s, %k {op=ne} : tensor<1024xi1, #b>",
            16,
            false,
        );
    }

    #[test]
    fn rows_and_columns_of_a_tile_end_along_their_own_dimension() {
        let text = "
            #p = Blocked([1, 8], [4, 8], [4, 1], [1, 0])
            #c = Slice(0, Blocked([1, 8], [4, 8], [4, 1], [1, 0]))
            kernel @k(%n: i32, %s: i32) warps(4) {
              %i = arange {start=0, end=64} : tensor<64xi32, #c>
              %ns = splat %n : tensor<64xi32, #c>
              %inside = compare %i, %ns {op=lt} : tensor<64xi1, #c>
              %e = expand_dims %inside {axis=0} : tensor<1x64xi1, #p>
              %m = broadcast %e : tensor<16x64xi1, #p>
              return
            }";
        let func = read(text);
        let mask = func.values().find(|v| func.name(*v) == Some("m"));
        let mask = mask.expect("the kernel makes `%m`");
        let axes = Axes::of(&func);
        assert!(ends_within_runs(&func, &axes, mask, 1, 8));
        assert!(
            ends_within_runs(&func, &axes, mask, 0, 16),
            "all rows are alike"
        );
    }
}
