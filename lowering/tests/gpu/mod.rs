//! The same kernels on a GPU: `TILEKIT_TEST_DEVICE=cuda` before the name of a test binary has them run there instead of on the
//! emulator. Whoever has no GPU where the tests are built carries the binary to one.

use std::sync::OnceLock;

use lowering::Compiled;
use runtime::{Buffer, Device, EntryShape, ParameterBlock, PreparedLaunch, Stream, grid};

/// The GPU, where it is requested.
pub(crate) fn asked_for() -> Option<&'static Device> {
    static GPU: OnceLock<Option<Device>> = OnceLock::new();
    let gpu = || match std::env::var("TILEKIT_TEST_DEVICE").as_deref() {
        Ok("cuda") => Some(Device::cuda(0).unwrap_or_else(|e| panic!("{e}"))),
        Ok(other) => panic!("TILEKIT_TEST_DEVICE is `cuda` or not set, and not `{other}`"),
        Err(_) => None,
    };
    GPU.get_or_init(gpu).as_ref()
}

/// Launches so many CTAs, or one cluster, with these bytes behind the kernel's parameters, and gives what is there afterwards.
pub(crate) fn launch(
    gpu: &Device,
    compiled: &Compiled,
    ctas: u32,
    buffers: &[Vec<u8>],
) -> runtime::Result<Vec<Vec<u8>>> {
    let info = &compiled.launch;
    let code = gpu.load_ptx(&compiled.module.to_text())?;
    let entry = code.entry(EntryShape {
        name: info.entry.to_string(),
        threads: [info.threads, 1, 1],
        cluster: info.cluster,
        shared_bytes: info.shared_bytes,
        overlaps_previous: false,
        is_cooperative: info.is_cooperative,
        parameters: Some(info.params.len()),
    })?;
    let places = buffers.iter().map(|bytes| Buffer::from_slice(gpu, bytes));
    let places: Vec<Buffer<u8>> = places.collect::<runtime::Result<_>>()?;
    let mut parameters = ParameterBlock::new();
    for place in &places {
        parameters.push_buffer(place.address(), place.bytes() as u64);
    }
    let stream = Stream::new(gpu)?;
    let grid = match info.cluster {
        [1, 1, 1] => grid(ctas),
        cluster => grid(cluster.map(|count| count as usize)),
    };
    PreparedLaunch::new(&entry, grid, parameters)?.launch(&stream)?;
    stream.synchronize()?;
    places.iter().map(Buffer::to_vec).collect()
}
