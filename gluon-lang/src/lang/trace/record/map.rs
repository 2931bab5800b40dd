//! A scalar function of each element: traced once, on the elements of one pack.

use super::super::{At, Raw, Trace, with};
use diag::Code;
use ir::elem::Elem;
use ir::entity::{Region, Value};
use ir::ops::control::Yield;
use ir::ops::map::Map;
use ir::{OpError, Type};

/// Operands of one function, made equal in shape and layout; `None` after a mistake, which is reported.
#[inline(never)]
pub(crate) fn fit_elementwise(name: &str, operands: &[(Raw, Elem)], at: At) -> Option<Vec<Value>> {
    with(at, |trace| {
        trace.fit(name, operands, at).map(|f| f.to_vec())
    })
}

/// Operands of one map, with open layouts decided by the others.
#[inline(never)]
pub(crate) fn fit_mapped(operands: &[Value], at: At) -> Vec<Value> {
    with(at, |trace| {
        let raws: Option<Vec<_>> = operands
            .iter()
            .map(|v| Some((Raw::Value(*v), trace.ty(*v).elem()?)))
            .collect();
        let fitted = raws.and_then(|raws| trace.fit("map_elementwise", &raws, at));
        match fitted {
            Some(fitted) => fitted.to_vec(),
            None => operands.iter().map(|_| trace.builder.poison()).collect(),
        }
    })
}

/// Is it a tensor, and not one element?
#[inline(never)]
pub(crate) fn is_tensor(value: Value, at: At) -> bool {
    with(at, |trace| trace.ty(value).as_tensor().is_some())
}

/// A scalar or host number as a scalar of this type.
#[inline(never)]
pub(crate) fn as_scalar(raw: Raw, elem: Elem, at: At) -> Value {
    with(at, |trace| match trace.fit("philox", &[(raw, elem)], at) {
        Some(fitted) => fitted[0],
        None => trace.builder.poison(),
    })
}

/// What was reported as wrong.
#[inline(never)]
pub(crate) fn poison(at: At) -> Value {
    with(at, |trace| trace.builder.poison())
}

/// Opens the region of a function of `pack` elements of each operand; gives all of the first, then all of the second.
#[inline(never)]
pub(crate) fn open_map(operands: &[Value], pack: usize, at: At) -> Vec<Value> {
    with(at, |trace| {
        let element = |v: &Value| trace.ty(*v).elem().map_or(Type::Poison, Type::Scalar);
        let types = operands.iter().map(element);
        let types: Vec<Type> = types.flat_map(|ty| std::iter::repeat_n(ty, pack)).collect();
        let loc = trace.loc(at);
        let (_, elements) = trace.builder.open(&types);
        for &element in &elements {
            trace.builder.func_mut().set_value_loc(element, loc);
        }
        elements
    })
}

/// What an elementwise function is called, and what helps where it does more than compute.
const FUNCTION: (&str, &str) = (
    "an elementwise function",
    "load before, and pass the tensor as one more operand",
);

/// Closes it with `pack` elements of each result, and applies it.
#[inline(never)]
pub(crate) fn close_map(operands: &[Value], pack: usize, given: &[Value], at: At) -> Vec<Value> {
    with(at, |trace| {
        let count = given.len() / pack;
        let is_lost = operands.iter().chain(given).any(|v| trace.is_poison(*v));
        let elems: Option<Vec<Elem>> = given
            .iter()
            .step_by(pack)
            .map(|v| trace.ty(*v).elem())
            .collect();
        let values = given.iter().copied().collect();
        trace.push(Yield { values }, &[], at);
        let body = trace.builder.close();
        let (Some(elems), false) = (elems, is_lost) else {
            return (0..count).map(|_| trace.builder.poison()).collect();
        };
        if !trace.only_computes(body, FUNCTION) {
            return (0..count).map(|_| trace.builder.poison()).collect();
        }
        let form = trace.ty(operands[0]).clone();
        let declared: Vec<Type> = elems.iter().map(|elem| form.with_elem(*elem)).collect();
        let op = Map {
            pack: pack as u32,
            operands: operands.iter().copied().collect(),
            body,
        };
        trace.push(op, &declared, at).to_vec()
    })
}

impl Trace {
    /// A function that each thread runs by itself computes, and may branch; anything else in it is reported at its place, with
    /// what the function is and what helps.
    pub(super) fn only_computes(&mut self, body: Region, (what, help): (&str, &str)) -> bool {
        let func = self.builder.func();
        let mut insts = Vec::new();
        func.walk_region(body, &mut insts);
        let wrong = insts.into_iter().find(|inst| {
            let op = func.op(*inst);
            let results = func.results(*inst).iter();
            let makes_tensor = results
                .chain(&op.operands())
                .any(|v| func.ty(*v).as_tensor().is_some());
            let has_effect = !op.rules().effects().is_pure() && !op.rules().is_terminator();
            has_effect || makes_tensor
        });
        let Some(inst) = wrong else { return true };
        let mnemonic = func.op(inst).rules().mnemonic();
        let message = format!("`{mnemonic}` in {what}, which may only compute on scalars");
        let error = OpError::new(Code::CombineEffect, message).help(help);
        let diagnostic = func.diagnose(error, func.loc(inst));
        self.builder.diagnostic(diagnostic);
        false
    }
}
