//! Exact texts of one diagnostic in each form.

use std::sync::Arc;

use diag::{Call, Place};
use diag::{Code, Diagnostic};

use super::{MessageFormat, Reporter, Sources};

const FILE: &str = "src/add.rs";
const TEXT: &str = "fn add(x: Ptr<f32>) {
    let a = x.load(rows);
    let b = x.load(columns);
    out.store(a + b);
}
";

fn place(line: u32, column: u32) -> Place {
    Place {
        file: FILE.into(),
        line,
        column,
        calls: Vec::new(),
    }
}

fn mismatch() -> Diagnostic {
    Diagnostic::error(
        Code::LayoutMismatch,
        Some(place(4, 15)),
        "the operands of `+` have different layouts",
    )
    .labelled("#rows here, #columns there")
    .related(Some(place(2, 15)), "this has the layout #rows")
    .related(Some(place(3, 15)), "this has the layout #columns")
    .note("a conversion would go through 8192 bytes of shared memory")
    .help("write `convert_layout` on the side that should move")
}

#[track_caller]
fn check(format: MessageFormat, sources: Sources, diagnostic: &Diagnostic, expected: &str) {
    let reporter = Reporter {
        format,
        color: false,
        sources,
    };
    assert_eq!(reporter.render(diagnostic), expected);
}

fn sources() -> Sources {
    Sources::default().with(FILE, TEXT)
}

#[test]
fn both_origins_stand_beside_the_place() {
    check(
        MessageFormat::Human,
        sources(),
        &mismatch(),
        "\
error[TK0001]: the operands of `+` have different layouts
 --> src/add.rs:4:15
  |
2 |     let a = x.load(rows);
  |               ---------- this has the layout #rows
3 |     let b = x.load(columns);
  |               ------------- this has the layout #columns
4 |     out.store(a + b);
  |               ^^^^^ #rows here, #columns there
  |
  = note: a conversion would go through 8192 bytes of shared memory
  = help: write `convert_layout` on the side that should move
",
    );
}

#[test]
fn a_file_that_cannot_be_read_still_gives_its_places() {
    check(
        MessageFormat::Human,
        Sources::default(),
        &mismatch(),
        "\
error[TK0001]: the operands of `+` have different layouts
--> src/add.rs:4:15
 |
 = note: #rows here, #columns there
 = note: src/add.rs:2:15: this has the layout #rows
 = note: src/add.rs:3:15: this has the layout #columns
 = note: a conversion would go through 8192 bytes of shared memory
 = help: write `convert_layout` on the side that should move
",
    );
}

#[test]
fn a_file_that_is_shorter_now_counts_as_unreadable() {
    let text = Reporter {
        format: MessageFormat::Human,
        color: false,
        sources: Sources::default().with(FILE, "fn add() {}\n"),
    }
    .render(&mismatch());
    assert!(text.contains("--> src/add.rs:4:15"), "{text}");
}

#[test]
fn the_chain_of_calls_is_shown() {
    let mut at = place(2, 15);
    at.calls.push(Call {
        function: Arc::from("fetch"),
        file: FILE.into(),
        line: 4,
        column: 9,
    });
    check(
        MessageFormat::Human,
        sources(),
        &Diagnostic::error(
            Code::NoSuchAxis,
            Some(at),
            "axis 1 of a tensor with 1 dimension",
        ),
        "\
error[TK0010]: axis 1 of a tensor with 1 dimension
 --> src/add.rs:2:15
  |
2 |     let a = x.load(rows);
  |               ^^^^^^^^^^
3 |     let b = x.load(columns);
4 |     out.store(a + b);
  |         ------------ `fetch` is called here
",
    );
}

#[test]
fn the_short_form_is_one_line() {
    check(
        MessageFormat::Short,
        sources(),
        &mismatch(),
        "src/add.rs:4:15: error[TK0001]: the operands of `+` have different layouts\n",
    );
}

#[test]
fn the_json_form_has_the_schema_of_rustc() {
    let reporter = Reporter {
        format: MessageFormat::Json,
        color: true,
        sources: sources(),
    };
    let line = reporter.render(&mismatch().warning());
    assert_eq!(line.matches('\n').count(), 1);
    let value: serde_json::Value = serde_json::from_str(&line).expect("one JSON object");
    assert_eq!(value["$message_type"], "diagnostic");
    assert_eq!(value["level"], "warning");
    assert_eq!(value["code"]["code"], "TK0001");
    let span = &value["spans"][0];
    assert_eq!(span["file_name"], FILE);
    assert_eq!(
        (&span["line_start"], &span["column_start"]),
        (&4.into(), &15.into())
    );
    assert_eq!(span["column_end"], 20);
    assert_eq!(span["text"][0]["text"], "    out.store(a + b);");
    assert_eq!(value["spans"][1]["is_primary"], false);
    assert_eq!(value["children"][1]["level"], "help");
    assert!(
        value["rendered"]
            .as_str()
            .is_some_and(|text| text.contains("^^^^^") && !text.contains('\u{1b}'))
    );
}

#[test]
fn a_diagnostic_without_a_place_keeps_what_its_labels_say() {
    check(
        MessageFormat::Human,
        sources(),
        &Diagnostic::error(Code::BadText, None, "the text ends early")
            .labelled("in line 3")
            .related(None, "the region began here")
            .help("close it with `}`"),
        "\
error[TK0024]: the text ends early
 |
 = note: in line 3
 = note: the region began here
 = help: close it with `}`
",
    );
}
