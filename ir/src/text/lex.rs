//! Tokens of the text form, with their places.

use std::fmt;

/// One token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// `kernel`, `i32`, `128xf32`, `-1.5e3`: letters, digits, `_`, `.`, `-`, `+`, `:` after a letter.
    Word(String),
    /// `%name`
    Value(String),
    /// `#name`
    Alias(String),
    /// `@name`
    Symbol(String),
    /// `"text"`, with its quotes and escapes.
    Quoted(String),
    /// One of `( ) [ ] { } < > , : =`
    Punct(char),
    /// The end.
    End,
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Token::Word(t) | Token::Quoted(t) => write!(f, "`{t}`"),
            Token::Value(t) => write!(f, "`%{t}`"),
            Token::Alias(t) => write!(f, "`#{t}`"),
            Token::Symbol(t) => write!(f, "`@{t}`"),
            Token::Punct(c) => write!(f, "`{c}`"),
            Token::End => f.write_str("the end of the text"),
        }
    }
}

/// A token with where it begins.
#[derive(Clone, Debug)]
pub(super) struct Spanned {
    pub(super) token: Token,
    /// Byte offset into the text.
    pub(super) start: usize,
    /// Byte offset past the token.
    pub(super) end: usize,
}

/// Cuts a text into tokens; the offset of a character that begins none is the error.
pub(super) fn lex(text: &str) -> Result<Vec<Spanned>, (usize, char)> {
    let mut tokens = Vec::new();
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let start = at;
        let c = bytes[at];
        let token = match c {
            b' ' | b'\t' | b'\r' | b'\n' => {
                at += 1;
                continue;
            }
            b'/' if bytes.get(at + 1) == Some(&b'/') => {
                at += text[at..].find('\n').unwrap_or(text.len() - at);
                continue;
            }
            b'(' | b')' | b'[' | b']' | b'{' | b'}' | b'<' | b'>' | b',' | b':' | b'=' => {
                at += 1;
                Token::Punct(c as char)
            }
            b'"' => {
                at = end_of_quoted(bytes, at).ok_or((start, '"'))?;
                Token::Quoted(text[start..at].to_owned())
            }
            b'%' | b'#' | b'@' => {
                at = end_of_word(bytes, at + 1);
                let name = text[start + 1..at].to_owned();
                match c {
                    b'%' => Token::Value(name),
                    b'#' => Token::Alias(name),
                    _ => Token::Symbol(name),
                }
            }
            _ if is_word(c) => {
                at = end_of_word(bytes, at);
                Token::Word(text[start..at].to_owned())
            }
            _ => return Err((start, text[start..].chars().next().unwrap_or('\0'))),
        };
        tokens.push(Spanned {
            token,
            start,
            end: at,
        });
    }
    tokens.push(Spanned {
        token: Token::End,
        start: text.len(),
        end: text.len(),
    });
    Ok(tokens)
}

fn is_word(c: u8) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, b'_' | b'.' | b'-' | b'+' | b'$')
}

fn end_of_word(bytes: &[u8], mut at: usize) -> usize {
    while at < bytes.len() && is_word(bytes[at]) {
        at += 1;
    }
    at
}

fn end_of_quoted(bytes: &[u8], mut at: usize) -> Option<usize> {
    at += 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return Some(at + 1),
            _ => at += 1,
        }
    }
    None
}
