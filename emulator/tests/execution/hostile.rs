//! PTX and launches with sizes that no machine has: reports with the author's number, never a panic or a lack of memory.

use emulator::{Emulator, Launch, Program};

fn load(text: &str) -> Result<Program, String> {
    let header = ".version 8.6\n.target sm_90a\n.address_size 64\n";
    let module =
        ptx::Module::parse(&format!("{header}{text}")).map_err(|error| error.to_string())?;
    Program::load(&module).map_err(|error| error.message)
}

/// A kernel with these declarations, which uses `name`.
#[track_caller]
fn check(declarations: &str, name: &str, expected: &str) {
    let body = format!(".reg .b64 %rd<2>;\n{declarations}\nmov.u64 %rd0, {name};\nret;\n");
    let error =
        load(&format!(".visible .entry k()\n{{\n{body}}}\n")).expect_err("nothing has these sizes");
    assert_eq!(error, expected);
}

#[test]
fn variables_larger_than_their_memory_are_refused_with_their_size() {
    check(
        ".shared .align 16 .b8 wide[4294967312];",
        "wide",
        "variable wide takes 4294967312 bytes of shared memory; at most 524288 are supported",
    );
    check(
        ".local .b64 wide[2305843009213693952];",
        "wide",
        "variable wide takes 18446744073709551615 bytes of local memory; at most 524288 are supported",
    );
    check(
        ".local .b8 a[400000];\n.local .b8 b[400000];",
        "b",
        "the kernel takes 800000 bytes of .local memory; at most 524288 are supported",
    );
    check(
        ".shared .b8 a[8];\n.shared .align 2147483648 .b8 b[8];",
        "b",
        "the kernel takes 2147483656 bytes of .shared memory; at most 524288 are supported",
    );
}

#[test]
fn initial_values_of_a_terabyte_are_refused() {
    let text = ".global .b8 wide[1099511627776] = {1};\n.visible .entry k()\n{\nret;\n}\n";
    assert_eq!(
        load(text).expect_err("the host has no such memory"),
        "variable wide has 1099511627776 bytes of initial values; at most 1073741824 are supported"
    );
}

#[test]
fn calls_that_double_the_code_at_each_level_are_refused() {
    let mut text = ".func f0()\n{\nret;\n}\n".to_owned();
    for level in 1..=60 {
        let call = format!("call f{};\n", level - 1);
        text += &format!(".func f{level}()\n{{\n{call}{call}ret;\n}}\n");
    }
    text += ".visible .entry k()\n{\ncall f60;\nret;\n}\n";
    let error = load(&text).expect_err("the code would have 2^60 steps");
    assert!(
        error.contains("exceeds 32 calls inside each other or 1048576 steps"),
        "{error}"
    );
}

#[test]
fn sizes_of_a_launch_do_not_wrap() {
    let program = load(".visible .entry k()\n{\nret;\n}\n").expect("the kernel decodes");
    let emulator = Emulator::new();
    let refused = |launch: Launch| {
        emulator
            .launch(&program, "k", &launch, &[])
            .expect_err("no machine has this")
            .message
    };
    let launch = Launch {
        dynamic_shared_bytes: u32::MAX,
        ..Launch::default()
    };
    assert_eq!(
        refused(launch),
        "the kernel asks for 4294967295 bytes of shared memory (0 static, 4294967295 dynamic); a CTA can have 232448"
    );
    let launch = Launch {
        block: [u32::MAX; 3],
        ..Launch::default()
    };
    let message = refused(launch);
    assert!(
        message.contains("has 18446744073709551615 threads"),
        "{message}"
    );
}
