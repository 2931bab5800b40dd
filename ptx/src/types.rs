//! The closed sets of modifiers: types, state spaces, rounding, caching, ordering.

use crate::spelling::spelled;
use target::MatrixType;

spelled! {
    /// The type of an instruction, a parameter or a variable (PTX ISA 5.2).
    Type {
        Pred = "pred",
        B1 = "b1", U4 = "u4", S4 = "s4",
        B8 = "b8", B16 = "b16", B32 = "b32", B64 = "b64", B128 = "b128",
        U8 = "u8", U16 = "u16", U32 = "u32", U64 = "u64",
        S8 = "s8", S16 = "s16", S32 = "s32", S64 = "s64",
        U16x2 = "u16x2", S16x2 = "s16x2",
        F16 = "f16", F16x2 = "f16x2", Bf16 = "bf16", Bf16x2 = "bf16x2",
        Tf32 = "tf32", F32 = "f32", F64 = "f64",
        E4m3 = "e4m3", E5m2 = "e5m2", E4m3x2 = "e4m3x2", E5m2x2 = "e5m2x2",
    }

    /// Where memory is (PTX ISA 5.1). `.shared` and `.shared::cta` mean the same; absent means generic.
    Space {
        Global = "global",
        Shared = "shared" | "shared::cta",
        SharedCluster = "shared::cluster",
        Local = "local",
        Const = "const",
        Param = "param" | "param::entry" | "param::func",
    }

    /// Rounding of results (PTX ISA 9.7.3 and 9.7.9.21): to nearest even, zero, minus or plus infinity; the
    /// forms with `i` round to an integer.
    Rounding {
        Rn = "rn", Rz = "rz", Rm = "rm", Rp = "rp", Rna = "rna",
        Rni = "rni", Rzi = "rzi", Rmi = "rmi", Rpi = "rpi",
    }

    /// How exact a division is: `.approx` (2 ulp, limited range) or `.full` (2 ulp, full range).
    DivPrecision { Approx = "approx", Full = "full" }

    /// Cache operator of a load (PTX ISA 9.7.9.1).
    LoadCache { Ca = "ca", Cg = "cg", Cs = "cs", Lu = "lu", Cv = "cv" }

    /// Cache operator of a store (PTX ISA 9.7.9.1).
    StoreCache { Wb = "wb", Cg = "cg", Cs = "cs", Wt = "wt" }

    /// Eviction priority in L1 (PTX ISA 9.7.9.2).
    L1Eviction {
        Normal = "L1::evict_normal",
        Unchanged = "L1::evict_unchanged",
        First = "L1::evict_first",
        Last = "L1::evict_last",
        NoAllocate = "L1::no_allocate",
    }

    /// Eviction priority in L2 as an access policy states it (PTX ISA 9.7.9.2, createpolicy).
    L2Eviction {
        Normal = "L2::evict_normal",
        Unchanged = "L2::evict_unchanged",
        First = "L2::evict_first",
        Last = "L2::evict_last",
    }

    /// Bytes that a load asks L2 to fetch around its address.
    L2Prefetch { B64 = "L2::64B", B128 = "L2::128B", B256 = "L2::256B" }

    /// Elements per access of a vector load, store or reduction.
    VecWidth { V2 = "v2", V4 = "v4", V8 = "v8" }

    /// Memory ordering of an access (PTX ISA 8.3 to 8.5).
    AccessSem {
        Weak = "weak", Volatile = "volatile", Relaxed = "relaxed", Acquire = "acquire", Release = "release",
        AcqRel = "acq_rel",
    }

    /// The threads that observe a memory operation (PTX ISA 8.5).
    Scope { Cta = "cta", Cluster = "cluster", Gpu = "gpu", Sys = "sys" }

    /// Ordering of a fence.
    FenceSem { AcqRel = "acq_rel", Sc = "sc", Acquire = "acquire", Release = "release" }

    /// Level of the old `membar`.
    MembarLevel { Cta = "cta", Gl = "gl", Sys = "sys" }

    /// Memory that `fence.proxy.async` orders (absent means all) and `tensormap.replace` changes.
    ProxySpace { Global = "global", SharedCta = "shared::cta", SharedCluster = "shared::cluster" }

    /// A coordinate of a special register.
    Axis { X = "x", Y = "y", Z = "z" }

    /// Read-only registers that the machine fills in (PTX ISA 10).
    Special {
        TidX = "%tid.x", TidY = "%tid.y", TidZ = "%tid.z",
        NtidX = "%ntid.x", NtidY = "%ntid.y", NtidZ = "%ntid.z",
        CtaidX = "%ctaid.x", CtaidY = "%ctaid.y", CtaidZ = "%ctaid.z",
        NctaidX = "%nctaid.x", NctaidY = "%nctaid.y", NctaidZ = "%nctaid.z",
        LaneId = "%laneid", WarpId = "%warpid", NwarpId = "%nwarpid",
        SmId = "%smid", NsmId = "%nsmid", GridId = "%gridid",
        LanemaskEq = "%lanemask_eq", LanemaskLe = "%lanemask_le", LanemaskLt = "%lanemask_lt",
        LanemaskGe = "%lanemask_ge", LanemaskGt = "%lanemask_gt",
        Clock = "%clock", ClockHi = "%clock_hi", Clock64 = "%clock64",
        GlobalTimer = "%globaltimer", GlobalTimerLo = "%globaltimer_lo", GlobalTimerHi = "%globaltimer_hi",
        ClusterIdX = "%clusterid.x", ClusterIdY = "%clusterid.y", ClusterIdZ = "%clusterid.z",
        NclusterIdX = "%nclusterid.x", NclusterIdY = "%nclusterid.y", NclusterIdZ = "%nclusterid.z",
        ClusterCtaidX = "%cluster_ctaid.x", ClusterCtaidY = "%cluster_ctaid.y", ClusterCtaidZ = "%cluster_ctaid.z",
        ClusterNctaidX = "%cluster_nctaid.x", ClusterNctaidY = "%cluster_nctaid.y",
        ClusterNctaidZ = "%cluster_nctaid.z",
        ClusterCtaRank = "%cluster_ctarank", ClusterNctaRank = "%cluster_nctarank",
        IsExplicitCluster = "%is_explicit_cluster",
        DynamicSharedBytes = "%dynamic_smem_size", TotalSharedBytes = "%total_smem_size",
    }
}

