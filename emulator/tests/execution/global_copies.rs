//! Copies between shared and global memory, and launches that overlap, against other accesses to global memory.

use crate::global_start::{START, kernel, ordered, races};
use crate::kernel::Kernel;
use crate::reports;
use emulator::{Emulator, Fault, FaultKind, Launch};

/// `%r10` is an initialised mbarrier, `%r11` a tile of 256 written bytes, which the async proxy sees.
fn copies(text: &str) -> Kernel {
    kernel(&format!(
        ".shared .align 8 .b8 met[8];
        .shared .align 128 .b8 tile[256];
        mov.u32 %r10, met;
        mov.u32 %r11, tile;
        shl.b32 %r5, %r1, 2;
        add.u32 %r5, %r5, %r11;
        st.shared.u32 [%r5], 7;
        @%p1 mbarrier.init.shared::cta.b64 [%r10], 1;
        fence.proxy.async.shared::cta;
        bar.sync 0;
        {text}"
    ))
}

const STORE: &str = "@%p1 cp.async.bulk.global.shared::cta.bulk_group [%in0], [%r11], 128;
    @%p1 cp.async.bulk.commit_group;";
const READ_BACK: &str = "@%p1 ld.global.u32 %r4, [%in0+4];";

#[test]
fn a_read_of_a_bulk_store_before_its_wait_is_a_race() {
    let with = |wait: &str, read: &str| copies(&format!("{STORE} {wait} {read}"));
    let wait = "@%p1 cp.async.bulk.wait_group 0;";
    ordered(&with(wait, READ_BACK));
    let in_flight = "while a bulk store of warp 0 may still write them";
    races(&with("", &format!("{READ_BACK} {wait}")), in_flight);
    races(
        &with("@%p1 cp.async.bulk.wait_group.read 0;", READ_BACK),
        in_flight,
    );
    races(
        &with(
            "@%p1 cp.async.bulk.wait_group 1;",
            &format!("{READ_BACK} {wait}"),
        ),
        in_flight,
    );
    // The other warp has not waited.
    let other = READ_BACK.replace("%p1", "!%p2");
    races(&with(wait, &other), "bulk store");
    ordered(&with(wait, &format!("bar.sync 0; {other}")));
    races(
        &with(
            "@%p1 cp.async.bulk.wait_group.read 0;",
            &format!("bar.sync 0; {other}"),
        ),
        in_flight,
    );
}

#[test]
fn bulk_stores_of_many_ctas_to_one_place_race_and_reductions_do_not() {
    let wait = "@%p1 cp.async.bulk.wait_group.read 0;";
    races(
        &copies(&format!("{STORE} {wait}")).ctas(2),
        "while a bulk store of warp 0 of CTA",
    );
    let reduction = STORE.replace(
        "cp.async.bulk.global.shared::cta.bulk_group",
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32",
    );
    ordered(&copies(&format!("{reduction} {wait}")).ctas(4));
    races(
        &copies(&format!(
            "{reduction} {wait} @%p5 ld.global.u32 %r4, [%in0];"
        ))
        .ctas(2),
        "them; a wait for it is missing",
    );
}

const LOAD: &str = "@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r10], 128;
    @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r11], [%in0], 128, [%r10];";
const WAIT: &str =
    "$wait: mbarrier.try_wait.parity.shared::cta.b64 %p6, [%r10], 0; @!%p6 bra $wait;";

#[test]
fn a_bulk_load_of_what_threads_stored_needs_a_fence_of_the_async_proxy() {
    let text = |fence: &str| {
        copies(&format!(
            "@%p1 st.global.u32 [%in0+8], 3; {fence} {LOAD} {WAIT}"
        ))
    };
    ordered(&text("fence.proxy.async;"));
    ordered(&text("fence.proxy.async.global;"));
    let missing = "wrote through the generic proxy, with no fence.proxy.async in between";
    races(&text(""), missing);
    races(&text("fence.proxy.async.shared::cta;"), missing);
    races(&text("fence.acq_rel.gpu;"), missing);
    // Another warp stores: a fence on either side of the barrier.
    let other = |fences: [&str; 2]| {
        let [before, after] = fences;
        copies(&format!(
            "@!%p2 st.global.u32 [%in0+8], 3; {before} bar.sync 0; {after} {LOAD} {WAIT}"
        ))
    };
    ordered(&other(["fence.proxy.async.global;", ""]));
    ordered(&other(["", "fence.proxy.async.global;"]));
    races(&other(["", ""]), missing);
}

#[test]
fn a_source_of_a_load_in_flight_must_not_change() {
    let store = "@%p1 st.global.u32 [%in0+8], 3;";
    ordered(&copies(&format!("{LOAD} {WAIT} {store}")));
    races(
        &copies(&format!("{LOAD} {store} {WAIT}")),
        "an asynchronous copy of warp 0 may still read them",
    );
    let copy = "cp.async.ca.shared.global [%r5], [%in0+8], 4; cp.async.commit_group;";
    let wait = "cp.async.wait_group 0;";
    ordered(&copies(&format!("@%p2 {copy} {wait} bar.sync 0; {store}")));
    races(
        &copies(&format!("{copy} bar.sync 0; {store} {wait}")),
        "an asynchronous copy of warp",
    );
}

