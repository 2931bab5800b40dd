//! Which characters a place means: rustc gives kernels a line and a column, and carets want an end too.

use std::ops::Range;
use std::path::Path;

/// One token of a line, as byte range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Word,
    Number,
    Quoted,
    Open,
    Close,
    /// An operator with an operand on each side when it stands behind an operand.
    Operator,
    Dot,
    Colons,
    Question,
    Other,
}

#[derive(Clone, Debug)]
struct Token {
    kind: Kind,
    range: Range<usize>,
}

/// The bytes of `line` to underline for a place in `column` (from 1, in characters), in a file called `file`.
///
/// In Rust this is the operation that starts there, as far as it stands on this line: `f(x)`, of `x.load()` the name and
/// the arguments, `a + b`, `for i in r`; of `static_assert!(c, ..)` it is `c`. In any other text it is the word there.
pub fn span_at(file: &str, line: &str, column: u32) -> Range<usize> {
    let mut start = byte_of_column(line, column);
    let length = if Path::new(file)
        .extension()
        .is_some_and(|extension| extension == "rs")
    {
        if let Some(condition) = asserted(&line[start..]) {
            start += condition.start;
            return start..start + condition.len();
        }
        let is_method = line[..start].trim_end().ends_with('.');
        expression_length(&line[start..], is_method)
    } else {
        word_length(&line[start..])
    };
    start..(start + length.max(1)).min(line.len().max(start))
}

fn byte_of_column(line: &str, column: u32) -> usize {
    let skipped = (column as usize).saturating_sub(1);
    line.char_indices()
        .nth(skipped)
        .map_or(line.len(), |(at, _)| at)
}

/// A word of PTX or of the tile IR, such as `ld.global.v4.f32` or `%acc`.
fn word_length(text: &str) -> usize {
    let belongs = |c: char| c.is_alphanumeric() || "_.%$@#:".contains(c);
    let length = text.find(|c| !belongs(c)).unwrap_or(text.len());
    // A single stop such as `;` or `{` is its own word.
    length.max(text.chars().next().map_or(0, char::len_utf8))
}

fn expression_length(text: &str, is_method: bool) -> usize {
    let tokens = tokens_of(text);
    let Some(first) = tokens.first() else {
        return 0;
    };
    if is_statement(&text[first.range.clone()]) {
        let brace = tokens
            .iter()
            .find(|token| &text[token.range.clone()] == "{");
        return brace.map_or(text.trim_end().len(), |brace| {
            text[..brace.range.start].trim_end().len()
        });
    }
    let end = if is_method {
        call_end(&tokens, text)
    } else {
        binary_end(&tokens, text)
    };
    tokens[..end].last().map_or(0, |token| token.range.end)
}

/// The condition of a `static_assert!`, whose place is that of the macro.
fn asserted(text: &str) -> Option<Range<usize>> {
    let tokens = tokens_of(text);
    let begins = ["static_assert", "!", "("]
        .iter()
        .zip(&tokens)
        .all(|(wanted, token)| &text[token.range.clone()] == *wanted);
    let end = group_end(&tokens, 2.min(tokens.len().checked_sub(1)?));
    let mut depth = 0_usize;
    let inside = tokens[..end].iter().skip(3).take_while(|token| {
        match token.kind {
            Kind::Open => depth += 1,
            Kind::Close if depth == 0 => return false,
            Kind::Close => depth -= 1,
            _ => {}
        }
        depth > 0 || &text[token.range.clone()] != ","
    });
    let last = inside.last().filter(|_| begins)?;
    Some(tokens[3].range.start..last.range.end)
}

/// Control flow that `#[kernel]` rewrites: the place is that of the keyword, and the header is meant.
fn is_statement(word: &str) -> bool {
    matches!(word, "for" | "while" | "if" | "match" | "let" | "return")
}

/// How many tokens an operand, the operator behind it and the next operand take; without an operator behind it, what
/// starts here is a call or a prefix operator.
fn binary_end(tokens: &[Token], text: &str) -> usize {
    let left = operand_end(tokens, text, 0);
    let is_binary = |token: &Token| token.kind == Kind::Operator;
    if left == 0 || !tokens.get(left).is_some_and(is_binary) {
        let is_prefix = tokens[0].kind == Kind::Operator;
        return if is_prefix {
            left
        } else {
            call_end(tokens, text)
        };
    }
    let right = operand_end(tokens, text, left + 1);
    right.max(left + 1)
}

/// The token behind a name with its generic arguments and its arguments; behind the first atom if it is none.
fn call_end(tokens: &[Token], text: &str) -> usize {
    let mut at = if tokens[0].kind == Kind::Open {
        group_end(tokens, 0)
    } else {
        1
    };
    while tokens
        .get(at)
        .is_some_and(|token| token.kind == Kind::Colons)
    {
        at = path_end(tokens, text, at + 1);
    }
    match tokens.get(at) {
        Some(token) if &text[token.range.clone()] == "(" => group_end(tokens, at),
        _ => at.min(tokens.len()),
    }
}

