//! What a device can do at the most, and how near a launch comes.

use ir::elem::DType;
use target::{Gpu, H200};

use crate::device::DeviceFacts;

/// The highest rates of a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Roofline {
    pub(super) flops_per_second: f64,
    pub(super) bytes_per_second: f64,
}

/// Operations that an SM of Hopper does in a cycle on its tensor cores, dense, by the element type (NVIDIA H100 Tensor
/// Core GPU Architecture, table 2, divided by SMs and clock); for `None` those of its FP32 cores.
fn flops_per_cycle(tensor_cores: Option<DType>) -> Option<f64> {
    Some(match tensor_cores {
        None | Some(DType::F64) => 256.0,
        Some(DType::F32) => 2048.0,
        Some(DType::F16 | DType::Bf16) => 4096.0,
        Some(DType::I8 | DType::U8 | DType::E4m3 | DType::E5m2) => 8192.0,
        Some(_) => return None,
    })
}

impl Roofline {
    /// Of the GPU whose time the emulator models.
    pub(super) fn modelled(tensor_cores: Option<DType>) -> Option<Roofline> {
        Roofline::of_gpu(H200, tensor_cores)
    }

    /// At the highest clocks that the driver reports, which the power limit may not allow; none for the emulator.
    pub(super) fn of(facts: &DeviceFacts, tensor_cores: Option<DType>) -> Option<Roofline> {
        if facts.clock_khz == 0 || facts.memory_clock_khz == 0 {
            return None;
        }
        let gpu = Gpu {
            name: "",
            sms: facts.multiprocessors,
            clock_khz: facts.clock_khz,
            memory_clock_khz: facts.memory_clock_khz,
            memory_bus_bits: facts.memory_bus_bits,
        };
        Roofline::of_gpu(gpu, tensor_cores)
    }

    fn of_gpu(gpu: Gpu, tensor_cores: Option<DType>) -> Option<Roofline> {
        let cycles = f64::from(gpu.clock_khz) * 1e3 * f64::from(gpu.sms);
        // Two transfers a cycle of the memory clock.
        let transfers = f64::from(gpu.memory_clock_khz) * 1e3 * 2.0;
        Some(Roofline {
            flops_per_second: cycles * flops_per_cycle(tensor_cores)?,
            bytes_per_second: transfers * f64::from(gpu.memory_bus_bits) / 8.0,
        })
    }

    /// The share of what the device could do in this time, and of what: whichever limit is nearer.
    pub(super) fn share(
        &self,
        ms: f64,
        flops: Option<u64>,
        bytes: Option<u64>,
    ) -> Option<(f64, &'static str)> {
        let seconds = ms / 1e3;
        let of_flops = flops.map(|flops| flops as f64 / self.flops_per_second / seconds);
        let of_bytes = bytes.map(|bytes| bytes as f64 / self.bytes_per_second / seconds);
        match (of_flops, of_bytes) {
            (Some(flops), Some(bytes)) if flops < bytes => Some((bytes, "memory")),
            (Some(flops), _) => Some((flops, "cores")),
            (None, Some(bytes)) => Some((bytes, "memory")),
            (None, None) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn h200() -> DeviceFacts {
        DeviceFacts {
            name: "NVIDIA H200".into(),
            capability: (9, 0),
            multiprocessors: 132,
            memory_bytes: 0,
            l2_bytes: 0,
            shared_bytes_per_cta: 0,
            clock_khz: 1_980_000,
            memory_clock_khz: 3_201_000,
            memory_bus_bits: 6016,
            driver_version: None,
        }
    }

    #[test]
    fn the_nearer_limit_counts() {
        let roof = Roofline::of(&h200(), Some(DType::Bf16)).expect("a GPU");
        assert!((roof.flops_per_second / 1e12 - 1070.5).abs() < 0.1);
        assert!((roof.bytes_per_second / 1e12 - 4.81).abs() < 0.01);
        let big = 2 * 8192u64.pow(3);
        let (share, of) = roof
            .share(1.325, Some(big), Some(3 * 2 * 8192 * 8192))
            .expect("both");
        assert!(
            (share - 0.775).abs() < 0.001 && of == "cores",
            "{share} {of}"
        );
        let (_, of) = roof
            .share(0.01, Some(2 * 16 * 4096 * 4096), Some(2 * 4096 * 4096))
            .expect("both");
        assert_eq!(of, "memory");
        assert_eq!(roof.share(1.0, None, None), None);
    }

    #[test]
    fn the_model_is_of_an_h200() {
        for tensor_cores in [None, Some(DType::Bf16), Some(DType::E4m3)] {
            let known = Roofline::of(&h200(), tensor_cores);
            assert!(known.is_some());
            assert_eq!(Roofline::modelled(tensor_cores), known);
        }
    }

    #[test]
    fn the_emulator_has_none() {
        let facts = DeviceFacts {
            clock_khz: 0,
            ..h200()
        };
        assert_eq!(Roofline::of(&facts, None), None);
    }
}
