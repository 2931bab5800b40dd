//! Addresses between state spaces and CTAs.

use super::context::Checker;
use super::error::Problem;
use super::legal::Need::Exact;
use crate::inst::{Cvta, CvtaSpace, GetCtaRank, Mapa, Visit};
use crate::operand::{Operand, Symbol};
use crate::types::{Space, Type};

impl Visit<Cvta> for Checker<'_> {
    fn visit(&mut self, inst: &Cvta) {
        self.one_of("`cvta`", inst.ty, &[Type::U32, Type::U64]);
        self.result("dst", inst.dst, Exact(inst.ty));
        match inst.a {
            Operand::Symbol(symbol, _) if !inst.to => self.cvta_symbol(symbol, inst.space),
            ref value => self.value("a", value, Exact(inst.ty)),
        }
    }
}

impl Checker<'_> {
    fn cvta_symbol(&mut self, symbol: Symbol, space: CvtaSpace) {
        let space = match space {
            CvtaSpace::Global => Space::Global,
            CvtaSpace::Shared | CvtaSpace::SharedCluster => Space::Shared,
            CvtaSpace::Local => Space::Local,
            CvtaSpace::Const => Space::Const,
            CvtaSpace::Param => Space::Param,
        };
        if self.place(symbol).is_some_and(|place| place.space != space) {
            let expected = format!("a symbol in .{}", space.text());
            self.report(Problem::OperandKind {
                operand: "a",
                found: "a symbol of another space",
                expected,
            });
        }
    }

    pub(super) fn isspacep(&mut self, dst: crate::operand::Dest, a: &Operand, _space: CvtaSpace) {
        self.result("dst", dst, Exact(Type::Pred));
        match self.reg_class(a) {
            Some(crate::registers::RegClass::B32) => {}
            _ => self.value("a", a, Exact(Type::U64)),
        }
    }

    fn reg_class(&self, operand: &Operand) -> Option<crate::registers::RegClass> {
        operand.reg().and_then(|reg| self.body.registers.get(reg))
    }
}

impl Visit<Mapa> for Checker<'_> {
    fn visit(&mut self, inst: &Mapa) {
        self.cluster_space("mapa", inst.space);
        self.one_of("`mapa`", inst.ty, &[Type::U32, Type::U64]);
        self.result("dst", inst.dst, Exact(inst.ty));
        match inst.a {
            Operand::Symbol(symbol, _) => self.cvta_symbol(symbol, CvtaSpace::Shared),
            ref value => self.value("a", value, Exact(inst.ty)),
        }
        self.value("cta", &inst.cta, Exact(Type::U32));
    }
}

impl Checker<'_> {
    pub(super) fn cluster_space(&mut self, op: &str, space: Option<Space>) {
        self.require(matches!(space, None | Some(Space::SharedCluster)), || {
            format!("`{op}` takes a generic address or one in .shared::cluster")
        });
    }
}

impl Visit<GetCtaRank> for Checker<'_> {
    fn visit(&mut self, inst: &GetCtaRank) {
        self.cluster_space("getctarank", inst.space);
        self.one_of("`getctarank`", inst.ty, &[Type::U32, Type::U64]);
        self.result("dst", inst.dst, Exact(Type::U32));
        match inst.a {
            Operand::Symbol(symbol, _) => self.cvta_symbol(symbol, CvtaSpace::Shared),
            ref value => self.value("a", value, Exact(inst.ty)),
        }
    }
}
