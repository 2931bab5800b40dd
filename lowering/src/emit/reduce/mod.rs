//! Reductions: in the thread, then between the lanes of a warp, then between warps through shared memory, and last between
//! the CTAs of a cluster.
//!
//! A combination must not care which of its two sides is which, as that of sums, products and extremes does not. Which
//! elements are combined with which first is fixed by the layout alone, also where lanes share out the results
//! ([`lanes`]): a sum of floats is the same bits in all threads, and whenever the kernel runs.

mod lanes;
mod memory;

use std::collections::BTreeMap;
use std::rc::Rc;

use ir::elem::Elem;
use ir::entity::{Inst, Region, Value};
use ir::ops::control::yielded;
use ir::ops::flow;
use ir::ops::reduce::Reduce;
use ptx::{Addr, Operand, Type};

use super::distribute::Distribution;
use super::element::Element;
use super::{Emitted, Emitter, Lower};
use crate::analysis::scratch::bits_along;
use crate::analysis::scratch::reduce::Sizes;

/// One element of each operand.
type Tuple = Vec<Element>;

impl Lower for Reduce {
    fn lower(&self, inst: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let plan = Plan::new(self, inst, cx);
        let mut partial = plan.in_threads(cx)?;
        let sharing = plan.sharing(&partial.numbers, cx);
        plan.between_lanes(&mut partial, sharing, cx)?;
        if plan.sizes.warp_parts > 1 {
            plan.between_warps(&mut partial, sharing.is_kept, cx)?;
        }
        if let Some((offset, area)) = &plan.sizes.exchange {
            plan.between_ctas(&mut partial, sharing.is_kept, (*offset, area), cx)?;
        }
        let results = plan.spread(partial, cx);
        plan.set_results(inst, &results, cx);
        Ok(())
    }
}

/// What a reduction works on.
struct Plan<'r> {
    op: &'r Reduce,
    source: Rc<Distribution>,
    axis: usize,
    elems: Vec<Elem>,
    sizes: Sizes,
}

/// Tuples of a thread by the number of the result element that they belong to, less what the thread adds to it.
type Tuples = BTreeMap<u32, Tuple>;

/// The partial results of a thread.
struct Partial {
    /// Those that it has parts of.
    tuples: Tuples,
    /// The numbers of all that it shall have in the end.
    numbers: Vec<u32>,
    /// The bits of the lane by which lanes have shared out the results, and what each adds to the numbers.
    shares: Vec<Share>,
}

/// Lanes with this bit set have the results whose numbers have this bit set, the others have the others.
#[derive(Clone, Copy)]
struct Share {
    lane_bit: u32,
    number: u32,
}

impl<'r> Plan<'r> {
    fn new(op: &'r Reduce, inst: Inst, cx: &mut Emitter<'_>) -> Plan<'r> {
        let t = cx.tensor(op.operands[0]);
        let axis = op.axis as usize;
        let elems: Vec<Elem> = op.operands.iter().map(|v| cx.elem(*v)).collect();
        let source = cx.distribution(t);
        let sizes = Sizes::new(&source.map, axis, &elems, flow::is_in_loop(cx.func, inst));
        Plan {
            op,
            source,
            axis,
            elems,
            sizes,
        }
    }

    /// The number of the result element at a packed place of the source.
    fn result_number(&self, packed: u64) -> u32 {
        self.sizes.results.number(packed)
    }

    /// The coordinate of a packed place along the axis.
    fn along(&self, packed: u64) -> u32 {
        self.source.coordinate(packed, self.axis)
    }

    fn in_threads(&self, cx: &mut Emitter<'_>) -> Result<Partial, diag::Diagnostic> {
        let lists: Vec<_> = self.op.operands.iter().map(|v| cx.elements(*v)).collect();
        let mut groups: BTreeMap<u32, Vec<Tuple>> = BTreeMap::new();
        for register in (0..self.source.registers()).filter(|&r| self.source.is_own(r)) {
            let number = self.result_number(self.source.offsets[register]);
            groups
                .entry(number)
                .or_default()
                .push(lists.iter().map(|l| l[register]).collect());
        }
        let mut tuples = Tuples::new();
        for (number, parts) in groups {
            tuples.insert(number, self.tree(parts, cx)?);
        }
        Ok(Partial {
            numbers: tuples.keys().copied().collect(),
            tuples,
            shares: Vec::new(),
        })
    }

    /// Combines pairs, then pairs of pairs: short chains let the machine overlap them.
    fn tree(
        &self,
        mut tuples: Vec<Tuple>,
        cx: &mut Emitter<'_>,
    ) -> Result<Tuple, diag::Diagnostic> {
        while tuples.len() > 1 {
            let mut next = Vec::with_capacity(tuples.len().div_ceil(2));
            let mut rest = tuples.into_iter();
            while let Some(left) = rest.next() {
                next.push(match rest.next() {
                    Some(right) => cx.combine(self.op.combine, &left, &right)?,
                    None => left,
                });
            }
            tuples = next;
        }
        Ok(tuples.pop().expect("every result has at least one element"))
    }

    /// The results of a thread, in the registers of their layout.
    fn set_results(&self, inst: Inst, results: &Tuples, cx: &mut Emitter<'_>) {
        let values = cx.func.results(inst).to_vec();
        for (at, result) in values.into_iter().enumerate() {
            let elements: Vec<Element> = match cx.func.ty(result).as_tensor() {
                None => vec![results[&0][at]],
                Some(t) => {
                    let distribution = cx.distribution(t);
                    // A result stands where the axis has coordinate 0.
                    let number = |&offset: &u64| {
                        let coords = distribution.map.unpack_out(offset);
                        let in_source = coords.with_inserted(self.axis, 0);
                        self.result_number(self.source.map.pack_out(&in_source))
                    };
                    let numbers = distribution.offsets.iter().map(number);
                    numbers.map(|number| results[&number][at]).collect()
                }
            };
            cx.set(result, elements);
        }
    }
}

impl Emitter<'_> {
    /// Combines two tuples by a region: all left elements, then all right ones.
    pub(super) fn combine(
        &mut self,
        region: Region,
        left: &[Element],
        right: &[Element],
    ) -> Result<Tuple, diag::Diagnostic> {
        let params: Vec<Value> = self.func.region(region).params.to_vec();
        for (param, element) in params.into_iter().zip(left.iter().chain(right)) {
            self.set(param, vec![*element]);
        }
        self.region(region)?;
        Ok(yielded(self.func, region)
            .to_vec()
            .into_iter()
            .map(|v| self.scalar(v))
            .collect())
    }

    /// The address of a byte of shared memory plus what the thread adds.
    pub(super) fn shared_place(&mut self, place: u32, thread: Operand) -> Addr {
        let base = self.shared_address(0);
        let reg = match thread {
            Operand::Int(0) => base,
            thread => self
                .code
                .in_prologue(|code| code.binary(ptx::BinaryOp::Add, Type::U32, base, thread)),
        };
        Addr::reg(reg, place as i32)
    }
}
