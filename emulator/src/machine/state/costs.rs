//! What things cost in the model of time, in cycles of an SM: the only place of each number.
//!
//! The numbers are those of an H200 as far as its documentation and published measurements give them, and estimates otherwise. They
//! order the work of a kernel roughly as the GPU does; durations that follow from them are modelled, never measured.

use ptx::{BinaryOp, Inst, Space, Type, UnaryOp};

/// Cycles of an SM in a microsecond, for `%globaltimer`.
pub(crate) const CYCLES_PER_MICROSECOND: u64 = 1755;

/// From the issue of a copy by TMA until its bytes begin to arrive.
pub(crate) const COPY_LATENCY: u64 = 600;
/// Bytes that copies move in a cycle between L2 and the shared memory of an SM.
pub(crate) const COPY_BYTES: u64 = 64;
/// Bytes that threads move in a cycle between L1 and L2.
pub(crate) const ACCESS_BYTES: u64 = 64;
/// From the issue of a bulk store until shared memory has been read.
pub(crate) const STORE_READ_LATENCY: u64 = 250;
/// From the issue of a bulk store until global memory has been written.
pub(crate) const STORE_LATENCY: u64 = 700;
/// From the issue of `cp.async` until its bytes are there.
pub(crate) const THREAD_COPY_LATENCY: u64 = 550;
/// From the completion of a phase of an mbarrier until a warp that waits for it goes on.
pub(crate) const MBARRIER_WAKE: u64 = 20;
/// The same of a barrier of the CTA.
pub(crate) const BARRIER_WAKE: u64 = 20;
/// The same of the barrier of a cluster.
pub(crate) const CLUSTER_WAKE: u64 = 180;
/// From the end of a product in the tensor cores until `wgmma.wait_group` returns.
pub(crate) const PRODUCT_LATENCY: u64 = 30;
/// Bytes of A times columns of B that the tensor core of a quarter of an SM takes in a cycle: 512 multiplications of 16-bit elements, for
/// 16 rows.
pub(crate) const PRODUCT_BYTES: u64 = 64;
/// One cycle in so many is lost where tensor cores are never idle: a step of 128 x 256 x 64 takes 1057 cycles on an H200 and not 1024.
pub(crate) const PRODUCT_LOSS: u64 = 31;
/// The least time of one `wgmma`.
pub(crate) const LEAST_PRODUCT: u64 = 16;

/// What an instruction costs a warp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cost {
    /// Cycles in which the quarter of the SM issues nothing else.
    pub(crate) issue: u32,
    /// Cycles in which its unit for special functions takes nothing else.
    pub(crate) special: u32,
    /// Cycles until its results can be read.
    pub(crate) latency: u32,
    /// Cycles until the warp issues its next instruction.
    pub(crate) stall: u32,
}

/// `(issue, latency)`, and the next instruction of the warp follows at once.
const fn cost(issue: u32, latency: u32) -> Cost {
    Cost {
        issue,
        special: 0,
        latency,
        stall: issue,
    }
}

/// ptxas removes it.
const FREE: Cost = cost(0, 0);
const ALU: Cost = cost(1, 4);
const WIDE: Cost = cost(2, 6);
/// A quarter of an SM has 4 lanes for these.
const SPECIAL_FUNCTION: Cost = Cost {
    special: 8,
    ..cost(1, 22)
};
const CONVERSION: Cost = cost(2, 6);
const DIVISION: Cost = cost(16, 40);
const DOUBLE: Cost = cost(2, 8);
const BRANCH: Cost = Cost {
    issue: 1,
    special: 0,
    latency: 0,
    stall: 8,
};
const SHUFFLE: Cost = cost(2, 24);
const GLOBAL_ATOMIC: Cost = cost(4, 700);
const SHARED_ATOMIC: Cost = cost(4, 60);
const MATRIX_ACCESS: Cost = cost(8, 32);
const MATRIX_PRODUCT: Cost = cost(8, 34);
const MBARRIER: Cost = cost(2, 20);
const FENCE: Cost = Cost {
    issue: 1,
    special: 0,
    latency: 0,
    stall: 20,
};
const COPY_ISSUE: Cost = Cost {
    issue: 2,
    special: 0,
    latency: 0,
    stall: 16,
};
const GLOBAL_LATENCY: u32 = 550;
const SHARED_LATENCY: u32 = 30;

/// What an instruction costs.
pub(crate) fn cost_of(inst: &Inst) -> Cost {
    match inst {
        Inst::Mov(_) | Inst::Bound(_) | Inst::Cvta(_) => FREE,
        Inst::Bra(_) => BRANCH,
        Inst::Binary(op) => match op.op {
            BinaryOp::Div | BinaryOp::Rem => DIVISION,
            _ => of_type(op.ty),
        },
        Inst::Ternary(op) => of_type(op.ty),
        Inst::Unary(op) => match op.op {
            UnaryOp::Sqrt
            | UnaryOp::Rcp
            | UnaryOp::Rsqrt
            | UnaryOp::Ex2
            | UnaryOp::Lg2
            | UnaryOp::Sin
            | UnaryOp::Cos
            | UnaryOp::Tanh => SPECIAL_FUNCTION,
            _ => of_type(op.ty),
        },
        Inst::Cvt(_) | Inst::CvtPack(_) => CONVERSION,
        Inst::Ld(load) => access(load.space, load.ty, load.vec.map_or(1, |v| v.len() as u32)),
        Inst::St(store) => Cost {
            latency: 0,
            ..access(
                store.space,
                store.ty,
                store.vec.map_or(1, |v| v.len() as u32),
            )
        },
        Inst::Atom(atom) if is_shared(atom.space) => SHARED_ATOMIC,
        Inst::Atom(_) => GLOBAL_ATOMIC,
        Inst::Red(_) => cost(4, 0),
        Inst::Shfl(_) | Inst::Vote(_) | Inst::Match(_) | Inst::Redux(_) | Inst::Elect(_) => SHUFFLE,
        Inst::Ldmatrix(_) | Inst::Stmatrix(_) | Inst::Movmatrix(_) => MATRIX_ACCESS,
        Inst::Mma(_) => MATRIX_PRODUCT,
        Inst::MbarrierWait(_) | Inst::MbarrierArrive(_) => MBARRIER,
        Inst::FenceProxyAsync(_) | Inst::Fence(_) | Inst::Membar(_) => FENCE,
        Inst::TensorLoad(_)
        | Inst::TensorStore(_)
        | Inst::TensorReduce(_)
        | Inst::BulkLoad(_)
        | Inst::BulkStore(_)
        | Inst::BulkReduce(_)
        | Inst::BulkSharedToCluster(_) => COPY_ISSUE,
        _ => ALU,
    }
}

fn of_type(ty: Type) -> Cost {
    match ty {
        Type::F64 => DOUBLE,
        _ if ty.bytes() == 8 => WIDE,
        _ => ALU,
    }
}

fn is_shared(space: Option<Space>) -> bool {
    matches!(space, Some(Space::Shared | Space::SharedCluster))
}

/// An access of a warp: shared memory moves 128 bytes in a cycle, so a quarter of its port 32.
fn access(space: Option<Space>, ty: Type, elements: u32) -> Cost {
    let bytes = ty.bytes() * elements;
    let latency = match space {
        Some(Space::Param) => return cost(1, 4),
        _ if is_shared(space) => SHARED_LATENCY,
        _ => GLOBAL_LATENCY,
    };
    cost(bytes.div_ceil(4).max(1), latency)
}
