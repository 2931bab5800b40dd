//! PTX written by the author, once for each element or each pack of elements.

use super::trace::{self, Raw, here};
use super::{Element, Handle, Scalar, Smem, Tensor};
use ir::elem::Elem;
use ir::entity::Value;
use ir::ops::inline_ptx::PtxUse;

/// One operand of inline PTX.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub enum PtxOperand {
    /// A scalar or tensor.
    Value(Raw, Elem),
    /// A tile of shared memory.
    Tile(Value, PtxUse),
}

/// Operands of inline PTX: scalars, tensors and tiles of shared memory, or a tuple of them.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an operand of inline PTX",
    note = "pass scalars, tensors, tiles (`tile.read_by_ptx()` and the like), or a tuple of up to six of them"
)]
pub trait PtxOperands {
    /// The operands with what they are.
    #[doc(hidden)]
    fn collect(self, to: &mut Vec<PtxOperand>);
}

/// A tile of shared memory as an operand of inline PTX, with what that does to it.
#[derive(Clone, Copy, Debug)]
pub struct PtxTile {
    tile: Value,
    used: PtxUse,
}

impl PtxOperands for PtxTile {
    fn collect(self, to: &mut Vec<PtxOperand>) {
        to.push(PtxOperand::Tile(self.tile, self.used));
    }
}

/// Tiles as operands of inline PTX: `$n` is the address of the first byte in the shared memory of the CTA (state space `.shared`, 32
/// bits), where the elements lie as the layout says. The access to the tile must be declared, since the compiler places CTA barriers by
/// it; any thread may then access any byte of the tile, and none beyond.
impl<T: Element> Smem<T> {
    /// The inline PTX reads this tile.
    #[inline]
    pub fn read_by_ptx(self) -> PtxTile {
        self.used_by_ptx(PtxUse::Read)
    }

    /// The inline PTX writes this tile. Needs the form with effects.
    #[inline]
    pub fn written_by_ptx(self) -> PtxTile {
        self.used_by_ptx(PtxUse::Write)
    }

    /// The inline PTX reads and writes this tile. Needs the form with effects.
    #[inline]
    pub fn updated_by_ptx(self) -> PtxTile {
        self.used_by_ptx(PtxUse::Update)
    }

    fn used_by_ptx(self, used: PtxUse) -> PtxTile {
        PtxTile {
            tile: self.value(),
            used,
        }
    }
}

/// Results of inline PTX: a scalar or tensor, or a tuple of them.
#[diagnostic::on_unimplemented(
    message = "inline PTX cannot return `{Self}`",
    note = "its results are scalars and tensors, or a tuple of up to four of them"
)]
pub trait PtxResults: Sized {
    /// The element types.
    #[doc(hidden)]
    fn elems(to: &mut Vec<Elem>);
    /// The handles of the results.
    #[doc(hidden)]
    fn take(from: &mut std::vec::IntoIter<Value>) -> Self;
}

macro_rules! ptx_handles {
    ($($handle:ident)*) => {$(
        impl<T: Element> PtxOperands for $handle<T> {
            fn collect(self, to: &mut Vec<PtxOperand>) {
                to.push(PtxOperand::Value(self.raw(), Elem::Data(T::DTYPE)));
            }
        }

        impl<T: Element> PtxResults for $handle<T> {
            fn elems(to: &mut Vec<Elem>) {
                to.push(Elem::Data(T::DTYPE));
            }
            fn take(from: &mut std::vec::IntoIter<Value>) -> Self {
                Self::from_value(from.next().expect("every result has a value"))
            }
        }
    )*};
}

ptx_handles!(Scalar Tensor);

