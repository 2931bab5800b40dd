//! Tiles in shared memory.

use super::super::operand::Fitted;
use super::super::{At, Raw, Trace, with};
use diag::Code;
use ir::OpError;
use ir::elem::Elem;
use ir::entity::Value;
use ir::ops::Scratch;
use ir::ops::atomic::{AtomicOp, SmemAtomicFetch, SmemAtomicScatter};
use ir::ops::create::Const;
use ir::ops::shared::{
    SmemAlloc, SmemGather, SmemIndex, SmemKeep, SmemLoad, SmemPermute, SmemReinterpret,
    SmemReshape, SmemScatter, SmemSlice, SmemStore,
};
use ir::{SmemType, Type};
use layout::{Dims, Layout, SharedLayout, Swizzled, relate};

fn whole(elem: Elem, shape: Dims, layout: SharedLayout) -> Type {
    Type::Smem(SmemType {
        alloc_shape: shape.clone(),
        shape,
        elem,
        layout,
    })
}

impl Trace {
    /// Is it the layout of a tensor map that was refused? What would be said of a tile in it follows from that.
    fn is_of_refused_map(&self, layout: &SharedLayout) -> bool {
        self.refused_maps
            .iter()
            .any(|(_, refused)| refused == layout)
    }
}

/// A new tile.
#[inline(never)]
pub(crate) fn smem_alloc(elem: Elem, shape: Dims, layout: SharedLayout, at: At) -> Value {
    with(at, |trace| {
        if trace.is_of_refused_map(&layout) {
            return trace.builder.poison();
        }
        let op = SmemAlloc {
            init: None.into(),
            bytes: Scratch::NONE,
        };
        trace.push1(op, whole(elem, shape, layout), at)
    })
}

/// A new tile with the elements of a tensor.
#[inline(never)]
pub(crate) fn smem_alloc_with(init: Value, layout: SharedLayout, at: At) -> Value {
    with(at, |trace| {
        let ty = match trace.ty(init) {
            Type::Tensor(_) if trace.is_of_refused_map(&layout) => return trace.builder.poison(),
            Type::Tensor(t) => whole(t.elem, t.shape.clone(), layout),
            _ => Type::Poison,
        };
        let op = SmemAlloc {
            init: Some(init).into(),
            bytes: Scratch::NONE,
        };
        trace.push1(op, ty, at)
    })
}

/// The layout of a view.
#[inline(never)]
pub(crate) fn smem_layout(view: Value, at: At) -> SharedLayout {
    with(at, |trace| match trace.ty(view).as_smem() {
        Some(s) => s.layout.clone(),
        None => Swizzled::plain([0]).into(),
    })
}

/// The bytes of the allocation of a view.
#[inline(never)]
pub(crate) fn smem_bytes(view: Value, at: At) -> u32 {
    with(at, |trace| {
        let s = trace.ty(view).as_smem();
        s.and_then(|s| relate::shared_payload_bytes(&s.layout, &s.alloc_shape, s.elem.bytes()).ok())
            .unwrap_or(0)
    })
}

/// Reads a view.
#[inline(never)]
pub(crate) fn smem_load(view: Value, layout: Layout, at: At) -> Value {
    with(at, |trace| {
        let ty = match trace.ty(view).as_smem() {
            Some(s) => Type::tensor(s.shape.clone(), s.elem, layout),
            None => Type::Poison,
        };
        trace.push1(SmemLoad { view }, ty, at)
    })
}

/// Writes a view.
#[inline(never)]
pub(crate) fn smem_store(view: Value, value: Value, at: At) {
    with(at, |trace| trace.push(SmemStore { view, value }, &[], at));
}

/// Appends an op whose result follows from its operands.
fn derived(trace: &mut Trace, view: Value, op: impl Into<ir::ops::Op>, at: At) -> Value {
    let ty = trace.ty(view).clone();
    trace.push1(op, ty, at)
}

/// One buffer of several.
#[inline(never)]
pub(crate) fn smem_index(view: Value, index: Raw, at: At) -> Value {
    with(at, |trace| {
        let count = trace.ty(view).shape().first().copied().unwrap_or(0);
        if let Raw::Const(Const::Int(i)) = index
            && !trace.is_poison(view)
            && !(0..i128::from(count)).contains(&i)
        {
            let message =
                format!("index {i} is outside the {count} elements of the first dimension");
            let error = OpError::new(Code::ConstantRange, message);
            let error = error.origin(view, "this is indexed");
            return trace.fail(error.help(format!("use an index below {count}")), at);
        }
        let Some(fitted) = trace.fit("index", &[(index, Elem::I32)], at) else {
            return trace.builder.poison();
        };
        let op = SmemIndex {
            view,
            index: fitted[0],
        };
        derived(trace, view, op, at)
    })
}

