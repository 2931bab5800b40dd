//! CTA barriers.

use super::decoder::{Decoded, Decoder};
use crate::program::{Barrier, BarrierKind, NONE, Op};
use ptx::{Bar, BarOp, BarRed, BarRedOp, Operand, Type, Visit};

impl Visit<Bar> for Decoder<'_> {
    fn visit(&mut self, i: &Bar) -> Decoded {
        let (kind, aligned) = match i.op {
            BarOp::Sync => (BarrierKind::Sync, true),
            BarOp::Arrive => (BarrierKind::Arrive, true),
            BarOp::SyncDivergent => (BarrierKind::Sync, false),
            BarOp::ArriveDivergent => (BarrierKind::Arrive, false),
        };
        if kind == BarrierKind::Arrive && i.threads.is_none() {
            return Err("bar.arrive needs a thread count".to_owned());
        }
        let (id, threads) = self.barrier_operands(i.barrier, i.threads)?;
        self.push(Op::Barrier(Box::new(Barrier {
            kind,
            aligned,
            id,
            threads,
            src: 0,
            flip: 0,
            dst: 0,
        })));
        Ok(())
    }
}

impl Visit<BarRed> for Decoder<'_> {
    fn visit(&mut self, i: &BarRed) -> Decoded {
        let (kind, ty) = match i.op {
            BarRedOp::Popc => (BarrierKind::Popc, Type::U32),
            BarRedOp::And => (BarrierKind::And, Type::Pred),
            BarRedOp::Or => (BarrierKind::Or, Type::Pred),
        };
        let (id, threads) = self.barrier_operands(i.barrier, i.threads)?;
        let (src, flip) = self.condition(i.src)?;
        let dst = self.target(i.dst, ty)?;
        self.push(Op::Barrier(Box::new(Barrier {
            kind,
            aligned: true,
            id,
            threads,
            src,
            flip,
            dst,
        })));
        Ok(())
    }
}

impl Decoder<'_> {
    fn barrier_operands(&mut self, id: Operand, threads: Option<Operand>) -> Decoded<(u32, u32)> {
        let id = self.source(id, Type::U32)?;
        let threads = threads
            .map(|count| self.source(count, Type::U32))
            .transpose()?;
        Ok((id, threads.unwrap_or(NONE)))
    }
}
