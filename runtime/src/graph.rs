//! Graphs: work recorded once from a stream and replayed by one call.

use crate::backend::{AnyGraph, On};
use crate::device::Device;
use crate::kept::Kept;

/// Work that [`Stream::capture`](crate::Stream::capture) recorded.
///
/// On a GPU it is a CUDA graph: one call of the driver starts all of it, and launches that overlap their predecessor
/// keep doing so. On the emulator it is the list of what was put on the stream, done again in order.
///
/// It keeps the memory of the buffers that its work uses, and the code of its kernels, also when those are dropped.
pub struct Graph {
    pub(crate) device: Device,
    pub(crate) work: AnyGraph,
    /// Behind the work, so that this is gone before what it uses.
    pub(crate) kept: Vec<Kept>,
}

impl Graph {
    /// How many of its launches may start before the one in front of them has ended
    /// ([`LoadedKernel::programmatic`](crate::LoadedKernel::programmatic)), as the driver has recorded it; the first of a
    /// graph follows nothing and never does. None on the emulator, where launches follow each other.
    pub fn overlapping(&self) -> usize {
        match &self.work {
            On::Cuda(graph) => graph.overlapping(),
            On::Emulator(_) => 0,
        }
    }

    /// How many allocations and kernels it keeps.
    pub fn kept(&self) -> usize {
        self.kept.len()
    }

    /// The device that it runs on.
    pub fn device(&self) -> &Device {
        &self.device
    }
}

#[cfg(test)]
mod tests {
    use crate::buffer::Buffer;
    use crate::device::{Device, devices};
    use crate::error::Error;
    use crate::mapped::MappedBuffer;
    use crate::stream::{Event, Stream};

    #[test]
    fn a_graph_does_its_work_when_it_is_replayed_and_not_when_it_is_captured() {
        for device in devices() {
            let stream = Stream::new(&device).unwrap();
            let source = Buffer::from_slice(&device, &[5i32, 6]).unwrap();
            let target = Buffer::<i32>::zeros(&device, 2).unwrap();
            let graph = stream.capture(|| stream.copy(&source, &target)).unwrap();
            assert_eq!(target.to_vec().unwrap(), [0, 0]);
            stream.replay(&graph).unwrap();
            assert_eq!(target.to_vec().unwrap(), [5, 6]);
            source.write(&[7, 8]).unwrap();
            stream.replay(&graph).unwrap();
            assert_eq!(target.to_vec().unwrap(), [7, 8]);
        }
    }

    #[test]
    fn a_failed_capture_leaves_the_stream_usable() {
        for device in devices() {
            let stream = Stream::new(&device).unwrap();
            let target = Buffer::from_slice(&device, &[1i32, 2]).unwrap();
            let failed = stream.capture(|| Err(Error::EventNotRecorded));
            assert!(matches!(failed, Err(Error::EventNotRecorded)));
            stream.fill_bytes(&target, 0).unwrap();
            assert_eq!(target.to_vec().unwrap(), [0, 0]);
        }
    }

    #[test]
    fn a_stream_that_waits_for_a_captured_event_is_captured_too() {
        for device in devices() {
            let (stream, side) = (Stream::new(&device).unwrap(), Stream::new(&device).unwrap());
            let source = Buffer::from_slice(&device, &[3i32]).unwrap();
            let target = Buffer::<i32>::zeros(&device, 1).unwrap();
            let (fork, join) = (Event::new(&device).unwrap(), Event::new(&device).unwrap());
            let graph = stream
                .capture(|| {
                    fork.record(&stream)?;
                    side.wait_for(&fork)?;
                    side.copy(&source, &target)?;
                    join.record(&side)?;
                    stream.wait_for(&join)
                })
                .unwrap();
            assert_eq!(target.to_vec().unwrap(), [0]);
            stream.replay(&graph).unwrap();
            assert_eq!(target.to_vec().unwrap(), [3]);
            // The side stream does its work at once again.
            side.fill_bytes(&target, 0).unwrap();
            side.synchronize().unwrap();
            assert_eq!(target.to_vec().unwrap(), [0]);
        }
    }

    #[test]
    fn what_needs_a_result_at_once_is_refused_while_capturing() {
        for device in devices() {
            let stream = Stream::new(&device).unwrap();
            let refused = stream.capture(|| stream.synchronize());
            let line = refused.err().expect("nothing has run").to_string();
            assert!(line.contains("captur"), "{line}");
            let nested = stream.capture(|| stream.capture(|| Ok(())).map(drop));
            assert!(nested.is_err());
            stream.synchronize().unwrap();
        }
    }

    #[test]
    fn copies_to_and_from_the_host_are_captured_and_keep_its_memory() {
        for device in devices() {
            let stream = Stream::new(&device).unwrap();
            let (source, target) = (
                MappedBuffer::from_slice(&device, &[1i32, 2]).unwrap(),
                MappedBuffer::<i32>::zeros(&device, 2).unwrap(),
            );
            let graph = {
                let between = Buffer::<i32>::new(&device, 2).unwrap();
                let copies = || {
                    stream.upload(&source, &between)?;
                    stream.download(&between, &target)
                };
                stream.capture(copies).unwrap()
            };
            assert_eq!((graph.kept(), target.read(0..2).unwrap()), (3, vec![0, 0]));
            source.write(0, &[7, 8]).unwrap();
            stream.replay(&graph).unwrap();
            stream.synchronize().unwrap();
            assert_eq!(target.read(0..2).unwrap(), [7, 8]);
            let other = Buffer::<i32>::new(&device, 3).unwrap();
            assert!(matches!(
                stream.upload(&source, &other),
                Err(Error::LengthMismatch { buffer: 3, host: 2 })
            ));
        }
    }

    #[test]
    fn a_graph_belongs_to_its_device() {
        let stream = Stream::new(&Device::emulator()).unwrap();
        let graph = stream.capture(|| Ok(())).unwrap();
        let other = Stream::new(&Device::emulator()).unwrap();
        assert!(matches!(
            other.replay(&graph),
            Err(Error::DeviceMismatch { .. })
        ));
    }

    #[test]
    fn a_graph_keeps_the_memory_that_it_uses() {
        for device in devices() {
            let stream = Stream::new(&device).unwrap();
            let result = Buffer::<i32>::zeros(&device, 2).unwrap();
            let graph = {
                let source = Buffer::from_slice(&device, &[5i32, 6]).unwrap();
                let between = Buffer::<i32>::new(&device, 2).unwrap();
                let copies = || {
                    stream.copy(&source, &between)?;
                    stream.copy(&between, &result)
                };
                stream.capture(copies).unwrap()
            };
            assert_eq!(graph.kept(), 3);
            // Would lie where the two were.
            let others = [1i32, 2].map(|n| Buffer::from_slice(&device, &[n, n]).unwrap());
            stream.replay(&graph).unwrap();
            assert_eq!(result.to_vec().unwrap(), [5, 6]);
            assert_eq!(others[0].to_vec().unwrap(), [1, 1]);
        }
    }

    #[test]
    fn memory_is_freed_with_the_graph() {
        let device = Device::emulator();
        let stream = Stream::new(&device).unwrap();
        let free = || device.memory_bytes().unwrap().0;
        let before = free();
        let target = Buffer::<u8>::zeros(&device, 1 << 20).unwrap();
        let graph = stream.capture(|| stream.fill_bytes(&target, 1)).unwrap();
        drop(target);
        assert!(free() < before);
        drop(graph);
        assert_eq!(free(), before);
    }
}
