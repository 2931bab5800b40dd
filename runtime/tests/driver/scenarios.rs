//! What runs in a process of its own, with the stand-in for the driver.

use std::time::Duration;

use tilekit::prelude::*;
use tilekit::{Advice, Event, L2Promotion, MappedBuffer, Near};

/// `out[i] = x[i] + y[i]` for `i < n`.
#[kernel(warps = 4)]
fn add<const BLOCK: usize>(x: Ptr<f32>, y: Ptr<f32>, out: Ptr<f32>, n: i32) {
    let at = program_id(0) * BLOCK + arange(0..BLOCK, Coalesced);
    let inside = at < n;
    let sum = x.at(at).mask(inside).load() + y.at(at).mask(inside).load();
    out.at(at).mask(inside).store(sum);
}

/// `x[i] += x[i]`, behind whatever launch comes before.
#[kernel(warps = 1)]
fn double_behind(x: Ptr<i32>) {
    let at = arange(0..32, Coalesced);
    launch_wait();
    x.at(at).store(x.at(at).load() * 2);
}

/// A cluster that takes a map of each kind.
#[kernel(warps = 1, cluster = 2)]
fn maps(
    #[block([4, 8], Nvmma::PLAIN)] x: TensorMap<i32>,
    #[im2col(4, [8, 4], Nvmma::PLAIN)] y: TensorMap<i32>,
    _out: Ptr<i32>,
) {
}

/// Prints what stops a scenario.
fn say(result: tilekit::Result<()>) {
    if let Err(error) = result {
        println!("{error}");
    }
}

fn say_addresses(addresses: [u64; 3]) {
    for address in addresses {
        println!("at {address}");
    }
}

pub(crate) fn run_open() {
    let ordinal = std::env::var("ORDINAL").map_or(0, |text| text.parse().expect("a number"));
    say(Device::cuda(ordinal).map(|_| ()));
}

pub(crate) fn run_add() {
    say((|| {
        let device = Device::cuda(0)?;
        let stream = Stream::new(&device)?;
        let [x, y, out] = [(); 3].map(|()| Buffer::<f32>::zeros(&device, 1000));
        let (x, y, out) = (x?, y?, out?);
        say_addresses([x.address(), y.address(), out.address()]);
        let kernel = add::<256>.compile(&Compiler::default())?.load(&device)?;
        kernel.launch(&stream, grid(4u32), (&x, &y, &out, 1000))?;
        kernel
            .prepare(grid(4u32), (&x, &y, &out, 1000))?
            .launch(&stream)?;
        stream.synchronize()
    })());
}

pub(crate) fn run_double_behind() {
    say((|| {
        let device = Device::cuda(0)?;
        let stream = Stream::new(&device)?;
        let x = Buffer::from_slice(&device, &[1i32; 32])?;
        let kernel = double_behind.compile(&Compiler::default())?.load(&device)?;
        kernel.launch(&stream, grid(1u32), (&x,))?;
        let kernel = kernel.programmatic()?;
        kernel.launch(&stream, grid(1u32), (&x,))?;
        let prepared = kernel.prepare(grid(1u32), (&x,))?;
        let graph = stream.capture(|| prepared.launch(&stream))?;
        println!("overlapping {}", graph.overlapping());
        stream.replay(&graph)?;
        stream.synchronize()
    })());
}

pub(crate) fn run_maps() {
    say((|| {
        let device = Device::cuda(0)?;
        let stream = Stream::new(&device)?;
        let [x, y, out] = [(); 3].map(|()| Buffer::<i32>::zeros(&device, 1024));
        let (x, y, out) = (x?, y?, out?);
        say_addresses([x.address(), y.address(), out.address()]);
        let kernel = maps.compile(&Compiler::default())?.load(&device)?;
        let rows = x.view([6, 13]).with_strides([16, 1]);
        let rows = rows.with_l2_promotion(L2Promotion::Bytes256);
        let pixels = y.view([2, 5, 6, 4]).with_window(&[-1, -1], &[-1, -1]);
        kernel.launch(&stream, grid(2u32), (rows, pixels, &out))?;
        stream.synchronize()
    })());
}

/// Reads what another rank has.
#[kernel(warps = 1)]
fn from_peer(own: Ptr<i32>, all: PeerMap<i32>, peer: i32) {
    let at = arange(0..32, Coalesced);
    own.at(at).store(all.of(peer).at(at).load());
}

pub(crate) fn run_world() {
    say((|| {
        let world = World::cuda(2)?.with_limit(Duration::from_millis(20));
        let parts = world.symmetric::<i32>(32)?;
        say_addresses([parts.part(0).address(), parts.part(1).address(), 0]);
        let compiled = from_peer.compile(&Compiler::default())?;
        world.load(&compiled)?.launch(&world, grid(1u32), |rank| {
            (parts.part(rank), parts.peers(rank), 1 - rank as i32)
        })
    })());
    say(World::cuda(2).map(|_| println!("another world")));
}

pub(crate) fn run_world_graph() {
    say((|| {
        let world = World::cuda(2)?;
        let parts = world.symmetric::<i32>(32)?;
        let kernel = world.load(&from_peer.compile(&Compiler::default())?)?;
        let launch = kernel.prepare(grid(1u32), |rank| {
            (parts.part(rank), parts.peers(rank), 1 - rank as i32)
        })?;
        let graph = world.capture(|| (0..2).try_for_each(|_| launch.enqueue(&world)))?;
        drop((parts, kernel, launch));
        println!("keeps {}", graph.kept());
        world.replay(&graph)?;
        world.synchronize()
    })());
}

pub(crate) fn run_moves() {
    say((|| {
        let device = Device::cuda(0)?;
        let stream = Stream::new(&device)?;
        let x = Buffer::from_slice(&device, &[1i16, 2, 3, 4])?;
        let y = Buffer::<i16>::zeros(&device, 4)?;
        stream.fill_bytes(&y, 1)?;
        println!("filled {:?}", y.to_vec()?);
        let start = stream.record()?;
        stream.copy(&x, &y)?;
        println!("copied {:?}", y.to_vec()?);
        let end: Event = stream.record()?;
        stream.wait_for(&end)?;
        println!("milliseconds {}", end.milliseconds_since(&start)?);
        let mapped = MappedBuffer::<i32>::zeros(&device, 2)?;
        mapped.write(0, &[5, 6])?;
        println!("mapped {:?}", mapped.read(0..2)?);
        let unified = Buffer::<i32>::unified(&device, 3)?;
        unified.advise(Advice::ReadMostly)?;
        unified.advise(Advice::Prefer(Near::Host))?;
        unified.advise(Advice::AccessedBy(Near::Device))?;
        stream.prefetch(&unified, Near::Device)?;
        stream.prefetch(&unified, Near::Host)?;
        let scratch = Buffer::<i32>::in_order(&stream, 5)?;
        stream.fill_bytes(&scratch, 0)?;
        println!("in order {:?}", scratch.to_vec()?);
        drop(stream);
        drop(scratch);
        Buffer::<u8>::zeros(&device, 3 << 30).map(|_| ())
    })());
}

pub(crate) fn run_ranges() {
    say((|| {
        let _step = tilekit::nvtx::range("step");
        for device in [Device::cuda(0)?, Device::emulator()] {
            let stream = Stream::new(&device)?;
            let x = Buffer::<i32>::zeros(&device, 32)?;
            let kernel = double_behind.compile(&Compiler::default())?.load(&device)?;
            kernel.launch(&stream, grid(1u32), (&x,))?;
        }
        Ok(())
    })());
}
