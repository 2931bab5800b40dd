//! Matrix products on the tensor cores, started and waited for.
//!
//! The registers of an accumulator are the same from its beginning to its last wait: every `wgmma` adds into them in
//! place, and a loop carries them without a move. ptxas serialises products whose registers anything else touches.
//!
//! No registers are written by products in two places with a wait in between: ptxas 13.0 takes what is computed from such a
//! register after the second wait for what was computed from it after the first, and drops the product. So sums that are
//! made apart get registers of their own each time, and loops with products are not unrolled.

mod accumulator;
mod descriptor;
mod product;

use ir::elem::Elem;
use ir::entity::Inst;
use ir::ops::arith::BinaryOp as Op;
use ir::ops::wgmma::{AccumulatorBegin, FenceAsyncGlobal, FenceAsyncShared, WgmmaStart, WgmmaWait};
use ptx::{Binary, BinaryOp, Operand, Reg, Type};

use accumulator::accumulator_class;
pub(super) use accumulator::{elements_of, is_packed, zero};
pub(super) use product::element_type;
use product::{Product, Step};

use super::scale_d::Blank;
use super::{Emitted, Emitter, Lower};

impl Lower for FenceAsyncShared {
    fn lower(&self, _: Inst, cx: &mut Emitter<'_>) -> Emitted {
        cx.code.push(ptx::FenceProxyAsync {
            space: Some(ptx::ProxySpace::SharedCta),
        });
        Ok(())
    }
}

impl Lower for FenceAsyncGlobal {
    fn lower(&self, _: Inst, cx: &mut Emitter<'_>) -> Emitted {
        cx.code.push(ptx::FenceProxyAsync {
            space: Some(ptx::ProxySpace::Global),
        });
        Ok(())
    }
}

impl Lower for AccumulatorBegin {
    fn lower(&self, inst: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let result = cx.func.result(inst);
        let continued = cx.continued[result].take();
        let registers = if cx.begins_blank(inst, self.init) {
            cx.blank[result] = Some(Blank::Always);
            continued.unwrap_or_else(|| cx.blank_accumulator(self.init))
        } else {
            cx.new_accumulator(self.init, continued)
        };
        cx.set_in_flight(result, &registers);
        Ok(())
    }
}

impl Lower for WgmmaStart {
    fn lower(&self, inst: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let product = Product::of(self, cx);
        let accumulator = if cx.func.ty(self.accumulator).as_in_flight().is_some() {
            cx.in_flight(self.accumulator)
        } else {
            let continued = cx.continued[cx.func.result(inst)].take();
            cx.new_accumulator(self.accumulator, continued)
        };
        let use_old = cx.use_old(self);
        // Everything that is computed stands before the fence, so that nothing but products follows it.
        let steps = product.steps(cx);
        if self.promote_every == 0 {
            cx.code.push(ptx::WgmmaFence::new());
            for step in &steps {
                let d = product.registers_of(step.tile, &accumulator);
                let old = if step.k == 0 {
                    use_old
                } else {
                    Operand::Int(1)
                };
                cx.code.push(product.instruction(step, d, old));
            }
            cx.code.push(ptx::WgmmaCommitGroup::new());
        } else {
            cx.clear_unless(use_old, &accumulator, product.acc.elem);
            cx.promoted(&product, &steps, &accumulator, self.promote_every);
        }
        cx.set_in_flight(cx.func.result(inst), &accumulator);
        Ok(())
    }
}

impl Lower for WgmmaWait {
    fn lower(&self, inst: Inst, cx: &mut Emitter<'_>) -> Emitted {
        cx.code.push(ptx::WgmmaWaitGroup::new(self.pending));
        let results = cx.func.results(inst).to_vec();
        for (&from, to) in self.accumulators.iter().zip(results) {
            let registers = cx.in_flight(from);
            cx.clear_blank(from, &registers);
            if cx.func.ty(to).as_in_flight().is_some() {
                cx.set_in_flight(to, &registers);
            } else {
                let elements = elements_of(&registers, cx.elem(to));
                cx.set(to, elements);
            }
        }
        Ok(())
    }
}

impl Emitter<'_> {
    /// Whether what the accumulator held before counts.
    fn use_old(&mut self, op: &WgmmaStart) -> Operand {
        let keep = self.blank[op.accumulator].map_or(Operand::Int(1), Blank::keep);
        let Some(asked) = op.use_accumulator.expand() else {
            return keep;
        };
        let asked = self.scalar(asked);
        let both = self.code.int_binary(Op::And, asked, keep.into(), Elem::I1);
        match both.as_int() {
            Some(known) => Operand::Int(known),
            None => self.code.whole(both, Elem::I1).into(),
        }
    }

    /// Sums over `every` elements of K are made apart and then added in full precision: the tensor cores keep fewer
    /// bits of sums of 8-bit floats than a binary32 has.
    fn promoted(&mut self, product: &Product<'_>, steps: &[Step], sums: &[Reg], every: u32) {
        let class = accumulator_class(product.acc.elem);
        let chunk = (every / product.k_of_b).max(1);
        let count = product.tiles.len() as u32;
        for tile in 0..count {
            let of_tile: Vec<&Step> = steps.iter().filter(|s| s.tile == tile).collect();
            for chunk in of_tile.chunks(chunk as usize) {
                let parts = (0..product.registers).map(|_| self.code.reg(class));
                let parts: Vec<Reg> = parts.collect();
                self.code.push(ptx::WgmmaFence::new());
                for (at, step) in chunk.iter().enumerate() {
                    let old = Operand::Int(i64::from(at > 0));
                    self.code.push(product.instruction(step, &parts, old));
                }
                self.code.push(ptx::WgmmaCommitGroup::new());
                self.code.push(ptx::WgmmaWaitGroup::new(0_u32));
                let into = product.registers_of(tile, sums);
                for (&sum, &part) in into.iter().zip(&parts) {
                    self.code
                        .push(Binary::new(BinaryOp::Add, Type::F32, sum, sum, part));
                }
            }
        }
    }
}
