//! Loads, stores, atomics and addresses.

use super::context::Checker;
use super::error::Problem;
use super::legal::Need::{AtLeast, Exact};
use crate::inst::{
    Atom, AtomOp, Call, CreatePolicyFractional, CreatePolicyRange, Cvta, CvtaSpace, GetCtaRank, Ld,
    Mapa, Prefetch, PrefetchLevel, PrefetchTensormap, Red, RedAsync, St, StAsync,
    TensormapCpFenceproxy, TensormapField, TensormapReplace, Visit,
};
use crate::operand::{Base, CachePolicy, Operand, Symbol};
use crate::types::{AccessSem, ProxySpace, Scope, Space, Type, VecWidth};

const LOADED: &[Type] = &[
    Type::B8,
    Type::B16,
    Type::B32,
    Type::B64,
    Type::B128,
    Type::U8,
    Type::U16,
    Type::U32,
    Type::U64,
    Type::S8,
    Type::S16,
    Type::S32,
    Type::S64,
    Type::F32,
    Type::F64,
];

/// What a load or a store says about ordering and caching.
struct Access {
    op: &'static str,
    sem: Option<AccessSem>,
    scope: Option<Scope>,
    space: Option<Space>,
    has_cache_operator: bool,
    has_eviction: bool,
}

impl Visit<Ld> for Checker<'_> {
    fn visit(&mut self, inst: &Ld) {
        let spaces = &[
            None,
            Some(Space::Global),
            Some(Space::Shared),
            Some(Space::SharedCluster),
            Some(Space::Local),
        ];
        let is_readable =
            spaces.contains(&inst.space) || matches!(inst.space, Some(Space::Const | Space::Param));
        self.require(is_readable, || {
            "`ld` cannot read this state space".to_owned()
        });
        self.access(&Access {
            op: "ld",
            sem: inst.sem,
            scope: inst.scope,
            space: inst.space,
            has_cache_operator: inst.cache.is_some(),
            has_eviction: inst.l1.is_some(),
        });
        self.require(!inst.nc || inst.space == Some(Space::Global), || {
            "`.nc` needs `.global`".to_owned()
        });
        self.require(!inst.nc || inst.sem.is_none(), || {
            "`.nc` takes no memory order".to_owned()
        });
        let in_global = matches!(inst.space, Some(Space::Global) | None);
        self.require(
            in_global || (inst.prefetch.is_none() && inst.policy.is_none()),
            || "L2 hints need `.global` or a generic address".to_owned(),
        );
        self.policy(inst.policy.as_ref());
        self.one_of("`ld`", inst.ty, LOADED);
        self.vector("ld", inst.vec, inst.ty);
        self.dests(&inst.dst, inst.vec, AtLeast(inst.ty));
        let bytes = inst.ty.bytes() * inst.vec.map_or(1, |vec| vec.len() as u32);
        self.addr("addr", inst.addr, inst.space, bytes, bytes.max(1));
    }
}

impl Visit<St> for Checker<'_> {
    fn visit(&mut self, inst: &St) {
        let is_writable = !matches!(inst.space, Some(Space::Const));
        self.require(is_writable, || "`st` cannot write .const memory".to_owned());
        self.access(&Access {
            op: "st",
            sem: inst.sem,
            scope: inst.scope,
            space: inst.space,
            has_cache_operator: inst.cache.is_some(),
            has_eviction: inst.l1.is_some(),
        });
        let writes_parameter = matches!(inst.addr.base, Base::Symbol(Symbol::Param(_)));
        self.require(!writes_parameter, || {
            "a parameter of the function cannot be written".to_owned()
        });
        let in_global = matches!(inst.space, Some(Space::Global) | None);
        self.require(in_global || inst.policy.is_none(), || {
            "L2 hints need `.global` or a generic address".to_owned()
        });
        self.policy(inst.policy.as_ref());
        self.one_of("`st`", inst.ty, LOADED);
        self.vector("st", inst.vec, inst.ty);
        self.values("src", &inst.src, inst.vec, AtLeast(inst.ty));
        let bytes = inst.ty.bytes() * inst.vec.map_or(1, |vec| vec.len() as u32);
        self.addr("addr", inst.addr, inst.space, bytes, bytes.max(1));
    }
}

