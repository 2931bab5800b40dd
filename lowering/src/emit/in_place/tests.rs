//! A body of PTX, whose lines that begin with `-` are copies that are dropped, and no others.

use ptx::{Module, Stmt};

use super::find;

const FIRST: &str = "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, %d0, %d1, 0, 1, 1, 0, 0;";
const SECOND: &str = "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f4, %f5, %f6, %f7}, %d0, %d1, 0, 1, 1, 0, 0;";
const COPIES: &str = "mov.f32 %f4, %f0;\nmov.f32 %f5, %f1;\nmov.f32 %f6, %f2;\nmov.f32 %f7, %f3;";

#[track_caller]
fn check(body: &str) {
    const HEAD: &str = ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k() .reqntid 128 {\n\
        .reg .pred %p<9>;\n.reg .f32 %f<19>;\n.reg .b64 %d<9>;\n";
    let body = body.replace("FIRST", FIRST).replace("SECOND", SECOND);
    let body = body.replace("COPIES", COPIES);
    let lines: Vec<&str> = body
        .lines()
        .map(str::trim)
        .filter(|l| !l.is_empty())
        .collect();
    let bare: Vec<&str> = lines
        .iter()
        .map(|line| line.trim_start_matches('-'))
        .collect();
    let text = format!("{HEAD}{}\nret;\n}}\n", bare.join("\n"));
    let module = Module::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let statements: Vec<&Stmt> = module.entries[0].body.statements.iter().collect();
    assert_eq!(statements.len(), lines.len() + 1, "one statement a line");
    let found = find(&statements);
    let is_copy = |at: &usize| lines[*at].starts_with('-');
    let expected: Vec<usize> = (0..lines.len()).filter(is_copy).collect();
    let mut copies: Vec<usize> = found.copies.iter().copied().collect();
    copies.sort_unstable();
    assert_eq!(copies, expected, "{text}");
    assert_eq!(found.homes.len(), expected.len());
}

#[test]
fn a_product_of_zeros_takes_registers_that_are_read_no_more() {
    check(
        "FIRST
        add.f32 %f8, %f0, %f1;
        add.f32 %f9, %f2, %f3;
        -mov.f32 %f4, %f0;
        -mov.f32 %f5, %f1;
        -mov.f32 %f6, %f2;
        -mov.f32 %f7, %f3;
        SECOND
        add.f32 %f10, %f4, %f7;",
    );
}

#[test]
fn what_is_read_behind_the_copies_keeps_its_registers() {
    check(
        "FIRST
        COPIES
        add.f32 %f8, %f0, %f1;
        SECOND",
    );
}

#[test]
fn what_another_iteration_may_read_keeps_its_registers() {
    check(
        "FIRST
        head:
        add.f32 %f8, %f0, %f1;
        COPIES
        SECOND
        @%p0 bra head;",
    );
}

#[test]
fn a_product_that_adds_to_the_copies_keeps_them() {
    check(
        "FIRST
        COPIES
        wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f4, %f5, %f6, %f7}, %d0, %d1, 1, 1, 1, 0, 0;",
    );
}

#[test]
fn guarded_copies_and_copies_that_are_read_stay() {
    check(
        "FIRST
        @%p0 mov.f32 %f4, %f0;
        mov.f32 %f5, %f1;
        mov.f32 %f6, %f2;
        mov.f32 %f7, %f3;
        SECOND",
    );
    check(
        "FIRST
        COPIES
        add.f32 %f8, %f4, %f5;
        SECOND",
    );
}

#[test]
fn registers_that_held_something_before_are_kept() {
    check(
        "add.f32 %f8, %f0, %f1;
        FIRST
        COPIES
        SECOND",
    );
}
