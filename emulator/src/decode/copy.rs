//! Asynchronous copies, their groups, and mbarriers.

use super::atomics::operation;
use super::decoder::{Decoded, Decoder};
use crate::lanes::{Slots, lanes};
use crate::program::copy::{
    BulkCopy, BulkKind, GroupOp, RemoteStore, ReplaceField, Spot, TensorBox, ThreadCopy,
};
use crate::program::sync::{MbarrierKind, MbarrierOp, Phase};
use crate::program::{AtomicOp, File, NONE, Op};
use ptx::{
    AccessSem, Addr, ArriveOp, Base, BulkLoad, BulkPrefetch, BulkReduce, BulkReduceCluster,
    BulkSharedToCluster, BulkStore, CpAsync, CpAsyncMbarrierArrive, CtaMask, FenceProxyTensormap,
    GetCtaRank, Mapa, MbarSpace, MbarrierArrive, MbarrierInit, MbarrierInval, MbarrierPendingCount,
    MbarrierTx, MbarrierWait, Operand, PrefetchTensormap, ProxySpace, RedAsync, SetMaxNReg,
    SetMaxNRegOp, Space, StAsync, TensorAddr, TensorLoad, TensorMode, TensorPrefetch, TensorReduce,
    TensorStore, TensormapCpFenceproxy, TensormapReplace, TxOp, Type, Visit, WaitOp,
};
use target::TENSOR_MAP_BYTES;

fn mbarrier_space(space: Option<MbarSpace>) -> Option<Space> {
    space.map(|space| match space {
        MbarSpace::Cta => Space::Shared,
        MbarSpace::Cluster => Space::SharedCluster,
    })
}

impl Decoder<'_> {
    pub(crate) fn spot(&mut self, space: Option<Space>, addr: Addr) -> Decoded<Spot> {
        let (space, base) = self.address(space, addr)?;
        Ok(Spot { space, base })
    }

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
        // How long a thread may be suspended is a matter of time, of which the machine knows nothing.
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

impl Visit<CpAsync> for Decoder<'_> {
    fn visit(&mut self, i: &CpAsync) -> Decoded {
        let widths = &self.machine.access.async_bytes;
        let asked = match i.bytes {
            Operand::Int(bytes) => u32::try_from(bytes).ok(),
            _ => None,
        };
        let Some(bytes) = asked.filter(|bytes| widths.contains(bytes)) else {
            return Err(format!("cp.async copies one of {widths:?} bytes"));
        };
        let src_bytes = i
            .src_bytes
            .map(|operand| self.source_bytes(operand, bytes))
            .transpose()?;
        let copy = ThreadCopy {
            dst: self.spot(Some(Space::Shared), i.dst)?,
            src: self.spot(Some(Space::Global), i.src)?,
            bytes,
            src_bytes,
        };
        self.push(Op::ThreadCopy(Box::new(copy)));
        Ok(())
    }
}

impl Decoder<'_> {
    /// Slot of the number of bytes that `cp.async` reads; a predicate in its place means that it reads none.
    fn source_bytes(&mut self, operand: Operand, bytes: u32) -> Decoded<u32> {
        let is_predicate = operand
            .reg()
            .is_some_and(|reg| self.predicate_reg(reg).is_ok());
        if !is_predicate {
            return self.source(operand, Type::U32);
        }
        let a = self.source(operand, Type::Pred)?;
        let b = self.source(Operand::Int(bytes.into()), Type::U32)?;
        let d = self.new_slots(File::Word, 1);
        self.lanes_before(
            lanes!(|ignored: bool, bytes: u32| -> u32 { if ignored { 0 } else { bytes } }),
            Slots::binary(d, a, b),
        );
        Ok(d)
    }

    /// The number of groups that may stay open, an immediate.
    pub(crate) fn open_groups(operand: Operand) -> Decoded<u32> {
        match operand {
            Operand::Int(count) if count >= 0 => Ok(count as u32),
            _ => Err("the number of groups must be an immediate".to_owned()),
        }
    }

    pub(crate) fn thread_group(&mut self, op: GroupOp) -> Decoded {
        self.push(Op::ThreadGroup(op));
        Ok(())
    }

    pub(crate) fn bulk_group(&mut self, op: GroupOp) -> Decoded {
        self.push(Op::BulkGroup(op));
        Ok(())
    }
}

