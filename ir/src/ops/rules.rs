//! What every op must say about itself.

use std::ops::Range;

use super::access::{Scope, SharedAccess, SharedAccesses};
use super::answers::{LayoutRule, NamedBarrier, Terminator, Types};
use super::define::{OpFields, Values};
use super::scratch::Scratch;
use crate::OpError;
use crate::constant::Uniform;
use crate::entity::Value;
use crate::facts::{self, Facts, KnownFacts};
use crate::{Effects, Func, Type};
use diag::as_written;

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
    fn uniform(&self) -> Option<Uniform> {
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

    /// May its scalar result differ between the warps of a partition?
    fn differs_between_warps(&self) -> bool {
        false
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

    /// Does it wait for asynchronous reads, and if so, for which, those by TMA or those of operands, and how many groups of them may
    /// still be in flight?
    fn waits_for_async_reads(&self) -> Option<(SharedAccess, u32)> {
        None
    }

    /// Does it wait for the asynchronous copies of its thread, and if so, how many groups may still be in flight?
    fn waits_for_copies(&self) -> Option<u32> {
        None
    }

    /// Is an mbarrier signalled by it when the asynchronous copies of its thread are complete?
    fn signals_copies(&self) -> bool {
        false
    }

    /// Does it give a pointer into memory of another rank?
    fn is_peer(&self) -> bool {
        false
    }

    /// Does it give a table of the addresses of all ranks?
    fn is_peer_table(&self) -> bool {
        false
    }

    /// The scope of an atomic on global memory.
    fn sync_scope(&self) -> Option<Scope> {
        None
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
    fn named_barrier(&self) -> Option<NamedBarrier> {
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
