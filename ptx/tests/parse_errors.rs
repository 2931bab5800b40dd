//! Broken texts: where the first error is and what it says.

#![allow(clippy::unwrap_used, reason = "a test that finds nothing has failed")]

mod support;

use ptx::Module;

/// The error of a whole text.
fn check(text: &str, expected: &str) {
    let error = Module::parse(text)
        .expect_err("the text has an error")
        .to_string();
    assert_eq!(error, expected, "\n{text}");
}

/// The error of one line in a kernel, with the column counted from the start of the line.
fn check_line(line: &str, column: u32, expected: &str) {
    let text = support::kernel(line);
    let error = Module::parse(&text).expect_err("the line has an error");
    let number = text.lines().position(|other| other.trim() == line).unwrap() as u32 + 1;
    assert_eq!(
        (error.message.as_str(), error.line, error.column),
        (expected, number, column + 1),
        "\n{line}"
    );
}

#[test]
fn unknown_instructions_name_similar_ones() {
    check_line(
        "stt.global.b32 [%rd1], %r1;",
        1,
        "unknown instruction `stt`; did you mean `set` or `st`?",
    );
    check_line(
        "wgma.fence.sync.aligned;",
        1,
        "unknown instruction `wgma`; did you mean `wgmma`?",
    );
    check_line("frobnicate %r1;", 1, "unknown instruction `frobnicate`");
}

#[test]
fn unknown_modifiers_list_those_that_exist() {
    check_line(
        "cp.async.comit_group;",
        10,
        "unknown modifier `.comit_group` of `cp.async`; expected `.bulk`, `.ca`, `.cg`, `.commit_group`, `.mbarrier`, \
         `.wait_all` or `.wait_group`",
    );
    check_line(
        "shfl.sync.xor.b32 %r1, %r2, 1, 31, -1;",
        11,
        "unknown modifier `.xor` of `shfl.sync`; expected `.bfly`, `.down`, `.idx` or `.up`",
    );
    check_line(
        "wgmma.mma_async.sync.aligned.m64x64k16.f32.bf16.bf16 {%f0}, %rd1, %rd2, 1, 1, 1, 0, 0;",
        30,
        "unknown modifier `.m64x64k16` of `wgmma.mma_async.sync.aligned`; expected a shape such as m64n128k16",
    );
    check_line(
        "trap.uni;",
        6,
        "unknown modifier `.uni` of `trap`; expected no further modifier",
    );
    check_line(
        "mov %r1, %r2;",
        4,
        "`mov` is incomplete; expected a type such as `.b32`",
    );
    check_line(
        "testp.f32 %p1, %f1;",
        7,
        "unknown modifier `.f32` of `testp`; expected `.finite`, `.infinite`, `.normal`, `.notanumber`, `.number` or \
         `.subnormal`",
    );
}

#[test]
fn wrong_operands_list_what_fits() {
    check_line(
        "add.u32 %r1, %r2;",
        17,
        "expected 1 more operand, found `;`",
    );
    check_line("add.u32 %r1;", 12, "expected 2 more operands, found `;`");
    check_line(
        "add.u32 %r1, %r2, %r3, %r4;",
        22,
        "expected `;` after the last operand, found `,`",
    );
    check_line(
        "trap %r1;",
        6,
        "expected `;` (this instruction has no operands), found `%r1`",
    );
    check_line(
        "add.u32 %r1, %r2, %r99;",
        19,
        "`%r99` is not declared; expected a register, a number or a symbol",
    );
    check_line(
        "add.u32 number, %r2, %r3;",
        9,
        "expected a register, but `number` is a parameter",
    );
    check_line("ld.global.b32 %r1, %rd1;", 20, "expected `[`, found `%rd1`");
    check_line(
        "ld.global.b32 %r1, [%tid.x];",
        21,
        "an address cannot start with a special register",
    );
    check_line(
        "ld.global.b32 %r1, [%rd1+0x100000000];",
        26,
        "expected a byte offset that fits 32 bits",
    );
    check_line(
        "st.global.v2.b32 [%rd1], {%r1 %r2};",
        31,
        "expected `,` or `}`, found `%r2`",
    );
    check_line(
        "bra nowhere;",
        5,
        "label `nowhere` is not defined in this function",
    );
    check_line(
        "call nothing;",
        6,
        "`nothing` is not declared; expected the name of a function",
    );
    check_line(
        "call counter;",
        6,
        "expected a function, but `counter` is a variable; indirect calls are not supported",
    );
    check_line(
        "@%r17 trap;",
        2,
        "`%r17` is not declared; expected a predicate register",
    );
    check_line(
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, %rd1, %rd2, 1, 2, 1, 0, 0;",
        90,
        "expected the immediate 1 or -1",
    );
    check_line("mov.b32 %r1, 0q12;", 14, "expected a number, found `0q12`");
}

