//! What the checker finds, in words, and whether ptxas agrees.

#![allow(clippy::unwrap_used, reason = "a test that finds nothing has failed")]

mod support;

use ptx::{Module, RegClass, Space, Stmt, Variable, Version};
use target::{MatrixType, ProductTypes, SM_90A, Target};

/// The first problem of one line in a kernel of `.version 8.6`.
fn problem(line: &str) -> String {
    let module =
        Module::parse(&support::kernel(line)).unwrap_or_else(|error| panic!("{error}: {line}"));
    let errors = module.check();
    errors
        .first()
        .map(|error| error.problem.to_string())
        .unwrap_or_default()
}

fn check(cases: &[(&str, &str)]) {
    for (line, expected) in cases {
        assert_eq!(problem(line), *expected, "\n{line}");
    }
}

#[test]
fn registers_of_a_wrong_class_or_width_are_reported() {
    check(&[
        (
            "add.u32 %r1, %r2, %f1;",
            "operand `b` is a .f32 register; expected a 32-bit register for .u32",
        ),
        (
            "add.f32 %f1, %f2, %rd1;",
            "operand `b` is a .b64 register; expected a 32-bit register for .f32",
        ),
        (
            "mul.wide.u32 %r1, %r2, 4;",
            "operand `dst` is a .b32 register; expected a 64-bit register for .u64",
        ),
        (
            "shl.b64 %rd1, %rd2, %rd3;",
            "operand `b` is a .b64 register; expected a 32-bit register for .u32",
        ),
        (
            "ld.global.b32 %rs1, [%rd1];",
            "operand `dst` is a .b16 register; expected a register of at least 32 bits for .b32",
        ),
        ("ld.global.b8 %r1, [%rd1];", ""),
        (
            "ld.global.b32 %r1, [%r2];",
            "operand `addr` is a .b32 register; expected a 64-bit address",
        ),
        ("ld.shared.b32 %r1, [%r2];", ""),
        (
            "@%r1 trap;",
            "operand `guard` is a .b32 register; expected a predicate register",
        ),
        ("mov.u32 %r1, %clock64;", "`%clock64` is .u64, not .u32"),
        (
            "add.u32 %r1, %tid.x, 1;",
            "operand `a` is a special register, which only `mov` and `cvt` read; expected a 32-bit register for .u32",
        ),
        (
            "add.f32 %f1, %f2, 1;",
            "operand `b` is an integer; expected a 32-bit register for .f32",
        ),
    ]);
}

#[test]
fn vectors() {
    check(&[
        (
            "ld.global.v4.b32 {%r1, %r2}, [%rd1];",
            "operand `dst` has 2 elements; expected 4",
        ),
        (
            "ld.global.b32 {%r1, %r2}, [%rd1];",
            "operand `dst` has 2 elements; expected 1",
        ),
        (
            "st.global.v4.b64 [%rd1], {%rd1, %rd2, %rd3, %rd4};",
            "`st.v4.b64` would move 256 bits; sm_90a moves at most 128",
        ),
        (
            "mov.b64 %rd1, {%rs1, %rs2};",
            "`mov.b64` with 2 elements takes 32 bits each, not 16",
        ),
        (
            "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1}, [%r2];",
            "operand `dst` has 1 elements; expected 4",
        ),
        (
            "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1, {%r2}], [%r3];",
            "operand `coords` has 1 elements; expected 2",
        ),
    ]);
}

#[test]
fn immediates() {
    check(&[
        (
            "bar.sync 16;",
            "operand `barrier` is 16; expected a barrier from 0 to 15",
        ),
        (
            "bar.sync 1, 100;",
            "operand `threads` is 100; expected a multiple of 32 up to 1024",
        ),
        (
            "setmaxnreg.inc.sync.aligned.u32 250;",
            "operand `count` is 250; expected a multiple of 8 from 24 to 256",
        ),
        (
            "cp.async.cg.shared.global [%r1], [%rd1], 8;",
            "operand `bytes` is 8; expected 16 bytes",
        ),
        (
            "cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], 20;",
            "operand `bytes` is 20; expected a multiple of 16 bytes",
        ),
        (
            "lop3.b32 %r1, %r2, %r3, %r4, 256;",
            "operand `table` is 256; expected 0 to 255",
        ),
        (
            "mbarrier.init.shared::cta.b64 [%r1], 0;",
            "operand `count` is 0; expected 1 to 1048575 arrivals",
        ),
        (
            "wgmma.wait_group.sync.aligned 8;",
            "operand `pending` is 8; expected 0 to 7 groups",
        ),
        (
            "shfl.sync.idx.b32 %r1, %r2, 32, 31, -1;",
            "operand `lane` is 32; expected a lane from 0 to 31",
        ),
    ]);
}

