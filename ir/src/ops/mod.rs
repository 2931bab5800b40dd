//! The op registry: the one list of ops, and what every op must say about itself.

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
pub mod warps;
pub mod wgmma;

use std::ops::Range;

use smallvec::SmallVec;

pub(crate) use cut::nearest_multiples;
pub use define::{
    Attr, Field, FieldReader, FieldWriter, OpDef, OpFields, Text, TextOperand, Values,
};
pub use scratch::Scratch;

use crate::OpError;
use crate::entity::{Region, Value};
use crate::facts::{self, Facts, KnownFacts};
use crate::{Effects, Func, Type};
use diag::as_written;

/// The types of an op's results.
pub type Types = SmallVec<[Type; 1]>;

/// How an op touches a view of shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedAccess {
    /// Reads it.
    Read,
    /// Writes it.
    Write,
    /// Changes it by atomic steps, which do not disturb each other.
    Atomic,
    /// Tests the phase of the mbarrier there; it has no release semantics.
    Poll,
    /// Combines it with values by atomic steps of one kind: their order among themselves does not matter, but for an
    /// exchange.
    Combine(atomic::AtomicOp),
    /// Initialises an mbarrier there, with its own fence: the async proxy observes it once all threads have passed a CTA barrier.
    Initialise,
    /// Reads the same place in another CTA of the cluster, and lets others read it here.
    RemoteRead,
    /// Writes the same place in another CTA of the cluster, and lets others write it here.
    RemoteWrite,
    /// Threads copy into it asynchronously (`cp.async`), until they wait for their copies.
    Copy,
    /// Issues an asynchronous read of it, by TMA or the tensor cores.
    AsyncRead,
    /// Issues an asynchronous write of it, by TMA.
    AsyncWrite,
    /// Issues an asynchronous write of the same place in another CTA of the cluster, as others do of this one.
    AsyncRemoteWrite,
    /// Asynchronous atomic changes: the mbarrier on which a copy completes its bytes.
    AsyncAtomic,
}

impl SharedAccess {
    /// Is it done asynchronously through the async proxy, by TMA or the tensor cores?
    pub const fn is_asynchronous(self) -> bool {
        matches!(
            self,
            Self::AsyncRead | Self::AsyncWrite | Self::AsyncRemoteWrite | Self::AsyncAtomic
        )
    }
}

/// The views of shared memory that an op touches.
pub type SharedAccesses = SmallVec<[(Value, SharedAccess); 1]>;

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
            Rounded       in rounded,
            Cast          in cast,
            Bitcast       in cast,
            PtrAdd        in pointer,
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

/// Implemented by the registry for each op it lists.
#[diagnostic::on_unimplemented(
    message = "op `{Self}` is not registered",
    note = "add it to `for_each_op!` in ir/src/ops/mod.rs"
)]
pub trait Registered {}

/// What each op must say about itself.
pub trait OpRules: OpFields + Registered {
    /// The types that the results must have, given the operands and the types requested.
    ///
    /// The builder asks before an op exists, with the types it would like; the verifier asks again with the types that
    /// stand there, which must be the answer. An op whose operands decide its results ignores `declared`; one that is
    /// free in something (the layout of an arange) takes that from `declared`.
    fn result_types(&self, func: &Func, declared: &[Type]) -> Result<Types, OpError>;

    /// Memory and order.
    fn effects(&self) -> Effects {
        Effects::PURE
    }

    /// How the layouts of operands and results are tied.
    fn layout_rule(&self) -> LayoutRule {
        LayoutRule::Same
    }

    /// The facts about a result of type `ty`, given those about the operands. A result outside of what its type can hold wraps: the caller
    /// takes it [within](Facts::within) the type. By default equal operands give equal results, where only the results matter and each
    /// element is made of those at its own place.
    fn result_facts(&self, _func: &Func, known: &KnownFacts, ty: &Type) -> Facts {
        if !self.effects().is_pure() || self.layout_rule() != LayoutRule::Same {
            return Facts::unknown(ty);
        }
        let mut operands = Values::new();
        self.visit(&mut |value| operands.push(value));
        facts::equal_where_operands_are(known, &operands, ty)
    }

