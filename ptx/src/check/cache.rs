//! Cache lines and eviction policies of L2.

use super::context::Checker;
use super::legal::Need::Exact;
use crate::inst::{CreatePolicyFractional, CreatePolicyRange, Prefetch, PrefetchLevel, Visit};
use crate::operand::Operand;
use crate::types::{Space, Type};

impl Visit<Prefetch> for Checker<'_> {
    fn visit(&mut self, inst: &Prefetch) {
        let evicts = matches!(inst.level, PrefetchLevel::L2Last | PrefetchLevel::L2Normal);
        let is_legal = match inst.space {
            None | Some(Space::Global) => true,
            Some(Space::Local) => !evicts,
            _ => false,
        };
        self.require(is_legal, || {
            "`prefetch` reads global and local memory; eviction is for global only".to_owned()
        });
        self.addr("addr", inst.addr, inst.space, 1, 1);
    }
}

impl Checker<'_> {
    /// `discard` and `applypriority`.
    pub(super) fn line(
        &mut self,
        op: &str,
        space: Option<Space>,
        addr: crate::operand::Addr,
        bytes: &Operand,
    ) {
        self.require(matches!(space, None | Some(Space::Global)), || {
            format!("`{op}` works on global memory only")
        });
        self.addr("addr", addr, space, 128, 128);
        self.immediate("bytes", bytes, "128", |value| value == 128);
    }
}

impl Visit<CreatePolicyFractional> for Checker<'_> {
    fn visit(&mut self, inst: &CreatePolicyFractional) {
        use crate::types::L2Eviction::{First, Unchanged};
        self.result("dst", inst.dst, Exact(Type::U64));
        self.optional("fraction", inst.fraction.as_ref(), Exact(Type::F32));
        self.require(
            inst.secondary
                .is_none_or(|second| matches!(second, First | Unchanged)),
            || "the secondary priority is .L2::evict_first or .L2::evict_unchanged".to_owned(),
        );
    }
}

impl Visit<CreatePolicyRange> for Checker<'_> {
    fn visit(&mut self, inst: &CreatePolicyRange) {
        use crate::types::L2Eviction::{First, Unchanged};
        self.require(matches!(inst.space, None | Some(Space::Global)), || {
            "`createpolicy.range` is about global memory".to_owned()
        });
        self.result("dst", inst.dst, Exact(Type::U64));
        self.require(
            inst.secondary
                .is_none_or(|second| matches!(second, First | Unchanged)),
            || "the secondary priority is .L2::evict_first or .L2::evict_unchanged".to_owned(),
        );
        self.addr("addr", inst.addr, inst.space, 1, 1);
        self.value("primary_bytes", &inst.primary_bytes, Exact(Type::U32));
        self.value("total_bytes", &inst.total_bytes, Exact(Type::U32));
    }
}
