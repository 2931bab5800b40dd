//! Reductions and scans: the combine function is traced once, on two sets of scalars.

use super::super::{At, Raw, Trace, with};
use diag::Code;
use ir::OpError;
use ir::Type;
use ir::elem::{DType, Elem};
use ir::entity::{Region, Value};
use ir::ops::arith::{Binary, BinaryOp, Compare, CompareOp, Precision, Select};
use ir::ops::control::Yield;
use ir::ops::create::Arange;
use ir::ops::layout::SetLayout;
use ir::ops::reduce::Reduce;
use ir::ops::scan::Scan;
use ir::ops::shape::{Broadcast, ExpandDims};
use ir::ops::vote::AnyInWarp;
use ir::ops::{Op, Scratch};
use layout::{Dims, Layout, Slice};

/// What is done with a combine function.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Combining {
    /// All elements become one.
    Reduce,
    /// Each element is combined with all before it, or with all behind it.
    Scan { is_reverse: bool, has_totals: bool },
}

impl Combining {
    fn mnemonic(self) -> &'static str {
        match self {
            Combining::Reduce => "reduce",
            Combining::Scan { .. } => "scan",
        }
    }

    /// Does it give as many totals as other results?
    fn has_totals(self) -> bool {
        matches!(
            self,
            Combining::Scan {
                has_totals: true,
                ..
            }
        )
    }

    fn noun(self) -> &'static str {
        match self {
            Combining::Reduce => "reduction",
            Combining::Scan { .. } => "scan",
        }
    }
}

/// Operands of one reduction or scan, with open layouts decided by the others.
#[inline(never)]
pub(crate) fn fit_combined(combining: Combining, operands: &[Value], at: At) -> Vec<Value> {
    with(at, |trace| {
        let elem = |v: &Value| trace.ty(*v).elem();
        let Some(elems) = operands.iter().map(elem).collect::<Option<Vec<Elem>>>() else {
            return operands.iter().map(|_| trace.builder.poison()).collect();
        };
        let raws: Vec<_> = operands.iter().map(|v| Raw::Value(*v)).zip(elems).collect();
        match trace.fit(combining.mnemonic(), &raws, at) {
            Some(fitted) => fitted.to_vec(),
            None => operands.iter().map(|_| trace.builder.poison()).collect(),
        }
    })
}

/// Opens the region of a combine function; gives the left elements and then the right ones.
#[inline(never)]
pub(crate) fn open_combine(operands: &[Value], at: At) -> Vec<Value> {
    with(at, |trace| trace.open_combine(operands, at))
}

/// Closes it with the combined elements, and reduces or scans.
#[inline(never)]
pub(crate) fn close_combine(
    combining: Combining,
    axis: usize,
    operands: &[Value],
    combined: &[Value],
    at: At,
) -> Vec<Value> {
    with(at, |trace| {
        trace.close_combine(combining, axis, operands, combined, at)
    })
}

/// Whether any element that a warp holds is true.
#[inline(never)]
pub(crate) fn any_in_warp(operand: Value, at: At) -> Value {
    with(at, |trace| {
        if trace.is_poison(operand) {
            return trace.builder.poison();
        }
        trace.push1(AnyInWarp { operand }, Type::scalar(Elem::I1), at)
    })
}

/// A reduction or scan with one operation.
#[inline(never)]
pub(crate) fn combine_with(
    combining: Combining,
    op: BinaryOp,
    operand: Value,
    axis: usize,
    at: At,
) -> Value {
    combine_all_with(combining, op, operand, axis, at)[0]
}

/// The same with all results: a scan that gives totals has two.
#[inline(never)]
pub(crate) fn combine_all_with(
    combining: Combining,
    op: BinaryOp,
    operand: Value,
    axis: usize,
    at: At,
) -> Vec<Value> {
    with(at, |trace| {
        let operands = [operand];
        let elements = trace.open_combine(&operands, at);
        let ty = trace.ty(elements[0]).clone();
        let binary = Binary {
            op,
            precision: Precision::Default,
            lhs: elements[0],
            rhs: elements[1],
        };
        let combined = trace.push1(binary, ty, at);
        trace.close_combine(combining, axis, &operands, &[combined], at)
    })
}

impl Trace {
    fn open_combine(&mut self, operands: &[Value], at: At) -> Vec<Value> {
        let element = |v: &Value| self.ty(*v).elem().map_or(Type::Poison, Type::Scalar);
        let types: Vec<Type> = operands.iter().chain(operands).map(element).collect();
        let loc = self.loc(at);
        let (_, elements) = self.builder.open(&types);
        for &element in &elements {
            self.builder.func_mut().set_value_loc(element, loc);
        }
        elements
    }

    fn close_combine(
        &mut self,
        combining: Combining,
        axis: usize,
        operands: &[Value],
        combined: &[Value],
        at: At,
    ) -> Vec<Value> {
        let wanted: Vec<Elem> = operands.iter().filter_map(|v| self.ty(*v).elem()).collect();
        let is_lost = wanted.len() != operands.len() || combined.iter().any(|v| self.is_poison(*v));
        let values = combined.iter().copied().collect();
        self.push(Yield { values }, &[], at);
        let combine = self.builder.close();
        if is_lost || !self.check_combine(combining, combine) {
            let results = operands.len() * if combining.has_totals() { 2 } else { 1 };
            return (0..results).map(|_| self.builder.poison()).collect();
        }
        let declared: Vec<Type> = operands.iter().map(|v| self.ty(*v).clone()).collect();
        let (axis, scratch) = (u32::try_from(axis).unwrap_or(u32::MAX), Scratch::NONE);
        let operands = operands.iter().copied().collect();
        let op: Op = match combining {
            Combining::Reduce => Reduce {
                axis,
                scratch,
                operands,
                combine,
            }
            .into(),
            Combining::Scan {
                is_reverse,
                has_totals,
            } => Scan {
                axis,
                is_reverse,
                has_totals,
                scratch,
                operands,
                combine,
            }
            .into(),
        };
        let declared = if combining.has_totals() {
            [&declared[..], &declared].concat()
        } else {
            declared
        };
        self.push(op, &declared, at).to_vec()
    }

