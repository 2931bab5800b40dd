//! The op registry: the one list of ops. What each must say about itself stands in `rules.rs`, in the types of `answers.rs` and `access.rs`.

mod access;
mod answers;
pub mod arith;
pub mod atomic;
pub mod bulk;
pub mod cast;
pub mod cluster;
pub mod control;
pub mod cp_async;
pub mod create;
mod cut;
pub mod debug;
pub mod define;
pub mod dot;
pub mod flow;
pub mod gather;
pub mod global;
pub mod inline_ptx;
pub mod l2;
pub mod layout;
pub mod map;
pub mod mbarrier;
mod operand_types;
pub mod part;
pub mod pointer;
pub mod poll;
pub mod reduce;
pub mod remote;
pub mod rotation;
pub mod rounded;
mod rules;
pub mod scan;
pub mod scratch;
pub mod shape;
pub mod shared;
pub mod sort;
mod sparse;
mod split;
pub mod sync;
pub mod tensor_map;
pub mod tma;
pub mod vote;
pub mod warps;
pub mod wgmma;

use smallvec::SmallVec;

pub use access::{Scope, SharedAccess, SharedAccesses};
pub use answers::{LayoutRule, Terminator, Types};
pub(crate) use cut::nearest_multiples;
pub use define::{
    Attr, Field, FieldReader, FieldWriter, OpDef, OpFields, Text, TextOperand, Values,
};
pub use rules::{OpRules, Registered};
pub use scratch::Scratch;

use crate::entity::Region;

/// Calls `$callback!` with every op, in declaration order.
#[macro_export]
macro_rules! for_each_op {
    ($callback:ident) => {
        $callback! {
            Constant      in create,
            Arange        in create,
            Splat         in create,
            Undefined     in create,
            ProgramId     in create,
            NumPrograms   in create,
            Unary         in arith,
            Binary        in arith,
            Compare       in arith,
            Select        in arith,
            Fma           in arith,
            Rescale       in arith,
            Rounded       in rounded,
            Cast          in cast,
            Bitcast       in cast,
            PtrAdd        in pointer,
            PeerPtr       in pointer,
            PeerTable     in pointer,
            InlinePtx     in inline_ptx,
            Map           in map,
            ExpandDims    in shape,
            Broadcast     in shape,
            Reshape       in shape,
            Permute       in shape,
            Split         in shape,
            Join          in shape,
            Part          in part,
            Cat           in part,
            Load          in global,
            Store         in global,
            PrefetchLines in global,
            Reduce        in reduce,
            AnyInWarp     in vote,
            Scan          in scan,
            Sort          in sort,
            Gather        in gather,
            Histogram     in gather,
            AtomicRmw     in atomic,
            AtomicCas     in atomic,
            AtomicLoad    in atomic,
            AtomicPoll    in poll,
            AtomicStore   in atomic,
            SmemAlloc     in shared,
            SmemLoad      in shared,
            SmemStore     in shared,
            SmemIndex     in shared,
            SmemSlice     in shared,
            SmemPermute   in shared,
            SmemReshape   in shared,
            SmemReinterpret in shared,
            SmemGather    in shared,
            SmemScatter   in shared,
            SmemAtomicScatter in atomic,
            SmemAtomicFetch in atomic,
            SmemKeep      in shared,
            AsyncCopy     in cp_async,
            AsyncCommit   in cp_async,
            AsyncWait     in cp_async,
            AsyncArrive   in cp_async,
            MbarrierInit  in mbarrier,
            MbarrierInvalidate in mbarrier,
            MbarrierExpect in mbarrier,
            MbarrierArrive in mbarrier,
            MbarrierWait  in mbarrier,
            MbarrierTryWait in mbarrier,
            MakeTensorMap in tensor_map,
            TmaLoad       in tma,
            TmaStore      in tma,
            TmaStoreWait  in tma,
            TmaPrefetch   in tma,
            TensorMapPrefetch in tma,
            BulkLoad      in bulk,
            BulkStore     in bulk,
            BulkPrefetch  in bulk,
            AccumulatorBegin in wgmma,
            WgmmaStart    in wgmma,
            WgmmaWait     in wgmma,
            FenceAsyncShared in wgmma,
            FenceAsyncGlobal in wgmma,
            MmaV2         in dot,
            DotFma        in dot,
            ClusterBarrier in cluster,
            ClusterArrive in cluster,
            ClusterWait   in cluster,
            ClusterRank   in cluster,
            ClusterId     in cluster,
            NumClusters   in cluster,
            ExchangeInit  in cluster,
            RemoteLoad    in cluster,
            RemoteStore   in cluster,
            RemoteCopy    in remote,
            RemoteStoreAsync in remote,
            LaunchWait    in cluster,
            LaunchDependents in cluster,
            WarpSpecialize in warps,
            ConvertLayout in layout,
            SetLayout     in layout,
            Hint          in debug,
            Assume        in debug,
            Assert        in debug,
            Print         in debug,
            Mark          in debug,
            Barrier       in sync,
            NamedSync     in sync,
            NamedArrive   in sync,
            For           in control,
            While         in control,
            If            in control,
            Yield         in control,
            Condition     in control,
            Return        in control,
        }
    };
}

macro_rules! declare_op_enum {
    ($($name:ident in $family:ident,)*) => {
        /// Any op.
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        pub enum Op {
            $(
                #[doc = concat!("See [`", stringify!($family), "::", stringify!($name), "`].")]
                $name($family::$name),
            )*
        }

        impl Op {
            /// The op through its common interface.
            pub fn rules(&self) -> &dyn OpRules {
                match self {
                    $(Op::$name(op) => op,)*
                }
            }

            /// The op through its common interface, mutably.
            pub fn rules_mut(&mut self) -> &mut dyn OpRules {
                match self {
                    $(Op::$name(op) => op,)*
                }
            }

            /// The names of all ops.
            pub const MNEMONICS: &[&str] = &[$(<$family::$name as OpDef>::MNEMONIC),*];

            /// Reads the fields of the op named `mnemonic`; `None` if no op has that name.
            pub fn read(mnemonic: &str, from: &mut FieldReader) -> Option<Result<Op, String>> {
                match mnemonic {
                    $(<$family::$name as OpDef>::MNEMONIC => {
                        Some(<$family::$name as OpDef>::read(from).map(Op::$name))
                    })*
                    _ => None,
                }
            }
        }

        $(impl Registered for $family::$name {})*

        $(impl From<$family::$name> for Op {
            fn from(op: $family::$name) -> Op {
                Op::$name(op)
            }
        })*
    };
}

for_each_op!(declare_op_enum);

impl Op {
    /// The operands, in declaration order.
    pub fn operands(&self) -> Values {
        let mut values = Values::new();
        self.rules().visit(&mut |v| values.push(v));
        values
    }

    /// The regions, in declaration order.
    pub fn regions(&self) -> SmallVec<[Region; 2]> {
        let mut regions = SmallVec::new();
        self.rules().visit_regions(&mut |r| regions.push(r));
        regions
    }
}