/// The token behind an operand: prefix operators, an atom, and its calls, fields and indices.
fn operand_end(tokens: &[Token], text: &str, mut at: usize) -> usize {
    while tokens
        .get(at)
        .is_some_and(|token| matches!(&text[token.range.clone()], "-" | "!" | "*" | "&"))
    {
        at += 1;
    }
    match tokens.get(at).map(|token| token.kind) {
        Some(Kind::Word | Kind::Number | Kind::Quoted) => at += 1,
        Some(Kind::Open) => at = group_end(tokens, at),
        _ => return at,
    }
    loop {
        match tokens.get(at).map(|token| token.kind) {
            Some(Kind::Open) if !opens_block(&tokens[at], text) => at = group_end(tokens, at),
            Some(Kind::Colons) => at = path_end(tokens, text, at + 1),
            Some(Kind::Dot) if has_name_behind(tokens, at) => at += 2,
            Some(Kind::Question) => at += 1,
            _ => return at,
        }
    }
}

fn opens_block(token: &Token, text: &str) -> bool {
    &text[token.range.clone()] == "{"
}

fn has_name_behind(tokens: &[Token], at: usize) -> bool {
    let behind = tokens.get(at + 1).map(|token| token.kind);
    matches!(behind, Some(Kind::Word | Kind::Number))
}

/// Behind `::`: a name, or the generic arguments up to their `>`.
fn path_end(tokens: &[Token], text: &str, at: usize) -> usize {
    let is = |at: usize, wanted: &str| {
        tokens
            .get(at)
            .is_some_and(|token| &text[token.range.clone()] == wanted)
    };
    if !is(at, "<") {
        return (at + 1).min(tokens.len());
    }
    let mut depth = 0_usize;
    for (index, token) in tokens.iter().enumerate().skip(at) {
        match &text[token.range.clone()] {
            "<" => depth += 1,
            ">" => depth -= 1,
            ">>" => depth = depth.saturating_sub(2),
            _ => {}
        }
        if depth == 0 {
            return index + 1;
        }
    }
    tokens.len()
}

/// Behind the bracket that closes the one at `at`; the end of the line if it closes on another.
fn group_end(tokens: &[Token], at: usize) -> usize {
    let mut depth = 0_usize;
    for (index, token) in tokens.iter().enumerate().skip(at) {
        match token.kind {
            Kind::Open => depth += 1,
            Kind::Close => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return index + 1;
        }
    }
    tokens.len()
}

/// The tokens of one line; a comment ends it.
fn tokens_of(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        if first.is_whitespace() {
            at += first.len_utf8();
            continue;
        }
        if rest.starts_with("//") {
            break;
        }
        let (kind, length) = token_of(rest, first);
        tokens.push(Token {
            kind,
            range: at..at + length,
        });
        at += length;
    }
    tokens
}

fn token_of(rest: &str, first: char) -> (Kind, usize) {
    let run = |belongs: fn(char) -> bool| rest.find(|c| !belongs(c)).unwrap_or(rest.len());
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    match first {
        '0'..='9' => (Kind::Number, number_length(rest)),
        c if is_word(c) => (Kind::Word, run(|c| c.is_alphanumeric() || c == '_')),
        '"' => (Kind::Quoted, quoted_length(rest)),
        '\'' => (Kind::Quoted, character_length(rest)),
        '(' | '[' | '{' => (Kind::Open, 1),
        ')' | ']' | '}' => (Kind::Close, 1),
        '?' => (Kind::Question, 1),
        _ => operator_of(rest, first),
    }
}

fn number_length(rest: &str) -> usize {
    let mut length = 0;
    for (at, c) in rest.char_indices() {
        let is_point = c == '.' && rest[at + 1..].starts_with(|next: char| next.is_ascii_digit());
        if !(c.is_alphanumeric() || c == '_' || is_point) {
            break;
        }
        length = at + c.len_utf8();
    }
    length
}

fn quoted_length(rest: &str) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            '"' if !escaped => return at + 1,
            '\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    rest.len()
}

/// `'a'`, `'\n'` or a lifetime.
fn character_length(rest: &str) -> usize {
    let behind = &rest[1..];
    let closed = if behind.starts_with('\\') {
        behind
            .get(2..)
            .and_then(|tail| tail.find('\''))
            .map(|at| at + 4)
    } else {
        let character = behind.chars().next().map_or(0, char::len_utf8);
        behind[character..]
            .starts_with('\'')
            .then_some(character + 2)
    };
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    closed.unwrap_or_else(|| 1 + behind.find(|c| !is_word(c)).unwrap_or(behind.len()))
}