    /// Is each element of the result computed from the operands' elements at the same place, with no other effect?
    fn is_elementwise(&self) -> bool {
        false
    }

    /// The operand of which each element of the result is one: the op moves or repeats elements, and computes nothing.
    fn moved_operand(&self) -> Option<Value> {
        None
    }

    /// What every element of the result is, where one number or scalar is all there is to it.
    fn uniform(&self) -> Option<create::Uniform> {
        None
    }

    /// Is the result recomputed at each use, so that it takes no registers between them?
    fn is_rematerializable(&self) -> bool {
        false
    }

    /// Does a scalar result differ between the CTAs of a cluster for certain, given which operands do? By default it does where it is
    /// computed from one that does.
    fn differs_between_ctas(&self, _func: &Func, differs: &dyn Fn(Value) -> bool) -> bool {
        let mut any = false;
        self.visit(&mut |value| any |= differs(value));
        any && self.effects().is_pure()
    }

    /// The operator or method that an author writes for it.
    fn name_in_source(&self) -> &'static str {
        as_written(self.mnemonic())
    }

    /// Its scratch as planned so far; `None` for an op that never uses any.
    fn scratch(&self) -> Option<Scratch> {
        None
    }

    /// Plans its scratch. Only for an op that answers to `scratch`.
    fn set_scratch(&mut self, _scratch: Scratch) {}

    /// The shared memory that it allocates, as planned so far; `None` for an op that allocates none.
    fn allocation(&self) -> Option<Scratch> {
        None
    }

    /// Plans what it allocates. Only for an op that answers to `allocation`.
    fn set_allocation(&mut self, _bytes: Scratch) {}

    /// Does it wait until TMA or the tensor cores have read what they were issued to read?
    fn waits_for_async_reads(&self) -> bool {
        false
    }

    /// Does it wait for the asynchronous copies of its thread, and if so, how many groups may still be in flight?
    fn waits_for_copies(&self) -> Option<u32> {
        None
    }

    /// Is an mbarrier signalled by it when the asynchronous copies of its thread are complete?
    fn signals_copies(&self) -> bool {
        false
    }

    /// Does it make generic writes to shared memory visible to the async proxy (PTX ISA, proxy fences)?
    fn is_async_fence(&self) -> bool {
        false
    }

    /// Does it arrive at the barrier of the cluster?
    fn arrives_at_cluster_barrier(&self) -> bool {
        false
    }

    /// Does it wait at the barrier of the cluster until all threads of the cluster have arrived?
    fn waits_at_cluster_barrier(&self) -> bool {
        false
    }

    /// Does it synchronize at the barrier of the cluster: arrive, wait, or both?
    fn synchronizes_cluster(&self) -> bool {
        self.arrives_at_cluster_barrier() || self.waits_at_cluster_barrier()
    }

    /// The accumulator of the `wgmma` that it issues.
    fn started_product(&self) -> Option<Value> {
        None
    }

    /// Does its result begin an accumulator, in registers of its own?
    fn begins_accumulator(&self) -> bool {
        false
    }

    /// Does it wait for `wgmma` groups, and if so, how many may still be in flight?
    fn waits_for_products(&self) -> Option<u32> {
        None
    }

    /// Operands in whose registers the results stay, in the order of the results.
    fn in_place_operands(&self) -> &[Value] {
        &[]
    }

    /// Multiply-adds that it expands to, where these are so many that the author should know.
    fn excess_products(&self, _func: &Func) -> Option<u64> {
        None
    }

    /// The mbarrier whose phase it makes wait for bytes of asynchronous copies.
    fn expects_bytes(&self) -> Option<Value> {
        None
    }

    /// The condition of which the author promises that it holds.
    fn promise(&self) -> Option<Value> {
        None
    }

    /// Does it call `vprintf`, a function that ptxas does not know?
    fn calls_vprintf(&self) -> bool {
        false
    }

    /// The named barrier that its threads arrive at; `None` for an op that arrives at none.
    fn named_barrier(&self) -> Option<sync::NamedBarrier> {
        None
    }

    /// Does it access mbarriers of other CTAs of the cluster, which must have been initialised?
    fn accesses_other_ctas(&self) -> bool {
        false
    }

    /// Do all threads observe after it the mbarriers that were initialised and fenced before?
    fn publishes_barriers(&self) -> bool {
        false
    }

    /// The views of shared memory that it touches; its scratch is not among them.
    fn shared_accesses(&self) -> SharedAccesses {
        SharedAccesses::new()
    }

    /// The rank of the CTA whose memory these views stand for, where it is not its own and is known.
    fn rank_of_views(&self, _func: &Func) -> Option<u32> {
        None
    }

    /// For an op that makes a view of another: the bytes that the result may hold, counted from the first of a whole
    /// allocation or buffer that it is made of; `None` where they may be any.
    fn part_of_view(&self, _func: &Func) -> Option<Range<u32>> {
        None
    }

    /// Can one thread alone do what it does, where no operand, result or scratch belongs to several? An op that
    /// synchronizes threads, or counts them, says no.
    fn suits_one_thread(&self) -> bool {
        let effects = self.effects();
        effects.is_droppable() && effects.reads.is_none()
    }

    /// If it accesses shared memory: may the CTAs of a cluster split its tensors, so that each does its part? Then its result
    /// types say which splits fit.
    fn does_cta_parts(&self) -> bool {
        false
    }

    /// Scalars that must be the same in all CTAs of the cluster, since these do it together.
    fn shared_by_ctas(&self, _func: &Func) -> Values {
        Values::new()
    }

    /// Which end of a region it is; `None` for an op that stands before the end.
    fn terminator(&self) -> Option<Terminator> {
        None
    }

    /// Does it end a region?
    fn is_terminator(&self) -> bool {
        self.terminator().is_some()
    }

    /// What its region number `at` ends in.
    fn end_of_region(&self, _at: usize) -> Terminator {
        Terminator::Yield
    }

    /// May its region number `at` end in `condition` instead, which says whether the loop goes on?
    fn may_stop(&self, _at: usize) -> bool {
        false
    }
}

