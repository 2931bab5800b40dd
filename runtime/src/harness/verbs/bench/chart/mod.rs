//! Pictures of what `bench` found: times as bars, and the roofline, each in the terminal and as SVG.

mod bars;
mod roof;
mod svg;
#[cfg(test)]
mod tests;

use ir::elem::DType;

use super::roofline::Roofline;

/// What one run does, and who did it in what time.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Work {
    /// The case with its sizes.
    pub(super) title: String,
    pub(super) flops: Option<u64>,
    pub(super) moved_bytes: Option<u64>,
    pub(super) tensor_cores: Option<DType>,
    /// What the device could do; none where that is not known.
    pub(super) roofline: Option<Roofline>,
    /// Ours first.
    pub(super) marks: Vec<Mark>,
}

/// One that did the work.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Mark {
    pub(super) name: String,
    pub(super) ms: f64,
    /// Half of what lies between the quartiles, as a share; none of a model.
    pub(super) spread: Option<f64>,
    /// Bytes between L2 and DRAM as the hardware counted them.
    pub(super) counted_bytes: Option<u64>,
}

impl Work {
    fn teraflops(&self, mark: &Mark) -> Option<f64> {
        self.flops.map(|flops| flops as f64 / mark.ms / 1e9)
    }

    fn gigabytes_per_second(&self, mark: &Mark) -> Option<f64> {
        self.moved_bytes.map(|bytes| bytes as f64 / mark.ms / 1e6)
    }

    /// Such as `743.2 TFLOP/s`; empty where the case says neither operations nor bytes.
    fn rate(&self, mark: &Mark) -> String {
        let teraflops = self
            .teraflops(mark)
            .map(|rate| format!("{rate:.1} TFLOP/s"));
        let bytes = || Some(format!("{:.0} GB/s", self.gigabytes_per_second(mark)?));
        teraflops.or_else(bytes).unwrap_or_default()
    }

    /// Whose cores do it.
    fn cores(&self) -> String {
        self.tensor_cores.map_or("FP32 cores".to_string(), |dtype| {
            format!("{dtype} tensor cores")
        })
    }
}

/// All runs of a `bench`.
#[derive(Debug, Default)]
pub(super) struct Charts {
    works: Vec<Work>,
    /// On what, and whether that is a model.
    device: String,
}

impl Charts {
    /// Of this device.
    pub(super) fn new(device: String) -> Charts {
        Charts {
            works: Vec::new(),
            device,
        }
    }

    pub(super) fn push(&mut self, work: Work) {
        self.works.push(work);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.works.is_empty()
    }

    /// Times as bars: text for a terminal, and SVG.
    pub(super) fn bars(&self) -> (String, String) {
        (
            bars::text(&self.works),
            bars::svg(&self.device, &self.works),
        )
    }

    /// The roofline: text for a terminal, and SVG. None where no run has operations, bytes and a device whose peaks are known.
    pub(super) fn roofline(&self) -> Option<(String, String)> {
        let roof = roof::Roof::of(&self.works)?;
        Some((roof.text(&self.device), roof.svg(&self.device)))
    }
}
