//! Ops whose emission is being built.

#![allow(clippy::wildcard_imports, reason = "the list below names the ops")]

use gluon_lang::diag::{Code as ErrorCode, Diagnostic};
use gluon_lang::entity::Inst;
use gluon_lang::ops::{atomic::SmemAtomicScatter, shared::*};

use super::{Emitted, Emitter, Lower};

macro_rules! pending {
    ($($op:ident)*) => {
        $(impl Lower for $op {
            fn lower(&self, inst: Inst, cx: &mut Emitter<'_>) -> Emitted {
                let place = cx.func.place(inst);
                Err(Diagnostic::error(ErrorCode::BrokenRule, place, concat!(stringify!($op), " is not emitted")))
            }
        })*
    };
}

pending! { SmemAtomicScatter }
pending! { SmemGather SmemScatter }
