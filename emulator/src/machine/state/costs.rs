//! What things cost in the model of time, in cycles of an SM: the only place of each number.
//!
//! The numbers are those of an H200 as far as its documentation and published measurements give them, and estimates otherwise. They
//! order the work of a kernel roughly as the GPU does; durations that follow from them are modelled, never measured.

use ptx::{BinaryOp, Inst, Space, Type, UnaryOp};

/// Cycles of an SM in a microsecond, for `%globaltimer`.
pub(crate) const CYCLES_PER_MICROSECOND: u64 = 1755;

/// From the issue of a copy by TMA until its bytes begin to arrive.
pub(crate) const COPY_LATENCY: u64 = 600;
/// The same of the first copy of a CTA that no CTA went before on its SM, in addition: the tensor map and the data come from DRAM, behind
/// translations of addresses that nobody had asked for.
pub(crate) const COLD_LATENCY: u64 = 1000;
/// Bytes that copies move in a cycle between L2 and the shared memory of an SM.
pub(crate) const COPY_BYTES: u64 = 64;
/// Bytes of L2 that a piece of a copy takes at a time, and at places that are multiples of it: a row of 128 bytes that begins elsewhere takes
/// three of them.
pub(crate) const COPY_CHUNK: u64 = 64;
/// Bytes that L2 serves in a cycle of the SMs, all of them together: 12.5 TB/s at 1980 MHz, counting what several SMs ask for at once each time.
pub(crate) const L2_BYTES: u64 = 6300;
/// Sectors that threads get in a cycle from L2, and from L1.
pub(crate) const L2_SECTORS: u64 = 2;
pub(crate) const L1_SECTORS: u64 = 4;
/// Lines of L1, where a CTA has all of it.
pub(crate) const L1_LINES: usize = 1024;
/// From a load that finds its sectors in L1 until its results can be read.
pub(crate) const L1_LATENCY: u64 = 36;
/// The same of one that does not.
pub(crate) const GLOBAL_LATENCY: u64 = 550;
/// The same of shared memory, of the own CTA and of another one of the cluster.
pub(crate) const SHARED_LATENCY: u64 = 26;
pub(crate) const REMOTE_LATENCY: u64 = 200;
/// Bytes that a CTA gets or sends in a cycle through distributed shared memory: by loads and stores of threads, by `st.async`, and by bulk copies
/// (measured in clusters of 2 to 8 CTAs).
pub(crate) const REMOTE_ACCESS_BYTES: u64 = 8;
pub(crate) const REMOTE_STORE_BYTES: u64 = 6;
pub(crate) const REMOTE_COPY_BYTES: u64 = 18;
/// From the issue of a bulk copy to another CTA until its first bytes arrive.
pub(crate) const REMOTE_COPY_LATENCY: u64 = 500;
/// From an arrival at an mbarrier of another CTA until it counts there.
pub(crate) const REMOTE_ARRIVAL: u64 = 200;
/// From the issue of a bulk store until shared memory has been read.
pub(crate) const STORE_READ_LATENCY: u64 = 250;
/// From the issue of a bulk store until global memory has been written.
pub(crate) const STORE_LATENCY: u64 = 700;
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
/// Bytes of shared memory that the tensor cores of an SM read in a cycle.
pub(crate) const OPERAND_BYTES: u64 = 128;

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
/// Of loads and stores, whose time depends on their addresses.
const ACCESS: Cost = cost(2, 4);
const MATRIX_ACCESS: Cost = cost(2, 8);
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
        Inst::Ld(load) if load.space == Some(Space::Param) => cost(1, 4),
        Inst::Ld(_) | Inst::St(_) => ACCESS,
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
