//! The book's list of operations: what authors write, by the files of the language, and the ops of the registry.

use gluon_lang::lang::{WRITTEN, WrittenOp};

use super::check;
use super::source::{Item, Source, first_sentence, language, library};

const HEAD: &str = "# All operations

What a kernel can say, with the first sentence of its documentation; the crate `tilekit` documents each in full
(`cargo doc --open -p tilekit`). Generated from the sources of the language. The last column names the [op of the IR](#ops-of-the-ir)
that it becomes, as `cargo tilekit inspect` shows it; without one it is made of others.

";

const LIBRARY: &str = "## The library

[The library](library.md) is written in these operations.

";

const OPS: &str = "## Ops of the IR

Every op of the registry (`for_each_op!` in `ir/src/ops/mod.rs`), and what is written for it.

| op | what it does | in a kernel |
| --- | --- | --- |
";

/// The code spans of a text that are names of functions: `name` or `Type::name`.
fn named(text: &str) -> impl Iterator<Item = &str> {
    let is_name = |span: &&str| {
        let mut parts = span.split("::");
        parts.all(|part| !part.is_empty() && part.chars().all(|c| c.is_alphanumeric() || c == '_'))
    };
    text.split('`').skip(1).step_by(2).filter(is_name)
}

/// Is this item meant by `name`, or by `Type::name`?
fn is_meant(item: &Item, name: &str) -> bool {
    let (of, name) = match name.split_once("::") {
        Some((of, name)) => (Some(of), name),
        None => (None, name),
    };
    item.of.as_deref() == of && item.names.iter().any(|n| n == name)
}

/// The ops that an item is written for.
fn ops_of(item: &Item) -> String {
    let writes = |op: &&WrittenOp| named(op.written).any(|name| is_meant(item, name));
    let ops = WRITTEN.iter().filter(writes);
    let ops: Vec<String> = ops.map(|op| format!("`{}`", op.mnemonic)).collect();
    ops.join(", ")
}

/// A cell of a table: `|` would end it.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

fn row(item: &Item) -> String {
    let names = item.names.iter().map(|n| format!("`{}`", item.shown(n)));
    let names: Vec<String> = names.collect();
    let ops = ops_of(item);
    format!("| {} | {} | {ops} |\n", names.join(", "), cell(&item.doc))
}

fn section(mark: &str, source: &Source) -> String {
    let rows: String = source.items.iter().map(row).collect();
    let idea = &source.idea;
    let head = "| in a kernel | what it does | op |\n| --- | --- | --- |\n";
    format!("{mark} `{}`\n\n{idea}.\n\n{head}{rows}\n", source.name)
}

#[test]
fn every_operation_is_in_the_book() {
    let sections: String = language().iter().map(|s| section("##", s)).collect();
    let library: String = library().iter().map(|s| section("###", s)).collect();
    let op = |op: &WrittenOp| {
        let (doc, written) = (cell(&first_sentence(op.doc)), cell(op.written));
        format!("| `{}` | {doc} | {written} |\n", op.mnemonic)
    };
    let ops: String = WRITTEN.iter().map(op).collect();
    let page = format!("{HEAD}{sections}{LIBRARY}{library}{OPS}{ops}");
    check("docs/src/operations.md", |_| page.clone());
}

#[test]
fn what_is_written_for_an_op_exists() {
    let sources = language();
    let items: Vec<&Item> = sources.iter().flat_map(|source| &source.items).collect();
    let missing: Vec<String> = WRITTEN
        .iter()
        .flat_map(|op| named(op.written).map(move |name| (op, name)))
        .filter(|(_, name)| *name != "Auto" && !items.iter().any(|item| is_meant(item, name)))
        .map(|(op, name)| format!("{}: {name}", op.mnemonic))
        .collect();
    assert!(
        missing.is_empty(),
        "gluon-lang/src/lang/written.rs names what is not there: {missing:#?}"
    );
}

#[test]
fn names_are_found_in_the_text_of_the_language() {
    let text = "\
macro_rules! reductions {}
reductions! {
    Bits {
        /// The bitwise or along `axis`: of booleans, whether any is true. And more.
        reduce_or = Or;
        /// Twice.
        first second = Two;
    }
}
impl<T: Element, const N: usize> Smem<T> {
    /// See [`this`](Smem::this).
    pub fn load(self) {}
    /// As [`this`](Smem::this), then
    /// that.
    #[inline]
    #[allow(
        dead_code
    )]
    pub fn store(self) {}
    /// The same where it must.
    pub fn store_when(self) {}
    /// Hidden.
    #[doc(hidden)]
    pub fn hidden(self) {}
    /// Private.
    fn private(self) {}
}
directions! {
    Up \"up\": add_ru sub_ru;
}
";
    let items = super::source::items(text);
    let shown: Vec<String> = items
        .iter()
        .map(|i| format!("{:?} {:?} {}", i.names, i.of, i.doc))
        .collect();
    assert_eq!(
        shown,
        [
            "[\"reduce_or\"] None The bitwise or along `axis`: of booleans, whether any is true",
            "[\"first\", \"second\"] None Twice",
            "[\"store\"] Some(\"Smem\") As `this`, then that",
            "[\"store_when\"] Some(\"Smem\") As `Smem::store`, where it must",
            "[\"add_ru\", \"sub_ru\"] None Arithmetic rounded up",
        ]
    );
}
