//! Mbarriers: their initialisation, arrivals and waits.

use super::decoder::{Decoded, Decoder};
use crate::lanes::{Slots, lanes};
use crate::program::copy::Spot;
use crate::program::sync::{MbarrierKind, MbarrierOp, Phase};
use crate::program::{File, NONE, Op};
use ptx::{
    AccessSem, Addr, ArriveOp, MbarSpace, MbarrierArrive, MbarrierInit, MbarrierInval,
    MbarrierPendingCount, MbarrierTx, MbarrierWait, Operand, Space, TxOp, Type, Visit, WaitOp,
};

/// The state space of an mbarrier.
pub(super) fn mbarrier_space(space: Option<MbarSpace>) -> Option<Space> {
    space.map(|space| match space {
        MbarSpace::Cta => Space::Shared,
        MbarSpace::Cluster => Space::SharedCluster,
    })
}

impl Decoder<'_> {
    fn mbarrier_op(
        &mut self,
        kind: MbarrierKind,
        space: Option<MbarSpace>,
        addr: Addr,
        operand: Option<Operand>,
    ) -> Decoded<MbarrierOp> {
        let Spot { space, base } = self.spot(mbarrier_space(space), addr)?;
        let operand = operand
            .map(|operand| self.source(operand, Type::U32))
            .transpose()?
            .unwrap_or(NONE);
        Ok(MbarrierOp {
            kind,
            space,
            base,
            operand,
            result: NONE,
            phase: Phase {
                file: File::Word,
                slot: NONE,
            },
        })
    }
}

impl Visit<MbarrierInit> for Decoder<'_> {
    fn visit(&mut self, i: &MbarrierInit) -> Decoded {
        let op = self.mbarrier_op(MbarrierKind::Init, i.space, i.addr, Some(i.count))?;
        self.push(Op::Mbarrier(Box::new(op)));
        Ok(())
    }
}

impl Visit<MbarrierInval> for Decoder<'_> {
    fn visit(&mut self, i: &MbarrierInval) -> Decoded {
        let op = self.mbarrier_op(MbarrierKind::Invalidate, i.space, i.addr, None)?;
        self.push(Op::Mbarrier(Box::new(op)));
        Ok(())
    }
}

impl Visit<MbarrierTx> for Decoder<'_> {
    fn visit(&mut self, i: &MbarrierTx) -> Decoded {
        let kind = if i.op == TxOp::Expect {
            MbarrierKind::Expect
        } else {
            MbarrierKind::Complete
        };
        let op = self.mbarrier_op(kind, i.space, i.addr, Some(i.bytes))?;
        self.push(Op::Mbarrier(Box::new(op)));
        Ok(())
    }
}

impl Visit<MbarrierArrive> for Decoder<'_> {
    fn visit(&mut self, i: &MbarrierArrive) -> Decoded {
        let kind = MbarrierKind::Arrive {
            expects: i.op.is_expect_tx(),
            drops: matches!(
                i.op,
                ArriveOp::Drop | ArriveOp::DropExpectTx | ArriveOp::DropNoComplete
            ),
            completes: !matches!(i.op, ArriveOp::NoComplete | ArriveOp::DropNoComplete),
            releases: i.sem != Some(AccessSem::Relaxed),
        };
        let mut op = self.mbarrier_op(kind, i.space, i.addr, i.count)?;
        if i.state.reg().is_some() {
            op.result = self.target(i.state, Type::B64)?;
        }
        self.push(Op::Mbarrier(Box::new(op)));
        Ok(())
    }
}

impl Visit<MbarrierWait> for Decoder<'_> {
    fn visit(&mut self, i: &MbarrierWait) -> Decoded {
        let parity = i.op.is_parity();
        let suspends = matches!(i.op, WaitOp::Try | WaitOp::TryParity);
        let mut op = self.mbarrier_op(
            MbarrierKind::Wait { parity, suspends },
            i.space,
            i.addr,
            None,
        )?;
        // The suspend-time hint is ignored: the emulator does not model time.
        if let Some(time) = i.hint {
            self.source(time, Type::U32)?;
        }
        let ty = if parity { Type::U32 } else { Type::B64 };
        op.phase = Phase {
            file: Self::file(ty),
            slot: self.source(i.phase, ty)?,
        };
        op.result = self.target(i.done, Type::Pred)?;
        self.push(Op::Mbarrier(Box::new(op)));
        Ok(())
    }
}

impl Visit<MbarrierPendingCount> for Decoder<'_> {
    fn visit(&mut self, i: &MbarrierPendingCount) -> Decoded {
        let a = self.source(i.state, Type::B64)?;
        let d = self.target(i.dst, Type::U32)?;
        self.lanes(
            lanes!(|a: u64| -> u32 { a as u32 & 0x1f_ffff }),
            Slots::unary(d, a),
        );
        Ok(())
    }
}
