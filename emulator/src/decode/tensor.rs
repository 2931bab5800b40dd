//! Asynchronous copies of tensor boxes (`cp.async.bulk.tensor`), and changes of tensor maps.

use super::atomics::operation;
use super::decoder::{Decoded, Decoder};
use crate::program::Op;
use crate::program::copy::{BulkKind, ReplaceField, TensorBox};
use ptx::{
    Base, FenceProxyTensormap, Operand, PrefetchTensormap, ProxySpace, Space, TensorAddr,
    TensorLoad, TensorMode, TensorPrefetch, TensorReduce, TensorStore, TensormapCpFenceproxy,
    TensormapReplace, Type, Visit,
};
use target::TENSOR_MAP_BYTES;

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
