use library::schedule::Resident;

use crate::device::Device;
use crate::error::Error;
use crate::launch::{EntryShape, Grid, ParameterBlock, grid};
use crate::stream::Stream;

const KERNEL: &str = ".version 8.0\n.target sm_90a\n.address_size 64\n\
    .visible .entry k(.param .u32 n, .param .align 64 .b8 map[128], .param .u64 out)\n{ ret; }\n";

/// A block of parameters of these sizes, each aligned to its own but the largest to 64.
fn block(sizes: &[usize]) -> ParameterBlock {
    let mut block = ParameterBlock::new();
    for &bytes in sizes {
        block.push(&vec![0; bytes], bytes.min(64));
    }
    block
}

#[test]
fn arguments_of_other_sizes_are_refused_before_the_device_sees_them() {
    for device in [Some(Device::emulator()), Device::cuda(0).ok()]
        .into_iter()
        .flatten()
    {
        let shape = EntryShape {
            name: "k".to_string(),
            threads: [32, 1, 1],
            cluster: [1; 3],
            shared_bytes: 0,
            overlaps_previous: false,
            is_cooperative: false,
            parameters: None,
        };
        let stream = Stream::new(&device).unwrap();
        let entry = device.load_ptx(KERNEL).unwrap().entry(shape).unwrap();
        assert_eq!(entry.parameter_bytes(), [4, 128, 8]);
        entry
            .launch(&stream, grid(1u32), &block(&[4, 128, 8]))
            .unwrap();
        for wrong in [
            &[4, 128][..],
            &[4, 128, 4],
            &[4, 8, 128],
            &[4, 128, 8, 8],
            &[],
        ] {
            let refused = entry.launch(&stream, grid(1u32), &block(wrong));
            assert!(
                matches!(refused, Err(Error::ParameterMismatch { .. })),
                "{wrong:?}"
            );
        }
        stream.synchronize().unwrap();
    }
}
fn shape(cluster: [u32; 3]) -> EntryShape {
    EntryShape {
        name: "k".to_string(),
        threads: [32, 1, 1],
        cluster,
        shared_bytes: 0,
        overlaps_previous: false,
        is_cooperative: false,
        parameters: None,
    }
}

#[test]
fn a_cluster_must_divide_the_grid_and_fit() {
    for device in [Some(Device::emulator()), Device::cuda(0).ok()]
        .into_iter()
        .flatten()
    {
        let code = device.load_ptx(KERNEL).unwrap();
        let stream = Stream::new(&device).unwrap();
        let entry = code.entry(shape([2, 1, 1])).unwrap();
        let launch = |grid: Grid| entry.launch(&stream, grid, &block(&[4, 128, 8]));
        launch(grid([4, 3])).unwrap();
        let line = launch(grid([3, 2])).unwrap_err().to_string();
        assert!(line.contains("3 CTAs along x"), "{line}");
        stream.synchronize().unwrap();
        for wrong in [[32, 1, 1], [4, 4, 2], [0, 1, 1], [u32::MAX, 2, 2]] {
            let refused = code.entry(shape(wrong)).map(drop);
            assert!(
                matches!(refused, Err(Error::ClusterTooLarge { .. })),
                "{wrong:?}"
            );
        }
    }
}

#[test]
fn how_many_clusters_fit_is_for_a_gpu_to_say() {
    let count = |device: &Device| {
        let code = device.load_ptx(KERNEL).unwrap();
        code.entry(shape([2, 1, 1])).unwrap().max_active_clusters()
    };
    assert!(matches!(
        count(&Device::emulator()),
        Err(Error::NotEmulated { .. })
    ));
    let resident = |device: &Device| {
        let code = device.load_ptx(KERNEL).unwrap();
        code.entry(shape([2, 1, 1])).unwrap().resident()
    };
    assert!(matches!(
        resident(&Device::emulator()),
        Err(Error::NotEmulated { .. })
    ));
    if let Ok(device) = Device::cuda(0) {
        let clusters = count(&device).unwrap();
        assert!(clusters >= device.facts().multiprocessors / 2);
        let Resident { ctas, cluster } = resident(&device).unwrap();
        assert_eq!((ctas, cluster), (clusters as usize * 2, 2));
    }
}

#[test]
fn a_cooperative_grid_must_be_resident() {
    for device in [Some(Device::emulator()), Device::cuda(0).ok()]
        .into_iter()
        .flatten()
    {
        let stream = Stream::new(&device).unwrap();
        let cooperative = EntryShape {
            is_cooperative: true,
            ..shape([1; 3])
        };
        let entry = device.load_ptx(KERNEL).unwrap().entry(cooperative).unwrap();
        let launch = |ctas: usize| entry.launch(&stream, grid(ctas), &block(&[4, 128, 8]));
        launch(7).unwrap();
        if device.is_cuda() {
            let most = entry.resident().unwrap().ctas;
            launch(most).unwrap();
            let refused = launch(most + 1).unwrap_err();
            assert!(
                matches!(refused, Error::GridNotResident { ctas, resident, .. }
                    if (ctas, resident) == (most as u64 + 1, most as u64)),
                "{refused}"
            );
        }
        stream.synchronize().unwrap();
    }
}

#[test]
fn an_overlapping_entry_is_launched_like_any_other() {
    for device in [Some(Device::emulator()), Device::cuda(0).ok()]
        .into_iter()
        .flatten()
    {
        let code = device.load_ptx(KERNEL).unwrap();
        let stream = Stream::new(&device).unwrap();
        let entry = code.entry(shape([1; 3])).unwrap().overlapping();
        assert!(entry.shape().overlaps_previous);
        for _ in 0..3 {
            entry
                .launch(&stream, grid(2u32), &block(&[4, 128, 8]))
                .unwrap();
        }
        let graph = stream
            .capture(|| entry.launch(&stream, grid(2u32), &block(&[4, 128, 8])))
            .unwrap();
        stream.replay(&graph).unwrap();
        stream.synchronize().unwrap();
    }
}
