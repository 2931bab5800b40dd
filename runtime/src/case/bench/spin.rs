//! A kernel that keeps the GPU busy while the host puts work behind it.

use std::sync::Arc;

use crate::code::{Entry, PreparedLaunch};
use crate::device::Device;
use crate::error::Result;
use crate::launch::{EntryShape, ParameterBlock, grid};

/// How long one thread reads the clock, nanoseconds.
const SPIN_NS: u64 = 300_000;

const SPIN: &str = "
.version 8.0
.target sm_90a
.address_size 64
.visible .entry spin(.param .u64 nanoseconds)
.reqntid 1, 1, 1
{
    .reg .pred %p<2>;
    .reg .b64 %rd<5>;
    ld.param.u64 %rd1, [nanoseconds];
    mov.u64 %rd2, %globaltimer;
AGAIN:
    mov.u64 %rd3, %globaltimer;
    sub.u64 %rd4, %rd3, %rd2;
    setp.lt.u64 %p1, %rd4, %rd1;
    @%p1 bra AGAIN;
    ret;
}
";

/// A launch of it.
pub(super) fn spin(device: &Device) -> Result<PreparedLaunch> {
    let shape = EntryShape {
        name: "spin".to_string(),
        threads: [1; 3],
        cluster: [1; 3],
        shared_bytes: 0,
        overlaps_previous: false,
        is_cooperative: false,
        parameters: None,
    };
    let entry: Arc<Entry> = device.load_ptx(SPIN)?.entry(shape)?;
    let mut parameters = ParameterBlock::new();
    parameters.push(&SPIN_NS.to_le_bytes(), 8);
    PreparedLaunch::new(&entry, grid(1u32), parameters)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::stream::Stream;

    #[test]
    fn it_ends_after_its_time() {
        let Ok(device) = Device::cuda(0) else {
            // The emulator's clock is a count of steps; there its text need only be understood.
            ptx::Module::parse(SPIN).expect("PTX");
            return;
        };
        let stream = Stream::new(&device).unwrap();
        let launch = spin(&device).unwrap();
        launch.launch(&stream).unwrap();
        stream.synchronize().unwrap();
        let started = Instant::now();
        launch.launch(&stream).unwrap();
        stream.synchronize().unwrap();
        assert!(started.elapsed() >= Duration::from_nanos(SPIN_NS));
    }
}
