//! Which parameters a pointer was made from, and so which buffers an access can touch.

use cranelift_entity::SecondaryMap;
use ir::elem::{DType, Elem};
use ir::entity::{Inst, Value};
use ir::ops::flow;
use ir::{Func, Spaces};

use super::access;

/// The parameters that pointers come from, one bit for each parameter of the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Origin {
    params: u128,
    /// It comes from an integer too, or from where this analysis does not look.
    is_unknown: bool,
    /// Where it may point among the memory of all ranks.
    reach: Reach,
}

/// Where a pointer or an address may point; of two origins that which is later here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Reach {
    /// Into memory of this rank.
    #[default]
    Own,
    /// Into a table of the addresses of all ranks.
    Table,
    /// Into memory of another rank.
    Peer,
    /// Each element into memory of a rank of its own.
    Ranks,
}

/// Of a pointer made from an integer.
const UNKNOWN: Origin = Origin {
    params: 0,
    is_unknown: true,
    reach: Reach::Own,
};

impl Origin {
    fn join(self, other: Origin) -> Origin {
        Origin {
            params: self.params | other.params,
            is_unknown: self.is_unknown || other.is_unknown,
            reach: self.reach.max(other.reach),
        }
    }
}

/// Where the pointers of one kernel come from.
#[derive(Clone, Debug)]
pub struct Roots {
    origins: SecondaryMap<Value, Origin>,
    readonly: u128,
}

impl Roots {
    /// Analyses a kernel.
    pub fn of(func: &Func) -> Roots {
        let mut roots = Roots {
            origins: SecondaryMap::with_capacity(func.value_count()),
            readonly: 0,
        };
        for (at, param) in func.params.iter().enumerate() {
            // What the maps of the host describe is not known here.
            if func.ty(param.value).as_tensor_map().is_some() {
                continue;
            }
            let bit = 1_u128.checked_shl(at as u32);
            roots.origins[param.value] = Origin {
                params: bit.unwrap_or(0),
                is_unknown: bit.is_none(),
                ..Origin::default()
            };
            if param.is_readonly {
                roots.readonly |= bit.unwrap_or(0);
            }
        }
        let insts = func.walk();
        // Origins only grow, and each round carries them once round every loop.
        let mut walk = OriginPropagation {
            func,
            origins: roots.origins,
            has_grown: true,
        };
        while std::mem::take(&mut walk.has_grown) {
            for &inst in &insts {
                walk.inst(inst);
            }
        }
        Roots {
            origins: walk.origins,
            ..roots
        }
    }

    /// Is what these pointers are for only read, whatever else the kernel does?
    pub fn is_readonly(&self, pointers: Value) -> bool {
        let origin = self.origins[pointers];
        origin.params != 0 && !origin.is_unknown && origin.params & !self.readonly == 0
    }

    /// May these pointers point into memory of another rank?
    pub fn is_peer(&self, pointers: Value) -> bool {
        self.origins[pointers].reach >= Reach::Peer
    }

    /// May each of these pointers point into memory of a rank of its own?
    pub fn is_of_ranks(&self, pointers: Value) -> bool {
        self.origins[pointers].reach == Reach::Ranks
    }

    /// The `readonly` parameter that these pointers may come from, by its index.
    pub fn readonly_param(&self, pointers: Value) -> Option<usize> {
        let params = self.origins[pointers].params & self.readonly;
        (params != 0).then(|| params.trailing_zeros() as usize)
    }

    /// The parameters through which the kernel stores, one bit for each.
    pub fn written(&self, func: &Func) -> u128 {
        let stores = func
            .walk()
            .into_iter()
            .filter_map(|inst| stored(func, inst));
        stores.fold(0, |written, pointers| {
            written | self.origins[pointers].params
        })
    }
}

struct OriginPropagation<'f> {
    func: &'f Func,
    origins: SecondaryMap<Value, Origin>,
    has_grown: bool,
}

impl OriginPropagation<'_> {
    /// Carries origins from operands to results.
    fn inst(&mut self, inst: Inst) {
        let func = self.func;
        let slots = flow::slots(func, inst);
        for slot in &slots {
            let origin = self.join(slot.values());
            slot.params.iter().for_each(|v| self.grow(*v, origin));
            self.grow(slot.result, origin);
        }
        if !slots.is_empty() {
            return;
        }
        let op = func.op(inst);
        // Into regions that are no control flow come values that this analysis does not follow.
        for region in op.regions() {
            for &param in &func.region(region).params {
                self.grow(param, UNKNOWN);
            }
        }
        let (mut pointers, mut addresses) = (op.operands(), op.operands());
        pointers.retain(|v| leads_to_memory(func, *v));
        addresses.retain(|v| is_address(func, *v));
        let (of_pointers, of_addresses) = (self.join(pointers.clone()), self.join(addresses));
        let rules = op.rules();
        let reach = of_pointers.reach.max(of_addresses.reach);
        let given = match (rules.is_peer(), rules.is_peer_table()) {
            (true, _) => Reach::Peer,
            (_, true) => Reach::Table,
            _ => Reach::Own,
        };
        let of_pointer = Origin {
            reach: reach.max(given),
            ..if pointers.is_empty() {
                UNKNOWN
            } else {
                of_pointers
            }
        };
        // Of an address only this is followed: what it was computed with, or that it was loaded from a table of ranks.
        let reads = rules.effects().reads.intersects(Spaces::GLOBAL);
        let of_address = |result: Value| {
            let is_tensor = func.ty(result).as_tensor().is_some();
            let reach = match (reads, of_pointers.reach) {
                (false, _) => reach,
                (true, Reach::Table) if is_tensor => Reach::Ranks,
                (true, Reach::Table) => Reach::Peer,
                (true, _) => Reach::Own,
            };
            Origin { reach, ..UNKNOWN }
        };
        for &result in func.results(inst) {
            let origin = if is_address(func, result) {
                of_address(result)
            } else {
                of_pointer
            };
            self.grow(result, origin);
        }
    }

    fn join(&self, values: impl IntoIterator<Item = Value>) -> Origin {
        let origins = values.into_iter().map(|v| self.origins[v]);
        origins.fold(Origin::default(), Origin::join)
    }

    fn grow(&mut self, value: Value, origin: Origin) {
        let joined = self.origins[value].join(origin);
        let is_followed = leads_to_memory(self.func, value) || is_address(self.func, value);
        if is_followed && joined != self.origins[value] {
            self.origins[value] = joined;
            self.has_grown = true;
        }
    }
}

/// The pointers through which an instruction writes global memory.
pub fn stored(func: &Func, inst: Inst) -> Option<Value> {
    let effects = func.op(inst).rules().effects();
    if !effects.writes.intersects(Spaces::GLOBAL) {
        return None;
    }
    let operands = func.op(inst).operands().into_iter();
    access::pointers(func, inst)
        .or_else(|| operands.into_iter().find(|v| leads_to_memory(func, *v)))
}

/// Is it a pointer, or a map that was made of one?
fn leads_to_memory(func: &Func, value: Value) -> bool {
    let ty = func.ty(value);
    ty.as_tensor_map().is_some() || ty.elem().is_some_and(Elem::is_ptr)
}

/// Is it a number that may be an address?
fn is_address(func: &Func, value: Value) -> bool {
    let elem = func.ty(value).elem();
    matches!(elem, Some(Elem::Data(DType::U64 | DType::I64)))
}
