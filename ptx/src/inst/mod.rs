//! Instructions: one struct per family, all of them in [`Inst`].

pub(crate) mod family;
pub(crate) mod operands;

mod arithmetic;
mod bound;
mod control;
mod copy;
mod matrix;
mod memory;
mod special_forms;
mod sync;
mod warp;

pub use arithmetic::*;
pub use bound::Bound;
pub use control::*;
pub use copy::*;
pub use matrix::*;
pub use memory::*;
pub use sync::*;
pub use warp::*;

use crate::operand::{Reg, Role};
use crate::parse::{OperandParser, Reject};
use crate::print::Printer;
use crate::spelling::Modifiers;
use family::Family;

/// Something that is done for every instruction: [`Inst::accept`] finds out which family it is of.
pub trait Visitor {
    /// The result for one instruction.
    type Output;
}

/// What a [`Visitor`] does for the instructions of family `I`.
pub trait Visit<I>: Visitor {
    /// Does it for one of them.
    fn visit(&mut self, inst: &I) -> Self::Output;
}

macro_rules! instructions {
    ($($name:ident),+ $(,)?) => {
        /// An instruction.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Inst {
            $(#[doc = concat!("[`", stringify!($name), "`]")] $name($name),)+
        }

        /// A visitor that knows every family; one that lacks some does not compile.
        pub trait VisitEach: $(Visit<$name> +)+ {}

        impl<V: $(Visit<$name> +)+> VisitEach for V {}

        impl Inst {
            /// Lets `visitor` do what it does for instructions of this family.
            pub fn accept<V: VisitEach>(&self, visitor: &mut V) -> V::Output {
                match self { $(Self::$name(inst) => Visit::<$name>::visit(visitor, inst),)+ }
            }

            pub(crate) fn print(&self, printer: &mut Printer<'_>) {
                match self { $(Self::$name(inst) => inst.print(printer),)+ }
            }

            /// Calls `f` for every register operand, in printed order; guards belong to the statement.
            pub fn visit_registers(&self, mut f: impl FnMut(Reg, Role)) {
                match self { $(Self::$name(inst) => inst.visit(&mut f),)+ }
            }

            /// Lets `f` replace every register operand.
            pub fn visit_registers_mut(&mut self, mut f: impl FnMut(&mut Reg, Role)) {
                match self { $(Self::$name(inst) => inst.visit_mut(&mut f),)+ }
            }

            /// Reads an instruction: the first family whose modifiers fit decides.
            pub(crate) fn parse(
                modifiers: &mut Modifiers<'_>,
                operands: &mut OperandParser<'_, '_>,
            ) -> Result<Self, Reject> {
                $(
                    modifiers.rewind();
                    match <$name as Family>::parse(modifiers, operands) {
                        Ok(inst) => return Ok(Self::$name(inst)),
                        Err(Reject::Modifiers) => {}
                        Err(error) => return Err(error),
                    }
                )+
                Err(Reject::Modifiers)
            }
        }
    };
}

instructions! {
    Mov, Binary, Unary, Ternary, Bfi, Lop3, Prmt, Shf, Dp4a, Setp, Set, Selp, Slct, Testp, Cvt, CvtPack,
    Ld, St, Atom, Red, Cvta, Isspacep, Mapa, GetCtaRank, Prefetch, PrefetchTensormap, Discard, ApplyPriority,
    CreatePolicyFractional, CreatePolicyRange, CreatePolicyCvt, StAsync, RedAsync, TensormapReplace,
    TensormapCpFenceproxy,
    Bound, Bra, Call, Ret, Exit, Trap, Brkpt,
    Bar, BarRed, BarWarpSync, ClusterBar, Fence, Membar, FenceProxyAsync, FenceProxyAlias, FenceMbarrierInit,
    FenceProxyTensormap, MbarrierInit, MbarrierInval, MbarrierTx, MbarrierArrive, MbarrierWait,
    MbarrierPendingCount, CpAsyncMbarrierArrive, GridDepControl, Nanosleep,
    Shfl, Vote, Match, ActiveMask, Redux, Elect, SetMaxNReg,
    CpAsync, CpAsyncCommitGroup, CpAsyncWaitGroup, CpAsyncWaitAll, BulkLoad, BulkSharedToCluster, BulkStore,
    BulkPrefetch, BulkReduce, BulkReduceCluster, TensorLoad, TensorStore, TensorReduce, TensorPrefetch,
    BulkCommitGroup, BulkWaitGroup,
    WgmmaFence, WgmmaCommitGroup, WgmmaWaitGroup, Wgmma, Mma, Ldmatrix, Stmatrix, Movmatrix,
}