/// A part of one dimension.
#[inline(never)]
pub(crate) fn smem_slice(view: Value, axis: usize, start: i128, end: i128, at: At) -> Value {
    with(at, |trace| {
        let Type::Smem(s) = trace.ty(view).clone() else {
            return trace.builder.poison();
        };
        if axis >= s.shape.rank() {
            let message = format!(
                "`slice` of dimension {axis} of {s}, which has 0 to {}",
                s.shape.rank() - 1
            );
            let error = OpError::new(Code::NoSuchAxis, message);
            return trace.fail(error.help("dimensions count from 0"), at);
        }
        let bounds = (u32::try_from(start), u32::try_from(end - start));
        let (Ok(start), Ok(length @ 1..)) = bounds else {
            let message = format!("`slice({axis}, {start}..{end})` has no element");
            let error = OpError::new(Code::ConstantRange, message);
            return trace.fail(
                error.help("give a range `start..end` with start below end"),
                at,
            );
        };
        let op = SmemSlice {
            starts: Dims::filled(0, s.shape.rank()).with(axis, start),
            lengths: s.shape.with(axis, length),
            view,
        };
        derived(trace, view, op, at)
    })
}

/// The dimensions in another order; no order reverses them.
#[inline(never)]
pub(crate) fn smem_permute(view: Value, order: Option<Dims>, at: At) -> Value {
    with(at, |trace| {
        let rank = trace.ty(view).shape().len() as u32;
        let order = order.unwrap_or_else(|| (0..rank).rev().collect());
        derived(trace, view, SmemPermute { order, view }, at)
    })
}

/// The same elements in another shape.
#[inline(never)]
pub(crate) fn smem_reshape(view: Value, shape: Dims, at: At) -> Value {
    with(at, |trace| {
        derived(trace, view, SmemReshape { shape, view }, at)
    })
}

/// The same bytes as something else.
#[inline(never)]
pub(crate) fn smem_reinterpret(
    view: Value,
    elem: Elem,
    shape: Dims,
    layout: SharedLayout,
    at: At,
) -> Value {
    with(at, |trace| {
        trace.push1(SmemReinterpret { view }, whole(elem, shape, layout), at)
    })
}

/// Elements at places that the kernel computes.
#[inline(never)]
pub(crate) fn smem_gather(view: Value, indices: Value, axis: usize, at: At) -> Value {
    with(at, |trace| {
        let elem = trace.ty(view).elem();
        let ty = match elem {
            Some(elem) => trace.ty(indices).with_elem(elem),
            None => Type::Poison,
        };
        let axis = u32::try_from(axis).unwrap_or(u32::MAX);
        let op = SmemGather {
            axis,
            view,
            indices,
        };
        trace.push1(op, ty, at)
    })
}

/// A view, indices into it and the dimension that they index.
pub(crate) type Place = (Value, Value, usize);

/// Indices, values and mask made equal in shape and layout; `None` after a mistake.
fn fit_scatter(
    trace: &mut Trace,
    op: &str,
    (view, indices, _): Place,
    values: Raw,
    mask: Option<Raw>,
    at: At,
) -> Option<Fitted> {
    let (data, index) = (trace.ty(view).elem()?, trace.ty(indices).elem()?);
    let mask = mask.map(|mask| (mask, Elem::I1));
    let operands: Vec<_> = [(Raw::Value(indices), index), (values, data)]
        .into_iter()
        .chain(mask)
        .collect();
    trace.fit(op, &operands, at)
}

/// Elements to places that the kernel computes.
#[inline(never)]
pub(crate) fn smem_scatter(place: Place, values: Raw, at: At) {
    with(at, |trace| {
        if let Some(fitted) = fit_scatter(trace, "scatter", place, values, None, at) {
            let op = SmemScatter {
                axis: u32::try_from(place.2).unwrap_or(u32::MAX),
                view: place.0,
                values: fitted[1],
                indices: fitted[0],
            };
            trace.push(op, &[], at);
        }
    });
}

/// Elements combined with what is at places that the kernel computes.
#[inline(never)]
pub(crate) fn smem_atomic_scatter(
    op: AtomicOp,
    place: Place,
    values: Raw,
    mask: Option<Raw>,
    at: At,
) {
    with(at, |trace| {
        if let Some(fitted) = fit_scatter(trace, "atomic_scatter", place, values, mask, at) {
            let op = SmemAtomicScatter {
                op,
                axis: u32::try_from(place.2).unwrap_or(u32::MAX),
                view: place.0,
                values: fitted[1],
                indices: fitted[0],
                mask: fitted.get(2).copied().into(),
            };
            trace.push(op, &[], at);
        }
    });
}

/// The same with what was there before.
#[inline(never)]
pub(crate) fn smem_atomic_fetch(
    op: AtomicOp,
    place: Place,
    values: Raw,
    mask: Option<Raw>,
    at: At,
) -> Value {
    with(at, |trace| {
        let Some(fitted) = fit_scatter(trace, "atomic_scatter", place, values, mask, at) else {
            return trace.builder.poison();
        };
        let ty = trace.ty(fitted[1]).clone();
        let op = SmemAtomicFetch {
            op,
            axis: u32::try_from(place.2).unwrap_or(u32::MAX),
            scratch: Scratch::NONE,
            view: place.0,
            values: fitted[1],
            indices: fitted[0],
            mask: fitted.get(2).copied().into(),
        };
        trace.push1(op, ty, at)
    })
}

/// Keeps the allocation of a view until here.
#[inline(never)]
pub(crate) fn smem_keep(view: Value, at: At) {
    with(at, |trace| trace.push(SmemKeep { view }, &[], at));
}