#[test]
fn addresses_of_variables() {
    check(&[
        (
            "ld.shared.b64 %rd1, [barrier+4];",
            "`barrier+4` is not aligned to the 8 bytes that the access needs",
        ),
        (
            "ld.shared.v2.b64 {%rd1, %rd2}, [barrier];",
            "`barrier+0` is not aligned to the 16 bytes that the access needs",
        ),
        (
            "ld.shared.b64 %rd1, [barrier+8];",
            "8 bytes at `barrier+8` leave its 8 bytes",
        ),
        (
            "ld.param.b32 %r1, [number+4];",
            "4 bytes at `number+4` leave its 4 bytes",
        ),
        (
            "ld.global.b32 %r1, [barrier];",
            "operand `addr` is a symbol of another space; expected an address in .global",
        ),
        ("ld.shared.b32 %r1, [smem+16384];", ""),
        (
            "ld.b32 %r1, [map];",
            "operand `addr` is a symbol of another space; expected a generic address",
        ),
        (
            "st.param.b32 [number], %r1;",
            "a parameter of the function cannot be written",
        ),
    ]);
}

#[test]
fn combinations_of_modifiers() {
    check(&[
        (
            "mul.u32 %r1, %r2, %r3;",
            "`mul` has no type .u32; expected one of .f32, .f64, .f16, .f16x2, .bf16, .bf16x2",
        ),
        (
            "fma.f32 %f1, %f2, %f3, %f4;",
            "`fma.f32` needs a rounding; expected .rn, .rz, .rm, .rp",
        ),
        (
            "add.rm.bf16x2 %r1, %r2, %r3;",
            "`add` has no rounding .rm for .bf16x2; expected .rn",
        ),
        (
            "add.ftz.f64 %fd1, %fd2, %fd3;",
            "`add` has no modifier .ftz for .f64",
        ),
        (
            "sqrt.f32 %f1, %f2;",
            "`sqrt.f32` needs a rounding or .approx; expected .rn, .rz, .rm, .rp",
        ),
        (
            "cvt.f32.s32 %f1, %r1;",
            "`cvt.f32.s32` needs a rounding; expected .rn, .rz, .rm, .rp",
        ),
        (
            "cvt.rn.e4m3x2.f32 %rs1, %f1, %f2;",
            "`cvt.e4m3x2.f32` needs .satfinite",
        ),
        (
            "cvt.rn.e4m3x2.s32 %rs1, %r1;",
            "there is no conversion `cvt.e4m3x2.s32`",
        ),
        (
            "setp.lo.s32 %p1, %r1, %r2;",
            "there is no comparison .lo for .s32",
        ),
        (
            "setp.lt.and.s32 %p1, %r1, %r2;",
            "a comparison with .and, .or or .xor takes a predicate as its last operand, others do not",
        ),
        ("ld.shared.nc.b32 %r1, [%r2];", "`.nc` needs `.global`"),
        (
            "ld.relaxed.global.b32 %r1, [%rd1];",
            "`ld` with this memory order needs a scope: .cta, .cluster, .gpu or .sys",
        ),
        (
            "atom.global.add.f16x2 %r1, [%rd1], %r2;",
            "`atom.add` has no type .f16x2; expected one of .u32, .s32, .u64, .f32, .f64",
        ),
        (
            "atom.global.cas.b32 %r1, [%rd1], %r2;",
            "`atom.cas` takes the value to store as its last operand, others do not",
        ),
        (
            "redux.sync.add.b32 %r1, %r2, -1;",
            "`redux.sync.add` has no type .b32; expected one of .u32, .s32",
        ),
        (
            "mbarrier.arrive.shared::cluster.b64 %rd1, [%r1];",
            "`mbarrier.arrive` in .shared::cluster returns no state; write `_`",
        ),
        (
            "mbarrier.test_wait.parity.shared::cluster.b64 %p1, [%r1], 0;",
            "`mbarrier.test_wait.parity` works on mbarriers of the own CTA only",
        ),
        (
            "barrier.cluster.wait.relaxed;",
            "arrive is .release or .relaxed, wait is .acquire",
        ),
    ]);
}