impl Visit<CpAsyncMbarrierArrive> for Decoder<'_> {
    fn visit(&mut self, i: &CpAsyncMbarrierArrive) -> Decoded {
        let spot = self.spot(mbarrier_space(i.space), i.addr)?;
        self.push(Op::CopiesArrive {
            spot: Box::new(spot),
            noinc: i.noinc,
        });
        Ok(())
    }
}

impl Decoder<'_> {
    fn mask(&mut self, mask: Option<CtaMask>) -> Decoded<Option<u32>> {
        mask.map(|mask| self.source(mask.0, Type::U16)).transpose()
    }

    fn push_copy(
        &mut self,
        kind: BulkKind,
        shared: Spot,
        mbarrier: Option<Addr>,
        multicast: Option<CtaMask>,
        reduction: Option<(AtomicOp, Option<Type>)>,
    ) -> Decoded {
        let mbarrier = mbarrier
            .map(|addr| self.spot(Some(Space::SharedCluster), addr))
            .transpose()?;
        let multicast = self.mask(multicast)?;
        self.push(Op::BulkCopy(Box::new(BulkCopy {
            kind,
            shared,
            mbarrier,
            multicast,
            reduction,
        })));
        Ok(())
    }
}

impl Visit<BulkLoad> for Decoder<'_> {
    fn visit(&mut self, i: &BulkLoad) -> Decoded {
        let shared = self.spot(Some(Space::SharedCluster), i.dst)?;
        let src = self.spot(Some(Space::Global), i.src)?;
        let bytes = self.source(i.bytes, Type::U32)?;
        self.push_copy(
            BulkKind::FromGlobal { src, bytes },
            shared,
            Some(i.mbar),
            i.multicast,
            None,
        )
    }
}

impl Visit<BulkSharedToCluster> for Decoder<'_> {
    fn visit(&mut self, i: &BulkSharedToCluster) -> Decoded {
        let shared = self.spot(Some(Space::SharedCluster), i.dst)?;
        let src = self.spot(Some(Space::Shared), i.src)?;
        let bytes = self.source(i.bytes, Type::U32)?;
        self.push_copy(
            BulkKind::ToCluster { src, bytes },
            shared,
            Some(i.mbar),
            None,
            None,
        )
    }
}

impl Visit<BulkStore> for Decoder<'_> {
    fn visit(&mut self, i: &BulkStore) -> Decoded {
        let shared = self.spot(Some(Space::Shared), i.src)?;
        let dst = self.spot(Some(Space::Global), i.dst)?;
        let bytes = self.source(i.bytes, Type::U32)?;
        self.push_copy(BulkKind::ToGlobal { dst, bytes }, shared, None, None, None)
    }
}

impl Visit<BulkReduce> for Decoder<'_> {
    fn visit(&mut self, i: &BulkReduce) -> Decoded {
        let shared = self.spot(Some(Space::Shared), i.src)?;
        let dst = self.spot(Some(Space::Global), i.dst)?;
        let bytes = self.source(i.bytes, Type::U32)?;
        let reduction = Some((operation(i.op), Some(i.ty)));
        self.push_copy(
            BulkKind::ToGlobal { dst, bytes },
            shared,
            None,
            None,
            reduction,
        )
    }
}

impl Visit<BulkReduceCluster> for Decoder<'_> {
    fn visit(&mut self, i: &BulkReduceCluster) -> Decoded {
        let shared = self.spot(Some(Space::SharedCluster), i.dst)?;
        let src = self.spot(Some(Space::Shared), i.src)?;
        let bytes = self.source(i.bytes, Type::U32)?;
        let reduction = Some((operation(i.op), Some(i.ty)));
        self.push_copy(
            BulkKind::ToCluster { src, bytes },
            shared,
            Some(i.mbar),
            None,
            reduction,
        )
    }
}

impl Visit<BulkPrefetch> for Decoder<'_> {
    fn visit(&mut self, i: &BulkPrefetch) -> Decoded {
        let src = self.spot(Some(Space::Global), i.src)?;
        let bytes = self.source(i.bytes, Type::U32)?;
        self.push(Op::BulkPrefetch(Box::new(src), bytes));
        Ok(())
    }
}

