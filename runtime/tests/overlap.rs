//! Launches that overlap their predecessor, and launches in clusters, on every device of this machine.

mod on_devices;

use on_devices::{check, devices, run};
use tilekit::Error;
use tilekit::prelude::*;

/// `x[i] += x[i]`, behind whatever launch comes before.
#[kernel(warps = 1)]
fn double_behind(x: Ptr<i32>) {
    let at = arange(0..32, Coalesced);
    launch_wait();
    x.at(at).store(x.at(at).load() * 2);
    launch_dependents();
}

#[test]
fn overlapping_launches_of_a_chain_follow_each_other() -> tilekit::Result<()> {
    for device in devices() {
        let stream = Stream::new(&device)?;
        let x = Buffer::from_slice(&device, &[1i32; 32])?;
        let kernel = double_behind.compile(&Compiler::default())?.load(&device)?;
        let kernel = kernel.programmatic()?;
        for _ in 0..5 {
            kernel.launch(&stream, grid(1u32), (&x,))?;
        }
        stream.synchronize()?;
        assert_eq!(x.to_vec()?, [32; 32]);
        let prepared = kernel.prepare(grid(1u32), (&x,))?;
        let graph = stream.capture(|| (0..4).try_for_each(|_| prepared.launch(&stream)))?;
        // The first of a graph follows nothing.
        assert_eq!(graph.overlapping(), if device.is_cuda() { 3 } else { 0 });
        stream.replay(&graph)?;
        stream.replay(&graph)?;
        stream.synchronize()?;
        assert_eq!(x.to_vec()?, [32 << 8; 32]);
    }
    Ok(())
}

/// `out[i] = x[i] + y[i]`, behind whatever launch comes before, which must not have written `y`.
#[kernel(warps = 1)]
fn add_behind(x: Ptr<i32>, #[readonly] y: Ptr<i32>, out: Ptr<i32>) {
    let at = arange(0..32, Coalesced);
    launch_wait();
    out.at(at).store(x.at(at).load() + y.at(at).load());
}

#[test]
fn readonly_inputs_of_an_overlapping_launch_are_written_by_no_launch_in_flight()
-> tilekit::Result<()> {
    for device in devices() {
        let stream = Stream::new(&device)?;
        let one = || Buffer::from_slice(&device, &[1i32; 32]);
        let (x, y, z, out) = (one()?, one()?, one()?, one()?);
        let waits = add_behind.compile(&Compiler::default())?.load(&device)?;
        let overlaps = waits.programmatic()?;
        waits.launch(&stream, grid(1u32), (&x, &y, &z))?;
        overlaps.launch(&stream, grid(1u32), (&z, &y, &out))?;
        // `z` is written by the launch before the last, which may still run.
        let early = overlaps.launch(&stream, grid(1u32), (&x, &z, &out));
        assert!(matches!(
            early,
            Err(Error::ReadonlyWrittenBefore { argument: 2, .. })
        ));
        waits.launch(&stream, grid(1u32), (&x, &z, &out))?;
        overlaps.launch(&stream, grid(1u32), (&out, &z, &y))?;
        stream.synchronize()?;
        assert_eq!(y.to_vec()?, [5; 32]);
        // All of them are complete, the one that wrote `y` included.
        overlaps.launch(&stream, grid(1u32), (&x, &y, &z))?;
        let graph = stream.capture(|| overlaps.launch(&stream, grid(1u32), (&x, &z, &out)))?;
        stream.replay(&graph)?;
        stream.synchronize()?;
        assert_eq!(out.to_vec()?, [7; 32]);
    }
    Ok(())
}

fn chain(case: &mut Case) -> CaseResult {
    let x = case.output::<i32>("x", [32]);
    case.launch(ones, grid(1u32), (&x,))?;
    case.launch_programmatic(double_behind, grid(1u32), (&x,))?;
    case.launch_programmatic(double_behind, grid(1u32), (&x,))?;
    case.expect(&x, |[_]| 4, Exactly)
}

/// `x[i] = 1`.
#[kernel(warps = 1)]
fn ones(x: Ptr<i32>) {
    let at = arange(0..32, Coalesced);
    let one: Tensor<i32> = full([32], 1, Coalesced);
    x.at(at).store(one);
}

