//! Tensor maps that a kernel makes (PTX ISA 9.7.9.28): one thread writes all fields, and a pair of fences makes them
//! visible to TMA, which reads the map through the tensormap proxy.

use ir::TensorMapType;
use ir::elem::Elem;
use ir::entity::{Inst, Value};
use ir::ops::arith::BinaryOp;
use ir::ops::tensor_map::MakeTensorMap;
use layout::SharedLayout;
use ptx::{
    Addr, FenceProxyTensormap, FenceSem, Operand, Predicate, ProxySpace, Reg, Scope, Space,
    TensorElement, TensormapField, TensormapReplace, Type, VecWidth,
};
use target::TENSOR_MAP_BYTES;

use super::element::{Element, MAP};
use super::vector::plain_store;
use super::{Emitted, Emitter, Lower};
use crate::tensor_element;

impl Lower for MakeTensorMap {
    fn lower(&self, inst: Inst, cx: &mut Emitter<'_>) -> Emitted {
        let map = cx.func.result(inst);
        let guard = cx.one_thread(None);
        let place = cx.scalar(self.place);
        let place = cx.code.whole(place, MAP);
        let mut maker = Maker { cx, place, guard };
        maker.clear();
        maker.tensor(self);
        maker.copies(self, maker.cx.map_type(map));
        maker.publish();
        cx.set(map, vec![place.into()]);
        Ok(())
    }
}

/// A map being made by one thread.
struct Maker<'m, 'f> {
    cx: &'m mut Emitter<'f>,
    place: Reg,
    guard: Option<Predicate>,
}

impl Maker<'_, '_> {
    /// All fields that are never named are zero.
    fn clear(&mut self) {
        let zero = Operand::from(self.cx.code.mov(Type::B64, Operand::Int(0)));
        for offset in (0..TENSOR_MAP_BYTES as i32).step_by(16) {
            let store = ptx::St {
                vec: Some(VecWidth::V2),
                ty: Type::B64,
                addr: Addr::reg(self.place, offset),
                src: [zero, zero].into_iter().collect(),
                ..plain_store(Space::Global)
            };
            self.cx.code.push_guarded(self.guard, store);
        }
    }

    /// Where the tensor lies, the innermost dimension first.
    fn tensor(&mut self, op: &MakeTensorMap) {
        let base = self.operand(op.base, MAP);
        self.set(TensormapField::GlobalAddress, None, base);
        for (dim, &size) in op.shape.iter().rev().enumerate() {
            let size = self.operand(size, Elem::I32);
            self.set(TensormapField::GlobalDim, Some(dim), size);
        }
        let elem = self.cx.func.ty(op.base).elem().and_then(Elem::pointee);
        let elem_bytes = elem
            .expect("the verifier admits only pointers here")
            .bytes();
        for (dim, &stride) in op.strides.iter().rev().enumerate() {
            let elements = self.cx.scalar(stride);
            let size = Element::int(elem_bytes.into());
            let code = &mut self.cx.code;
            let bytes = code.int_binary(BinaryOp::Mul, elements, size, Elem::I64);
            let bytes = code.operand(bytes, Elem::I64);
            self.set(TensormapField::GlobalStride, Some(dim), bytes);
        }
    }

    /// What one copy moves, and how it lies in shared memory.
    fn copies(&mut self, op: &MakeTensorMap, m: &TensorMapType) {
        let size = m.box_dims(self.cx.func.target);
        let size = size.expect("the blocks of a verified map can be moved");
        self.set(
            TensormapField::Rank,
            None,
            Operand::Int(size.rank() as i64 - 1),
        );
        for (dim, &elements) in size.iter().rev().enumerate() {
            self.set(TensormapField::BoxDim, Some(dim), elements.into());
            self.set(TensormapField::ElementStride, Some(dim), Operand::Int(1));
        }
        let SharedLayout::Nvmma(layout) = &m.layout else {
            panic!("the verifier admits only layouts that TMA writes");
        };
        let element = if op.rounds_to_tf32 {
            TensorElement::Tf32
        } else {
            tensor_element(m.elem.data().expect("a tensor holds data"))
        };
        let modes = [
            (TensormapField::ElementType, element.field().into()),
            (TensormapField::Interleave, 0),
            (TensormapField::Swizzle, swizzle_mode(layout.swizzle_bytes)),
            (TensormapField::Fill, op.fills_with_nan.into()),
        ];
        for (field, mode) in modes {
            self.set(field, None, Operand::Int(mode));
        }
    }

    fn operand(&mut self, value: Value, elem: Elem) -> Operand {
        let element = self.cx.scalar(value);
        self.cx.code.operand(element, elem)
    }

    fn set(&mut self, field: TensormapField, dim: Option<usize>, value: Operand) {
        let is_wide = matches!(
            field,
            TensormapField::GlobalAddress | TensormapField::GlobalStride
        );
        let ty = if is_wide { Type::B64 } else { Type::B32 };
        let replace = TensormapReplace {
            space: Some(ProxySpace::Global),
            index: dim.map(|dim| Operand::Int(dim as i64)),
            ..TensormapReplace::new(field, ty, Addr::reg(self.place, 0), value)
        };
        self.cx.code.push_guarded(self.guard, replace);
    }

    /// Release by the thread that wrote the map, a barrier, acquire by all threads: copies issued later observe its fields.
    fn publish(&mut self) {
        let release = FenceProxyTensormap::new(FenceSem::Release, Scope::Gpu);
        self.cx.code.push_guarded(self.guard, release);
        self.cx.sync_partition();
        let acquire = FenceProxyTensormap {
            addr: Some(Addr::reg(self.place, 0)),
            bytes: Some(Operand::Int(TENSOR_MAP_BYTES.into())),
            ..FenceProxyTensormap::new(FenceSem::Acquire, Scope::Gpu)
        };
        self.cx.code.push(acquire);
    }
}

fn swizzle_mode(bytes: u32) -> i64 {
    match bytes {
        32 => 1,
        64 => 2,
        128 => 3,
        _ => 0,
    }
}