impl Decoder<'_> {
    fn tensor_box(
        &mut self,
        addr: &TensorAddr,
        mode: Option<TensorMode>,
        offsets: &[Operand],
    ) -> Decoded<TensorBox> {
        let map = match addr.map.base {
            Base::Symbol(_) => self.spot(Some(Space::Param), addr.map)?,
            _ => self.spot(None, addr.map)?,
        };
        let coords = addr
            .coords
            .iter()
            .map(|&coord| self.source(coord, Type::S32))
            .collect::<Decoded<_>>()?;
        let offsets = offsets
            .iter()
            .map(|&offset| self.source(offset, Type::U16))
            .collect::<Decoded<_>>()?;
        let im2col = matches!(mode, Some(TensorMode::Im2col | TensorMode::Im2colNoOffsets));
        Ok(TensorBox {
            map,
            coords,
            im2col,
            offsets,
        })
    }
}

impl Visit<TensorLoad> for Decoder<'_> {
    fn visit(&mut self, i: &TensorLoad) -> Decoded {
        let offsets = i.offsets.as_ref().map_or(&[][..], |offsets| &offsets.0);
        let tensor = self.tensor_box(&i.src, i.mode, offsets)?;
        let shared = self.spot(Some(Space::SharedCluster), i.dst)?;
        self.push_copy(
            BulkKind::FromTensor(tensor),
            shared,
            Some(i.mbar),
            i.multicast,
            None,
        )
    }
}

impl Visit<TensorStore> for Decoder<'_> {
    fn visit(&mut self, i: &TensorStore) -> Decoded {
        let tensor = self.tensor_box(&i.dst, i.mode, &[])?;
        let shared = self.spot(Some(Space::Shared), i.src)?;
        self.push_copy(BulkKind::ToTensor(tensor), shared, None, None, None)
    }
}

impl Visit<TensorReduce> for Decoder<'_> {
    fn visit(&mut self, i: &TensorReduce) -> Decoded {
        let tensor = self.tensor_box(&i.dst, i.mode, &[])?;
        let shared = self.spot(Some(Space::Shared), i.src)?;
        self.push_copy(
            BulkKind::ToTensor(tensor),
            shared,
            None,
            None,
            Some((operation(i.op), None)),
        )
    }
}

impl Visit<TensorPrefetch> for Decoder<'_> {
    fn visit(&mut self, i: &TensorPrefetch) -> Decoded {
        let offsets = i.offsets.as_ref().map_or(&[][..], |offsets| &offsets.0);
        let tensor = self.tensor_box(&i.src, i.mode, offsets)?;
        self.push(Op::TensorPrefetch(Box::new(tensor)));
        Ok(())
    }
}

impl Visit<PrefetchTensormap> for Decoder<'_> {
    fn visit(&mut self, i: &PrefetchTensormap) -> Decoded {
        let map = self.spot(i.space, i.addr)?;
        let tensor = TensorBox {
            map,
            coords: smallvec::smallvec![],
            offsets: smallvec::smallvec![],
            im2col: false,
        };
        self.push(Op::TensorPrefetch(Box::new(tensor)));
        Ok(())
    }
}

impl Visit<TensormapReplace> for Decoder<'_> {
    fn visit(&mut self, i: &TensormapReplace) -> Decoded {
        let space = match i.space {
            None => None,
            Some(ProxySpace::Global) => Some(Space::Global),
            Some(ProxySpace::SharedCta) => Some(Space::Shared),
            Some(ProxySpace::SharedCluster) => {
                return Err("a tensor map cannot lie there".to_owned());
            }
        };
        let index = match i.index {
            None => 0,
            Some(Operand::Int(index)) => index as u32,
            Some(_) => return Err("the dimension must be an immediate".to_owned()),
        };
        let map = self.spot(space, i.addr)?;
        let value = self.cell(i.value, i.ty)?;
        let op = ReplaceField {
            map,
            field: i.field,
            index,
            value,
        };
        self.push(Op::ReplaceField(Box::new(op)));
        Ok(())
    }
}

impl Visit<TensormapCpFenceproxy> for Decoder<'_> {
    fn visit(&mut self, i: &TensormapCpFenceproxy) -> Decoded {
        if i.bytes != Operand::Int(TENSOR_MAP_BYTES.into()) {
            return Err(format!("a tensor map has {TENSOR_MAP_BYTES} bytes"));
        }
        let spots = (
            self.spot(Some(Space::Global), i.dst)?,
            self.spot(Some(Space::Shared), i.src)?,
        );
        self.push(Op::PublishMap(Box::new(spots)));
        Ok(())
    }
}

