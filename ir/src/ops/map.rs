//! A scalar function of each element.

use super::control::yielded;
use super::define::define_op;
use super::operand_types::mismatch;
use super::shape::tensor;
use super::{OpRules, Types, Values};
use crate::OpError;
use crate::elem::Elem;
use crate::entity::{Region, Value};
use crate::facts::{Facts, KnownFacts};
use crate::{Func, TensorType, Type};
use diag::Code;
use layout::Layout;

define_op! {
    /// Runs the region once for each `pack` elements that a thread holds next to one another. It takes `pack` elements of
    /// each operand (all of the first, then all of the second) and yields `pack` of each result. It only computes, and may
    /// branch and loop, each thread by itself.
    pub struct Map = "map" {
        /// Elements of an operand in one run.
        pack: u32,
        /// Tensors of one shape and layout.
        operands: Values,
        /// The function.
        body: Region,
    }
}

impl OpRules for Map {
    fn result_types(&self, func: &Func, _: &[Type]) -> Result<Types, OpError> {
        let Some(&first) = self.operands.first() else {
            return Err(OpError::new(Code::BrokenRule, "`map` of nothing"));
        };
        let t = tensor(func, "map_elementwise", first)?;
        for &other in &self.operands[1..] {
            let o = tensor(func, "map_elementwise", other)?;
            if (&o.shape, &o.layout) != (&t.shape, &t.layout) {
                let as_first = func.ty(other).with_elem(t.elem);
                return Err(mismatch(
                    "map_elementwise",
                    first,
                    func.ty(first),
                    other,
                    &as_first,
                ));
            }
        }
        check_pack("map_elementwise", self.pack, first, t)?;
        self.check_params(func)?;
        let given = yielded(func, self.body);
        let packs = given.chunks(self.pack as usize);
        packs
            .map(|pack| Ok(func.ty(first).with_elem(self.one_elem(func, pack)?)))
            .collect()
    }
    /// The function may ask which thread it is in, or look at neighbours.
    fn result_facts(&self, _: &Func, _: &KnownFacts, ty: &Type) -> Facts {
        Facts::unknown(ty)
    }
}

impl Map {
    fn check_params(&self, func: &Func) -> Result<(), OpError> {
        let wanted = self.operands.iter().flat_map(|v| {
            let elem = func.ty(*v).elem();
            std::iter::repeat_n(elem.map(Type::Scalar), self.pack as usize)
        });
        let params = func.region(self.body).params.iter();
        if params.map(|v| Some(func.ty(*v).clone())).eq(wanted) {
            return Ok(());
        }
        Err(OpError::new(
            Code::BrokenRule,
            "the region of `map` takes its operands' elements, as many as the pack of each",
        ))
    }

    /// The element type of one result.
    fn one_elem(&self, func: &Func, pack: &[Value]) -> Result<Elem, OpError> {
        let first = func.ty(pack[0]);
        let is_whole = pack.len() == self.pack as usize;
        let is_one_type = pack.iter().all(|v| func.ty(*v) == first);
        match first {
            Type::Scalar(elem) if is_whole && is_one_type => Ok(*elem),
            _ => Err(OpError::new(
                Code::BrokenRule,
                format!(
                    "the region of `map` yields {} scalars of one type for each result",
                    self.pack
                ),
            )),
        }
    }
}

/// Each thread must hold whole packs of this tensor's elements.
pub(super) fn check_pack(op: &str, pack: u32, value: Value, t: &TensorType) -> Result<(), OpError> {
    let is_power = pack.is_power_of_two();
    let held = match &t.layout {
        Layout::Auto | Layout::Coalesced => None,
        layout => layout.linear(&t.shape).ok(),
    };
    let held = held.map(|map| map.registers().len());
    let fits = held.is_none_or(|held| held.is_multiple_of(pack.max(1) as usize));
    if is_power && fits {
        return Ok(());
    }
    let message = match held {
        Some(held) if is_power => {
            format!("`{op}` in packs of {pack} elements, and each thread has {held}")
        }
        _ => format!("`{op}` in packs of {pack} elements, which is no power of two"),
    };
    Err(OpError::new(Code::PackedElements, message)
        .typed(value, t)
        .help("use a layout that gives each thread more elements, or a smaller pack"))
}
