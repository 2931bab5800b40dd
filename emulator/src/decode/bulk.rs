//! Asynchronous copies of bytes in bulk (`cp.async.bulk`).

use super::atomics::operation;
use super::decoder::{Decoded, Decoder};
use crate::program::copy::{BulkCopy, BulkKind, Spot};
use crate::program::{AtomicOp, Op};
use ptx::{
    Addr, BulkLoad, BulkPrefetch, BulkReduce, BulkReduceCluster, BulkSharedToCluster, BulkStore,
    CtaMask, Space, Type, Visit,
};

impl Decoder<'_> {
    fn mask(&mut self, mask: Option<CtaMask>) -> Decoded<Option<u32>> {
        mask.map(|mask| self.source(mask.0, Type::U16)).transpose()
    }

    pub(super) fn push_copy(
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