impl Visit<FenceProxyTensormap> for Decoder<'_> {
    fn visit(&mut self, i: &FenceProxyTensormap) -> Decoded {
        let acquired = i.addr.map(|addr| self.spot(None, addr)).transpose()?;
        self.push(Op::MapFence(acquired.map(Box::new)));
        Ok(())
    }
}

impl Visit<StAsync> for Decoder<'_> {
    fn visit(&mut self, i: &StAsync) -> Decoded {
        let sources = self.source_cells(&i.src, i.ty)?;
        let dst = self.spot(Some(Space::SharedCluster), i.addr)?;
        let mbarrier = self.spot(Some(Space::SharedCluster), i.mbar)?;
        let op = RemoteStore {
            dst,
            mbarrier,
            element: i.ty.bytes(),
            sources,
            reduction: None,
        };
        self.push(Op::RemoteStore(Box::new(op)));
        Ok(())
    }
}

impl Visit<RedAsync> for Decoder<'_> {
    fn visit(&mut self, i: &RedAsync) -> Decoded {
        let sources = smallvec::smallvec![self.cell(i.src, i.ty)?];
        let dst = self.spot(Some(Space::SharedCluster), i.addr)?;
        let mbarrier = self.spot(Some(Space::SharedCluster), i.mbar)?;
        let reduction = Some((operation(i.op), i.ty));
        let op = RemoteStore {
            dst,
            mbarrier,
            element: i.ty.bytes(),
            sources,
            reduction,
        };
        self.push(Op::RemoteStore(Box::new(op)));
        Ok(())
    }
}

impl Visit<Mapa> for Decoder<'_> {
    /// The address in another CTA: its rank plus one stands above the address (see `program::windows`).
    fn visit(&mut self, i: &Mapa) -> Decoded {
        let (a, b) = (self.source(i.a, i.ty)?, self.source(i.cta, Type::U32)?);
        let d = self.target(i.dst, i.ty)?;
        let exec = if Self::file(i.ty) == File::Double {
            lanes!(|a: u64, cta: u32| -> u64 { a & !0xff00_0000 | u64::from(cta + 1 & 0xff) << 24 })
        } else {
            lanes!(|a: u32, cta: u32| -> u32 { a & !0xff00_0000 | (cta + 1 & 0xff) << 24 })
        };
        self.lanes(exec, Slots::binary(d, a, b));
        Ok(())
    }
}

impl Visit<GetCtaRank> for Decoder<'_> {
    fn visit(&mut self, i: &GetCtaRank) -> Decoded {
        let a = self.source(i.a, i.ty)?;
        let b = self.source(Operand::Special(ptx::Special::ClusterCtaRank), Type::U32)?;
        let d = self.target(i.dst, Type::U32)?;
        let exec = if Self::file(i.ty) == File::Double {
            lanes!(|a: u64, own: u32| -> u32 {
                if (a >> 24) as u8 == 0 {
                    own
                } else {
                    (a >> 24 & 0xff) as u32 - 1
                }
            })
        } else {
            lanes!(|a: u32, own: u32| -> u32 { if a >> 24 == 0 { own } else { (a >> 24) - 1 } })
        };
        self.lanes(exec, Slots::binary(d, a, b));
        Ok(())
    }
}

impl Visit<SetMaxNReg> for Decoder<'_> {
    fn visit(&mut self, i: &SetMaxNReg) -> Decoded {
        let Operand::Int(count) = i.count else {
            return Err("the register count must be an immediate".to_owned());
        };
        let limits = &self.machine.registers;
        let [unit, least, most] =
            [limits.unit, limits.least_budget, limits.most_budget].map(i64::from);
        if !(least..=most).contains(&count) || count % unit != 0 {
            return Err(format!(
                "setmaxnreg {count}: the count must be a multiple of {unit} from {least} to {most}"
            ));
        }
        self.push(Op::SetMaxRegisters {
            count: count as u32,
            increases: i.op == SetMaxNRegOp::Inc,
        });
        Ok(())
    }
}