    /// A combine function computes; anything else in it is reported at its place.
    fn check_combine(&mut self, combining: Combining, region: Region) -> bool {
        let func = self.builder.func();
        let insts = &func.region(region).insts;
        let wrong = insts.iter().copied().find(|inst| {
            let op = func.op(*inst);
            let makes_tensor = func
                .results(*inst)
                .iter()
                .any(|v| func.ty(*v).as_tensor().is_some());
            let has_effect = !op.rules().effects().is_pure() && !op.rules().is_terminator();
            has_effect || makes_tensor || !op.regions().is_empty()
        });
        let Some(inst) = wrong else { return true };
        let mnemonic = func.op(inst).rules().mnemonic();
        let noun = combining.noun();
        let message = format!(
            "`{mnemonic}` in the combine function of a {noun}, which may only compute on scalars"
        );
        let loc = func.loc(inst);
        let diagnostic = func.diagnose(
            OpError::new(Code::CombineEffect, message).help(format!(
                "load before the {noun}, and pass the tensor as one more operand"
            )),
            loc,
        );
        self.builder.diagnostic(diagnostic);
        false
    }

    /// Reduces elements and their indices to those of the greatest or least element, of several the one of the lowest index.
    pub(super) fn reduce_to_better(
        &mut self,
        op: CompareOp,
        pair: &[Value],
        axis: usize,
        at: At,
    ) -> Vec<Value> {
        let elements = self.open_combine(pair, at);
        let combined = self.better(op, &elements, at);
        self.close_combine(Combining::Reduce, axis, pair, &combined, at)
    }

    /// Element and index of the better one of two: greater (or less), or equal and of lower index.
    fn better(&mut self, op: CompareOp, elements: &[Value], at: At) -> [Value; 2] {
        let [a, ai, b, bi] = [elements[0], elements[1], elements[2], elements[3]];
        let boolean = || Type::scalar(Elem::I1);
        let wins = self.push1(Compare { op, lhs: a, rhs: b }, boolean(), at);
        let op = CompareOp::Eq;
        let ties = self.push1(Compare { op, lhs: a, rhs: b }, boolean(), at);
        let op = CompareOp::Lt;
        let earlier = self.push1(
            Compare {
                op,
                lhs: ai,
                rhs: bi,
            },
            boolean(),
            at,
        );
        let ties = self.logic(BinaryOp::And, ties, earlier, at);
        let condition = self.logic(BinaryOp::Or, wins, ties, at);
        [(a, b), (ai, bi)].map(|(yes, no)| {
            let ty = self.ty(yes).clone();
            self.push1(Select { condition, yes, no }, ty, at)
        })
    }

    fn logic(&mut self, op: BinaryOp, lhs: Value, rhs: Value, at: At) -> Value {
        let precision = Precision::Default;
        let binary = Binary {
            op,
            precision,
            lhs,
            rhs,
        };
        self.push1(binary, Type::scalar(Elem::I1), at)
    }

    /// A tensor like `operand` whose every element is its coordinate along `axis`. `None` if there is none, which is
    /// reported.
    pub(super) fn index_along(
        &mut self,
        what: &str,
        operand: Value,
        axis: usize,
        at: At,
    ) -> Option<Value> {
        let Type::Tensor(t) = self.ty(operand).clone() else {
            if !self.is_poison(operand) {
                let message = format!(
                    "{what} wants a tensor, this is the scalar {}",
                    self.ty(operand)
                );
                self.fail(
                    OpError::new(Code::RankMismatch, message).origin(operand, "it was made here"),
                    at,
                );
            }
            return None;
        };
        if axis >= t.rank() {
            let message = format!(
                "{what} over dimension {axis} of a tensor of rank {}",
                t.rank()
            );
            let help = format!(
                "dimensions count from 0, and the last one here is {}",
                t.rank() - 1
            );
            let error = OpError::new(Code::NoSuchAxis, message);
            self.fail(error.typed(operand, t).help(help), at);
            return None;
        }
        let others: Vec<usize> = (0..t.rank()).filter(|d| *d != axis).collect();
        let layout = match &t.layout {
            Layout::Auto | Layout::Coalesced => Layout::Auto,
            parent => others
                .iter()
                .rev()
                .fold(parent.clone(), |l, d| Slice::new(*d as u32, l).into()),
        };
        let elem = Elem::Data(DType::I32);
        let op = Arange {
            start: 0,
            end: t.shape[axis].into(),
        };
        let mut index = self.push1(op, Type::tensor([t.shape[axis]], elem, layout), at);
        for d in others {
            let ty = self.ty(index).clone();
            let op = ExpandDims {
                axis: d as u32,
                operand: index,
            };
            index = self.push1(op, ty, at);
        }
        Some(self.fit_index(index, &t.shape, &t.layout, at))
    }

    fn fit_index(&mut self, mut index: Value, shape: &Dims, layout: &Layout, at: At) -> Value {
        let elem = Elem::I32;
        if *layout == Layout::Coalesced {
            let ty = Type::tensor(Dims::from(self.ty(index).shape()), elem, Layout::Coalesced);
            index = self.push1(SetLayout { operand: index }, ty, at);
        }
        if self.ty(index).shape() != &shape[..] {
            let ty = Type::tensor(shape.clone(), elem, layout.clone());
            index = self.push1(Broadcast { operand: index }, ty, at);
        }
        index
    }
}
