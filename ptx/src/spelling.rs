//! Modifiers: the dotted pieces of an opcode, each with the one place that says how it is spelled.

use crate::print::Opcode;
use crate::types::Type;

/// A closed set of modifiers; the printer and the parser both read this table.
pub(crate) trait Spelled: Copy + 'static {
    /// Every accepted spelling; the first one of a value is the one that is printed.
    const SPELLINGS: &'static [(&'static str, Self)];
    /// The printed spelling, without the leading dot.
    fn spelling(self) -> &'static str;
}

/// The text of an opcode while its modifiers are taken off one by one.
///
/// It remembers the furthest place that any attempt reached and what was expected there, so that the error
/// for an unknown modifier can list those that exist.
pub(crate) struct Modifiers<'s> {
    text: &'s str,
    position: usize,
    furthest: usize,
    expected: Vec<&'static str>,
}

/// The modifiers do not fit the instruction that was tried; what was expected is kept in [`Modifiers`].
#[derive(Debug)]
pub(crate) struct Mismatch;

impl<'s> Modifiers<'s> {
    pub(crate) fn new(text: &'s str) -> Self {
        Self {
            text,
            position: 0,
            furthest: 0,
            expected: Vec::new(),
        }
    }

    /// Starts over for the next candidate instruction.
    pub(crate) fn rewind(&mut self) {
        self.position = 0;
    }

    /// Byte offset and text of the first piece that no candidate understood.
    pub(crate) fn offender(&self) -> (usize, &'s str) {
        let rest = &self.text[self.furthest.min(self.text.len())..];
        (self.furthest, rest.split('.').next().unwrap_or(rest))
    }

    /// The spellings that were expected at the offending place, sorted and without duplicates; the many types
    /// count as one.
    pub(crate) fn expected(&self) -> Vec<&'static str> {
        let mut expected = self.expected.clone();
        expected.sort_unstable();
        expected.dedup();
        let is_type = |text: &str| Type::ALL.iter().any(|ty| ty.text() == text);
        if Type::ALL.iter().all(|ty| expected.contains(&ty.text())) {
            expected.retain(|text| !is_type(text));
            expected.push("a type such as `.b32`");
        }
        expected
    }

    fn rest(&self) -> &'s str {
        &self.text[self.position.min(self.text.len())..]
    }

    fn matches(&self, piece: &str) -> bool {
        let rest = self.rest();
        rest.starts_with(piece) && matches!(rest.as_bytes().get(piece.len()), None | Some(b'.'))
    }

    /// Remembers that `piece` would fit here, or what of it remains after the part that does.
    fn expect(&mut self, piece: &'static str) {
        let (mut at, mut wanted) = (self.position, piece);
        while let Some((head, tail)) = wanted.split_once('.') {
            let rest = self.text.get(at..).unwrap_or_default();
            if rest.split('.').next() != Some(head) {
                break;
            }
            (at, wanted) = (at + head.len() + 1, tail);
        }
        let wanted = wanted.split('.').next().unwrap_or(wanted);
        if at > self.furthest {
            self.furthest = at;
            self.expected.clear();
        }
        if at == self.furthest {
            self.expected.push(wanted);
        }
    }

    fn advance(&mut self, length: usize) {
        self.position += length + 1;
    }

    /// Takes `piece` when it is next.
    ///
    /// `.shared` stands for `.shared::cta` too, which means the same (PTX ISA 5.1.5).
    pub(crate) fn eat(&mut self, piece: &'static str) -> bool {
        let spellings: &[&'static str] = if piece == "shared" {
            &["shared", "shared::cta"]
        } else {
            &[piece]
        };
        let found = spellings.iter().find(|spelling| self.matches(spelling));
        match found {
            Some(spelling) => self.advance(spelling.len()),
            None => self.expect(piece),
        }
        found.is_some()
    }

    pub(crate) fn require(&mut self, piece: &'static str) -> Result<(), Mismatch> {
        if self.eat(piece) {
            Ok(())
        } else {
            Err(Mismatch)
        }
    }

    /// Takes the longest spelling of `T` that is next.
    pub(crate) fn eat_spelled<T: Spelled>(&mut self) -> Option<T> {
        let found = T::SPELLINGS
            .iter()
            .filter(|(text, _)| self.matches(text))
            .max_by_key(|(text, _)| text.len());
        if let Some(&(text, value)) = found {
            self.advance(text.len());
            return Some(value);
        }
        for (text, _) in T::SPELLINGS {
            self.expect(text);
        }
        None
    }

    /// Takes the next piece when `read` understands it; `what` describes it in errors.
    pub(crate) fn eat_with<T>(
        &mut self,
        what: &'static str,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        let piece = self.rest().split('.').next().unwrap_or_default();
        let value = read(piece);
        if value.is_some() {
            self.advance(piece.len());
        } else {
            self.expect(what);
        }
        value
    }

    pub(crate) fn end(&mut self) -> Result<(), Mismatch> {
        if self.position >= self.text.len() {
            return Ok(());
        }
        if self.position > self.furthest {
            self.furthest = self.position;
            self.expected.clear();
        }
        Err(Mismatch)
    }
}

/// One modifier of an opcode.
pub(crate) trait Modifier: Sized {
    fn print(&self, out: &mut Opcode<'_>);
    fn parse(modifiers: &mut Modifiers<'_>) -> Option<Self>;
}

impl<T: Spelled> Modifier for T {
    fn print(&self, out: &mut Opcode<'_>) {
        out.piece(self.spelling());
    }

    fn parse(modifiers: &mut Modifiers<'_>) -> Option<Self> {
        modifiers.eat_spelled()
    }
}

/// Declares an enum whose variants are spelled as the literals say; further literals are accepted when parsing.
macro_rules! spelled {
    ($($(#[$meta:meta])* $name:ident { $($variant:ident = $text:literal $(| $alias:literal)*),+ $(,)? })+) => { $(
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name {
            $(#[doc = concat!("`", $text, "`")] $variant,)+
        }

        impl $name {
            /// Every value, in the order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The PTX spelling.
            pub const fn text(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }
        }

        impl $crate::spelling::Spelled for $name {
            const SPELLINGS: &'static [(&'static str, Self)] =
                &[$(($text, Self::$variant), $(($alias, Self::$variant),)*)+];

            fn spelling(self) -> &'static str {
                self.text()
            }
        }
    )+ };
}
pub(crate) use spelled;
