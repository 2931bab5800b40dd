//! Every kind of fault: its message, and the author's line that it names.

use crate::kernel::Kernel;
use emulator::{Fault, FaultKind};

fn check(kernel: &Kernel, kind: FaultKind, expected: &str) -> Box<Fault> {
    let fault = kernel.fault();
    assert_eq!((fault.kind, fault.message.as_str()), (kind, expected));
    fault
}

const ADDRESS: &str = "mov.u32 %r1, %tid.x; mul.wide.u32 %rd1, %r1, 4; add.u64 %rd2, %in0, %rd1;\n";

#[test]
fn an_access_out_of_bounds_is_a_fault() {
    let fault = check(
        &Kernel::new(&format!("{ADDRESS}ld.global.u32 %r2, [%rd2];")).words(0..30),
        FaultKind::OutOfBounds,
        "load of 4 bytes in global memory at 0x700000000078 is out of bounds: it ends 4 bytes past the end of the allocation of 120 bytes at 0x700000000000",
    );
    assert_eq!(
        (fault.lanes, fault.address, fault.bytes),
        (1 << 30, Some(0x7000_0000_0078), Some(4))
    );
    check(
        &Kernel::new(&format!("{ADDRESS}st.global.u32 [%rd2+-8], %r1;")).words(0..64),
        FaultKind::OutOfBounds,
        "store of 4 bytes in global memory at 0x6ffffffffff8 is out of bounds: it is 8 bytes before the allocation of 256 bytes at 0x700000000000",
    );
    check(
        &Kernel::new("mov.u64 %rd1, 0; ld.global.u32 %r1, [%rd1+16];"),
        FaultKind::OutOfBounds,
        "load of 4 bytes in global memory at 0x10 (a null pointer?) is out of bounds: there are no allocations",
    );
    check(
        &Kernel::new(".shared .b32 cell[4]; st.shared.u32 [cell+16], 1;"),
        FaultKind::OutOfBounds,
        "store of 4 bytes in shared memory at 0x410 is out of bounds: it ends 4 bytes past the end of the 16 bytes of shared memory",
    );
    check(
        &Kernel::new(".local .b32 cell[4]; mov.u64 %rd1, 64; st.local.u32 [%rd1], 1;"),
        FaultKind::OutOfBounds,
        "local memory at 0x40 is out of bounds: a thread has 16 bytes of it",
    );
}

#[test]
fn a_misaligned_access_is_a_fault() {
    let fault = check(
        &Kernel::new(&format!(
            "{ADDRESS}ld.global.v4.u32 {{%r2, %r3, %r4, %r5}}, [%rd2];"
        ))
        .words(0..64),
        FaultKind::Misaligned,
        "load of 16 bytes in global memory at 0x700000000004 is misaligned: the address must be a multiple of 16",
    );
    assert_eq!(fault.lanes, 2);
}

#[test]
fn a_read_of_uninitialised_bytes_or_registers_is_a_fault() {
    check(
        &Kernel::new(&format!("{ADDRESS}ld.global.u32 %r2, [%rd2];")).out(128),
        FaultKind::Uninitialised,
        "load of 4 bytes from global memory at 0x700000000000 reads uninitialised memory: nothing has written byte 0 of it",
    );
    check(
        &Kernel::new(
            ".shared .b32 cell[4]; mov.u16 %h0, 1; st.shared.u16 [cell], %h0; bar.warp.sync 0xffffffff; ld.shared.u32 %r1, [cell];",
        ),
        FaultKind::Uninitialised,
        "load of 4 bytes from shared memory at 0x400 reads uninitialised memory: nothing has written byte 2 of it",
    );
    let fault = check(
        &Kernel::new(
            "mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 8; @%p1 mov.u32 %r2, 4; add.u32 %r3, %r2, 1;",
        ),
        FaultKind::Uninitialised,
        "register %r2 is read in lanes 8-31 before anything is written to it",
    );
    assert_eq!(fault.ptx, "add.u32 %r3, %r2, 1;");
}

#[test]
fn selp_may_name_an_unwritten_register_that_it_does_not_select() {
    Kernel::new(
        "mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 8; @%p1 mov.u32 %r2, 4; selp.u32 %r3, %r2, 9, %p1;
        mul.wide.u32 %rd1, %r1, 4; add.u64 %rd1, %rd1, %in0; st.global.u32 [%rd1], %r3;",
    )
    .out(128)
    .run();
}

#[test]
fn a_store_to_constants_or_parameters_is_a_fault() {
    check(
        &Kernel::new("mov.u64 %rd1, p0; cvta.param.u64 %rd2, %rd1; st.u32 [%rd2], 1;").words([1]),
        FaultKind::ReadOnly,
        "store of 4 bytes to param memory at 0x0, which kernels may only read",
    );
}

#[test]
fn an_integer_division_by_zero_is_a_fault() {
    let fault = check(
        &Kernel::new("mov.u32 %r1, %tid.x; and.b32 %r2, %r1, 15; div.u32 %r3, %r1, %r2;"),
        FaultKind::DivisionByZero,
        "integer division by zero in lanes 0,16; its result is undefined",
    );
    assert_eq!(fault.lanes, 0x0001_0001);
    // Where that is allowed, the result is that of an H200.
    let divide = "mov.u32 %r1, 0; rem.s32 %r3, 5, %r1; div.u32 %r4, 5, %r1; st.global.v2.u32 [%in0], {%r3, %r4};";
    let mut lenient = Kernel::new(divide).out(8);
    lenient.launch.checks.division_by_zero = false;
    assert_eq!(lenient.run().words(0), [u32::MAX, u32::MAX]);
}

