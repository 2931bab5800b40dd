//! One way to trace kernels that are right, and one for those that are wrong.

use std::fmt::Write;

use diag::Place;
use gluon_lang::lang::KernelFn;
use ir::text::{parse, print};

/// The tile IR of a kernel that must be right. It reads back.
#[track_caller]
pub(crate) fn ir<Args>(kernel: impl KernelFn<Args>) -> String {
    match kernel.trace() {
        Ok(traced) => {
            let text = print(&traced.func);
            let again = parse("kernel", &text).expect("what is printed reads back");
            assert_eq!(print(&again), text);
            text
        }
        Err(diagnostics) => panic!("{diagnostics}"),
    }
}

/// What is said of a kernel that must be wrong, with the author's code in place of line numbers.
#[track_caller]
pub(crate) fn mistakes<Args>(kernel: impl KernelFn<Args>) -> String {
    let diagnostics = kernel.trace().expect_err("the kernel is wrong");
    let mut out = String::new();
    for d in &diagnostics.0 {
        let _ = writeln!(out, "{} {}: {}", d.code, d.code.slug(), d.message);
        let _ = writeln!(out, "  at {}", shown(d.primary.at.as_ref()));
        for label in &d.related {
            let _ = writeln!(out, "  also {}: {}", shown(label.at.as_ref()), label.text);
        }
        for note in &d.notes {
            let _ = writeln!(out, "  note: {note}");
        }
        if let Some(help) = &d.help {
            let _ = writeln!(out, "  help: {help}");
        }
    }
    out
}

/// The author's code from a place to the end of its line.
pub(crate) fn shown(place: Option<&Place>) -> String {
    let Some(place) = place else {
        return "no place".into();
    };
    let mut text = format!("`{}`", code(&place.file, place.line, place.column));
    for call in &place.calls {
        let _ = write!(
            text,
            " in {} called at `{}`",
            call.function,
            code(&call.file, call.line, call.column)
        );
    }
    text
}

fn code(file: &str, line: u32, column: u32) -> String {
    // Tests run in the package's folder, and places are relative to the workspace's.
    let path = std::path::Path::new("..").join(file);
    let source = std::fs::read_to_string(&path).expect("a place names a file");
    let line = source
        .lines()
        .nth(line as usize - 1)
        .expect("a place names a line");
    line[column as usize - 1..].to_owned()
}