/// Runs two kernels over one buffer of 64 words; the second may overlap the first.
fn after_each_other(first: &str, second: &str, overlaps_previous: bool) -> Result<(), Box<Fault>> {
    let emulator = Emulator::with_memory(1 << 20);
    let address = emulator.memory().alloc(256).unwrap();
    emulator.memory().write(address, &[0; 256]).unwrap();
    for (text, overlaps_previous) in [(first, false), (second, overlaps_previous)] {
        let program = kernel(text).program();
        let launch = Launch {
            overlaps_previous,
            // One CTA after the other, so that the report is the same each time.
            seed: 1,
            ..Launch::linear(2, 64)
        };
        let done = emulator.launch(&program, "k", &launch, &address.to_le_bytes());
        done.inspect_err(|fault| reports::check(&format!("{first}{second}"), fault))?;
    }
    Ok(())
}

#[test]
fn a_launch_that_overlaps_another_waits_before_it_touches_the_same() {
    let check = |first: &str, second: &str, expected: Option<&str>| {
        after_each_other(first, second, false).unwrap();
        let ran = after_each_other(first, second, true);
        match (ran, expected) {
            (Ok(()), None) => {}
            (Err(fault), Some(expected)) => {
                let text = fault.to_string();
                assert!(
                    fault.kind == FaultKind::Race && text.contains(expected),
                    "{text}"
                );
                assert!(
                    text.contains("the previous launch") && fault.help.is_some(),
                    "{text}"
                );
            }
            (ran, _) => panic!("{second}: {ran:?}"),
        }
    };
    let (load, store) = (
        "ld.global.u32 %r3, [%in0];",
        "@%p4 st.global.u32 [%in0], 1;",
    );
    let wait = "griddepcontrol.wait;";
    check(store, load, Some("which the previous launch, of k, writes"));
    check(load, store, Some("which the previous launch, of k, reads"));
    check(store, store, Some("this launch has not waited for its end"));
    check(load, load, None);
    check(store, "ld.global.u32 %r3, [%in0+128];", None);
    check(store, &format!("{wait} {load}"), None);
    check(
        store,
        &format!("{load} {wait}"),
        Some("the previous launch wrote it here"),
    );
    // One warp waits for all, behind a barrier.
    check(
        store,
        &format!("@!%p2 bra $meet; {wait} $meet: bar.sync 0; {load}"),
        None,
    );
    check(
        store,
        &format!("@!%p2 bra $meet; {wait} $meet: {load}"),
        Some("this launch has not waited for its end"),
    );
    // Smaller accesses than those of the launch before.
    check(
        "@%p4 st.global.u16 [%in0+2], 1;",
        "ld.global.u8 %r3, [%in0+3];",
        Some("writes"),
    );
    check(
        "@%p4 st.global.u32 [%in0+4], 1;",
        "ld.global.u8 %r3, [%in0+3];",
        None,
    );
    assert!(START.contains("%p4"), "the first thread stores");
}

/// Three launches, each of which may begin before the one in front has ended. The last does not wait: it sees what the first wrote if the second had waited for that before it let the last begin.
#[test]
fn a_launch_begins_after_those_that_the_one_in_front_has_waited_for() {
    let (wait, dependents) = ("griddepcontrol.wait;", "griddepcontrol.launch_dependents;");
    let (store, load) = (
        "@%p4 st.global.u32 [%in0], 1;",
        "ld.global.u32 %r3, [%in0];",
    );
    let meet = format!("@!%p2 bra $meet; {wait} $meet: bar.sync 0;");
    for (second, is_ordered) in [
        (wait.to_owned(), true),
        (format!("{wait} {dependents}"), true),
        (format!("{meet} {dependents}"), true),
        (format!("{dependents} {wait}"), false),
        (format!("{dependents} {meet}"), false),
        (dependents.to_owned(), false),
        ("mov.u32 %r3, 0;".to_owned(), false),
        // Only some of the threads wait before they end.
        (format!("@%p4 {wait}"), false),
    ] {
        let emulator = Emulator::with_memory(1 << 20);
        let address = emulator.memory().alloc(256).unwrap();
        emulator.memory().write(address, &[0; 256]).unwrap();
        let mut ran = Ok(());
        for (text, overlaps_previous) in [(store, false), (&second, true), (load, true)] {
            let launch = Launch {
                overlaps_previous,
                ..Launch::linear(2, 64)
            };
            let program = kernel(text).program();
            let done = emulator.launch(&program, "k", &launch, &address.to_le_bytes());
            ran = ran.and(done.map(drop));
        }
        match ran {
            Ok(()) => assert!(is_ordered, "{second}"),
            Err(fault) => assert!(
                !is_ordered && fault.kind == FaultKind::Race,
                "{second}: {fault}"
            ),
        }
    }
}

#[test]
fn races_in_global_memory_are_not_reported_when_turned_off() {
    let mut kernel = kernel("@%p1 st.global.u32 [%in0], %r2;").ctas(2);
    kernel.launch.checks.global = false;
    kernel.run();
}