#[test]
fn matrix_shapes_and_types() {
    let wgmma = |shape: &str, d: &str, tail: &str| {
        format!("wgmma.mma_async.sync.aligned.{shape} {d}, %rd1, %rd2, {tail};")
    };
    let four = "{%f0, %f1, %f2, %f3}";
    let cases = [
        (wgmma("m64n8k16.f32.bf16.bf16", four, "%p1, 1, 1, 0, 0"), ""),
        (
            wgmma("m64n12k16.f32.bf16.bf16", four, "%p1, 1, 1, 0, 0"),
            "wgmma with .f32.bf16.bf16 has the shapes m64nNk16 with N a multiple of 8 up to 256, not m64n12k16",
        ),
        (
            wgmma("m64n8k8.f32.f16.f16", four, "%p1, 1, 1, 0, 0"),
            "wgmma with .f32.f16.f16 has the shapes m64nNk16 with N a multiple of 8 up to 256, not m64n8k8",
        ),
        (
            wgmma("m64n16k16.f32.bf16.bf16", four, "%p1, 1, 1, 0, 0"),
            "operand `d` has 4 elements; expected 8",
        ),
        (
            wgmma("m64n8k16.f32.bf16.f16", four, "%p1, 1, 1, 0, 0"),
            "there is no wgmma with .f32.bf16.f16",
        ),
        (
            wgmma("m64n8k16.f32.bf16.bf16", four, "2, 1, 1, 0, 0"),
            "operand `scale_d` is 2; expected 0 or 1",
        ),
        (
            wgmma("m64n40k32.s32.s8.s8", four, "1"),
            "wgmma with .s32.s8.s8 has the shapes m64nNk32 with N a multiple of 8 up to 256 (16 above 24), not m64n40k32",
        ),
    ];
    for (line, expected) in &cases {
        assert_eq!(problem(line), *expected, "\n{line}");
    }
    let sparse = |rest: &str| format!("wgmma.mma_async.sp.sync.aligned.{rest};");
    let cases = [
        (
            "m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, %rd1, %rd2, %r1, 0, %p1, 1, 1, 0, 0",
            "sparse wgmma with .f32.bf16.bf16 has the shapes m64nNk32 with N a multiple of 8 up to 256, not m64n8k16",
        ),
        (
            "m64n8k32.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, %rd1, %rd2, %rd1, 0, %p1, 1, 1, 0, 0",
            "operand `metadata` is a .b64 register; expected a 32-bit register for .b32",
        ),
        (
            "m64n8k64.s32.s8.s8 {%r4, %r5, %r6, %r7}, %rd1, %rd2, %r1, 1, %p1",
            "sparse wgmma with .s32.s8.s8 has the sparsity selector 0, not 1",
        ),
        (
            "m64n8k64.f32.e4m3.e4m3 {%f0, %f1, %f2, %f3}, %rd1, %rd2, %r1, 1, %p1, 1, 1",
            "sparse wgmma with .f32.e4m3.e4m3 has the sparsity selector 0, not 1",
        ),
        (
            "m64n8k16.f32.tf32.tf32 {%f0, %f1, %f2, %f3}, %rd1, %rd2, %r1, 1, %p1, 1, 1",
            "",
        ),
    ];
    for (line, expected) in cases {
        assert_eq!(problem(&sparse(line)), expected, "\n{line}");
    }
    check(&[
        (
            "mma.sync.aligned.m16n8k4.row.col.f32.bf16.bf16.f32 {%f0}, {%r0}, {%r1}, {%f1};",
            "mma with .f32.bf16.bf16.f32 has the shapes m16n8k8, m16n8k16, not m16n8k4",
        ),
        (
            "mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%f0}, {%r0}, {%r1}, {%f1};",
            "operand `d` has 1 elements; expected 4",
        ),
    ]);
}

#[test]
fn versions_and_targets() {
    let line = "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r1], %r2, [%r3];";
    let mut module = Module::parse(&support::kernel(line)).unwrap();
    assert_eq!(module.required_version(), Version::new(8, 1));
    module.version = Version::new(8, 0);
    let errors = module.check();
    let expected = format!("st.async needs .version 8.1, the module has 8.0, in `{line}`, in `k`");
    assert_eq!(errors.first().map(ToString::to_string), Some(expected));

    let mut module =
        Module::parse(&support::kernel("setmaxnreg.dec.sync.aligned.u32 40;")).unwrap();
    assert_eq!(module.required_version(), Version::new(8, 0));
    module.target.arch_specific = false;
    assert_eq!(
        module.check()[0].problem.to_string(),
        "setmaxnreg needs .target sm_90a"
    );
}