fn operator_of(rest: &str, first: char) -> (Kind, usize) {
    const LONG: [(&str, Kind); 20] = [
        ("::", Kind::Colons),
        ("..=", Kind::Other),
        ("..", Kind::Other),
        ("=>", Kind::Other),
        ("->", Kind::Other),
        ("<<=", Kind::Operator),
        (">>=", Kind::Operator),
        ("==", Kind::Operator),
        ("!=", Kind::Operator),
        ("<=", Kind::Operator),
        (">=", Kind::Operator),
        ("&&", Kind::Operator),
        ("||", Kind::Operator),
        ("<<", Kind::Operator),
        (">>", Kind::Operator),
        ("+=", Kind::Operator),
        ("-=", Kind::Operator),
        ("*=", Kind::Operator),
        ("/=", Kind::Operator),
        ("%=", Kind::Operator),
    ];
    if let Some((spelling, kind)) = LONG.iter().find(|(spelling, _)| rest.starts_with(spelling)) {
        return (*kind, spelling.len());
    }
    let kind = match first {
        '.' => Kind::Dot,
        '+' | '-' | '*' | '/' | '%' | '&' | '|' | '^' | '<' | '>' => Kind::Operator,
        _ => Kind::Other,
    };
    (kind, first.len_utf8())
}

#[cfg(test)]
mod tests {
    use super::span_at;

    /// `text` holds one `^`: the place; the underlined part is returned.
    #[track_caller]
    fn check(file: &str, text: &str, expected: &str) {
        let at = text.find('^').expect("a place is marked");
        let line = text.replacen('^', "", 1);
        let column = line[..at].chars().count() as u32 + 1;
        assert_eq!(&line[span_at(file, &line, column)], expected);
    }

    #[test]
    fn a_call_is_underlined_with_its_arguments() {
        check("a.rs", "let x = ^f(a, (b), \")\");", "f(a, (b), \")\")");
        check("a.rs", "x.at(at).^load().cast::<f32>() + y", "load()");
        check("a.rs", "    .^cast::<f32>()", "cast::<f32>()");
        check("a.rs", "^zeros([4]).cast::<f32>()", "zeros([4])");
        check(
            "a.rs",
            "let a = ^arange(0..B, Coalesced);",
            "arange(0..B, Coalesced)",
        );
        check(
            "a.rs",
            "let a = ^g::<f32, { N }>(x) ;",
            "g::<f32, { N }>(x)",
        );
        check(
            "a.rs",
            "let a = ^Vec::<Vec<u8>>::new();",
            "Vec::<Vec<u8>>::new()",
        );
    }

    #[test]
    fn of_a_static_assert_the_condition_is_underlined() {
        check(
            "a.rs",
            "    ^static_assert!(N % 128 == 0, \"a block of {N}\");",
            "N % 128 == 0",
        );
        check(
            "a.rs",
            "^static_assert!(f(a, [b, c]) < 1)",
            "f(a, [b, c]) < 1",
        );
        check("a.rs", "^static_assert!(", "static_assert");
        check("a.rs", "^static_assert!()", "static_assert");
        check("a.rs", "^static_assert", "static_assert");
    }

    #[test]
    fn an_operator_is_underlined_with_both_operands() {
        check("a.rs", "let s = ^a.x + b[1] + c;", "a.x + b[1]");
        check("a.rs", "    ^(v - m) * -LOG2_E", "(v - m) * -LOG2_E");
        check("a.rs", "^acc += x.sum(0);", "acc += x.sum(0)");
        check("a.rs", "let m = ^at < n;", "at < n");
        check("a.rs", "^-x.abs()", "-x.abs()");
        check("a.rs", "^x.load() & x.load()", "x.load() & x.load()");
    }

    #[test]
    fn control_flow_is_underlined_up_to_its_block() {
        check(
            "a.rs",
            "    ^for i in range(0, k / BK) {",
            "for i in range(0, k / BK)",
        );
        check("a.rs", "^if c { a } else { b }", "if c");
        check("a.rs", "^while a", "while a");
    }

    #[test]
    fn a_line_that_ends_early_ends_the_underline() {
        check("a.rs", "let x = ^f(a, // b)", "f(a,");
        check("a.rs", "let x = ^a +", "a +");
        check("a.rs", "x ^'a' y", "'a'");
        check("a.rs", "let é = ^ö + 1.5e3;", "ö + 1.5e3");
        check("a.rs", "x.^", "");
        check("a.rs", "^;", ";");
    }

    #[test]
    fn other_texts_are_underlined_by_word() {
        check(
            "k.ptx",
            "    ^ld.global.v4.f32 {%f1}, [%rd1];",
            "ld.global.v4.f32",
        );
        check("k.ir", "  %a = ^binary %x, %y {op=add}", "binary");
        check("k.ptx", "mov.u32 %r1, 7^;", ";");
    }
}