#[test]
fn statements_and_declarations() {
    check_line(
        ".reg .b31 %x;",
        6,
        "`.b31` is not a register type; expected one of `.b128`, `.b16`, `.b32`, `.b64`, `.bf16`, `.bf16x2`, `.f16`, \
         `.f16x2`, `.f32`, `.f64`, `.pred`, `.s16`, `.s32`, `.s64`, `.u16`, `.u32`, `.u64`",
    );
    check_line(".reg .b32 %r<4>;", 11, "`%r` is declared twice");
    check_line(
        ".shared .align 3 .b8 x[4];",
        16,
        "alignment 3 is not a power of two",
    );
    check_line(
        ".loc 7 1 1",
        6,
        "file 7 is not declared; expected a line `.file 7 \"...\"`",
    );
    check_line(
        ".frob x;",
        1,
        "unknown directive `.frob`; expected one of `.reg`, `.shared`, `.local`, `.param`, `.loc`, `.pragma`",
    );
    check_line(
        "\"text\";",
        1,
        "expected an instruction, a label or `}`, found a string",
    );
}

#[test]
fn labels_are_unique() {
    let text = support::kernel("here:\nhere:");
    let error = Module::parse(&text).unwrap_err();
    assert_eq!(error.message, "label `here` is defined twice");
}

#[test]
fn module_level() {
    check("", "1:1: expected `.version`, found the end of the text");
    check(
        ".version 8",
        "1:10: expected a version such as 8.0, found `8`",
    );
    check(
        ".version 8.0\n.target compute_90",
        "2:9: expected a target such as sm_90a, found `compute_90`",
    );
    check(
        ".version 8.0 .target sm_90a .address_size 32",
        "1:43: only 64-bit addresses are supported: `.address_size 64`",
    );
    let header = ".version 8.0 .target sm_90a .address_size 64\n";
    check(
        &format!("{header}mov.b32 a, b;"),
        "2:1: expected a directive such as `.version`, `.target`, `.visible`, `.entry`, `.func` or `.global`, found \
         `mov.b32`",
    );
    check(
        &format!("{header}.entry k(.reg .b32 x)"),
        "2:10: expected `.param` (parameters in registers are not supported), found `.reg`",
    );
    check(
        &format!("{header}.entry k .maxthreads 3 {{ }}"),
        "2:10: unknown directive `.maxthreads`; expected `{` or one of `.reqntid`, `.maxntid`, `.minnctapersm`, \
         `.maxnreg`, `.explicitcluster`, `.reqnctapercluster`, `.maxclusterrank`, `.noreturn`",
    );
    check(
        &format!("{header}.entry k\n{{\n  ret;\n"),
        "5:1: expected an instruction, a label or `}`, found the end of the text",
    );
    check(
        &format!("{header}.global .b32 a[2] = {{1, 0f3F800000}};"),
        "2:21: all initial values must be of one kind: integer, 0f or 0d",
    );
    check(
        &format!("{header}.global .b32 a; .global .b32 a;"),
        "2:30: `a` is declared twice",
    );
    check(
        &format!("{header}/* no end"),
        "2:1: this comment has no end; expected `*/`",
    );
    check(
        &format!("{header}§"),
        "2:1: the character '§' has no meaning in PTX",
    );
    check(
        &format!("{header}.file 1 \"abc"),
        "2:9: this string has no end; expected `\"` on the same line",
    );
}

/// No prefix of a legal text may make the parser panic.
#[test]
fn truncated_texts_are_errors() {
    let text = support::kernel("@%p1 ld.global.v2.b32 {%r1, %r2}, [%rd1+16];\nhere:\nbra here;");
    let whole = text.trim_end().len();
    for end in (0..whole).filter(|&end| text.is_char_boundary(end)) {
        let is_body_open = text[..end].contains("{\n");
        let result = Module::parse(&text[..end]);
        assert!(
            result.is_err() || !is_body_open,
            "a text cut at byte {end} was accepted:\n{}",
            &text[..end]
        );
    }
}

#[test]
fn a_body_with_more_registers_than_the_limit_is_refused_at_the_declaration_that_exceeds_it() {
    check_line(
        ".reg .b64 %wide<4294967295>;",
        11,
        "with `%wide` the body declares 4294967469 registers; at most 1048576 are supported",
    );
    check_line(
        ".reg .b64 %one<1048000>, %two<1000>;",
        26,
        "with `%two` the body declares 1049174 registers; at most 1048576 are supported",
    );
}

#[test]
fn the_name_of_a_register_of_a_range_is_its_number_without_leading_zeros() {
    check_line(".reg .b32 %r3;", 11, "`%r3` is declared twice");
    for name in ["%wide8", "%wide01", "%wide", "%wide99999999999"] {
        let line = format!("{{ .reg .b32 %wide<8>; mov.b32 {name}, 0; }}");
        let text = support::kernel(&line);
        let error = Module::parse(&text).expect_err("no register of the range has this name");
        assert!(
            error.message.contains(&format!("`{name}`")),
            "{}",
            error.message
        );
    }
}