#[test]
fn labels_and_declarations() {
    let mut module = Module::parse(&support::kernel("here:\nbra here;")).unwrap();
    let statements = &mut module.entries[0].body.statements;
    let label = statements[0].clone();
    statements.insert(0, label.clone());
    assert_eq!(
        module.check()[0].problem.to_string(),
        "label `here` is placed twice"
    );
    module.entries[0]
        .body
        .statements
        .retain(|statement| *statement != label);
    assert_eq!(
        module.check()[0].problem.to_string(),
        "label `here` is branched to but stands nowhere"
    );

    module.entries[0]
        .body
        .statements
        .retain(|statement| !matches!(statement, Stmt::Inst(i) if i.guard.is_none()));
    module.entries[0].directives.reqntid = Some([1024, 2, 1]);
    assert_eq!(
        module.check()[0].problem.to_string(),
        ".reqntid asks for 2048 threads; a CTA has 1 to 1024"
    );
}

/// The lines of every family, which are all legal.
const LEGAL: &[&str] = &[
    include_str!("families/arithmetic.ptx"),
    include_str!("families/float.ptx"),
    include_str!("families/convert.ptx"),
    include_str!("families/compare.ptx"),
    include_str!("families/memory.ptx"),
    include_str!("families/atomic.ptx"),
    include_str!("families/sync.ptx"),
    include_str!("families/mbarrier.ptx"),
    include_str!("families/warp.ptx"),
    include_str!("families/copy.ptx"),
    include_str!("families/tensor.ptx"),
    include_str!("families/matrix.ptx"),
    include_str!("families/control.ptx"),
];

#[test]
fn legal_lines_have_no_problem() {
    for lines in LEGAL {
        assert_eq!(Module::parse(&support::kernel(lines)).unwrap().check(), []);
    }
}

/// Every legal line with each of its registers replaced by one of each other class: what the checker lets pass,
/// ptxas must accept.
#[test]
fn ptxas_agrees_about_register_classes() {
    let classes: Vec<String> = RegClass::ALL
        .iter()
        .map(|class| format!("%{}1", class.prefix()))
        .collect();
    // Nothing after it is reached, so that ptxas checks the lines and does not compile them.
    let mut passed = "ret;\n".to_owned();
    let mut rejected = 0;
    for line in LEGAL.iter().flat_map(|lines| lines.lines()) {
        let is_flow = line.starts_with('@') || line.ends_with(':') || line.starts_with(['.', '/']);
        // ptxas 13.0 crashes on parameters of calls away from their call.
        let is_call =
            line.starts_with("call") || line.contains("[status]") || line.starts_with("st.param");
        if is_flow || is_call {
            continue;
        }
        for variant in variants(line, &classes) {
            let module = Module::parse(&support::kernel(&variant))
                .unwrap_or_else(|error| panic!("{error}: {variant}"));
            if module.check().is_empty() {
                passed.push_str(&variant);
                passed.push('\n');
            } else {
                rejected += 1;
            }
        }
    }
    assert!(rejected > 1000, "only {rejected} variants were rejected");
    support::assemble(
        "variants",
        &Module::parse(&support::kernel(&passed)).unwrap().to_text(),
    );
}

/// `line` with one register at a time replaced by each of `classes`.
fn variants(line: &str, classes: &[String]) -> Vec<String> {
    let mut variants = Vec::new();
    for (start, _) in line.match_indices('%') {
        let rest = &line[start + 1..];
        let length = rest
            .find(|c: char| !c.is_ascii_alphanumeric())
            .unwrap_or(rest.len());
        let is_register = rest[..length].ends_with(|c: char| c.is_ascii_digit())
            && !rest[length..].starts_with('_');
        if !is_register || rest.starts_with("clock") {
            continue;
        }
        for class in classes {
            variants.push(format!("{}{class}{}", &line[..start], &rest[length..]));
        }
    }
    variants
}

