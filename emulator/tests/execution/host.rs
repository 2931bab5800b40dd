//! Accesses of the host to mapped memory beside a launch: which race, and which are ordered.

use crate::global_start::START;
use crate::kernel::Kernel;
use emulator::{Emulator, Fault, FaultKind, HostAccess, HostOrder, Launch};
use std::panic::Location;

/// What the host does at word `.1`: stores 7, or loads.
type Does = (HostOrder, u64);

/// Runs the kernel between two pieces of work of the host. `%in0` has 64 words: 0 is data, 32 and 33 (`%in0+128`) flags.
fn run(text: &str, before: &[Does], after: &[Does]) -> Result<(), Box<Fault>> {
    let kernel = Kernel::new(&format!("{START}\n{text}")).words([0; 64]);
    let program = kernel.program();
    let emulator = Emulator::with_memory(1 << 30);
    let address = emulator
        .memory()
        .alloc_mapped(256, 4)
        .expect("there is room");
    let host = |does: &Does| {
        let (order, word) = *does;
        let at = address + 4 * word;
        let access = HostAccess {
            address: at,
            bytes: 4,
            order,
            line: Location::caller(),
        };
        emulator.host_access(&access, &mut || {
            if matches!(order, Write | Release) {
                let stored = emulator.memory().write(at, &7_u32.to_le_bytes());
                stored.expect("it is mapped");
            }
        })
    };
    let launch = Launch {
        beside_host: true,
        max_steps: 100_000,
        ..Launch::linear(2, 64)
    };
    let announced = emulator.announce(&program, "k", &launch)?;
    before.iter().try_for_each(host)?;
    emulator.run(&program, &announced, &address.to_le_bytes())?;
    after.iter().try_for_each(host)
}

#[track_caller]
fn races(text: &str, (before, after): (&[Does], &[Does]), expected: &str) {
    let fault = run(text, before, after).expect_err("it races");
    let message = fault.to_string();
    assert!(
        fault.kind == FaultKind::Race && message.contains(expected),
        "{message}"
    );
    assert!(
        message.contains("host.rs") && fault.help.is_some() && fault.related.len() == 1,
        "{message}"
    );
}

#[track_caller]
fn ordered(text: &str, (before, after): (&[Does], &[Does])) {
    if let Err(fault) = run(text, before, after) {
        panic!("{fault}");
    }
}

use HostOrder::{Acquire, Read, Release, Write};

/// `right` has no race, and each replacement in it makes one, which is reported with these words.
#[track_caller]
fn races_if_replaced(right: &str, does: (&[Does], &[Does]), replacements: &[(&str, &str, &str)]) {
    ordered(right, does);
    for (from, to, expected) in replacements {
        assert!(right.contains(from), "`{from}` is in the kernel");
        races(&right.replace(from, to), does, expected);
    }
}

#[test]
fn what_the_kernel_releases_to_the_system_the_host_acquires() {
    let takes: (&[Does], &[Does]) = (&[], &[(Acquire, 32), (Read, 0)]);
    let right = "setp.eq.u32 %p6, %r1, 32; and.pred %p6, %p6, %p3; @%p6 st.global.u32 [%in0], 5; bar.sync 0; @%p4 st.release.sys.global.u32 [%in0+128], 1;";
    let release = "@%p4 st.release";
    ordered(
        &right.replace(release, "@%p4 fence.acq_rel.sys; @%p4 st.relaxed"),
        takes,
    );
    let gpu_fence = "@%p4 fence.acq_rel.gpu; @%p4 st.relaxed";
    let replacements = [
        (
            "release.sys",
            "release.gpu",
            "the scope of that leaves out the host",
        ),
        ("release.sys", "relaxed.sys", "nothing orders the two"),
        (release, gpu_fence, "nothing orders the two"),
        ("bar.sync 0;", "", "nothing orders"),
    ];
    races_if_replaced(right, takes, &replacements);
}

#[test]
fn a_host_that_does_not_acquire_races() {
    let text = "@%p4 st.global.u32 [%in0], 5; @%p4 st.release.sys.global.u32 [%in0+128], 1;";
    races(text, (&[], &[(Read, 0)]), "load of 4 bytes by the host");
    races(text, (&[], &[(Write, 0)]), "store of 4 bytes by the host");
    races(text, (&[], &[(Read, 32)]), "nothing orders the two");
    races(
        text,
        (&[(Write, 0)], &[]),
        "which the host wrote while the launch was in flight",
    );
    // Neighbours are not the same.
    ordered(text, (&[(Write, 1)], &[(Write, 2)]));
}

#[test]
fn what_the_host_releases_a_kernel_acquires_at_the_scope_of_the_system() {
    let gives: (&[Does], &[Does]) = (&[(Write, 0), (Release, 32)], &[]);
    let right = "$wait: ld.acquire.sys.global.u32 %r3, [%in0+128]; setp.ne.u32 %p6, %r3, 7; @%p6 bra $wait; ld.global.u32 %r4, [%in0];";
    let replacements = [
        (
            "acquire.sys",
            "acquire.gpu",
            "the scope of this leaves out the host",
        ),
        (
            "acquire.sys",
            "relaxed.sys",
            "which the host wrote while the launch was in flight",
        ),
        (
            "ld.acquire.sys",
            "ld",
            "which the host wrote while the launch was in flight",
        ),
    ];
    races_if_replaced(right, gives, &replacements);
}

#[test]
fn another_cta_may_hand_on_what_it_has_acquired() {
    // CTA 0 releases to CTA 1 at the scope of the GPU, and that one to the host at the scope of the system.
    let text = "@%p4 st.global.u32 [%in0], 5; @%p4 st.release.gpu.global.u32 [%in0+128], 1;
        @!%p5 bra $end;
        $wait: ld.acquire.gpu.global.u32 %r3, [%in0+128]; setp.ne.u32 %p6, %r3, 1; @%p6 bra $wait;
        st.release.sys.global.u32 [%in0+132], 1;
        $end:";
    ordered(text, (&[], &[(Acquire, 33), (Read, 0)]));
}

#[test]
fn answers_go_back_and_forth() {
    let text =
        "@%p3 ld.global.u32 %r4, [%in0]; bar.sync 0; @%p4 st.release.sys.global.u32 [%in0+128], 1;";
    // What the kernel has read and said so, the host may overwrite.
    ordered(text, (&[], &[(Acquire, 32), (Write, 0)]));
    races(text, (&[], &[(Write, 0)]), "which a launch in flight reads");
}