/// What the bits of a [`Type`] stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TypeKind {
    /// A predicate.
    Pred,
    /// Bits without a meaning.
    Bits,
    /// An unsigned integer.
    Unsigned,
    /// A signed integer in two's complement.
    Signed,
    /// A floating-point number.
    Float,
}

impl Type {
    /// Width of a value in bits; a predicate counts as one.
    pub const fn bits(self) -> u32 {
        match self {
            Self::Pred | Self::B1 => 1,
            Self::U4 | Self::S4 => 4,
            Self::B8 | Self::U8 | Self::S8 | Self::E4m3 | Self::E5m2 => 8,
            Self::B16
            | Self::U16
            | Self::S16
            | Self::F16
            | Self::Bf16
            | Self::E4m3x2
            | Self::E5m2x2 => 16,
            Self::B64 | Self::U64 | Self::S64 | Self::F64 => 64,
            Self::B128 => 128,
            _ => 32,
        }
    }

    /// Width in bytes of a value in memory; zero for types that memory cannot hold alone.
    pub const fn bytes(self) -> u32 {
        self.bits() / 8
    }

    /// What the bits stand for.
    pub const fn kind(self) -> TypeKind {
        match self {
            Self::Pred => TypeKind::Pred,
            Self::B1 | Self::B8 | Self::B16 | Self::B32 | Self::B64 | Self::B128 => TypeKind::Bits,
            Self::U4 | Self::U8 | Self::U16 | Self::U32 | Self::U64 | Self::U16x2 => {
                TypeKind::Unsigned
            }
            Self::S4 | Self::S8 | Self::S16 | Self::S32 | Self::S64 | Self::S16x2 => {
                TypeKind::Signed
            }
            _ => TypeKind::Float,
        }
    }

