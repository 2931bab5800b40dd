//! Flags between a kernel and the host while the kernel runs.

use tilekit::prelude::*;
use tilekit::{EmulatorOptions, Error};

use crate::mistakes;

/// Doubles what the host hands in, `rounds` times, and hands it back. Flag 0 is the host's, flag 1 the kernel's.
#[kernel(warps = 2)]
fn doubles(numbers: Ptr<i32>, flags: Ptr<i32>, rounds: i32) {
    let at = arange(0..64, Coalesced);
    for round in range(0, rounds) {
        HostFlag::new(flags).wait(|seen| seen > round);
        numbers.at(at).store(numbers.at(at).load() * 2);
        HostFlag::new(flags + 1).set(round + 1);
    }
}

/// The same by one partition, beside which another one has its own pair of flags and other numbers.
#[kernel(warps = 4)]
fn by_partitions(numbers: Ptr<i32>, flags: Ptr<i32>, rounds: i32) {
    let double = |part: usize| {
        let at = arange(0..32, Coalesced) + 32 * part;
        let (given, taken) = (flags + 2 * part, flags + (2 * part + 1));
        for round in range(0, rounds) {
            HostFlag::new(given).wait(|seen| seen > round);
            numbers.at(at).store(numbers.at(at).load() * 2);
            HostFlag::new(taken).set(round + 1);
        }
    };
    warp_specialize()
        .main(|| {})
        .worker(Warps(1), || double(0))
        .worker(Warps(1), || double(1))
        .run();
}

struct Setup {
    stream: Stream,
    numbers: MappedBuffer<i32>,
    flags: MappedBuffer<i32>,
}

impl Setup {
    fn new(device: &Device) -> Setup {
        Setup {
            stream: Stream::new(device).expect("a stream"),
            numbers: MappedBuffer::zeros(device, 64).expect("memory of the host"),
            flags: MappedBuffer::zeros(device, 4).expect("memory of the host"),
        }
    }

    fn launch<K: Kernel<(Ptr<i32>, Ptr<i32>, Scalar<i32>)>>(&self, kernel: K, rounds: i32) {
        let kernel = kernel.compile(&Compiler::default()).expect("it compiles");
        let kernel = kernel.load(self.stream.device()).expect("it loads");
        let arguments = (&self.numbers, &self.flags, rounds);
        kernel
            .launch(&self.stream, 1, arguments)
            .expect("it is launched");
    }
}

#[test]
fn host_and_kernel_take_turns() -> tilekit::Result<()> {
    for seed in [0, 1, 3] {
        let setup = Setup::new(&Device::emulator_with_seed(seed));
        let Setup {
            stream,
            numbers,
            flags,
        } = &setup;
        setup.launch(doubles, 4);
        let mut want: Vec<i32> = (0..64).collect();
        numbers.write(0, &want)?;
        for round in 1..=4 {
            flags.release(0, round)?;
            assert_eq!(flags.wait_until(stream, 1, |seen| seen >= round)?, round);
            for x in &mut want {
                *x = *x * 2 + 1;
            }
            let doubled = numbers.read(0..64)?;
            let next: Vec<i32> = doubled.iter().map(|x| x + 1).collect();
            assert_eq!(next, want);
            numbers.write(0, &next)?;
        }
        stream.synchronize()?;
    }
    Ok(())
}

#[test]
fn partitions_have_flags_of_their_own() -> tilekit::Result<()> {
    let setup = Setup::new(&Device::emulator());
    let Setup {
        stream,
        numbers,
        flags,
    } = &setup;
    numbers.write(0, &[1; 64])?;
    setup.launch(by_partitions, 3);
    for round in 1..=3 {
        for part in [1, 0] {
            flags.release(2 * part, round)?;
            flags.wait_until(stream, 2 * part + 1, |seen| seen >= round)?;
        }
    }
    stream.synchronize()?;
    assert_eq!(numbers.read(0..64)?, [8; 64]);
    Ok(())
}

#[test]
fn what_is_given_behind_such_a_launch_waits_for_its_end() -> tilekit::Result<()> {
    let device = Device::emulator();
    let setup = Setup::new(&device);
    let copied = Buffer::from_slice(&device, &[3])?;
    let target = Buffer::from_slice(&device, &[0])?;
    setup.launch(doubles, 1);
    setup.stream.copy(&copied, &target)?;
    let event = setup.stream.record()?;
    let other = Stream::new(&device)?;
    other.wait_for(&event)?;
    other.fill_bytes(&copied, 0)?;
    assert!(!setup.stream.is_done()? && !other.is_done()?);
    setup.flags.release(0, 1)?;
    // It waits for all of the device.
    assert_eq!(target.to_vec()?, [3]);
    assert_eq!(copied.to_vec()?, [0]);
    assert!(setup.stream.is_done()? && other.is_done()?);
    Ok(())
}

