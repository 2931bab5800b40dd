//! What is true of a GPU architecture as a machine: one [`Target`] for each, and nothing else.
//!
//! Lowering, the PTX checker, the emulator, the runtime, the verifier, diagnostics and the book read their limits here, so that
//! each number stands once. A second architecture is a second table beside [`SM_90A`], and the ops of its own instructions.
//!
//! Formats of PTX and facts of all NVIDIA GPUs are no limits of a target: banks, mbarriers and encoded tensor maps have constants
//! here ([`BANKS`]), and 32 threads of a warp, whose masks are 32-bit words, and 4 warps of a warpgroup (PTX ISA 9.7.15.1) have none.

mod every_target;
mod facts;
mod gpu;
mod limits;
mod occupancy;
mod products;
mod sm_90a;

pub use every_target::{
    BANK_BYTES, BANKS, MBARRIER_BYTES, MOST_TENSOR_RANK, TENSOR_MAP_ALIGNMENT_BYTES,
    TENSOR_MAP_BYTES, WIDEST_ACCESS_BYTES, most,
};
pub use facts::Fact;
pub use gpu::{Gpu, H200};
pub use limits::{
    AccessLimits, ClusterLimits, CtaLimits, MbarrierLimits, RegisterLimits, SmLimits, SwizzleSpans,
    TensorMapLimits,
};
pub use occupancy::{Limiter, Occupancy};
pub use products::{MatrixType, Mma, ProductTypes, Wgmma, describe_products};
pub use sm_90a::SM_90A;

/// A GPU architecture with the limits of its hardware and of the PTX that is assembled for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The name after `.target` of a PTX module (PTX ISA 11.1.2) and after `-arch=` of ptxas.
    pub arch: &'static str,
    /// NVIDIA's name of the architecture.
    pub code_name: &'static str,
    /// GPUs that have it.
    pub gpus: &'static str,
    /// Major and minor number of the compute capability.
    pub compute_capability: (u32, u32),
    /// Major and minor number of the lowest `.version` of PTX that knows the target (PTX ISA 11.1.2).
    pub least_ptx: (u32, u32),
    /// CTAs of a grid along x, y and z, at most (CUDA C++ Programming Guide, "Technical Specifications per Compute Capability").
    pub grid: [u32; 3],
    /// What one CTA can have.
    pub cta: CtaLimits,
    /// What an SM has, for all CTAs on it.
    pub sm: SmLimits,
    /// Registers of a thread.
    pub registers: RegisterLimits,
    /// CTAs of a cluster.
    pub cluster: ClusterLimits,
    /// Loads and stores.
    pub access: AccessLimits,
    /// mbarriers.
    pub mbarrier: MbarrierLimits,
    /// Tensor maps and the TMA unit.
    pub tensor_map: TensorMapLimits,
    /// Products of a warpgroup, `wgmma.mma_async`.
    pub wgmma: Wgmma,
    /// Products of a warp, `mma.sync`.
    pub mma: Mma,
}

/// All targets, by which a name is looked up.
pub const TARGETS: [&Target; 1] = [&SM_90A];

impl Target {
    /// The target called `arch`, such as `sm_90a`.
    pub fn named(arch: &str) -> Option<&'static Target> {
        TARGETS.into_iter().find(|target| target.arch == arch)
    }

    /// Registers that each thread of a CTA with so many threads starts with: an equal share of the SM's where so many CTAs must fit,
    /// in the unit in which warps are given registers.
    pub const fn registers_of_thread(&self, threads: u32, ctas: u32) -> u32 {
        let together = threads.div_ceil(32).saturating_mul(32).saturating_mul(ctas);
        let together = if together == 0 { 1 } else { together };
        let share = self.sm.registers / together;
        if share < self.registers.per_thread {
            share / self.registers.unit * self.registers.unit
        } else {
            self.registers.per_thread
        }
    }

    /// Its number in `.target sm_90`: ten times the major number of the compute capability, and the minor one.
    pub const fn sm(&self) -> u32 {
        self.compute_capability.0 * 10 + self.compute_capability.1
    }
}

/// A number of bytes for people: `232448 bytes (227 KiB)`.
pub fn bytes_with_kib(bytes: u32) -> String {
    format!("{bytes} bytes ({} KiB)", bytes >> 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_target_is_found_by_its_name_alone() {
        for target in TARGETS {
            assert_eq!(Target::named(target.arch), Some(target));
            assert!(target.arch.starts_with(&format!("sm_{}", target.sm())));
        }
        assert_eq!(Target::named("sm_90"), None);
    }

    #[test]
    fn threads_start_with_what_ptxas_gives_them() {
        let start = |threads, ctas| SM_90A.registers_of_thread(threads, ctas);
        assert_eq!(start(128, 1), 255);
        assert_eq!(start(384, 1), 168);
        assert_eq!(start(256, 2), 128);
        assert_eq!(start(256, 3), 80);
        assert_eq!(start(0, 0), 255);
        assert_eq!(start(u32::MAX, 2), 0);
    }

    /// Numbers that follow from others.
    #[test]
    fn the_limits_of_a_table_agree_with_each_other() {
        for target in TARGETS {
            let Target {
                cta, sm, registers, ..
            } = target;
            assert_eq!(
                cta.shared_bytes,
                sm.shared_bytes - sm.reserved_shared_bytes_per_cta
            );
            assert!(cta.static_shared_bytes < cta.shared_bytes);
            assert_eq!(sm.threads % cta.threads, 0);
            assert!(registers.per_thread < registers.most_budget);
            assert_eq!(registers.least_budget % registers.unit, 0);
            assert_eq!(registers.most_budget % registers.unit, 0);
            assert!(target.cluster.portable_ctas <= target.cluster.ctas);
            assert!(
                target
                    .access
                    .async_bytes
                    .contains(&target.access.widest_bytes)
            );
        }
    }
}
