//! What one CTA of a cluster writes into the shared memory of another without either waiting: bulk copies (PTX ISA,
//! `cp.async.bulk.shared::cluster.shared::cta`) and stores (`st.async`), whose bytes complete on a barrier of the other CTA.

use cranelift_entity::packed_option::PackedOption;
use smallvec::smallvec;

use super::bulk::{check_count, check_together};
use super::cluster::{check_cluster, check_rank};
use super::define::{answers, define_op};
use super::mbarrier::{check_predicate, one_barrier};
use super::shared::{check_remote_ctas, check_stored, descriptor};
use super::tma::TmaReduceOp;
use super::{OpRules, SharedAccess, SharedAccesses, Types};
use crate::OpError;
use crate::elem::{DType, Elem};
use crate::entity::Value;
use crate::{Effects, Func, SmemType, Spaces, Type};
use diag::Code;

impl TmaReduceOp {
    /// Can a copy combine elements of this type with what lies in another CTA (PTX ISA, `cp.reduce.async.bulk`)?
    pub fn accepts_remote(self, dtype: DType) -> bool {
        let is_word = matches!(dtype, DType::I32 | DType::U32);
        match self {
            TmaReduceOp::Store => true,
            TmaReduceOp::Add => is_word || dtype == DType::U64,
            _ => is_word,
        }
    }
}

/// The place in the other CTA, its barrier and its rank.
fn check_target<'f>(
    func: &'f Func,
    op: &str,
    view: Value,
    barrier: Value,
    cta: Value,
) -> Result<&'f SmemType, OpError> {
    check_cluster(func, op)?;
    check_rank(func, cta)?;
    one_barrier(func, op, barrier)?;
    descriptor(func, op, view)
}

/// Memory of other CTAs is touched, and that of this one by others.
const REMOTE: Effects = Effects {
    reads: Spaces::SHARED,
    writes: Spaces::SHARED,
    is_ordered: true,
    is_guarded: true,
    ..Effects::PURE
};

fn split_otherwise(from: &SmemType, to: &SmemType) -> OpError {
    let message = format!("the CTAs of the cluster split {from} and {to} in different ways");
    OpError::new(Code::LayoutMismatch, message)
        .help("a copy goes from this CTA's part to the same offset in the other CTA: give both tiles the same CTA bases")
}

define_op! {
    /// TMA copies a view into the place of another in another CTA, or combines them there. The bytes complete on
    /// the barrier in the place of `barrier` there, which must expect them. Of views that the CTAs of the cluster split, it
    /// copies the part of this CTA into the place where the other has its own.
    pub struct RemoteCopy = "remote_copy" {
        /// How they combine.
        op: TmaReduceOp,
        /// Where from, in this CTA.
        from: Value,
        /// The place, in the other.
        view: Value,
        /// The place of what completes, in the other.
        barrier: Value,
        /// The rank of the other CTA, an i32.
        cta: Value,
        /// How many elements, an i32 above zero; as many as the view has without it.
        count: PackedOption<Value>,
        /// Whether at all; a scalar boolean.
        predicate: PackedOption<Value>,
    }
}

impl OpRules for RemoteCopy {
    fn result_types(&self, func: &Func, _: &[Type]) -> Result<Types, OpError> {
        let to = check_target(func, "remote_copy", self.view, self.barrier, self.cta)?;
        let from = descriptor(func, "remote_copy", self.from)?;
        if from.elem != to.elem || from.shape != to.shape {
            let code = if from.elem == to.elem {
                Code::ShapeMismatch
            } else {
                Code::ElementMismatch
            };
            return Err(
                OpError::new(code, format!("{from} cannot be copied into {to}"))
                    .typed(self.from, from)
                    .typed(self.view, to),
            );
        }
        check_together(func, "remote_copy", from, self.from)?;
        check_together(func, "remote_copy", to, self.view)?;
        if from.part_origins().ok() != to.part_origins().ok() {
            return Err(split_otherwise(from, to)
                .typed(self.from, from)
                .typed(self.view, to));
        }
        match to.elem {
            Elem::Data(dtype) if self.op.accepts_remote(dtype) => {}
            elem => {
                let message = format!(
                    "a bulk copy into another CTA has no `{}` for {elem}",
                    self.op
                );
                return Err(OpError::new(Code::ElementMismatch, message).help(
                    "`add` exists for 32-bit integers and u64, the other operations for 32-bit integers",
                ));
            }
        }
        let most = Some(to.shape.product());
        check_count(func, "remote_copy", to.elem.bytes(), most, self.count)?;
        check_predicate(func, "remote_copy", self.predicate)?;
        Ok(smallvec![])
    }
    fn shared_accesses(&self) -> SharedAccesses {
        smallvec![
            (self.from, SharedAccess::AsyncRead),
            (self.view, SharedAccess::AsyncRemoteWrite),
            (self.barrier, SharedAccess::AsyncAtomic)
        ]
    }
    answers!(effects(REMOTE), one_thread, free_layouts);
}

define_op! {
    /// The threads store a tensor into the place of a view in another CTA and continue at once. The bytes complete on the
    /// barrier in the place of `barrier` there, which must expect them. Of a tensor that the CTAs of the cluster split, each
    /// stores its part where the other has its own.
    pub struct RemoteStoreAsync = "remote_store_async" {
        /// The place.
        view: Value,
        /// What to write.
        value: Value,
        /// The place of what completes.
        barrier: Value,
        /// The rank of the other CTA, an i32.
        cta: Value,
    }
}

impl OpRules for RemoteStoreAsync {
    fn result_types(&self, func: &Func, _: &[Type]) -> Result<Types, OpError> {
        let s = check_target(func, "store_async", self.view, self.barrier, self.cta)?;
        let t = check_stored(func, "store_async", self.value, (self.view, s))?;
        check_remote_ctas(func, t, self.view, s)?;
        Ok(smallvec![])
    }
    fn shared_accesses(&self) -> SharedAccesses {
        smallvec![
            (self.view, SharedAccess::AsyncRemoteWrite),
            (self.barrier, SharedAccess::AsyncAtomic)
        ]
    }
    answers!(effects(REMOTE), cta_parts, free_layouts);
}
