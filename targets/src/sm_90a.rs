//! Hopper.

use crate::MatrixType::{Bf16, E4m3, E5m2, F16, F32, F64, S4, S8, S32, Tf32, U4, U8};
use crate::{
    AccessLimits, ClusterLimits, CtaLimits, MbarrierLimits, Mma, ProductTypes, RegisterLimits,
    SmLimits, Target, TensorMapLimits, Wgmma,
};

/// Hopper with the features that later architectures do not have: wgmma and setmaxnreg.
pub const SM_90A: Target = Target {
    arch: "sm_90a",
    code_name: "Hopper",
    gpus: "H100, H200",
    compute_capability: (9, 0),
    least_ptx: (8, 0),
    grid: [i32::MAX as u32, 65_535, 65_535],
    cta: CtaLimits {
        threads: 1024,
        block: [1024, 1024, 64],
        shared_bytes: 227 * KIB,
        static_shared_bytes: 48 * KIB,
        barriers: 16,
        parameter_bytes: 4096,
        long_parameter_bytes: 32_764,
    },
    sm: SmLimits {
        threads: 2048,
        ctas: 32,
        shared_bytes: 228 * KIB,
        reserved_shared_bytes_per_cta: KIB,
        shared_unit_bytes: 128,
        registers: 65_536,
    },
    registers: RegisterLimits {
        per_thread: 255,
        unit: 8,
        least_budget: 24,
        most_budget: 256,
    },
    cluster: ClusterLimits {
        ctas: 16,
        portable_ctas: 8,
    },
    access: AccessLimits {
        widest_bytes: 16,
        async_bytes: [16, 8, 4],
        sector_bytes: 32,
    },
    mbarrier: MbarrierLimits {
        arrivals: (1 << 20) - 1,
        transaction_bytes: (1 << 20) - 1,
    },
    tensor_map: TensorMapLimits {
        rank: 5,
        least_im2col_rank: 3,
        dim_elements: 1 << 32,
        unit_bytes: 16,
        stride_bytes: 1 << 40,
        element_stride: 8,
        box_elements: 256,
        pixels: 1024,
        box_alignment_bytes: 128,
        swizzles: [0, 32, 64, 128],
    },
    wgmma: Wgmma {
        m: 64,
        most_n: 256,
        n_unit: 8,
        integer_n_unit: 16,
        small_integer_n: [8, 24],
        pending_groups: 7,
        types: &[
            product("f16", &[F16], &[F16, F32], 16),
            product("bf16", &[Bf16], &[F32], 16),
            product("tf32", &[Tf32], &[F32], 8),
            product("8-bit floats", &[E4m3, E5m2], &[F16, F32], 32),
            product("8-bit integers", &[S8, U8], &[S32], 32),
        ],
        sparse_depth_factor: 2,
    },
    mma: Mma {
        types: &[
            product("f16", &[F16], &[F16, F32], &[[16, 8, 8], [16, 8, 16]]),
            product("bf16", &[Bf16], &[F32], &[[16, 8, 8], [16, 8, 16]]),
            product("tf32", &[Tf32], &[F32], &[[16, 8, 4], [16, 8, 8]]),
            product(
                "f64",
                &[F64],
                &[F64],
                &[[8, 8, 4], [16, 8, 4], [16, 8, 8], [16, 8, 16]],
            ),
            product(
                "8-bit floats",
                &[E4m3, E5m2],
                &[F16, F32],
                &[[16, 8, 16], [16, 8, 32]],
            ),
            product(
                "8-bit integers",
                &[S8, U8],
                &[S32],
                &[[8, 8, 16], [16, 8, 16], [16, 8, 32]],
            ),
            product(
                "4-bit integers",
                &[S4, U4],
                &[S32],
                &[[8, 8, 32], [16, 8, 32], [16, 8, 64]],
            ),
        ],
    },
};

/// Bytes of a KiB.
const KIB: u32 = 1024;

const fn product<S>(
    name: &'static str,
    factors: &'static [crate::MatrixType],
    accumulators: &'static [crate::MatrixType],
    shapes: S,
) -> ProductTypes<S> {
    ProductTypes {
        name,
        factors,
        accumulators,
        shapes,
    }
}