#[test]
fn launches_of_a_graph_run_beside_the_host() -> tilekit::Result<()> {
    let setup = Setup::new(&Device::emulator());
    let Setup {
        stream,
        numbers,
        flags,
    } = &setup;
    let graph = stream.capture(|| {
        setup.launch(doubles, 1);
        Ok(())
    })?;
    for round in 1..=2 {
        numbers.write(0, &[round; 64])?;
        flags.release(1, 0)?;
        stream.replay(&graph)?;
        flags.release(0, 1)?;
        flags.wait_until(stream, 1, |seen| seen == 1)?;
        stream.synchronize()?;
        assert_eq!(numbers.read(0..64)?, [2 * round; 64]);
    }
    Ok(())
}

#[kernel(warps = 2)]
fn never_sets(numbers: Ptr<i32>, flags: Ptr<i32>, rounds: i32) {
    numbers.store(rounds + flags.at(1).load());
}

/// Hands on at the scope of the GPU, which the host is not part of.
#[kernel(warps = 2)]
fn at_gpu_scope(numbers: Ptr<i32>, flags: Ptr<i32>, rounds: i32) {
    numbers.at(arange(0..64, Coalesced)).store(rounds);
    (flags + 1).at(0).release().atomic_store(1);
}

#[kernel(warps = 2)]
fn relaxed(numbers: Ptr<i32>, flags: Ptr<i32>, rounds: i32) {
    numbers.at(arange(0..64, Coalesced)).store(rounds);
    let flag = (flags + 1).at(0);
    flag.scope(Scope::Sys).relaxed().atomic_store(1);
}

/// What the host says that waits for flag 1, then reads the numbers.
fn said(kernel: impl Kernel<(Ptr<i32>, Ptr<i32>, Scalar<i32>)>) -> String {
    let setup = Setup::new(&Device::emulator());
    setup.launch(kernel, 5);
    let waited = setup.flags.wait_until(&setup.stream, 1, |seen| seen == 1);
    let read = waited.and_then(|_| setup.numbers.read(0..64));
    read.map_or_else(|error| error.to_string(), |_| "ordered".to_owned())
}

#[test]
fn what_no_flag_of_the_system_hands_on_is_a_race() {
    let found = said(at_gpu_scope);
    assert!(found.contains("leaves out the host"), "{found}");
    let found = said(relaxed);
    assert!(found.contains("nothing orders the two"), "{found}");
    assert!(found.contains("by the host"), "{found}");
}

#[test]
fn a_wait_for_a_flag_that_nobody_sets_ends() {
    let found = said(never_sets);
    assert!(found.contains("all work of the stream is over"), "{found}");
}

/// CTA 1 faults, and CTA 0 waits for an answer that the host gives to both.
#[kernel(warps = 1)]
fn faults(numbers: Ptr<i32>, flags: Ptr<i32>, rounds: i32) {
    if program_id(0) == 1 {
        numbers.at(1_000_000).store(rounds);
    }
    HostFlag::new(flags).wait(|seen| seen == 1);
}

#[test]
fn a_fault_ends_the_wait_of_the_host_and_that_of_other_ctas() -> tilekit::Result<()> {
    let device = Device::emulator();
    let setup = Setup::new(&device);
    let kernel = faults.compile(&Compiler::default())?.load(&device)?;
    kernel.launch(&setup.stream, 2, (&setup.numbers, &setup.flags, 1))?;
    let waited = setup.flags.wait_until(&setup.stream, 1, |seen| seen == 1);
    let Err(Error::Fault(fault)) = waited else {
        panic!("the fault is the host's answer");
    };
    assert!(fault.to_string().contains("out of bounds"), "{fault}");
    setup.stream.synchronize()
}

#[test]
fn a_kernel_that_waits_for_a_host_that_waits_meets_the_limit_of_steps() {
    let device = Device::emulator_with(EmulatorOptions {
        max_steps: 50_000,
        ..EmulatorOptions::default()
    });
    let setup = Setup::new(&device);
    setup.launch(doubles, 1);
    let ended = setup
        .stream
        .synchronize()
        .map_err(|error| error.to_string());
    assert!(ended.is_err_and(|text| text.contains("limit of the launch")));
}

#[test]
fn ranges_outside_are_refused() -> tilekit::Result<()> {
    let buffer = MappedBuffer::<i32>::from_slice(&Device::emulator(), &[1, 2, 3])?;
    assert_eq!(buffer.read(1..3)?, [2, 3]);
    assert!(buffer.read(3..3)?.is_empty());
    let text = |result: tilekit::Result<()>| result.map_err(|error| error.to_string());
    let outside = [
        text(buffer.read(2..4).map(drop)),
        text(buffer.write(3, &[1])),
        text(buffer.write(usize::MAX, &[1, 2])),
        text(buffer.acquire(3).map(drop)),
        text(buffer.release(3, 1)),
    ];
    for found in outside {
        assert!(found.is_err_and(|text| text.contains("which has 3")));
    }
    Ok(())
}

#[kernel(warps = 1)]
fn polls_with_a_tensor(flags: Ptr<i32>, x: Ptr<i32>) {
    let lane = arange(0..32, Coalesced);
    HostFlag::new(flags).wait(|seen| seen == x.at(lane).load().max(0).scalar());
}

#[test]
fn a_test_of_a_flag_only_computes_with_scalars() {
    assert!(mistakes(polls_with_a_tensor).contains("CombineEffect"));
}
