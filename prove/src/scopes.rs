//! In which iteration of which loop a scalar gets its value.
//!
//! Matches on ops: the scope of integer operations follows from their operands; every other result is new in each iteration.

use cranelift_entity::SecondaryMap;
use cranelift_entity::packed_option::PackedOption;
use ir::Func;
use ir::elem::Elem;
use ir::entity::{Inst, Value};
use ir::ops::{Op, flow};
use smallvec::SmallVec;

use crate::classes::Classes;
use crate::value::{self, Known};

/// The innermost loop on whose iteration a value depends.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scopes {
    pub(crate) of: SecondaryMap<Value, PackedOption<Inst>>,
    pub(crate) depth: SecondaryMap<Value, u32>,
    /// Constants, and values that no control flow decides and that are no numbers.
    fixed: SecondaryMap<Value, Option<Known>>,
}

impl Scopes {
    pub(crate) fn new(func: &Func, classes: &Classes) -> Scopes {
        let mut scopes = Scopes::default();
        for param in &func.params {
            scopes.fixed[param.value] = Some(Known::Unknown {
                class: classes.of(param.value),
                plus: 0,
            });
        }
        for inst in func.walk() {
            let op = func.op(inst);
            let enclosing = enclosing_loop(func, inst);
            for region in op.regions() {
                let own = flow::is_loop(op).then_some(inst).or(enclosing);
                for &param in &func.region(region).params {
                    scopes.set(func, param, own);
                }
            }
            let is_computed = op.rules().effects().is_pure() && op.regions().is_empty();
            let scope = if is_computed {
                let deepest = op.operands().into_iter().max_by_key(|v| scopes.depth[*v]);
                deepest.and_then(|v| scopes.of[v].expand())
            } else {
                enclosing
            };
            for &result in func.results(inst) {
                scopes.set(func, result, scope);
                scopes.fixed[result] = scopes.fixed_value(func, classes, inst, result);
            }
        }
        scopes
    }

    /// What a value is in every partition and iteration, unless control flow or a rank in a cluster decides it.
    fn fixed_value(
        &self,
        func: &Func,
        classes: &Classes,
        inst: Inst,
        result: Value,
    ) -> Option<Known> {
        if let Some(number) = func.constant_int(result) {
            return i64::try_from(number).ok().map(Known::Number);
        }
        let op = func.op(inst);
        let known: Option<SmallVec<[Known; 3]>> =
            op.operands().iter().map(|v| self.fixed[*v]).collect();
        let known = known.filter(|_| op.regions().is_empty())?;
        let unknown = Known::Unknown {
            class: classes.of(result),
            plus: 0,
        };
        match (op, known.as_slice()) {
            (Op::ClusterRank(_) | Op::Compare(_) | Op::Select(_), _) => None,
            (Op::Binary(op), &[x, y]) => Some(value::binary(op.op, x, y).unwrap_or(unknown)),
            (Op::Cast(_) | Op::Hint(_) | Op::Bitcast(_), &[x]) => {
                let is_integer = |v: Value| func.ty(v).elem().is_some_and(Elem::is_int);
                let both = is_integer(result) && op.operands().iter().all(|v| is_integer(*v));
                if both {
                    return x.converted(func.ty(result).elem()?);
                }
                Some(unknown)
            }
            _ => Some(unknown),
        }
    }

    pub(crate) fn fixed(&self, value: Value) -> Option<Known> {
        self.fixed[value]
    }

    fn set(&mut self, func: &Func, value: Value, scope: Option<Inst>) {
        self.of[value] = scope.into();
        let mut depth = 0;
        let mut at = scope;
        while let Some(inst) = at {
            depth += 1;
            at = enclosing_loop(func, inst);
        }
        self.depth[value] = depth;
    }
}

fn enclosing_loop(func: &Func, inst: Inst) -> Option<Inst> {
    let mut at = inst;
    loop {
        let owner = func.region(func.parent(at)).owner.expand()?;
        if flow::is_loop(func.op(owner)) {
            return Some(owner);
        }
        at = owner;
    }
}
