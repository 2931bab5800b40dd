//! Types of values.

use std::fmt;

use crate::elem::Elem;
use layout::tma::{BoxKind, TmaMessage, tma_box, tma_messages, tma_messages_in};
use layout::{Dims, Layout, LayoutError, SharedLayout};
use target::Target;

/// The type of a value. The layout is part of a tensor's type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// The result of an operation that was reported as wrong. Operations on it are silently poison too, so that one
    /// mistake gives one diagnostic. A verified function holds none.
    Poison,
    /// One element, the same in every thread of the CTA.
    Scalar(Elem),
    /// A tile of elements spread over the threads of the CTA by its layout.
    Tensor(TensorType),
    /// A tile of elements in shared memory, or a view of one.
    Smem(SmemType),
    /// A tile of accumulators that tensor cores still write. Only another `wgmma` and a wait may take it.
    InFlight(TensorType),
    /// A description of a tensor in global memory, for TMA.
    TensorMap(TensorMapType),
}

/// The type of a tensor map: what one copy moves, and how it lies in shared memory.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TensorMapType {
    /// Elements that one copy moves in each dimension of the tensor.
    pub block: Dims,
    /// The element type.
    pub elem: Elem,
    /// How a block lies in shared memory.
    pub layout: SharedLayout,
    /// How coordinates name elements.
    pub mode: TensorMapMode,
}

impl TensorMapType {
    /// How a block is cut into boxes.
    pub fn box_kind(&self) -> BoxKind {
        match self.mode {
            TensorMapMode::Tiled => BoxKind::Tiled,
            TensorMapMode::Im2col { .. } => BoxKind::Im2col,
        }
    }

    /// The box of one message, which the host makes the tensor map with.
    ///
    /// # Errors
    /// A layout or block that TMA cannot move.
    pub fn box_dims(&self, target: &Target) -> Result<Dims, LayoutError> {
        tma_box(
            target,
            &self.block,
            &self.layout,
            self.elem.bits(),
            self.box_kind(),
        )
    }

    /// The messages that move a block.
    ///
    /// # Errors
    /// A layout or block that TMA cannot move.
    pub fn messages(&self, target: &Target) -> Result<Vec<TmaMessage>, LayoutError> {
        tma_messages(
            target,
            &self.block,
            &self.layout,
            self.elem.bits(),
            self.box_kind(),
        )
    }

    /// The messages that move a block between the tensor and a view of shared memory.
    ///
    /// # Errors
    /// A view in which the boxes are not laid out as TMA moves them.
    pub fn messages_in(
        &self,
        target: &Target,
        view: &SmemType,
    ) -> Result<Vec<TmaMessage>, LayoutError> {
        let held = (&view.layout, &view.alloc_shape[..]);
        let bits = self.elem.bits();
        tma_messages_in(
            target,
            held,
            &self.block,
            &self.layout,
            bits,
            self.box_kind(),
        )
    }

    /// Bytes of a block, or of what one CTA has of it where the CTAs of a cluster split it: what the barrier of a load
    /// expects. Elements outside of the tensor count too.
    pub fn block_bytes(&self) -> u32 {
        // A map without a part is wrong, which is reported where it is declared.
        let part = self.layout.part_of(&self.block);
        part.unwrap_or_else(|_| self.block.clone()).product() as u32 * self.elem.bytes()
    }

    /// Where a CTA's part of a block begins, for each bit of its rank in the cluster; see [`SharedLayout::part_origins`].
    pub fn part_origins(&self) -> Vec<Dims> {
        self.layout.part_origins(&self.block).unwrap_or_default()
    }

    /// Coordinates of a copy.
    pub fn coordinates(&self) -> usize {
        match self.mode {
            TensorMapMode::Tiled => self.block.rank(),
            TensorMapMode::Im2col { rank } => rank as usize,
        }
    }
}

/// How the coordinates of a copy name the elements it moves (PTX ISA, tensor modes).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TensorMapMode {
    /// A box of the tensor.
    Tiled,
    /// Rows of pixels of an image with `rank` dimensions, from 3 to 5, each with a run of channels.
    Im2col {
        /// Dimensions of the tensor.
        rank: u32,
    },
}

/// The type of a descriptor of shared memory: an allocation, or a view of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SmemType {
    /// Elements in each dimension of the view. All but the first dimension of an allocation are powers of two.
    pub shape: Dims,
    /// The element type.
    pub elem: Elem,
    /// Which offset holds which element, over the trailing dimensions of `alloc_shape`.
    pub layout: SharedLayout,
    /// The shape of the allocation that the layout was made for, seen through the views that keep it; equal to `shape`
    /// unless a slice was taken.
    pub alloc_shape: Dims,
}

/// A tile's type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TensorType {
    /// Elements in each dimension, powers of two.
    pub shape: Dims,
    /// The element type.
    pub elem: Elem,
    /// The owner of each element.
    pub layout: Layout,
}

impl TensorType {
    /// The number of elements; the largest number of a shape that is too large to be counted.
    pub fn len(&self) -> usize {
        self.shape.product() as usize
    }

    /// Is it without elements? A verified tensor never is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of dimensions.
    pub fn rank(&self) -> usize {
        self.shape.len()
    }
}