/// The first mistake of a kernel with this line on a machine with these limits.
fn on_machine(machine: &Target, line: &str) -> String {
    let module = Module::parse(&support::kernel(line)).expect("the line is PTX");
    assert_eq!(module.check(), [], "{line}");
    module.check_for(machine)[0].problem.to_string()
}

#[test]
fn checks_and_messages_follow_the_limits_of_the_target() {
    let mut machine = SM_90A;
    machine.cta.barriers = 4;
    machine.cta.threads = 512;
    machine.access.widest_bytes = 8;
    machine.mbarrier.arrivals = 7;
    machine.mbarrier.transaction_bytes = 99;
    machine.registers.most_budget = 128;
    machine.tensor_map.unit_bytes = 32;
    machine.wgmma.pending_groups = 1;
    let check = |line: &str, problem: &str| assert_eq!(on_machine(&machine, line), problem);
    check(
        "bar.sync 4;",
        "operand `barrier` is 4; expected a barrier from 0 to 3",
    );
    check(
        "bar.sync 1, 1024;",
        "operand `threads` is 1024; expected a multiple of 32 up to 512",
    );
    check(
        "ld.global.v4.b32 {%r1, %r2, %r3, %r4}, [%rd1];",
        "`ld.v4.b32` would move 128 bits; sm_90a moves at most 64",
    );
    check(
        "mbarrier.init.shared::cta.b64 [%r1], 8;",
        "operand `count` is 8; expected 1 to 7 arrivals",
    );
    check(
        "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r1], 100;",
        "operand `bytes` is 100; expected 0 to 99 bytes",
    );
    check(
        "setmaxnreg.inc.sync.aligned.u32 136;",
        "operand `count` is 136; expected a multiple of 8 from 24 to 128",
    );
    check(
        "cp.async.bulk.prefetch.L2.global [%rd1], 48;",
        "operand `bytes` is 48; expected a multiple of 32 bytes",
    );
    check(
        "wgmma.wait_group.sync.aligned 2;",
        "operand `pending` is 2; expected 0 to 1 groups",
    );
}

#[test]
fn matrix_shapes_follow_the_table_of_the_target() {
    let mut machine = SM_90A;
    machine.mma.types = &[ProductTypes {
        name: "bf16",
        factors: &[MatrixType::Bf16],
        accumulators: &[MatrixType::F32],
        shapes: &[[16, 8, 8]],
    }];
    let product = |shape: &str, a: &str| {
        format!(
            "mma.sync.aligned.{shape}.row.col.f32.bf16.bf16.f32 {{%f0, %f1, %f2, %f3}}, {{{a}}}, {{%r2, %r3}}, {{%f0, %f1, %f2, %f3}};"
        )
    };
    assert_eq!(
        on_machine(&machine, &product("m16n8k16", "%r0, %r1, %r2, %r3")),
        "mma with .f32.bf16.bf16.f32 has the shapes m16n8k8, not m16n8k16"
    );
    machine.mma.types = &[];
    assert_eq!(
        on_machine(&machine, &product("m16n8k16", "%r0, %r1, %r2, %r3")),
        "there is no mma with .f32.bf16.bf16.f32"
    );
}

#[test]
fn directives_and_arrays_follow_the_limits_of_the_target() {
    let mut module = Module::parse(&support::kernel("")).expect("an empty kernel is PTX");
    module.entries[0].directives.reqntid = Some([512, 1, 1]);
    module.entries[0].directives.reqnctapercluster = Some([8, 1, 1]);
    let array = Variable::bytes("tile", Space::Shared, 16, 1 << 15);
    module.entries[0].body.variables.push(array);
    assert_eq!(module.check(), []);
    let mut machine = SM_90A;
    machine.cta.threads = 256;
    machine.cluster.ctas = 4;
    machine.cta.static_shared_bytes = 1 << 14;
    machine.cta.shared_bytes = 1 << 16;
    machine.cta.long_parameter_bytes = 128;
    let problems = module.check_for(&machine);
    let problems: Vec<String> = problems.iter().map(|e| e.problem.to_string()).collect();
    assert_eq!(
        problems,
        [
            "the parameters take 192 bytes; at most 128 fit",
            ".reqntid asks for 512 threads; a CTA has 1 to 256",
            "a cluster has 1 to 4 CTAs, not 8",
            "32776 bytes of fixed .shared arrays; at most 16384 fit, and up to 65536 as `.extern .shared` memory of the launch",
        ]
    );
}
