//! How passes are tested: text in, text out.

use diag::Diagnostics;
use ir::Func;
use ir::text::{parse, print};
use ir::verify::verify;

use crate::pipeline::PIPELINE;

/// Reads a kernel for a test.
#[track_caller]
pub(crate) fn read(text: &str) -> Func {
    let text = unindented(text);
    let func = parse("test.tile", &text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let found = verify(&func, func.stage);
    assert!(!found.has_errors(), "{found}\n{text}");
    func
}

/// The pass's result and what it reported. What it leaves must verify and read back.
#[track_caller]
pub(crate) fn apply(pass: &str, input: &str) -> (Func, Diagnostics) {
    let pass = PIPELINE
        .iter()
        .find(|p| p.name == pass)
        .expect("the pass is in the table");
    let mut func = read(input);
    let mut found = Diagnostics::default();
    (pass.run)(&mut func, &mut found);
    if !found.has_errors() {
        func.stage = func.stage.max(pass.gives);
        let text = print(&func);
        let broken = verify(&func, func.stage);
        assert!(!broken.has_errors(), "{broken}\n{text}");
        let again = parse("test.tile", &text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        assert_eq!(print(&again), text, "the text reads back");
    }
    (func, found)
}

/// The pass turns `input` into `expected`, and does nothing to that any more.
#[track_caller]
pub(crate) fn check(pass: &str, input: &str, expected: &str) {
    let (func, found) = apply(pass, input);
    assert!(found.is_empty(), "{found}");
    let (text, expected) = (print(&func), unindented(expected));
    assert!(text == expected, "the pass leaves\n{text}\nnot\n{expected}");
}

/// The pass reports exactly `expected`.
#[track_caller]
pub(crate) fn check_error(pass: &str, input: &str, expected: &str) {
    let (_, found) = apply(pass, input);
    let (text, expected) = (found.to_string(), unindented(expected));
    assert!(
        text.trim() == expected.trim(),
        "the pass reports\n{text}\nnot\n{expected}"
    );
}

/// The text without its first line break and without the indentation that all lines share.
fn unindented(text: &str) -> String {
    let text = text.strip_prefix('\n').unwrap_or(text).trim_end();
    let lines = || text.lines().filter(|l| !l.trim().is_empty());
    let indent = lines()
        .map(|l| l.len() - l.trim_start().len())
        .min()
        .unwrap_or(0);
    let lines: Vec<&str> = text
        .lines()
        .map(|l| l.get(indent..).unwrap_or(""))
        .collect();
    lines.join("\n") + "\n"
}