impl SmemType {
    /// Where a CTA's part of the view begins, for each bit of its rank in the cluster; see [`SharedLayout::part_origins`].
    ///
    /// # Errors
    /// A layout that does not fit the allocation.
    pub fn part_origins(&self) -> Result<Vec<Dims>, LayoutError> {
        let buffers = self.shape.rank() - self.layout.rank();
        let mut origins = self.layout.part_origins(&self.alloc_shape[buffers..])?;
        if buffers > 0 {
            for origin in &mut origins {
                *origin = origin.with_inserted(0, 0);
            }
        }
        Ok(origins)
    }

    /// The sizes of what one CTA has of the view.
    ///
    /// # Errors
    /// A view of which the CTAs hold no boxes.
    pub fn part(&self) -> Result<Dims, LayoutError> {
        self.layout.box_of(&self.shape, &self.part_origins()?)
    }
}

impl Type {
    /// A tensor type.
    pub fn tensor(
        shape: impl Into<Dims>,
        elem: impl Into<Elem>,
        layout: impl Into<Layout>,
    ) -> Type {
        Type::Tensor(TensorType {
            shape: shape.into(),
            elem: elem.into(),
            layout: layout.into(),
        })
    }

    /// A scalar type.
    pub fn scalar(elem: impl Into<Elem>) -> Type {
        Type::Scalar(elem.into())
    }

    /// The element type of a scalar or tensor.
    pub fn elem(&self) -> Option<Elem> {
        match self {
            Type::Poison => None,
            Type::Scalar(elem) => Some(*elem),
            Type::Tensor(t) | Type::InFlight(t) => Some(t.elem),
            Type::Smem(s) => Some(s.elem),
            Type::TensorMap(m) => Some(m.elem),
        }
    }

    /// The descriptor type, if it is one.
    pub fn as_smem(&self) -> Option<&SmemType> {
        match self {
            Type::Smem(s) => Some(s),
            _ => None,
        }
    }

    /// The tensor type, if it is one.
    pub fn as_tensor(&self) -> Option<&TensorType> {
        match self {
            Type::Tensor(t) => Some(t),
            _ => None,
        }
    }

    /// The tensor type, if it is one, to change in place.
    pub fn as_tensor_mut(&mut self) -> Option<&mut TensorType> {
        match self {
            Type::Tensor(t) => Some(t),
            _ => None,
        }
    }

    /// The tensor map type, if it is one.
    pub fn as_tensor_map(&self) -> Option<&TensorMapType> {
        match self {
            Type::TensorMap(m) => Some(m),
            _ => None,
        }
    }

    /// The type of accumulators in flight, as the tensor that a wait will return.
    pub fn as_in_flight(&self) -> Option<&TensorType> {
        match self {
            Type::InFlight(t) => Some(t),
            _ => None,
        }
    }

    /// The layout of a tensor.
    pub fn layout(&self) -> Option<&Layout> {
        self.as_tensor().map(|t| &t.layout)
    }

    /// The shape; a scalar has rank 0.
    pub fn shape(&self) -> &[u32] {
        match self {
            Type::Poison | Type::Scalar(_) => &[],
            Type::Tensor(t) | Type::InFlight(t) => &t.shape,
            Type::Smem(s) => &s.shape,
            Type::TensorMap(m) => &m.block,
        }
    }

    /// The same shape and layout with other elements.
    #[must_use]
    pub fn with_elem(&self, elem: impl Into<Elem>) -> Type {
        match self {
            Type::Poison => Type::Poison,
            Type::Scalar(_) => Type::Scalar(elem.into()),
            Type::Tensor(t) => Type::Tensor(TensorType {
                elem: elem.into(),
                ..t.clone()
            }),
            Type::Smem(s) => Type::Smem(SmemType {
                elem: elem.into(),
                ..s.clone()
            }),
            Type::InFlight(t) => Type::InFlight(TensorType {
                elem: elem.into(),
                ..t.clone()
            }),
            Type::TensorMap(m) => Type::TensorMap(TensorMapType {
                elem: elem.into(),
                ..m.clone()
            }),
        }
    }

    /// Is it the result of a reported mistake?
    pub fn is_poison(&self) -> bool {
        matches!(self, Type::Poison)
    }
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("tensor<")?;
        for d in &self.shape {
            write!(f, "{d}x")?;
        }
        write!(f, "{}, {}>", self.elem, self.layout)
    }
}

impl fmt::Display for SmemType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("smem<")?;
        for d in &self.shape {
            write!(f, "{d}x")?;
        }
        write!(f, "{}, {}", self.elem, self.layout)?;
        if self.alloc_shape != self.shape {
            write!(f, ", alloc={}", self.alloc_shape)?;
        }
        f.write_str(">")
    }
}

impl fmt::Display for TensorMapType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("tensor_map<")?;
        for d in &self.block {
            write!(f, "{d}x")?;
        }
        write!(f, "{}, {}", self.elem, self.layout)?;
        if let TensorMapMode::Im2col { rank } = self.mode {
            write!(f, ", im2col={rank}")?;
        }
        f.write_str(">")
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Poison => f.write_str("poison"),
            Type::Scalar(elem) => elem.fmt(f),
            Type::Tensor(t) => t.fmt(f),
            Type::Smem(s) => s.fmt(f),
            Type::InFlight(t) => write!(f, "in_flight<{t}>"),
            Type::TensorMap(m) => m.fmt(f),
        }
    }
}
