//! Registers that may be read before they are written.
//!
//! Most registers are written on every path before they are read, which a dataflow analysis proves; only the others are checked at run
//! time.

use super::decoder::Decoder;
use super::uses::{Use, Uses};
use crate::lanes::IntSlot;
use crate::program::matrix::LeftMatrix;
use crate::program::{File, NONE, Op, Step, Watch, Watched};
use ptx::{Inst, Instruction, Operand, Reg, Role};
use smallvec::SmallVec;
use std::collections::HashSet;

/// When an instruction reads the registers that it reads and writes.
#[derive(Clone, Copy)]
enum Accumulates {
    Always,
    /// Where this predicate slot is true.
    If(u32),
    Never,
}

/// The outcome of the analysis.
pub(crate) struct Found {
    pub(crate) watches: Vec<Watch>,
    pub(crate) count: u32,
}

impl Decoder<'_> {
    /// Notes what the steps from `first_step` on, which stand for `instruction`, read and write.
    pub(crate) fn note_uses(&mut self, instruction: &Instruction, first_step: usize) {
        if self.steps.len() == first_step {
            return;
        }
        let registers = &self.frames[self.frames.len() - 1].registers;
        let unique = |reg: Reg| registers[&reg].unique;
        let mut uses = Uses {
            is_certain: instruction.guard.is_none(),
            ..Uses::default()
        };
        if let Some(guard) = instruction.guard {
            uses.reads.push(Use {
                unique: unique(guard.reg),
                reg: guard.reg,
                only_if: None,
                is_guard: true,
            });
        }
        let mut read = |reg: Reg, only_if| {
            uses.reads.push(Use {
                unique: unique(reg),
                reg,
                only_if,
                is_guard: false,
            });
        };
        let selects = match &instruction.inst {
            Inst::Selp(selp) => selp
                .p
                .reg()
                .and_then(|p| Some((selp, self.predicate_reg(p).ok()?))),
            _ => None,
        };
        if let Some((selp, slot)) = selects {
            for (operand, wanted) in [(selp.a, true), (selp.b, false)] {
                if let Operand::Reg(reg) = operand {
                    read(reg, Some((slot, wanted)));
                }
            }
            if let Operand::Reg(reg) = selp.p {
                read(reg, None);
            }
        }
        let accumulates = self.accumulates(&instruction.inst);
        let mut writes = SmallVec::new();
        instruction.inst.visit_registers(|reg, role| {
            if role == Role::ReadWrite {
                // Accumulators, which a product only reads when it adds to them.
                match accumulates {
                    Accumulates::Always => read(reg, None),
                    Accumulates::If(slot) => read(reg, Some((slot, true))),
                    Accumulates::Never => {}
                }
            } else if role == Role::Read && selects.is_none() {
                read(reg, None);
            }
            if role != Role::Read {
                writes.push(unique(reg));
            }
        });
        let (mut words, mut places) = (SmallVec::new(), SmallVec::new());
        instruction.inst.visit_registers(|reg, role| {
            let Ok((file, slot)) = self.register(reg) else {
                return;
            };
            if file == File::Word {
                words.push(slot);
            }
            if role != Role::Read {
                places.extend(IntSlot::of(file, slot));
            }
        });
        self.uses[first_step].words = words;
        // Reads happen at the first step of an instruction, writes are complete at its last.
        let (reads, is_certain) = (uses.reads, uses.is_certain);
        self.uses[first_step].reads = reads;
        if let Some(last) = self.uses.last_mut() {
            last.writes = writes;
            last.places = places;
            last.is_certain = is_certain;
        }
    }

    /// When an instruction reads its accumulators.
    fn accumulates(&self, inst: &Inst) -> Accumulates {
        let Inst::Wgmma(product) = inst else {
            return Accumulates::Always;
        };
        match product.scale_d {
            Operand::Int(0) => Accumulates::Never,
            Operand::Reg(reg) => self
                .predicate_reg(reg)
                .map_or(Accumulates::Always, Accumulates::If),
            _ => Accumulates::Always,
        }
    }
}

