//! Waiting for global memory: reads that are repeated until a test of what they find is true.

use cranelift_entity::packed_option::PackedOption;
use smallvec::smallvec;

use super::atomic::{GLOBAL_RMW, Scope, Semantics, check_load, data_of};
use super::control::yielded;
use super::define::{answers, define_op};
use super::{OpRules, Scratch, Types};
use crate::OpError;
use crate::elem::{DType, Elem};
use crate::entity::{Region, Value};
use crate::{Func, Type};
use diag::Code;

define_op! {
    /// Reads through each pointer where `mask` is true, as one step each time, until the region, which takes what was read,
    /// yields true. Each warp waits for the elements that its lanes hold, one lane for each element, and then its lanes
    /// synchronize (`bar.warp.sync`). Where it acquires, all threads of the CTA or partition observe what was released before
    /// the values that were waited for; only where warps hold different elements does that take a barrier of them all. The
    /// result is what made the test true, 0 where nothing was read; where several warps hold copies of it, its use takes
    /// such a barrier too.
    ///
    /// With `within` a wait also ends when so many nanoseconds (of `%globaltimer`) have passed since a lane first read what does not end it. The result is then
    /// what was read last.
    pub struct AtomicPoll = "atomic_poll" {
        /// `acquire` or `relaxed`.
        semantics: Semantics,
        /// Among whom.
        scope: Scope,
        /// Shared memory for results passed to threads that hold replicas.
        scratch: Scratch,
        /// Pointers, a tensor or a scalar.
        ptr: Value,
        /// Where.
        mask: PackedOption<Value>,
        /// The longest wait, ns, an `i64`; none where it may last forever.
        within: PackedOption<Value>,
        /// The test: it takes one element and yields whether the wait is over.
        until: Region,
    }
}

impl OpRules for AtomicPoll {
    fn result_types(&self, func: &Func, _: &[Type]) -> Result<Types, OpError> {
        check_load("poll", self.semantics)?;
        let data = data_of(func, "atomic_poll", self.ptr, &[], self.mask.expand())?;
        let param = data.elem().map(Type::Scalar);
        let params = &func.region(self.until).params;
        let takes = params.iter().map(|v| Some(func.ty(*v).clone()));
        let answer = Type::Scalar(Elem::Data(DType::I1));
        let gives = yielded(func, self.until).iter().map(|v| func.ty(*v));
        if takes.ne([param]) || gives.ne([&answer]) {
            let message = "the region of `atomic_poll` takes one element and yields one `i1`";
            return Err(OpError::new(Code::BrokenRule, message));
        }
        let limit = self.within.expand().map(|limit| func.ty(limit));
        if limit.is_some_and(|ty| *ty != Type::Scalar(Elem::Data(DType::I64))) {
            let message = "the limit of `atomic_poll` is one `i64`, in nanoseconds";
            return Err(OpError::new(Code::BrokenRule, message));
        }
        Ok(smallvec![data])
    }
    answers!(effects(GLOBAL_RMW), scratch, scope, one_thread);
}