macro_rules! ptx_tuples {
    ($trait:ident: $(($($name:ident)*))*) => {$(ptx_tuples!(@ $trait $($name)*);)*};
    (@ PtxOperands $($name:ident)*) => {
        impl<$($name: PtxOperands),*> PtxOperands for ($($name,)*) {
            #[allow(non_snake_case, unused_variables, reason = "the names are those of the type parameters")]
            fn collect(self, to: &mut Vec<PtxOperand>) {
                let ($($name,)*) = self;
                $($name.collect(to);)*
            }
        }
    };
    (@ PtxResults $($name:ident)*) => {
        impl<$($name: PtxResults),*> PtxResults for ($($name,)*) {
            #[allow(unused_variables, reason = "no result takes no value")]
            fn elems(to: &mut Vec<Elem>) {
                $($name::elems(to);)*
            }
            #[allow(unused_variables, clippy::unused_unit, reason = "no result takes no value")]
            fn take(from: &mut std::vec::IntoIter<Value>) -> Self {
                ($($name::take(from),)*)
            }
        }
    };
}

ptx_tuples!(PtxOperands: () (A) (A B) (A B C) (A B C D) (A B C D E) (A B C D E F));
ptx_tuples!(PtxResults: () (A) (A B) (A B C) (A B C D));

/// PTX for each element: `$0`, `$1`, ... stand for the results and then the operands, all of one shape and layout, and for
/// [tiles](Smem::read_by_ptx) of shared memory. Each thread runs it once for each element that it holds, copies included; once
/// where there are only scalars. It must have no effect but its results, and may be merged, moved and dropped. Instructions end
/// with `;`. Text that is no PTX, or that does not fit the types, is an error which names the column (TK0026).
///
/// ```text
/// let sm: Scalar<i32> = inline_ptx("mov.u32 $0, %smid;", ());
/// let ones: Tensor<i32> = inline_ptx("popc.b32 $0, $1;", words);
/// let there: Tensor<f32> = inline_ptx(
///     "{ .reg .b32 at; add.u32 at, $1, $2; ld.shared.f32 $0, [at]; }",
///     (tile.read_by_ptx(), byte_offsets),
/// );
/// ```
#[inline]
#[track_caller]
pub fn inline_ptx<R: PtxResults>(text: &str, operands: impl PtxOperands) -> R {
    record(text, true, 1, operands)
}

/// The same for PTX with effects, which is executed once and in order.
#[inline]
#[track_caller]
pub fn inline_ptx_with_effects<R: PtxResults>(text: &str, operands: impl PtxOperands) -> R {
    record(text, false, 1, operands)
}

/// [`inline_ptx`] of `pack` elements at a time, a power of two, which a thread holds next to one another in the order of its
/// layout's registers (TK0038 where it holds no whole packs). Elements of 8 and 16 bits share 32-bit registers, the first in
/// the lowest bits, and each register has a number; bits beyond the last element are 0 in operands and ignored in results.
/// Wider elements, and booleans, have a number each. So with a pack of 4, operands of `u8`, `f16` and `f32` have 1, 2 and 4 numbers. A tile has one.
///
/// ```text
/// let sum: Tensor<f16> = inline_ptx_packed(2, "add.rn.f16x2 $0, $1, $2;", (x, y));
/// let doubled: Tensor<i32> = inline_ptx_packed(2, "shl.b32 $0, $2, 1; shl.b32 $1, $3, 1;", x);
/// ```
#[inline]
#[track_caller]
pub fn inline_ptx_packed<R: PtxResults>(pack: u32, text: &str, operands: impl PtxOperands) -> R {
    record(text, true, pack, operands)
}

/// The same for PTX with effects, which is executed once and in order.
#[inline]
#[track_caller]
pub fn inline_ptx_packed_with_effects<R: PtxResults>(
    pack: u32,
    text: &str,
    operands: impl PtxOperands,
) -> R {
    record(text, false, pack, operands)
}

#[track_caller]
fn record<R: PtxResults>(text: &str, is_pure: bool, pack: u32, operands: impl PtxOperands) -> R {
    let (mut given, mut elems) = (Vec::new(), Vec::new());
    operands.collect(&mut given);
    R::elems(&mut elems);
    let results = trace::packed_ptx(text, is_pure, pack, &given, &elems, here());
    R::take(&mut results.into_iter())
}
