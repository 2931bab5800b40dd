//! Stores and reductions to other CTAs of the cluster (`st.async`, `red.async`).

use super::context::Checker;
use super::legal::Need::Exact;
use crate::inst::{AtomOp, RedAsync, StAsync, Visit};
use crate::types::{Space, Type};

impl Visit<StAsync> for Checker<'_> {
    fn visit(&mut self, inst: &StAsync) {
        let types = &[
            Type::B32,
            Type::B64,
            Type::U32,
            Type::U64,
            Type::S32,
            Type::S64,
            Type::F32,
            Type::F64,
        ];
        self.one_of("`st.async`", inst.ty, types);
        self.vector("st.async", inst.vec, inst.ty);
        self.values("src", &inst.src, inst.vec, Exact(inst.ty));
        let bytes = inst.ty.bytes() * inst.vec.map_or(1, |vec| vec.len() as u32);
        self.addr(
            "addr",
            inst.addr,
            Some(Space::SharedCluster),
            bytes,
            bytes.max(1),
        );
        self.addr("mbar", inst.mbar, Some(Space::SharedCluster), 8, 8);
    }
}

impl Visit<RedAsync> for Checker<'_> {
    fn visit(&mut self, inst: &RedAsync) {
        let types: &[Type] = match inst.op {
            AtomOp::Inc | AtomOp::Dec => &[Type::U32],
            AtomOp::Min | AtomOp::Max => &[Type::U32, Type::S32],
            AtomOp::Add => &[Type::U32, Type::S32, Type::U64],
            AtomOp::And | AtomOp::Or | AtomOp::Xor => &[Type::B32],
            _ => &[],
        };
        self.one_of(&format!("`red.async.{}`", inst.op.text()), inst.ty, types);
        self.value("src", &inst.src, Exact(inst.ty));
        self.addr(
            "addr",
            inst.addr,
            Some(Space::SharedCluster),
            inst.ty.bytes(),
            inst.ty.bytes().max(1),
        );
        self.addr("mbar", inst.mbar, Some(Space::SharedCluster), 8, 8);
    }
}
