//! Loads and stores.

use super::context::Checker;
use super::legal::Need::{AtLeast, Exact};
use crate::inst::{Ld, St, Visit};
use crate::operand::{Base, CachePolicy, Symbol};
use crate::types::{AccessSem, Scope, Space, Type, VecWidth};

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
        self.cache_policy(inst.policy.as_ref());
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
        self.cache_policy(inst.policy.as_ref());
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
    pub(super) fn widest_bits(&self) -> u32 {
        8 * self.machine.access.widest_bytes
    }

    pub(super) fn cache_policy(&mut self, policy: Option<&CachePolicy>) {
        if let Some(CachePolicy(operand)) = policy {
            self.value("cache policy", operand, Exact(Type::U64));
        }
    }

    /// No more is moved at once than the widest access.
    pub(super) fn vector(&mut self, op: &str, vec: Option<VecWidth>, ty: Type) {
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
