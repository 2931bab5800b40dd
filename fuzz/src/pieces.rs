//! A text in pieces that mutations exchange: names, numbers and signs, without any grammar.

/// What a piece is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Digits.
    Number,
    /// `%name`, `#name`, `@name`, `$name`.
    Name,
    /// Letters.
    Word,
    /// Spaces and line breaks.
    Space,
    /// One other character.
    Sign,
}

/// Cuts a text into its pieces, all of it.
pub(crate) fn pieces(text: &str) -> Vec<(Kind, &str)> {
    let mut rest = text;
    let mut pieces = Vec::new();
    while let Some(first) = rest.chars().next() {
        let (kind, length) = next(rest, first);
        let (piece, after) = rest.split_at(length);
        pieces.push((kind, piece));
        rest = after;
    }
    pieces
}

fn next(text: &str, first: char) -> (Kind, usize) {
    let run = |from: usize, is_in: fn(char) -> bool| {
        let end = text[from..].find(|c| !is_in(c));
        end.map_or(text.len(), |end| from + end)
    };
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
    match first {
        '%' | '#' | '@' | '$' => (Kind::Name, run(1, is_of_name)),
        '0'..='9' => (Kind::Number, run(0, |c| c.is_ascii_digit())),
        c if c.is_ascii_alphabetic() || c == '_' => {
            (Kind::Word, run(0, |c| c.is_ascii_alphabetic() || c == '_'))
        }
        c if c.is_whitespace() => (Kind::Space, run(0, char::is_whitespace)),
        c => (Kind::Sign, c.len_utf8()),
    }
}

/// Where groups between brackets lie, without their brackets: bytes from and to.
pub(crate) fn groups(text: &str) -> Vec<(usize, usize)> {
    let mut open = Vec::new();
    let mut groups = Vec::new();
    for (at, c) in text.bytes().enumerate() {
        match c {
            b'[' | b'<' | b'(' => open.push(at + 1),
            b']' | b'>' | b')' => groups.extend(open.pop().map(|from| (from, at))),
            // A group across lines is a region, which lines are exchanged for.
            b'\n' => open.clear(),
            _ => {}
        }
    }
    groups
}
