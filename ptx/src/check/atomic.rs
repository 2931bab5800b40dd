//! Atomic operations on memory.

use super::context::Checker;
use super::legal::Need::Exact;
use crate::inst::{Atom, AtomOp, Red, Visit};
use crate::types::{AccessSem, Space, Type, VecWidth};

impl Visit<Atom> for Checker<'_> {
    fn visit(&mut self, inst: &Atom) {
        self.atomic("atom", inst.op, inst.ty, inst.vec, inst.space, inst.sem);
        self.require(
            !matches!(inst.sem, Some(AccessSem::Weak | AccessSem::Volatile)),
            || "`atom` has the memory orders .relaxed, .acquire, .release and .acq_rel".to_owned(),
        );
        let is_cas = inst.op == AtomOp::Cas;
        self.require(inst.c.is_some() == is_cas, || {
            "`atom.cas` takes the value to store as its last operand, others do not".to_owned()
        });
        self.cache_policy(inst.policy.as_ref());
        self.require(!(is_cas && inst.policy.is_some()), || {
            "`atom.cas` takes no cache policy".to_owned()
        });
        self.dests(&inst.dst, inst.vec, Exact(inst.ty));
        self.values("b", &inst.b, inst.vec, Exact(inst.ty));
        self.optional("c", inst.c.as_ref(), Exact(inst.ty));
        let bytes = inst.ty.bytes() * inst.vec.map_or(1, |vec| vec.len() as u32);
        self.addr("addr", inst.addr, inst.space, bytes, bytes.max(1));
    }
}

impl Visit<Red> for Checker<'_> {
    fn visit(&mut self, inst: &Red) {
        self.atomic("red", inst.op, inst.ty, inst.vec, inst.space, inst.sem);
        self.require(
            matches!(
                inst.sem,
                None | Some(AccessSem::Relaxed | AccessSem::Release)
            ),
            || "`red` has the memory orders .relaxed and .release".to_owned(),
        );
        self.require(!matches!(inst.op, AtomOp::Cas | AtomOp::Exch), || {
            format!("`red` has no operation .{}; use `atom`", inst.op.text())
        });
        self.cache_policy(inst.policy.as_ref());
        self.values("b", &inst.b, inst.vec, Exact(inst.ty));
        let bytes = inst.ty.bytes() * inst.vec.map_or(1, |vec| vec.len() as u32);
        self.addr("addr", inst.addr, inst.space, bytes, bytes.max(1));
    }
}

impl Checker<'_> {
    /// Types and spaces of an atomic operation (PTX ISA 9.7.13.5).
    fn atomic(
        &mut self,
        name: &str,
        op: AtomOp,
        ty: Type,
        vec: Option<VecWidth>,
        space: Option<Space>,
        _sem: Option<AccessSem>,
    ) {
        let allowed = atomic_types(op, vec.is_some());
        self.one_of(&format!("`{name}.{}`", op.text()), ty, allowed);
        let is_known = matches!(
            space,
            None | Some(Space::Global | Space::Shared | Space::SharedCluster)
        );
        self.require(is_known, || {
            format!("`{name}` works on global and shared memory only")
        });
        if let Some(vec) = vec {
            self.require(matches!(space, None | Some(Space::Global)), || {
                format!("`{name}` with a vector works on global memory only")
            });
            let bits = ty.bits() * vec.len() as u32;
            let most = self.widest_bits();
            self.require(bits <= most, || {
                format!("`{name}` moves at most {most} bits, not {bits}")
            });
        }
    }
}

fn atomic_types(op: AtomOp, is_vector: bool) -> &'static [Type] {
    use AtomOp::{Add, AddNoFtz, And, Cas, Dec, Exch, Inc, Max, MaxNoFtz, Min, MinNoFtz, Or, Xor};
    match (op, is_vector) {
        (Add, true) => &[Type::F32],
        (AddNoFtz | MinNoFtz | MaxNoFtz, true) => {
            &[Type::F16, Type::F16x2, Type::Bf16, Type::Bf16x2]
        }
        (_, true) | (MinNoFtz | MaxNoFtz, false) => &[],
        (Add, false) => &[Type::U32, Type::S32, Type::U64, Type::F32, Type::F64],
        (AddNoFtz, false) => &[Type::F16, Type::F16x2, Type::Bf16, Type::Bf16x2],
        (Min | Max, false) => &[Type::U32, Type::S32, Type::U64, Type::S64],
        (Inc | Dec, false) => &[Type::U32],
        (And | Or | Xor, false) => &[Type::B32, Type::B64],
        (Exch, false) => &[Type::B32, Type::B64, Type::B128],
        (Cas, false) => &[Type::B16, Type::B32, Type::B64, Type::B128],
    }
}
