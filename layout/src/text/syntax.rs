//! Reading text into calls, lists, numbers and words, each with its column.

use std::fmt;

/// A text that is not a layout: where, what was expected there, and what is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseLayoutError {
    /// The column, in characters from 1.
    pub column: usize,
    /// What was expected.
    pub expected: String,
    /// What is there.
    pub found: String,
}

impl fmt::Display for ParseLayoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "column {}: expected {}, found {}",
            self.column, self.expected, self.found
        )
    }
}

impl std::error::Error for ParseLayoutError {}

/// A piece of text with the columns where it starts and behind its end.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) column: usize,
    pub(super) end: usize,
    pub(super) kind: NodeKind,
}

#[derive(Clone, Debug)]
pub(super) enum NodeKind {
    Number(u32),
    List(Vec<Node>),
    /// A name with its arguments; a bare word has none.
    Call {
        name: String,
        arguments: Vec<Argument>,
    },
}

#[derive(Clone, Debug)]
pub(super) struct Argument {
    pub(super) name: Option<String>,
    pub(super) value: Node,
}

impl Node {
    /// The error that something else was expected here.
    pub(super) fn unexpected(&self, expected: impl Into<String>) -> ParseLayoutError {
        let found = match &self.kind {
            NodeKind::Number(number) => number.to_string(),
            NodeKind::List(_) => "a list".to_owned(),
            NodeKind::Call { name, .. } => format!("`{name}`"),
        };
        ParseLayoutError {
            column: self.column,
            expected: expected.into(),
            found,
        }
    }
}

/// Layouts nest a slice of an operand of an accumulator deep; a limit keeps hostile text off the stack.
const DEEPEST: usize = 16;

/// Reads one value at the start of `text`; returns it with the number of bytes read.
pub(super) fn read_prefix(text: &str) -> Result<(Node, usize), ParseLayoutError> {
    let mut reader = Reader { text, at: 0 };
    let node = reader.value(0)?;
    Ok((node, reader.at))
}

/// Reads the whole of `text` as one value.
pub(super) fn read_whole(text: &str) -> Result<Node, ParseLayoutError> {
    let mut reader = Reader { text, at: 0 };
    let node = reader.value(0)?;
    reader.skip_spaces();
    if reader.at == text.len() {
        Ok(node)
    } else {
        Err(reader.unexpected("the end of the layout"))
    }
}

struct Reader<'a> {
    text: &'a str,
    /// Bytes read so far.
    at: usize,
}

impl Reader<'_> {
    fn value(&mut self, depth: usize) -> Result<Node, ParseLayoutError> {
        self.skip_spaces();
        let column = self.column();
        if depth > DEEPEST {
            return Err(self.unexpected("fewer layouts nested in one another"));
        }
        let kind = match self.peek() {
            Some('[') => NodeKind::List(self.sequence('[', ']', |reader| reader.value(depth + 1))?),
            Some('0'..='9') => NodeKind::Number(self.number()?),
            Some(first) if is_word(first) => {
                let name = self.word();
                let arguments = if self.skipped_to('(') {
                    self.sequence('(', ')', |reader| reader.argument(depth + 1))?
                } else {
                    Vec::new()
                };
                NodeKind::Call { name, arguments }
            }
            _ => return Err(self.unexpected("a layout, a list or a number")),
        };
        let end = self.column();
        Ok(Node { column, end, kind })
    }

    /// A value, or `name=value`.
    fn argument(&mut self, depth: usize) -> Result<Argument, ParseLayoutError> {
        self.skip_spaces();
        let start = self.at;
        if self
            .peek()
            .is_some_and(|first| is_word(first) && !first.is_ascii_digit())
        {
            let name = self.word();
            if self.skipped_to('=') {
                self.bump();
                return Ok(Argument {
                    name: Some(name),
                    value: self.value(depth)?,
                });
            }
            self.at = start;
        }
        Ok(Argument {
            name: None,
            value: self.value(depth)?,
        })
    }

    /// Items between brackets, separated by commas; a comma after the last is welcome.
    fn sequence<T>(
        &mut self,
        open: char,
        close: char,
        mut item: impl FnMut(&mut Self) -> Result<T, ParseLayoutError>,
    ) -> Result<Vec<T>, ParseLayoutError> {
        debug_assert_eq!(self.peek(), Some(open));
        self.bump();
        let mut items = Vec::new();
        while !self.skipped_to(close) {
            items.push(item(self)?);
            if self.skipped_to(',') {
                self.bump();
            } else if !self.skipped_to(close) {
                return Err(self.unexpected(format!("`,` or `{close}`")));
            }
        }
        self.bump();
        Ok(items)
    }

    fn number(&mut self) -> Result<u32, ParseLayoutError> {
        let start = self.at;
        while self.peek().is_some_and(|digit| digit.is_ascii_digit()) {
            self.bump();
        }
        let digits = &self.text[start..self.at];
        let column = self.text[..start].chars().count() + 1;
        let too_large = |_| ParseLayoutError {
            column,
            expected: "a number below 2^32".to_owned(),
            found: digits.to_owned(),
        };
        digits.parse().map_err(too_large)
    }

    fn word(&mut self) -> String {
        let start = self.at;
        while self.peek().is_some_and(is_word) {
            self.bump();
        }
        self.text[start..self.at].to_owned()
    }

    /// Skips spaces; whether `wanted` comes next.
    fn skipped_to(&mut self, wanted: char) -> bool {
        let start = self.at;
        self.skip_spaces();
        let found = self.peek() == Some(wanted);
        if !found {
            // Spaces behind a value do not belong to it: a reader of a prefix continues from here.
            self.at = start;
        }
        found
    }

    fn skip_spaces(&mut self) {
        while self.peek().is_some_and(char::is_whitespace) {
            self.bump();
        }
    }

    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn bump(&mut self) {
        self.at += self.peek().map_or(0, char::len_utf8);
    }

    fn column(&self) -> usize {
        self.text[..self.at].chars().count() + 1
    }

    fn unexpected(&mut self, expected: impl Into<String>) -> ParseLayoutError {
        self.skip_spaces();
        let found = self
            .peek()
            .map_or("the end".to_owned(), |found| format!("`{found}`"));
        ParseLayoutError {
            column: self.column(),
            expected: expected.into(),
            found,
        }
    }
}

fn is_word(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}
