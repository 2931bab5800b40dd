//! What a launch must fit.

use crate::kernel::Kernel;
use emulator::{Emulator, FaultKind, Launch, Program};

fn check(change: impl Fn(&mut Launch), expected: &str) {
    let mut kernel = Kernel::new("");
    change(&mut kernel.launch);
    let fault = kernel.fault();
    assert_eq!(fault.kind, FaultKind::Launch);
    assert!(fault.message.contains(expected), "{}", fault.message);
}

#[test]
fn impossible_launches_are_refused() {
    check(
        |l| l.block = [2048, 1, 1],
        "block [2048, 1, 1] has 2048 threads; a CTA can have 1024, and 64 along z",
    );
    check(|l| l.grid = [1, 0, 1], "must not have a zero");
    check(
        |l| l.dynamic_shared_bytes = 240_000,
        "a CTA can have 232448",
    );
    check(
        |l| l.cluster = [2, 1, 1],
        "grid [1, 1, 1] is not a multiple of cluster [2, 1, 1]",
    );
    check(
        |l| (l.grid, l.cluster) = ([32, 1, 1], [32, 1, 1]),
        "a cluster of 32 CTAs; Hopper allows 16",
    );
    check(
        |l| l.grid = [1, 70_000, 1],
        "grid [1, 70000, 1] is too large",
    );
}

fn program(text: &str) -> Result<Program, emulator::LoadError> {
    let header = ".version 8.0\n.target sm_90a\n.address_size 64\n";
    Program::load(&ptx::Module::parse(&format!("{header}{text}")).unwrap())
}

#[test]
fn directives_and_parameters_are_checked() {
    let program =
        program(".visible .entry k(.param .u32 n, .param .u64 p)\n.reqntid 64, 1, 1\n{\nret;\n}\n")
            .unwrap();
    let emulator = Emulator::new();
    let launch = |threads, params: &[u8]| {
        emulator.launch(&program, "k", &Launch::linear(1, threads), params)
    };
    let message = launch(32, &[0; 16]).unwrap_err().message;
    assert_eq!(
        message,
        "the kernel requires blocks of [64, 1, 1] (.reqntid), the launch has [32, 1, 1]"
    );
    let message = launch(64, &[0; 12]).unwrap_err().message;
    assert_eq!(
        message,
        "the kernel takes 16 bytes of parameters, 12 were passed; they are n (4 bytes at 0), p (8 bytes at 8)"
    );
    assert_eq!(launch(64, &[0; 16]).unwrap().ctas, 1);
    let message = emulator
        .launch(&program, "q", &Launch::default(), &[])
        .unwrap_err()
        .message;
    assert_eq!(message, "the program has no kernel q; it has k");
}

#[test]
fn unknown_instructions_are_named() {
    let error = program(".visible .entry k()\n{\n.reg .b32 %r<2>;\n.reg .f32 %f<2>;\nadd.sat.u32 %r0, %r1, %r1;\nret;\n}\n").unwrap_err();
    assert_eq!(
        error.message,
        "the emulator does not support this modifier of add on .u32"
    );
    assert_eq!(error.ptx, "add.sat.u32 %r0, %r1, %r1;");
}

#[test]
fn variables_of_a_module_keep_their_values_between_launches() {
    let text = ".global .b32 count[1] = {40};\n.visible .entry k(.param .u64 out)\n{\n.reg .b32 %r<2>;\n.reg .b64 %rd<2>;\n\
        atom.global.add.u32 %r0, [count], 1;\nld.param.u64 %rd0, [out];\nred.global.max.u32 [%rd0], %r0;\nret;\n}\n";
    let program = program(text).unwrap();
    let emulator = Emulator::new();
    let out = emulator.memory().alloc(4).unwrap();
    emulator.memory().write(out, &[0; 4]).unwrap();
    for expected in [71, 103] {
        emulator
            .launch(&program, "k", &Launch::default(), &out.to_le_bytes())
            .unwrap();
        let mut bytes = [0; 4];
        emulator.memory().read(out, &mut bytes).unwrap();
        assert_eq!(u32::from_le_bytes(bytes), expected);
    }
    emulator.forget(&program).unwrap();
    assert_eq!(emulator.memory().used_bytes(), 4);
}

#[test]
fn a_fault_ends_a_cooperative_launch_whose_other_ctas_wait() {
    // The last CTA traps, and all others wait for it.
    let text = ".global .b32 count[1] = {0};\n.visible .entry k()\n{\n.reg .pred %p<2>;\n.reg .b32 %r<2>;\n\
        mov.u32 %r0, %ctaid.x;\nsetp.eq.u32 %p0, %r0, 699;\n@%p0 trap;\n\
        AGAIN:\nld.relaxed.gpu.global.u32 %r1, [count];\nsetp.eq.u32 %p1, %r1, 0;\n@%p1 bra AGAIN;\nret;\n}\n";
    let program = program(text).unwrap();
    let launch = Launch {
        is_cooperative: true,
        ..Launch::linear(700, 32)
    };
    let fault = Emulator::new()
        .launch(&program, "k", &launch, &[])
        .unwrap_err();
    assert_eq!((fault.kind, fault.cta), (FaultKind::Trap, [699, 0, 0]));
}
