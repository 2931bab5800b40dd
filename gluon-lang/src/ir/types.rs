//! Types of values.

use std::fmt;

use crate::elem::Elem;
use crate::layout::{Dims, Layout};

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
}

/// A tile's type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TensorType {
    /// Elements in each dimension, powers of two.
    pub shape: Dims,
    /// The element type.
    pub elem: Elem,
    /// Who holds which element.
    pub layout: Layout,
}

impl TensorType {
    /// The number of elements.
    pub fn len(&self) -> usize {
        self.shape.iter().map(|&d| d as usize).product()
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
            Type::Tensor(t) => Some(t.elem),
        }
    }

    /// The tensor type, if it is one.
    pub fn as_tensor(&self) -> Option<&TensorType> {
        match self {
            Type::Tensor(t) => Some(t),
            Type::Poison | Type::Scalar(_) => None,
        }
    }

    /// The tensor type, if it is one, to change in place.
    pub fn as_tensor_mut(&mut self) -> Option<&mut TensorType> {
        match self {
            Type::Tensor(t) => Some(t),
            Type::Poison | Type::Scalar(_) => None,
        }
    }

    /// The layout of a tensor.
    pub fn layout(&self) -> Option<&Layout> {
        self.as_tensor().map(|t| &t.layout)
    }

    /// The shape; a scalar has rank 0.
    pub fn shape(&self) -> &[u32] {
        self.as_tensor().map_or(&[], |t| &t.shape)
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

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Poison => f.write_str("poison"),
            Type::Scalar(elem) => elem.fmt(f),
            Type::Tensor(t) => t.fmt(f),
        }
    }
}
