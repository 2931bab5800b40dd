//! Integers that reach an address, and the operations that may have wrapped them.
//!
//! Signed arithmetic of 32 bits that wraps is a mistake where an address is made of the result. Operations on such integers are noted as they are
//! decoded. Those whose result both may have wrapped and may reach an address then keep the exact values too; all others stay as they are.
//! Arithmetic without a sign wraps as it should, and bits that are masked or shifted down are no wrapped number any more.

use super::decoder::Decoder;
use super::uses::{Noted, Uses};
use crate::lanes::{Arithmetic, Exec, IntSlot, Linear, Slots};
use crate::program::copy::{BulkKind, Spot, TensorBox};
use crate::program::{AddressBase, File, NONE, Op, Step, Watch};
use ptx::{Binary, BinaryOp, Ternary, TernaryOp, Type, Unary, UnaryOp};
use smallvec::SmallVec;
use std::collections::HashSet;

impl IntSlot {
    /// The place of a register, unless it is a predicate.
    pub(crate) fn of(file: File, slot: u32) -> Option<IntSlot> {
        match file {
            File::Word => Some(IntSlot::Word(slot)),
            File::Double => Some(IntSlot::Double(slot)),
            File::Predicate => None,
        }
    }
}

/// How an operation is followed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A result of 32 bits may wrap.
    Signed32,
    /// Sources of 32 bits have no sign; what is computed in 32 bits may wrap.
    Unsigned32,
    /// Of 64 bits, or moved as it is.
    Wide,
}

fn kind(ty: Type) -> Option<Kind> {
    match ty {
        Type::S32 => Some(Kind::Signed32),
        Type::U32 => Some(Kind::Unsigned32),
        Type::S64 | Type::U64 | Type::B64 => Some(Kind::Wide),
        _ => None,
    }
}

impl Decoder<'_> {
    /// Notes the step that was appended last: its result and its sources.
    fn note(
        &mut self,
        op: Arithmetic,
        of: (Exec, Slots),
        places: [Option<IntSlot>; 4],
        kind: Kind,
    ) {
        let [result, a, b, c] = places;
        let Some(result) = result else { return };
        self.linears.push(Noted {
            step: self.steps.len() as u32 - 1,
            linear: Linear {
                op,
                exec: of.0,
                slots: of.1,
                sources: [a, b, c],
                result,
                is_unsigned: kind == Kind::Unsigned32,
                may_wrap: kind == Kind::Signed32 && matches!(result, IntSlot::Word(_)),
            },
        });
    }

    /// Notes an operation on two integers, which was appended last.
    pub(crate) fn note_binary(&mut self, i: &Binary, of: (Exec, Slots)) {
        let (slots, place) = (of.1, |slot| IntSlot::of(Self::file(i.ty), slot));
        let [mut result, a, mut b] = [slots.d, slots.a, slots.b].map(place);
        let op = match (i.op, kind(i.ty)) {
            // Bits have no sign: a shift is taken as a product of signed numbers, which it mostly is.
            (BinaryOp::Shl, _) if i.ty.bits() >= 32 => {
                b = Some(IntSlot::Word(slots.b));
                Arithmetic::ShiftLeft
            }
            (BinaryOp::MulWide, Some(_)) => {
                result = Some(IntSlot::Double(slots.d));
                Arithmetic::Multiply
            }
            (_, None | Some(Kind::Unsigned32)) => return,
            (BinaryOp::Add, _) if !i.sat => Arithmetic::Add,
            (BinaryOp::Sub, _) if !i.sat => Arithmetic::Subtract,
            (BinaryOp::MulLo, _) => Arithmetic::Multiply,
            (BinaryOp::Div, Some(Kind::Signed32)) => Arithmetic::Divide,
            _ => return,
        };
        let kind = kind(i.ty).unwrap_or(Kind::Signed32);
        self.note(op, of, [result, a, b, None], kind);
    }

    /// Notes a product and a sum, which was appended last.
    pub(crate) fn note_ternary(&mut self, i: &Ternary, of: (Exec, Slots)) {
        let (slots, place) = (of.1, |slot| IntSlot::of(Self::file(i.ty), slot));
        let sum = match (i.op, kind(i.ty)) {
            (TernaryOp::MadWide, Some(_)) => |slot| Some(IntSlot::Double(slot)),
            (TernaryOp::MadLo, Some(Kind::Signed32)) => |slot| Some(IntSlot::Word(slot)),
            (TernaryOp::MadLo, Some(Kind::Wide)) => |slot| Some(IntSlot::Double(slot)),
            _ => return,
        };
        let places = [sum(slots.d), place(slots.a), place(slots.b), sum(slots.c)];
        let kind = kind(i.ty).unwrap_or(Kind::Wide);
        self.note(Arithmetic::MultiplyAdd, of, places, kind);
    }

    /// Notes a negation, which was appended last.
    pub(crate) fn note_unary(&mut self, i: &Unary, of: (Exec, Slots)) {
        let kind = match i.ty {
            Type::S32 => Kind::Signed32,
            Type::S64 => Kind::Wide,
            _ => return,
        };
        if i.op == UnaryOp::Neg {
            let [result, a] = [of.1.d, of.1.a].map(|slot| IntSlot::of(Self::file(i.ty), slot));
            self.note(Arithmetic::Negate, of, [result, a, None, None], kind);
        }
    }

    /// Notes a move or a conversion to 64 bits, which was appended last.
    pub(crate) fn note_copy(&mut self, of: (Exec, Slots), [to, from]: [File; 2], is_signed: bool) {
        let (result, source) = (IntSlot::of(to, of.1.d), IntSlot::of(from, of.1.a));
        let kind = if is_signed {
            Kind::Wide
        } else {
            Kind::Unsigned32
        };
        self.note(Arithmetic::Copy, of, [result, source, None, None], kind);
    }

    /// Notes a selection, which was appended last: the slot of its predicate is the first source.
    pub(crate) fn note_select(&mut self, of: (Exec, Slots), file: File) {
        let slots = of.1;
        let [result, yes, no] = [slots.d, slots.b, slots.c].map(|slot| IntSlot::of(file, slot));
        let places = [result, yes, no, None];
        self.note(Arithmetic::Select(slots.a), of, places, Kind::Wide);
    }
}