/// What a region ends in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Terminator {
    /// The body of the kernel, in `return`.
    Return,
    /// A region of an op, in `yield`.
    Yield,
    /// The test of a `while`, in `condition`.
    Condition,
}

impl Terminator {
    /// Its mnemonic.
    pub const fn name(self) -> &'static str {
        match self {
            Terminator::Return => "return",
            Terminator::Yield => "yield",
            Terminator::Condition => "condition",
        }
    }
}

/// How an op ties the layouts of its tensor operands and results. The resolve passes and the verifier ask this.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LayoutRule {
    /// No tie: each side has its own.
    Free,
    /// All tensor operands and results have one layout, and each element is made of those at its own place.
    Same,
    /// All tensor operands and results have one layout, and elements along a dimension are combined.
    Along,
    /// The same, and results follow, as many as operands, that have the slice of that layout along `axis`.
    AlongWithTotals {
        /// The dimension that they lack.
        axis: u32,
    },
    /// The operands have one layout, and the results are the first elements along a dimension, where they are.
    Keep,
    /// The operands have a parent layout, the results its slice along `axis`.
    Reduce {
        /// The dimension that is removed.
        axis: u32,
    },
    /// The operand has a slice along `axis`, the result its parent.
    ExpandDims {
        /// The dimension that is inserted.
        axis: u32,
    },
    /// Dimension `i` of the result is dimension `order[i]` of the operand.
    Permute {
        /// The new order.
        order: ::layout::Dims,
    },
    /// The elements stay where they are and are counted in another shape.
    Reshape,
    /// Two results from the last dimension of one operand.
    Split,
    /// One result with a new last dimension from two operands.
    Join,
    /// The operand, whose layout was open, takes that of the result.
    Set,
    /// The result is a range of the operand's dimension, where it is.
    Part(::layout::relate::Part),
    /// The operands are ranges of the result's dimension, where they are, one after the other.
    Cat {
        /// The dimension.
        axis: usize,
    },
    /// The indices and the result have one layout, the source its own.
    Gather,
    /// A control-flow op: the values that flow together have one layout.
    Flow,
}
