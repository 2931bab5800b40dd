//! Printing: `Name(positional, ..., named=value)`.

use std::fmt::{self, Display};

use crate::Dims;

/// Writes `name(...)`, the arguments as given by `write`.
pub(crate) fn write_call(
    f: &mut fmt::Formatter<'_>,
    name: &str,
    write: impl FnOnce(&mut Args<'_, '_>) -> fmt::Result,
) -> fmt::Result {
    write!(f, "{name}(")?;
    write(&mut Args { f, first: true })?;
    f.write_str(")")
}

/// The arguments of a call while they are written.
pub(crate) struct Args<'a, 'f> {
    f: &'a mut fmt::Formatter<'f>,
    first: bool,
}

impl Args<'_, '_> {
    /// A positional argument.
    pub(crate) fn value(&mut self, value: &dyn Display) -> fmt::Result {
        let comma = if std::mem::take(&mut self.first) {
            ""
        } else {
            ", "
        };
        write!(self.f, "{comma}{value}")
    }

    /// A named argument, left out when it has its default.
    pub(crate) fn named_unless<T: Display + PartialEq>(
        &mut self,
        name: &str,
        value: &T,
        default: &T,
    ) -> fmt::Result {
        if value == default {
            Ok(())
        } else {
            self.value(&format_args!("{name}={value}"))
        }
    }

    /// A named list of basis vectors, left out when empty.
    pub(crate) fn bases(&mut self, name: &str, bases: &[Dims]) -> fmt::Result {
        if bases.is_empty() {
            Ok(())
        } else {
            self.all_bases(name, bases)
        }
    }

    /// A named list of basis vectors, written even when empty, where its name tells two forms of a layout apart.
    pub(crate) fn all_bases(&mut self, name: &str, bases: &[Dims]) -> fmt::Result {
        self.value(&format_args!("{name}={}", List(bases)))
    }

    /// A positional list of vectors.
    pub(crate) fn value_bases(&mut self, bases: &[Dims]) -> fmt::Result {
        self.value(&List(bases))
    }
}

/// `[a, b]` of vectors.
struct List<'a>(&'a [Dims]);

impl Display for List<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (at, vector) in self.0.iter().enumerate() {
            write!(f, "{}{vector}", if at == 0 { "" } else { ", " })?;
        }
        f.write_str("]")
    }
}