impl Checker<'_> {
    /// Order, scope and caching go together in few ways (PTX ISA 9.7.9.8 and 9.7.9.11).
    fn access(&mut self, access: &Access) {
        let op = access.op;
        let strong = if op == "ld" {
            AccessSem::Acquire
        } else {
            AccessSem::Release
        };
        let order = |sem| {
            matches!(
                sem,
                Some(AccessSem::Weak | AccessSem::Volatile | AccessSem::Relaxed) | None
            )
        };
        self.require(order(access.sem) || access.sem == Some(strong), || {
            format!(
                "`{op}` has no memory order .{}",
                access.sem.map_or("", AccessSem::text)
            )
        });
        let needs_scope = access.sem == Some(AccessSem::Relaxed) || access.sem == Some(strong);
        self.require(needs_scope == access.scope.is_some(), || {
            if needs_scope {
                format!("`{op}` with this memory order needs a scope: .cta, .cluster, .gpu or .sys")
            } else {
                format!(
                    "`{op}` takes a scope only with .relaxed or .{}",
                    strong.text()
                )
            }
        });
        let is_plain = matches!(access.sem, None | Some(AccessSem::Weak));
        self.require(is_plain || !access.has_cache_operator, || {
            format!("`{op}` takes a cache operator only without a memory order")
        });
        self.require(!(access.has_cache_operator && access.has_eviction), || {
            format!("`{op}` takes either a cache operator or an L1 eviction priority")
        });
        let in_global = matches!(access.space, Some(Space::Global) | None);
        self.require(in_global || !access.has_eviction, || {
            "an L1 eviction priority needs `.global` or a generic address".to_owned()
        });
        let is_fixed = matches!(access.space, Some(Space::Const | Space::Param));
        self.require(!is_fixed || is_plain, || {
            format!("`{op}` of this state space takes no memory order")
        });
    }

    /// The widest access in bits.
    fn widest_bits(&self) -> u32 {
        8 * self.machine.access.widest_bytes
    }

    fn policy(&mut self, policy: Option<&CachePolicy>) {
        if let Some(CachePolicy(operand)) = policy {
            self.value("cache policy", operand, Exact(Type::U64));
        }
    }

    pub(super) fn cache_policy(&mut self, policy: Option<&CachePolicy>) {
        self.policy(policy);
    }

    /// No more is moved at once than the widest access.
    fn vector(&mut self, op: &str, vec: Option<VecWidth>, ty: Type) {
        let Some(vec) = vec else { return };
        let bits = ty.bits() * vec.len() as u32;
        let most = self.widest_bits();
        self.require(bits <= most && ty != Type::B128, || {
            format!(
                "`{op}.{}.{}` would move {bits} bits; {} moves at most {most}",
                vec.text(),
                ty.text(),
                self.machine.arch
            )
        });
    }
}

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
        self.policy(inst.policy.as_ref());
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
        self.policy(inst.policy.as_ref());
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

impl Visit<PrefetchTensormap> for Checker<'_> {
    fn visit(&mut self, inst: &PrefetchTensormap) {
        self.require(
            matches!(inst.space, None | Some(Space::Const | Space::Param)),
            || "`prefetch.tensormap` takes a generic address, .const or .param".to_owned(),
        );
        self.tensor_map("addr", inst.addr, inst.space.or(Some(Space::Global)));
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

impl Visit<TensormapReplace> for Checker<'_> {
    fn visit(&mut self, inst: &TensormapReplace) {
        use TensormapField::{
            BoxDim, ElementStride, ElementType, Fill, GlobalAddress, GlobalDim, GlobalStride,
        };
        use TensormapField::{Interleave, Swizzle};
        let ty = if matches!(inst.field, GlobalAddress | GlobalStride) {
            Type::B64
        } else {
            Type::B32
        };
        self.one_of(
            &format!("`tensormap.replace.tile.{}`", inst.field.text()),
            inst.ty,
            &[ty],
        );
        let has_index = matches!(
            inst.field,
            BoxDim | GlobalDim | GlobalStride | ElementStride
        );
        self.require(inst.index.is_some() == has_index, || {
            format!(
                "field .{} {} a dimension",
                inst.field.text(),
                if has_index { "needs" } else { "has no" }
            )
        });
        if let Some(index) = &inst.index {
            self.immediate("index", index, "a dimension from 0 to 4", |value| {
                (0..5).contains(&value)
            });
        }
        let modes = match inst.field {
            ElementType => Some(("an element type from 0 to 12", 12)),
            Interleave => Some(("an interleave layout from 0 to 2", 2)),
            Swizzle => Some(("a swizzle mode from 0 to 3", 3)),
            Fill => Some(("a fill mode, 0 or 1", 1)),
            _ => None,
        };
        match modes {
            Some((allowed, last)) => self.immediate("value", &inst.value, allowed, |value| {
                (0..=last).contains(&value)
            }),
            None if ty == Type::B64 => self.value("value", &inst.value, Exact(Type::U64)),
            None => self.value("value", &inst.value, Exact(Type::U32)),
        }
        let space = match inst.space {
            None => None,
            Some(ProxySpace::Global) => Some(Space::Global),
            Some(_) => Some(Space::Shared),
        };
        self.tensor_map("addr", inst.addr, space);
    }
}

impl Visit<TensormapCpFenceproxy> for Checker<'_> {
    fn visit(&mut self, inst: &TensormapCpFenceproxy) {
        let bytes = target::TENSOR_MAP_BYTES;
        self.addr("dst", inst.dst, Some(Space::Global), bytes, bytes);
        self.addr("src", inst.src, Some(Space::Shared), bytes, bytes);
        self.map_bytes(&inst.bytes);
    }
}

impl Visit<Call> for Checker<'_> {
    fn visit(&mut self, inst: &Call) {
        let Symbol::Function(index) = inst.function else {
            return self.report(Problem::Modifier(
                "only functions of the module can be called".to_owned(),
            ));
        };
        let Some(function) = self.module.functions.get(index as usize) else {
            return self.report(Problem::UnknownSymbol("function", index));
        };
        self.count("returns", inst.returns.0.len(), function.returns.len());
        self.count("arguments", inst.arguments.0.len(), function.params.len());
        for operand in inst.returns.0.iter().chain(&inst.arguments.0) {
            match *operand {
                Operand::Symbol(symbol, _) => {
                    self.place(symbol);
                }
                Operand::Reg(reg) if self.body.registers.get(reg).is_none() => {
                    self.report(Problem::UnknownRegister(reg));
                }
                _ => {}
            }
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