fn early(case: &mut Case) -> CaseResult {
    let x = case.output::<i32>("x", [32]);
    case.launch_programmatic(ones, grid(1u32), (&x,))?;
    case.expect(&x, |[_]| 1, Exactly)
}

#[test]
fn a_case_overlaps_kernels_that_wait_and_no_others() {
    for device in devices() {
        run(chain, &check(&device))
            .result
            .expect("each waits for the one before");
        let refused = run(early, &check(&device)).result;
        assert!(
            matches!(refused, Err(Error::NeverWaits { .. })),
            "{refused:?}"
        );
    }
}

/// The rank of the CTA in its cluster of two and a hundred for each cluster before, plus the place.
#[kernel(warps = 1, cluster = [2])]
fn ranks(out: Ptr<i32>) {
    let at = arange(0..32, Coalesced);
    let value = cluster_rank() + 100 * (program_id(0) / 2);
    out.at(program_id(0) * 32 + at).store(at + value);
}

#[test]
fn a_kernels_cluster_is_its_launchs() -> tilekit::Result<()> {
    for device in devices() {
        let stream = Stream::new(&device)?;
        let out = Buffer::<i32>::zeros(&device, 4 * 32)?;
        let kernel = ranks.compile(&Compiler::default())?.load(&device)?;
        assert_eq!(kernel.entry().shape().cluster, [2, 1, 1]);
        kernel.launch(&stream, grid(4u32), (&out,))?;
        stream.synchronize()?;
        let firsts: Vec<i32> = out.to_vec()?.chunks(32).map(|cta| cta[0]).collect();
        assert_eq!(firsts, [0, 1, 100, 101]);
        let refused = kernel.launch(&stream, grid(3u32), (&out,));
        assert!(matches!(
            refused,
            Err(Error::ClusterGrid {
                count: 3,
                cluster: 2,
                ..
            })
        ));
        if device.is_cuda() {
            assert!(kernel.entry().max_active_clusters()? > 0);
        }
    }
    Ok(())
}

/// The same of as many CTAs as a value of the host says.
#[kernel(warps = 1, cluster = ctas)]
fn ranks_of(#[fixed] ctas: u32, out: Ptr<i32>) {
    let at = arange(0..32, Coalesced);
    out.at(program_id(0) * 32 + at)
        .store(at / 32 + cluster_rank() + 100 * cluster_id(0));
}

#[test]
fn a_value_says_the_cluster_of_a_launch() -> tilekit::Result<()> {
    for device in devices() {
        let stream = Stream::new(&device)?;
        let out = Buffer::<i32>::zeros(&device, 8 * 32)?;
        for (ctas, expected) in [
            (1, [0, 100, 200, 300, 400, 500, 600, 700]),
            (2, [0, 1, 100, 101, 200, 201, 300, 301]),
            (8, [0, 1, 2, 3, 4, 5, 6, 7]),
        ] {
            let kernel = fixed(ranks_of, ctas).compile(&Compiler::default())?;
            let kernel = kernel.load(&device)?;
            assert_eq!(kernel.entry().shape().cluster, [ctas, 1, 1]);
            kernel.launch(&stream, grid(8u32), (&out,))?;
            stream.synchronize()?;
            let firsts: Vec<i32> = out.to_vec()?.chunks(32).map(|cta| cta[0]).collect();
            assert_eq!(firsts, expected);
            let refused = kernel.launch(&stream, grid(ctas + 1), (&out,));
            assert_eq!(refused.is_err(), ctas > 1, "{refused:?}");
        }
        let refused = fixed(ranks_of, 17).compile(&Compiler::default());
        let text = refused
            .map(drop)
            .expect_err("17 CTAs fit no GPC")
            .to_string();
        assert!(text.contains("a cluster of 17x1x1 CTAs"), "{text}");
    }
    Ok(())
}

#[test]
fn a_kernel_that_never_waits_cannot_overlap() -> tilekit::Result<()> {
    for device in devices() {
        let kernel = ones.compile(&Compiler::default())?.load(&device)?;
        let refused = kernel.programmatic().map(drop);
        let line = refused.expect_err("it has no wait").to_string();
        assert!(
            line.contains("`ones`") && line.contains("launch_wait"),
            "{line}"
        );
    }
    Ok(())
}
