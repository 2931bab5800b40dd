//! The book's table of other languages' names: what it says to be here exists.

use std::collections::BTreeSet;
use std::path::Path;

use super::source::language;
use super::{at, read};

/// What the sources of the language, of layouts and of the host side define, and names of Rust.
fn defined() -> BTreeSet<String> {
    let mut names: BTreeSet<String> = BTreeSet::new();
    for source in language() {
        names.extend(source.items.into_iter().flat_map(|item| item.names));
    }
    for folder in [
        "gluon-lang/src",
        "layout/src",
        "library/src",
        "runtime/src",
        "ir/src/ops",
    ] {
        collect(&at(folder), &mut names);
    }
    let rust =
        "bool i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64 for while if let must_use aggregate";
    names.extend(rust.split(' ').map(str::to_owned));
    names
}

fn collect(folder: &Path, names: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).expect("the sources are there") {
        let path = entry.expect("it can be read").path();
        if path.is_dir() {
            collect(&path, names);
        } else if path.extension().is_some_and(|end| end == "rs") {
            names.extend(read(&path).lines().filter_map(definition));
        }
    }
}

/// The name that a line defines: a public item, a variant of an enum, an associated constant, an attribute of a macro.
fn definition(line: &str) -> Option<String> {
    let text = line.trim();
    let public = text.strip_prefix("pub ").unwrap_or(text);
    let kinds = [
        "const fn ",
        "fn ",
        "struct ",
        "enum ",
        "trait ",
        "type ",
        "const ",
        "macro_rules! ",
    ];
    let item = kinds.iter().find_map(|kind| public.strip_prefix(kind));
    let is_variant = text.starts_with(char::is_uppercase) && text.ends_with([',', '{']);
    let name = item.or(is_variant.then_some(text)).unwrap_or_default();
    // Handles are rows of a macro: a name alone, behind its documentation.
    let is_row = text.starts_with(char::is_uppercase) && text.chars().all(char::is_alphanumeric);
    let row = is_row.then_some(text);
    let name = if name.is_empty() { row? } else { name };
    let end = name.find(|c: char| !c.is_alphanumeric() && c != '_');
    let name = &name[..end.unwrap_or(name.len())];
    (!name.is_empty()).then(|| name.to_owned())
}

/// The names that a piece of code uses: what is called, what stands in a path or behind a dot, and a span that is one name.
fn used(code: &str) -> Vec<String> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let mut names = Vec::new();
    let mut rest = code;
    while let Some(start) = rest.find(|c: char| c.is_alphabetic() || c == '_') {
        let before = rest[..start].chars().last();
        let end = rest[start..]
            .find(|c| !is_part(c))
            .map_or(rest.len(), |end| start + end);
        let (name, after) = (&rest[start..end], &rest[end..]);
        let is_number = before.is_some_and(|c| c.is_ascii_digit());
        let is_call =
            after.starts_with(['(', '!']) || after.starts_with("::") || after.starts_with('<');
        let is_member = matches!(before, Some('.' | ':')) || name.len() == code.len();
        if !is_number && (is_call || is_member) && name != "T" {
            names.push(name.to_owned());
        }
        rest = &rest[end..];
    }
    names
}

/// The rows of all tables of a page: the name there, and what is here.
fn rows(page: &str) -> Vec<(String, String)> {
    let rows = page
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| ---"));
    let rows = rows.filter(|line| !line.starts_with("| there |"));
    let cells = |row: &str| {
        let row = row.trim_matches('|').replace("\\|", "¦");
        let (there, here) = row.split_once('|').unwrap_or((&row, ""));
        (there.trim().to_owned(), here.trim().to_owned())
    };
    rows.map(cells).collect()
}

#[test]
fn names_beside_those_of_other_languages_exist() {
    let defined = defined();
    let mut wrong = Vec::new();
    for page in ["gluon.md", "coming_from.md"] {
        for (there, here) in rows(&read(&at("docs/src").join(page))) {
            if here.is_empty() {
                wrong.push(format!("{page}: nothing stands beside {there}"));
            }
            let spans = here.split('`').skip(1).step_by(2);
            // Attributes and commands of the tool are tested where pages use them.
            let code = spans.filter(|code| !code.starts_with("#[") && !code.starts_with("cargo "));
            let unknown = code.flat_map(used).filter(|name| !defined.contains(name));
            wrong.extend(unknown.map(|name| format!("{page}: `{name}`, beside {there}")));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn names_are_taken_from_code() {
    let cases = [
        ("sum", "sum"),
        ("x.cast::<i32>()", "cast"),
        ("Smem::<T>::alloc(shape, layout)", "Smem alloc"),
        (
            ".policy(L2Policy::EvictFirst)",
            "policy L2Policy EvictFirst",
        ),
        ("1.0 / (1.0 + (-x).exp())", "exp"),
        ("+", ""),
    ];
    for (code, names) in cases {
        assert_eq!(used(code).join(" "), names, "{code}");
    }
    assert_eq!(
        definition("    pub const fn B128(self) {"),
        Some("B128".into())
    );
    assert_eq!(definition("    EvictFirst,"), Some("EvictFirst".into()));
    assert_eq!(definition("    let x = y;"), None);
}
