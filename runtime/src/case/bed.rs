//! Why a case runs, and where.

use std::sync::Arc;
use std::time::Duration;

use super::bench::BenchOptions;
use super::cache::CaseCache;
use crate::device::Device;
use crate::kernel::Compiler;

/// Why a case runs.
#[derive(Clone, Debug)]
pub enum Mode {
    /// To say which kernels it launches and with what grid. No data is made and nothing is launched.
    Describe,
    /// To launch and to compare every output with its reference.
    Check(Bed),
    /// To launch, and to compare nothing. References are not computed.
    Launch(Bed),
    /// To time the launches, those between two comparisons as one chain. References are not computed.
    Bench(Bed, BenchOptions),
    /// To launch, to compare as `Check` does, and to have the launches ready for being timed beside those of other candidates.
    Ready {
        /// Where.
        bed: Bed,
        /// How they will be timed.
        options: BenchOptions,
        /// Whether the results were compared before; then they are not again.
        is_checked: bool,
    },
}

/// Where a case launches, and what it may use.
#[derive(Clone, Debug)]
pub struct Bed {
    /// The device.
    pub device: Device,
    /// How kernels are compiled for it.
    pub compiler: Compiler,
    /// A launch that takes longer than this ends the process, because a hung kernel holds the GPU for ever.
    pub launch_limit: Duration,
    /// The most bytes of tensors that a case may have; a larger one is [`Error::CaseTooLarge`](crate::Error::CaseTooLarge) before it is launched.
    pub tensor_limit_bytes: Option<usize>,
    /// What random data depends on.
    pub seed: u64,
    /// What earlier runs of the case at the same sizes have done, if it is run several times.
    pub cache: Option<Arc<CaseCache>>,
}

impl Bed {
    /// The usual one: a launch may take 20 s on a GPU, and tensors 64 MiB on the emulator.
    pub fn new(device: &Device) -> Bed {
        Bed {
            device: device.clone(),
            compiler: Compiler::default(),
            launch_limit: Duration::from_secs(20),
            tensor_limit_bytes: (!device.is_cuda()).then_some(64 << 20),
            seed: 0,
            cache: None,
        }
    }
}