/// Has the operations on registers that both may have wrapped and may reach an address keep exact values, and lets accesses look at them.
pub(crate) fn follow(
    steps: &mut [Step],
    noted: Vec<Noted>,
    uses: &[Uses],
    watches: &mut Vec<Watch>,
) {
    let followed = followed(steps, &noted);
    if followed.is_empty() {
        return;
    }
    let mut kept = HashSet::new();
    for Noted { step, linear } in noted {
        if followed.contains(&linear.result) {
            kept.insert((step, linear.result));
            steps[step as usize].op = Op::Linear(Box::new(linear));
        }
    }
    for (at, step) in steps.iter_mut().enumerate() {
        let mut addresses = addresses(&step.op);
        addresses.retain(|slot| followed.contains(slot));
        let mut overwrites = uses[at].places.clone();
        overwrites.retain(|slot| followed.contains(slot) && !kept.contains(&(at as u32, *slot)));
        if addresses.is_empty() && overwrites.is_empty() {
            continue;
        }
        if step.watch == NONE {
            step.watch = watches.len() as u32;
            watches.push(Watch::default());
        }
        let watch = &mut watches[step.watch as usize];
        (watch.addresses, watch.overwrites) = (addresses, overwrites);
    }
}

/// The registers of which addresses may be made, and that may have wrapped or come from one that has.
fn followed(steps: &[Step], noted: &[Noted]) -> HashSet<IntSlot> {
    let all = || noted.iter().map(|noted| &noted.linear);
    let mut reach: HashSet<IntSlot> = steps.iter().flat_map(|step| addresses(&step.op)).collect();
    until_settled(&mut reach, |reach| {
        for linear in all().rev() {
            if reach.contains(&linear.result) {
                reach.extend(linear.sources.iter().flatten());
            }
        }
    });
    let reaches = |linear: &&Linear| reach.contains(&linear.result);
    let wrap = all().filter(reaches).filter(|linear| linear.may_wrap);
    let mut wrapped: HashSet<IntSlot> = wrap.map(|linear| linear.result).collect();
    until_settled(&mut wrapped, |wrapped| {
        for linear in all().filter(reaches) {
            let mut sources = linear.sources.iter().flatten();
            if sources.any(|slot| wrapped.contains(slot)) {
                wrapped.insert(linear.result);
            }
        }
    });
    wrapped
}

/// Lets a set grow until it stays as it is.
fn until_settled(set: &mut HashSet<IntSlot>, grow: impl Fn(&mut HashSet<IntSlot>)) {
    loop {
        let before = set.len();
        grow(set);
        if set.len() == before {
            return;
        }
    }
}

/// The registers that say where in global memory, or in a tensor, a step accesses.
fn addresses(op: &Op) -> SmallVec<[IntSlot; 2]> {
    let base =
        |base: &AddressBase| (base.file == File::Double).then_some(IntSlot::Double(base.slot));
    let spot = |spot: &Spot| base(&spot.base).into_iter().collect();
    let place = |tensor: &TensorBox| {
        tensor
            .coords
            .iter()
            .map(|slot| IntSlot::Word(*slot))
            .collect()
    };
    match op {
        Op::Load(access) | Op::Store(access) => base(&access.base).into_iter().collect(),
        Op::Atomic(atomic) => base(&atomic.base).into_iter().collect(),
        Op::ThreadCopy(copy) => spot(&copy.src),
        Op::BulkPrefetch(src, _) => spot(src),
        Op::TensorPrefetch(tensor) => place(tensor),
        Op::BulkCopy(copy) => match &copy.kind {
            BulkKind::FromGlobal { src, .. } => spot(src),
            BulkKind::ToGlobal { dst, .. } => spot(dst),
            BulkKind::FromTensor(tensor) | BulkKind::ToTensor(tensor) => place(tensor),
            BulkKind::ToCluster { .. } => SmallVec::new(),
        },
        _ => SmallVec::new(),
    }
}
