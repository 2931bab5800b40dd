//! Tensor maps in memory: prefetched, changed, published.

use super::context::Checker;
use super::legal::Need::Exact;
use crate::inst::{
    PrefetchTensormap, TensormapCpFenceproxy, TensormapField, TensormapReplace, Visit,
};
use crate::types::{ProxySpace, Space, Type};

impl Visit<PrefetchTensormap> for Checker<'_> {
    fn visit(&mut self, inst: &PrefetchTensormap) {
        self.require(
            matches!(inst.space, None | Some(Space::Const | Space::Param)),
            || "`prefetch.tensormap` takes a generic address, .const or .param".to_owned(),
        );
        self.tensor_map("addr", inst.addr, inst.space.or(Some(Space::Global)));
    }
}

impl Visit<TensormapReplace> for Checker<'_> {
    fn visit(&mut self, inst: &TensormapReplace) {
        use TensormapField::{
            BoxDim, ElementStride, ElementType, Fill, GlobalAddress, GlobalDim, GlobalStride,
        };
        use TensormapField::{Interleave, Swizzle};
        let ty = if matches!(inst.field, GlobalAddress | GlobalStride) {
            Type::B64
        } else {
            Type::B32
        };
        self.one_of(
            &format!("`tensormap.replace.tile.{}`", inst.field.text()),
            inst.ty,
            &[ty],
        );
        let has_index = matches!(
            inst.field,
            BoxDim | GlobalDim | GlobalStride | ElementStride
        );
        self.require(inst.index.is_some() == has_index, || {
            format!(
                "field .{} {} a dimension",
                inst.field.text(),
                if has_index { "needs" } else { "has no" }
            )
        });
        if let Some(index) = &inst.index {
            self.immediate("index", index, "a dimension from 0 to 4", |value| {
                (0..5).contains(&value)
            });
        }
        let modes = match inst.field {
            ElementType => Some(("an element type from 0 to 12", 12)),
            Interleave => Some(("an interleave layout from 0 to 2", 2)),
            Swizzle => Some(("a swizzle mode from 0 to 3", 3)),
            Fill => Some(("a fill mode, 0 or 1", 1)),
            _ => None,
        };
        match modes {
            Some((allowed, last)) => self.immediate("value", &inst.value, allowed, |value| {
                (0..=last).contains(&value)
            }),
            None if ty == Type::B64 => self.value("value", &inst.value, Exact(Type::U64)),
            None => self.value("value", &inst.value, Exact(Type::U32)),
        }
        let space = match inst.space {
            None => None,
            Some(ProxySpace::Global) => Some(Space::Global),
            Some(_) => Some(Space::Shared),
        };
        self.tensor_map("addr", inst.addr, space);
    }
}

impl Visit<TensormapCpFenceproxy> for Checker<'_> {
    fn visit(&mut self, inst: &TensormapCpFenceproxy) {
        let bytes = target::TENSOR_MAP_BYTES;
        self.addr("dst", inst.dst, Some(Space::Global), bytes, bytes);
        self.addr("src", inst.src, Some(Space::Shared), bytes, bytes);
        self.map_bytes(&inst.bytes);
    }
}