/// Gives steps that touch registers of asynchronous products the list of those registers: accumulators and A, and metadata where it is written.
pub(crate) fn find_fragments(steps: &mut [Step], uses: &[Uses]) -> Vec<SmallVec<[u32; 4]>> {
    let (mut slots, mut metadata) = (HashSet::new(), HashSet::new());
    for step in steps.iter() {
        if let Op::GroupMultiply(op) = &step.op {
            slots.extend(op.d.iter().copied());
            if let LeftMatrix::Registers(inputs) = &op.a {
                slots.extend(inputs.iter().copied());
            }
            metadata.extend(op.sparse.map(|sparse| sparse.metadata));
        }
    }
    let mut fragments = Vec::new();
    for (step, uses) in steps.iter_mut().zip(uses) {
        let touched: SmallVec<[u32; 4]> = uses
            .words
            .iter()
            .copied()
            .filter(|slot| {
                slots.contains(slot) || metadata.contains(slot) && uses.is_written(*slot)
            })
            .collect();
        if !touched.is_empty() && !matches!(step.op, Op::GroupMultiply(_)) {
            step.fragments = fragments.len() as u32;
            fragments.push(touched);
        }
    }
    fragments
}

/// Finds reads that a path without a write may reach, and gives the steps concerned a watch.
pub(crate) fn find(steps: &mut [Step], uses: &[Uses]) -> Found {
    let registers = uses.iter().flat_map(|u| {
        u.writes
            .iter()
            .copied()
            .chain(u.reads.iter().map(|r| r.unique))
    });
    let count = registers.max().map_or(0, |last| last as usize + 1);
    let suspects = suspects(steps, uses, count);
    let mut index_of = vec![NONE; count];
    let mut next = 0;
    for (register, _) in suspects.iter().enumerate().filter(|(_, suspect)| **suspect) {
        index_of[register] = next;
        next += 1;
    }
    let mut watches = Vec::new();
    for (step, uses) in steps.iter_mut().zip(uses) {
        let watch = Watch {
            reads: uses
                .reads
                .iter()
                .filter(|read| suspects[read.unique as usize])
                .map(|read| Watched {
                    index: index_of[read.unique as usize],
                    reg: read.reg,
                    only_if: read.only_if,
                    is_guard: read.is_guard,
                })
                .collect(),
            writes: uses
                .writes
                .iter()
                .map(|&w| index_of[w as usize])
                .filter(|&index| index != NONE)
                .collect(),
            ..Watch::default()
        };
        if !watch.reads.is_empty() || !watch.writes.is_empty() {
            step.watch = watches.len() as u32;
            watches.push(watch);
        }
    }
    Found {
        watches,
        count: next,
    }
}

type Bits = Vec<u64>;

/// Registers with a read that some path reaches without a write.
fn suspects(steps: &[Step], uses: &[Uses], count: usize) -> Vec<bool> {
    let words = count.div_ceil(64);
    // Written for certain when a block is entered; all ones means that no path to it has been seen.
    let mut entry: Vec<Option<Bits>> = vec![None; steps.len() + 1];
    entry[0] = Some(vec![0; words]);
    let mut found = vec![false; count];
    let mut pending = vec![0];
    while let Some(start) = pending.pop() {
        let mut written = entry[start].clone().unwrap_or_default();
        let mut at = start;
        loop {
            for read in &uses[at].reads {
                let register = read.unique as usize;
                found[register] |= written[register / 64] >> (register % 64) & 1 == 0;
            }
            if uses[at].is_certain {
                for &register in &uses[at].writes {
                    written[register as usize / 64] |= 1 << (register % 64);
                }
            }
            let step = &steps[at];
            let falls_through = match step.op {
                Op::Branch { target, .. } => {
                    if merge(&mut entry[target as usize], &written) {
                        pending.push(target as usize);
                    }
                    step.guard != 0 || step.flip != 0
                }
                Op::Exit | Op::Trap => step.guard != 0 || step.flip != 0,
                _ => true,
            };
            at += 1;
            if !falls_through || at == steps.len() {
                break;
            }
            // Only places that something jumps to need a merged state; elsewhere the walk simply continues.
            if let Some(known) = &mut entry[at] {
                if !merge_into(known, &written) {
                    break;
                }
                written.clone_from(known);
            } else if is_leader(steps, at) {
                entry[at] = Some(written.clone());
            }
        }
    }
    found
}

fn is_leader(steps: &[Step], at: usize) -> bool {
    matches!(steps[at - 1].op, Op::Branch { .. } | Op::Exit | Op::Trap)
}

fn merge(entry: &mut Option<Bits>, written: &Bits) -> bool {
    if let Some(known) = entry {
        merge_into(known, written)
    } else {
        *entry = Some(written.clone());
        true
    }
}

/// Keeps what both know; says whether that is less than before.
fn merge_into(known: &mut Bits, written: &Bits) -> bool {
    let mut changed = false;
    for (known, &written) in known.iter_mut().zip(written) {
        changed |= *known & !written != 0;
        *known &= written;
    }
    changed
}
