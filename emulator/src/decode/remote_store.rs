//! Stores and reductions to other CTAs of the cluster, whose bytes an mbarrier counts (`st.async`, `red.async`).

use super::atomics::operation;
use super::decoder::{Decoded, Decoder};
use crate::program::Op;
use crate::program::copy::RemoteStore;
use ptx::{RedAsync, Space, StAsync, Visit};

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