#[test]
fn a_barrier_that_part_of_a_warp_does_not_reach_is_a_fault() {
    check(
        &Kernel::new("mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 8; @%p1 bra $x; bar.sync 0; $x:"),
        FaultKind::BarrierDivergence,
        "only lanes 8-31 of the warp reach this barrier: lanes 0-7 are on another path",
    );
    check(
        &Kernel::new("mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 8; @%p1 ret; bar.sync 0;"),
        FaultKind::BarrierDivergence,
        "only lanes 8-31 of the warp reach this barrier: lanes 0-7 have exited",
    );
    check(
        &Kernel::new("bar.sync 16;"),
        FaultKind::IllegalOperand,
        "barrier 16 does not exist; a CTA has barriers 0 to 15",
    );
    check(
        &Kernel::new("bar.sync 1, 40;").threads(64),
        FaultKind::IllegalOperand,
        "a barrier of 40 threads: the count must be a multiple of 32, at most 64",
    );
    check(
        &Kernel::new(
            "mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 32; @%p1 bra $x; bar.sync 1, 96; bra $y; $x: bar.sync 1, 64; $y:",
        )
        .threads(96),
        FaultKind::IllegalOperand,
        "barrier 1 is waited for by 96 threads here, but 32 threads arrived expecting 64",
    );
}

#[test]
fn an_exchange_with_lanes_outside_of_its_mask_is_a_fault() {
    check(
        &Kernel::new(
            "mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 8; @%p1 bra $x; shfl.sync.idx.b32 %r2, %r1, 3, 31, 0xffffff00; $x:",
        ),
        FaultKind::IllegalOperand,
        "lane 8 reads the register of lane 3, which is not in the member mask 0xffffff00",
    );
    check(
        &Kernel::new(
            "mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 8; @%p1 bra $x; shfl.sync.idx.b32 %r2, %r1, 9, 31, 0xff; $x:",
        ),
        FaultKind::IllegalOperand,
        "lanes 8-31 execute an instruction whose member mask 0x000000ff leaves them out",
    );
    check(
        &Kernel::new(
            "mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 8; @%p1 ret; shfl.sync.idx.b32 %r2, %r1, 3, 31, -1;",
        ),
        FaultKind::IllegalOperand,
        "lane 8 reads the register of lane 3, which has exited",
    );
}

#[test]
fn a_trap_is_a_fault() {
    check(
        &Kernel::new("trap;"),
        FaultKind::Trap,
        "the kernel executed trap",
    );
}

#[test]
fn a_deadlock_report_names_each_warp_and_what_it_waits_for() {
    let text = ".file 1 \"kernels/sum.rs\"\n---\n.loc 1 7 3\nmov.u32 %r1, %tid.x;\nsetp.lt.u32 %p1, %r1, 32;\n\
        @%p1 bra $one;\nsetp.lt.u32 %p1, %r1, 64;\n@%p1 ret;\n.loc 1 8 5\nbar.sync 2, 64;\nbra $end;\n$one:\n\
        .loc 1 9 5\nbar.sync 3, 96;\n$end:\n";
    for seed in 0..3 {
        let fault = check(
            &Kernel::new(text).threads(96).seed(seed),
            FaultKind::Deadlock,
            "deadlock: every thread that has not exited waits for something that cannot happen
  warp 1 has exited",
        );
        let related: Vec<String> = fault.related.iter().map(ToString::to_string).collect();
        assert_eq!(
            related,
            [
                "warp 2 waits here at barrier 2, at which 32 of 64 threads have arrived: kernels/sum.rs:8:5",
                "warp 0 waits here at barrier 3, at which 32 of 96 threads have arrived: kernels/sum.rs:9:5",
            ]
        );
        assert!(fault.help.is_some());
    }
}

#[test]
fn places_name_the_authors_line() {
    let text = ".file 1 \"kernels/sum.rs\"\n---\n.loc 1 12 9\nmov.u64 %rd1, 64;\nld.global.u32 %r1, [%rd1];\n";
    let fault = Kernel::new(text).fault();
    let place = fault.place.clone().unwrap();
    assert_eq!(
        (place.file.as_str(), place.line, place.column),
        ("kernels/sum.rs", 12, 9)
    );
    let expected = "load of 4 bytes in global memory at 0x40 (a null pointer?) is out of bounds: there are no allocations
  kernel k, CTA (0,0,0), warp 0, lane 0
  at kernels/sum.rs:12:9
  PTX line 17: ld.global.u32 %r1, [%rd1];
  help: mask the elements that are out of bounds (`.mask(at < n)`), or pass a buffer that holds them";
    assert_eq!(fault.to_string(), expected);
    let printed = ptx::Module::parse(&Kernel::new(text).text())
        .unwrap()
        .to_text();
    assert_eq!(
        printed.lines().nth(16),
        Some("\tld.global.u32 %r1, [%rd1];")
    );
}

#[test]
fn the_fault_of_the_lowest_cta_is_reported() {
    let body = "mov.u32 %r1, %ctaid.x; setp.gt.u32 %p1, %r1, 4; @%p1 trap;";
    for seed in 0..5 {
        assert_eq!(Kernel::new(body).ctas(64).seed(seed).fault().cta, [5, 0, 0]);
    }
}

#[test]
fn an_endless_loop_exceeds_the_step_limit() {
    let mut kernel = Kernel::new("$loop: bra $loop;");
    kernel.launch.max_steps = 10_000_000;
    check(
        &kernel,
        FaultKind::StepLimit,
        "the CTA has executed 10000000 warp instructions, the limit of the launch",
    );
}
