//! Atomic operations and reductions on memory.

use super::decoder::{Decoded, Decoder};
use crate::program::{Atomic, AtomicOp, Op, Strong};
use ptx::{AccessSem, Atom, AtomOp, Operand, Red, Scope, Space, Type, Values, Visit};
use smallvec::SmallVec;

pub(crate) fn operation(op: AtomOp) -> AtomicOp {
    match op {
        AtomOp::Add | AtomOp::AddNoFtz => AtomicOp::Add,
        AtomOp::Min | AtomOp::MinNoFtz => AtomicOp::Min,
        AtomOp::Max | AtomOp::MaxNoFtz => AtomicOp::Max,
        AtomOp::Inc => AtomicOp::Inc,
        AtomOp::Dec => AtomicOp::Dec,
        AtomOp::And => AtomicOp::And,
        AtomOp::Or => AtomicOp::Or,
        AtomOp::Xor => AtomicOp::Xor,
        AtomOp::Exch => AtomicOp::Exchange,
        AtomOp::Cas => AtomicOp::CompareSwap,
    }
}

fn is_known(op: AtomicOp, ty: Type) -> bool {
    match op {
        AtomicOp::Add => matches!(
            ty,
            Type::U32
                | Type::S32
                | Type::U64
                | Type::S64
                | Type::F32
                | Type::F64
                | Type::F16
                | Type::Bf16
                | Type::F16x2
                | Type::Bf16x2
        ),
        AtomicOp::Min | AtomicOp::Max => matches!(
            ty,
            Type::U32
                | Type::S32
                | Type::U64
                | Type::S64
                | Type::F16
                | Type::Bf16
                | Type::F16x2
                | Type::Bf16x2
        ),
        AtomicOp::Inc | AtomicOp::Dec => ty == Type::U32,
        AtomicOp::And | AtomicOp::Or | AtomicOp::Xor => matches!(ty, Type::B32 | Type::B64),
        AtomicOp::Exchange => matches!(ty, Type::B32 | Type::B64),
        AtomicOp::CompareSwap => matches!(ty, Type::B16 | Type::B32 | Type::B64),
    }
}

impl Visit<Atom> for Decoder<'_> {
    fn visit(&mut self, i: &Atom) -> Decoded {
        let dsts = i.dst.0.iter().map(|dest| {
            dest.reg()
                .map(|reg| self.cell(Operand::Reg(reg), i.ty))
                .transpose()
        });
        let dsts = dsts.collect::<Decoded<SmallVec<[_; 4]>>>()?;
        let atomic = self.atomic((i.sem, i.scope), (i.space, i.addr), i.op, i.ty, &i.b, i.c)?;
        self.push(Op::Atomic(Box::new(Atomic { dsts, ..atomic })));
        Ok(())
    }
}

impl Visit<Red> for Decoder<'_> {
    fn visit(&mut self, i: &Red) -> Decoded {
        let atomic = self.atomic((i.sem, i.scope), (i.space, i.addr), i.op, i.ty, &i.b, None)?;
        self.push(Op::Atomic(Box::new(atomic)));
        Ok(())
    }
}

impl Decoder<'_> {
    fn atomic(
        &mut self,
        (sem, scope): (Option<AccessSem>, Option<Scope>),
        (space, addr): (Option<Space>, ptx::Addr),
        op: AtomOp,
        ty: Type,
        sources: &Values,
        swap: Option<Operand>,
    ) -> Decoded<Atomic> {
        let operation = operation(op);
        if !is_known(operation, ty) {
            return Err(format!(
                "there is no atomic {} on .{}",
                op.text(),
                ty.text()
            ));
        }
        if (operation == AtomicOp::CompareSwap) != swap.is_some() {
            return Err("only cas has a third operand".to_owned());
        }
        let (space, base) = self.address(space, addr)?;
        let sources = self.source_cells(sources, ty)?;
        let swap = swap.map(|value| self.cell(value, ty)).transpose()?;
        let dsts = SmallVec::from_elem(None, sources.len());
        Ok(Atomic {
            space,
            base,
            op: operation,
            ty,
            // Without more they are relaxed and atomic for the GPU (PTX ISA 9.7.13.5).
            strong: Strong::of(
                sem.unwrap_or(AccessSem::Relaxed),
                scope.unwrap_or(Scope::Gpu),
            ),
            dsts,
            sources,
            swap,
        })
    }
}
