//! Accesses and checks whose condition is known.
//!
//! Matches on ops: what is left of an op whose mask or condition is known is another op of its kind.

use cranelift_entity::packed_option::PackedOption;
use ir::Func;
use ir::ops::Op;
use ir::ops::global::{Load, Store};

use super::outcome::Outcome;

/// A mask that is true everywhere goes; one that is false everywhere takes the access with it.
pub(super) fn without_mask(func: &Func, op: &Op) -> Option<Outcome> {
    match op {
        Op::Load(load) => {
            let mask = func.constant_int(load.mask.expand()?)?;
            if mask != 0 {
                let none = PackedOption::default();
                return Some(Outcome::Op(
                    Load {
                        mask: none,
                        other: none,
                        ..load.clone()
                    }
                    .into(),
                ));
            }
            load.other.expand().map(Outcome::value)
        }
        Op::Store(store) => {
            let mask = func.constant_int(store.mask.expand()?)?;
            if mask == 0 {
                return Some(Outcome::Nothing);
            }
            Some(Outcome::Op(
                Store {
                    mask: PackedOption::default(),
                    ..store.clone()
                }
                .into(),
            ))
        }
        Op::Assume(op) => (func.constant_int(op.condition)? != 0).then_some(Outcome::Nothing),
        Op::Assert(op) => (func.constant_int(op.condition)? != 0).then_some(Outcome::Nothing),
        _ => None,
    }
}
