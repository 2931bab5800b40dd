//! A source as words and marks, one after the other, without comments, literals and unit tests.

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};

/// The words and marks of `text`: `::` is one mark, a raw name stands without `r#`.
///
/// # Panics
/// If brackets do not match, or `text` is no Rust for another reason.
pub(crate) fn tokens(text: &str) -> Vec<String> {
    let stream: TokenStream = text.parse().expect("a source file is Rust");
    let mut found = Vec::new();
    append(stream, &mut found);
    without_tests(&found)
}

fn append(stream: TokenStream, found: &mut Vec<String>) {
    let mut trees = stream.into_iter().peekable();
    while let Some(tree) = trees.next() {
        match tree {
            TokenTree::Ident(name) => {
                found.push(name.to_string().trim_start_matches("r#").to_owned());
            }
            TokenTree::Punct(mark) => {
                let is_colon = |tree: &TokenTree| matches!(tree, TokenTree::Punct(next) if next.as_char() == ':');
                let is_path = mark.as_char() == ':' && mark.spacing() == Spacing::Joint;
                if is_path && trees.peek().is_some_and(is_colon) {
                    trees.next();
                    found.push("::".to_owned());
                } else {
                    found.push(mark.to_string());
                }
            }
            TokenTree::Literal(_) => found.push("0".to_owned()),
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::None => ("", ""),
                };
                found.push(open.to_owned());
                append(group.stream(), found);
                found.push(close.to_owned());
            }
        }
    }
}

/// The place behind the bracket that closes the one at `open`.
pub(crate) fn behind_group(tokens: &[String], open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token.as_str() {
            "(" | "{" | "[" => depth += 1,
            ")" | "}" | "]" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    tokens.len()
}

fn is_at(tokens: &[String], at: usize, token: &str) -> bool {
    tokens.get(at).is_some_and(|found| found == token)
}

/// All but the items that only tests have: those under `#[cfg(test)]` and `#[cfg(all(test, ..))]`.
fn without_tests(tokens: &[String]) -> Vec<String> {
    let (mut at, mut kept) = (0, Vec::new());
    while at < tokens.len() {
        if is_at(tokens, at, "#") && is_at(tokens, at + 1, "[") {
            let end = behind_group(tokens, at + 1);
            let words: Vec<&str> = tokens[at + 2..end].iter().map(String::as_str).collect();
            let is_test = words.starts_with(&["cfg", "(", "test"])
                || words.starts_with(&["cfg", "(", "all", "(", "test"]);
            if is_test {
                at = behind_item(tokens, end);
                continue;
            }
        }
        kept.push(tokens[at].clone());
        at += 1;
    }
    kept
}

/// The place behind an item whose attributes begin at `at`.
fn behind_item(tokens: &[String], mut at: usize) -> usize {
    while at < tokens.len() {
        match tokens[at].as_str() {
            ";" | "," => return at + 1,
            "{" => return behind_group(tokens, at),
            "(" | "[" => at = behind_group(tokens, at),
            _ => at += 1,
        }
    }
    at
}

#[test]
fn comments_literals_and_unit_tests_are_left_out() {
    let text = r##"
        // crate::a
        /* crate::b */
        const X: &str = r#"crate::c"#;
        #[cfg(test)] #[path = "x.rs"] mod tests { use crate::d; }
        #[cfg(test)] use crate::e;
        #[cfg(all(test, unix))] fn f() -> [u8; 2] { crate::f() }
        use crate::r#type;
    "##;
    let expected = "const X : & str = 0 ; use crate :: type ;";
    assert_eq!(tokens(text).join(" "), expected);
}