    /// A signed or unsigned integer.
    pub const fn is_integer(self) -> bool {
        matches!(self.kind(), TypeKind::Signed | TypeKind::Unsigned)
    }

    /// A floating-point number, packed pairs included.
    pub const fn is_float(self) -> bool {
        matches!(self.kind(), TypeKind::Float)
    }
}

impl VecWidth {
    /// Number of elements; never zero.
    #[allow(clippy::len_without_is_empty, reason = "a vector is never empty")]
    pub const fn len(self) -> usize {
        match self {
            Self::V2 => 2,
            Self::V4 => 4,
            Self::V8 => 8,
        }
    }

    /// The modifier for `len` elements; none for a scalar or a count that does not exist.
    pub const fn of_len(len: usize) -> Option<Self> {
        match len {
            2 => Some(Self::V2),
            4 => Some(Self::V4),
            8 => Some(Self::V8),
            _ => None,
        }
    }
}

impl L2Prefetch {
    /// Bytes fetched.
    pub const fn bytes(self) -> u32 {
        match self {
            Self::B64 => 64,
            Self::B128 => 128,
            Self::B256 => 256,
        }
    }
}

impl Special {
    /// The register for `axis` of one of the four basic index triples, given its `.x` member.
    pub const fn tid(axis: Axis) -> Self {
        match axis {
            Axis::X => Self::TidX,
            Axis::Y => Self::TidY,
            Axis::Z => Self::TidZ,
        }
    }

    /// `%ctaid` along `axis`.
    pub const fn ctaid(axis: Axis) -> Self {
        match axis {
            Axis::X => Self::CtaidX,
            Axis::Y => Self::CtaidY,
            Axis::Z => Self::CtaidZ,
        }
    }

    /// `%nctaid` along `axis`.
    pub const fn nctaid(axis: Axis) -> Self {
        match axis {
            Axis::X => Self::NctaidX,
            Axis::Y => Self::NctaidY,
            Axis::Z => Self::NctaidZ,
        }
    }

    /// `%clusterid` along `axis`.
    pub const fn clusterid(axis: Axis) -> Self {
        match axis {
            Axis::X => Self::ClusterIdX,
            Axis::Y => Self::ClusterIdY,
            Axis::Z => Self::ClusterIdZ,
        }
    }

    /// `%nclusterid` along `axis`.
    pub const fn nclusterid(axis: Axis) -> Self {
        match axis {
            Axis::X => Self::NclusterIdX,
            Axis::Y => Self::NclusterIdY,
            Axis::Z => Self::NclusterIdZ,
        }
    }

    /// Width of the register: 64 bits for the wide counters, 32 for all others, 1 for the cluster predicate.
    pub const fn ty(self) -> Type {
        match self {
            Self::Clock64 | Self::GlobalTimer | Self::GridId => Type::U64,
            Self::IsExplicitCluster => Type::Pred,
            _ => Type::U32,
        }
    }
}

/// The types of A, B and accumulator as crate `target` names them; none where one is no type of a matrix instruction.
pub fn matrix_types([a, b, sum]: [Type; 3]) -> Option<[MatrixType; 3]> {
    Some([matrix_type(a)?, matrix_type(b)?, matrix_type(sum)?])
}

fn matrix_type(ty: Type) -> Option<MatrixType> {
    Some(match ty {
        Type::F16 => MatrixType::F16,
        Type::Bf16 => MatrixType::Bf16,
        Type::Tf32 => MatrixType::Tf32,
        Type::F32 => MatrixType::F32,
        Type::F64 => MatrixType::F64,
        Type::E4m3 => MatrixType::E4m3,
        Type::E5m2 => MatrixType::E5m2,
        Type::S8 => MatrixType::S8,
        Type::U8 => MatrixType::U8,
        Type::S4 => MatrixType::S4,
        Type::U4 => MatrixType::U4,
        Type::S32 => MatrixType::S32,
        _ => return None,
    })
}
