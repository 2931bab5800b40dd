//! Products that begin in the registers of a tensor that is read no more.
//!
//! `Accumulator::from_tensor(products).mma_if(false, ..)` begins a product of zeros where the elements of another one were, which have been read:
//!
//! ```text
//! fma.rn.f32 %f9, %f1, %f8, %f9;                                fma.rn.f32 %f9, %f1, %f8, %f9;
//! mov.f32 %f2, %f1;                                        =>
//! wgmma.mma_async.. {%f2, ..}, %rd1, %rd2, 0, ..;               wgmma.mma_async.. {%f1, ..}, %rd1, %rd2, 0, ..;
//! ```
//!
//! In registers of its own, ptxas would start the product ahead of these reads, and both accumulators would be live.

#[cfg(test)]
mod tests;

use ptx::{Inst, Instruction, Operand, Reg, Role, Stmt};
use rustc_hash::{FxHashMap, FxHashSet};

use super::code::Code;

/// Gives such products the registers, and drops the copies.
pub(super) fn begin_in_place(code: &mut Code) {
    let lists = code.lists_mut();
    let statements: Vec<&Stmt> = lists.iter().flat_map(|list| list.iter()).collect();
    let found = find(&statements);
    if found.copies.is_empty() {
        return;
    }
    let mut at = 0;
    for list in lists {
        list.retain(|_| {
            at += 1;
            !found.copies.contains(&(at - 1))
        });
        for statement in list {
            if let Stmt::Inst(i) = statement {
                i.inst.visit_registers_mut(|reg, _| *reg = found.home(*reg));
            }
        }
    }
}

/// What is to change.
#[derive(Debug, Default)]
struct InPlace {
    /// The register that another one becomes.
    homes: FxHashMap<Reg, Reg>,
    /// Places of the copies that are dropped.
    copies: FxHashSet<usize>,
}

impl InPlace {
    fn home(&self, reg: Reg) -> Reg {
        self.homes
            .get(&reg)
            .map_or(reg, |&earlier| self.home(earlier))
    }
}

/// Where registers are named, in the order of the text.
struct Places<'s> {
    statements: &'s [&'s Stmt],
    of: FxHashMap<Reg, Vec<usize>>,
    /// The number of labels and branches before each statement: where that of two is equal, what executes one executes the other.
    straight: Vec<usize>,
}

impl<'s> Places<'s> {
    fn new(statements: &'s [&'s Stmt]) -> Self {
        let (mut of, mut straight) = (FxHashMap::<Reg, Vec<usize>>::default(), Vec::new());
        let mut parts = 0;
        for (at, statement) in statements.iter().enumerate() {
            parts += usize::from(matches!(statement, Stmt::Label(_)));
            straight.push(parts);
            let Some(i) = statement.instruction() else {
                continue;
            };
            let mut named = |reg| {
                let places = of.entry(reg).or_default();
                if places.last() != Some(&at) {
                    places.push(at);
                }
            };
            i.guard.iter().for_each(|guard| named(guard.reg));
            i.inst.visit_registers(|reg, _| named(reg));
            parts += usize::from(matches!(i.inst, Inst::Bra(_)));
        }
        Places {
            statements,
            of,
            straight,
        }
    }

    fn instruction(&self, at: usize) -> Option<&'s Instruction> {
        self.statements[at].instruction()
    }

    /// The place where a register of a product that begins at `product` was copied, and from which one, if that is read no more.
    fn copied(&self, reg: Reg, product: usize) -> Option<(usize, Reg)> {
        let &[copy, next, ..] = &self.of.get(&reg)?[..] else {
            return None;
        };
        let i = self.instruction(copy).filter(|i| i.guard.is_none())?;
        let Inst::Mov(moved) = &i.inst else {
            return None;
        };
        let &[Operand::Reg(from)] = &moved.src.0[..] else {
            return None;
        };
        let of_source = &self.of[&from];
        let (first, last) = (*of_source.first()?, *of_source.last()?);
        let lives_straight = last == copy && self.straight[first] == self.straight[copy];
        (next == product && lives_straight && self.is_written(from, first)).then_some((copy, from))
    }

    /// Whether the statement writes a register whatever it held.
    fn is_written(&self, reg: Reg, at: usize) -> bool {
        let Some(i) = self.instruction(at).filter(|i| i.guard.is_none()) else {
            return false;
        };
        let mut is_read = false;
        i.inst.visit_registers(|named, role| {
            is_read |= named == reg && role != Role::Write;
        });
        !is_read || is_of_zeros(&i.inst)
    }
}

/// Whether it is a product whose accumulator counts as zero.
fn is_of_zeros(inst: &Inst) -> bool {
    matches!(inst, Inst::Wgmma(product) if product.scale_d == Operand::Int(0))
}

fn find(statements: &[&Stmt]) -> InPlace {
    let places = Places::new(statements);
    let mut found = InPlace::default();
    for (at, statement) in statements.iter().enumerate() {
        let Some(Inst::Wgmma(product)) = statement.instruction().map(|i| &i.inst) else {
            continue;
        };
        if product.scale_d != Operand::Int(0) {
            continue;
        }
        let copied = product.d.0.iter().map(|&reg| places.copied(reg, at));
        let Some(copied) = copied.collect::<Option<Vec<_>>>() else {
            continue;
        };
        for (&reg, (copy, from)) in product.d.0.iter().zip(copied) {
            found.homes.insert(reg, from);
            found.copies.insert(copy);
        }
    }
    found
}
