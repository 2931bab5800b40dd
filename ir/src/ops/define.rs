//! `define_op!`: one declaration gives an op its struct, its printer, its parser and its operand walk.
//!
//! Macros here make data plumbing only. Whatever decides something is a plain function in the op's family file.

use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;

use cranelift_entity::packed_option::PackedOption;
use smallvec::SmallVec;

use crate::elem::Elem;
use crate::entity::{Region, Value};
use layout::Dims;

/// One operand as it stands in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TextOperand {
    /// `%a`
    One(Value),
    /// `[%a, %b]`
    Many(Vec<Value>),
    /// `mask=%a`
    Named(String, Value),
}

/// The fields of one op, read from its text and not yet claimed by name.
#[derive(Debug, Default)]
pub struct FieldReader {
    /// Operands, in text order.
    pub operands: VecDeque<TextOperand>,
    /// Attributes as `(name, text)`.
    pub attrs: Vec<(String, String)>,
    /// Regions, in text order.
    pub regions: VecDeque<Region>,
}

impl FieldReader {
    /// What is left over, described; the reader must be empty once an op is read.
    pub fn leftover(&self) -> Option<String> {
        if let Some((name, _)) = self.attrs.first() {
            return Some(format!("attribute `{name}` does not belong to this op"));
        }
        match (self.operands.front(), self.regions.front()) {
            (Some(TextOperand::Named(name, _)), _) => {
                Some(format!("operand `{name}=` does not belong to this op"))
            }
            (Some(_), _) => Some("too many operands".into()),
            (None, Some(_)) => Some("too many regions".into()),
            (None, None) => None,
        }
    }
}

/// Writes one op's fields as text.
#[derive(Debug, Default)]
pub struct FieldWriter {
    /// Operands, in text order.
    pub operands: Vec<TextOperand>,
    /// Attributes as `(name, text)`.
    pub attrs: Vec<(&'static str, String)>,
    /// Regions, in text order.
    pub regions: Vec<Region>,
}

/// A type that may be a field of an op.
pub trait Field: Sized {
    /// Takes the field called `name` from the text.
    fn read(from: &mut FieldReader, name: &'static str) -> Result<Self, String>;
    /// Hands the field called `name` to the text.
    fn write(&self, name: &'static str, to: &mut FieldWriter);
    /// Visits the values held by the field.
    fn visit(&self, _visit: &mut dyn FnMut(Value)) {}
    /// Visits the values held by the field, to replace them.
    fn visit_mut(&mut self, _visit: &mut dyn FnMut(&mut Value)) {}
    /// Visits the regions held by the field.
    fn regions(&self, _visit: &mut dyn FnMut(Region)) {}
    /// Visits the regions held by the field, to replace them.
    fn regions_mut(&mut self, _visit: &mut dyn FnMut(&mut Region)) {}
}

/// A compile-time attribute, printed as `name=text`.
pub trait Attr: Sized + fmt::Display + FromStr<Err: fmt::Display> {
    /// Which texts it reads, where its error does not say so.
    const WANTED: &'static str = "";
    /// The value that is meant when the text does not mention the attribute, and that is therefore not printed.
    fn unsaid() -> Option<Self> {
        None
    }
    /// Is this the value that goes unsaid?
    fn is_unsaid(&self) -> bool {
        false
    }
}

impl Attr for u32 {
    const WANTED: &'static str = "a whole number from 0 to 4294967295";
}
impl Attr for i64 {
    const WANTED: &'static str = "a whole number of 64 bits";
}
impl Attr for Elem {}
impl Attr for Dims {}

impl Attr for bool {
    fn unsaid() -> Option<bool> {
        Some(false)
    }
    fn is_unsaid(&self) -> bool {
        !self
    }
}

impl<T: Attr> Field for T {
    fn read(from: &mut FieldReader, name: &'static str) -> Result<Self, String> {
        match from.attrs.iter().position(|(n, _)| n == name) {
            Some(at) => {
                let (_, text) = from.attrs.remove(at);
                text.parse().map_err(|e| match T::WANTED {
                    "" => format!("attribute `{name}`: {e}"),
                    wanted => format!("attribute `{name}` is `{text}`, and must be {wanted}"),
                })
            }
            None => T::unsaid().ok_or_else(|| format!("missing attribute `{name}`")),
        }
    }
    fn write(&self, name: &'static str, to: &mut FieldWriter) {
        if !self.is_unsaid() {
            to.attrs.push((name, self.to_string()));
        }
    }
}

impl Field for Value {
    fn read(from: &mut FieldReader, name: &'static str) -> Result<Self, String> {
        match from.operands.pop_front() {
            Some(TextOperand::One(value)) => Ok(value),
            _ => Err(format!("missing operand `{name}`")),
        }
    }
    fn write(&self, _: &'static str, to: &mut FieldWriter) {
        to.operands.push(TextOperand::One(*self));
    }
    fn visit(&self, visit: &mut dyn FnMut(Value)) {
        visit(*self);
    }
    fn visit_mut(&mut self, visit: &mut dyn FnMut(&mut Value)) {
        visit(self);
    }
}

impl Field for PackedOption<Value> {
    fn read(from: &mut FieldReader, name: &'static str) -> Result<Self, String> {
        let is_this = |o: &TextOperand| matches!(o, TextOperand::Named(n, _) if n == name);
        match from.operands.iter().position(is_this) {
            Some(at) => match from.operands.remove(at) {
                Some(TextOperand::Named(_, value)) => Ok(value.into()),
                _ => Err(format!("missing operand `{name}`")),
            },
            None => Ok(PackedOption::default()),
        }
    }
    fn write(&self, name: &'static str, to: &mut FieldWriter) {
        if let Some(value) = self.expand() {
            to.operands.push(TextOperand::Named(name.into(), value));
        }
    }
    fn visit(&self, visit: &mut dyn FnMut(Value)) {
        if let Some(value) = self.expand() {
            visit(value);
        }
    }
    fn visit_mut(&mut self, visit: &mut dyn FnMut(&mut Value)) {
        if let Some(mut value) = self.expand() {
            visit(&mut value);
            *self = value.into();
        }
    }
}

/// A list of operands, printed in brackets.
pub type Values = SmallVec<[Value; 4]>;

impl Field for Values {
    fn read(from: &mut FieldReader, name: &'static str) -> Result<Self, String> {
        match from.operands.pop_front() {
            Some(TextOperand::Many(values)) => Ok(values.into()),
            _ => Err(format!("missing operand list `{name}`")),
        }
    }
    fn write(&self, _: &'static str, to: &mut FieldWriter) {
        to.operands.push(TextOperand::Many(self.to_vec()));
    }
    fn visit(&self, visit: &mut dyn FnMut(Value)) {
        self.iter().copied().for_each(visit);
    }
    fn visit_mut(&mut self, visit: &mut dyn FnMut(&mut Value)) {
        self.iter_mut().for_each(visit);
    }
}

impl Field for Region {
    fn read(from: &mut FieldReader, name: &'static str) -> Result<Self, String> {
        from.regions
            .pop_front()
            .ok_or_else(|| format!("missing region `{name}`"))
    }
    fn write(&self, _: &'static str, to: &mut FieldWriter) {
        to.regions.push(*self);
    }
    fn regions(&self, visit: &mut dyn FnMut(Region)) {
        visit(*self);
    }
    fn regions_mut(&mut self, visit: &mut dyn FnMut(&mut Region)) {
        visit(self);
    }
}

/// A list of regions, which are all that the text has left.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Regions(pub SmallVec<[Region; 4]>);

impl Field for Regions {
    fn read(from: &mut FieldReader, _: &'static str) -> Result<Self, String> {
        Ok(Regions(from.regions.drain(..).collect()))
    }
    fn write(&self, _: &'static str, to: &mut FieldWriter) {
        to.regions.extend(self.0.iter().copied());
    }
    fn regions(&self, visit: &mut dyn FnMut(Region)) {
        self.0.iter().copied().for_each(visit);
    }
    fn regions_mut(&mut self, visit: &mut dyn FnMut(&mut Region)) {
        self.0.iter_mut().for_each(visit);
    }
}

/// A piece of text as an attribute, printed between quotes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Text(pub std::sync::Arc<str>);

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.0)
    }
}

impl FromStr for Text {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let inner = text
            .strip_prefix('"')
            .and_then(|t| t.strip_suffix('"'))
            .ok_or("expected a text between quotes")?;
        let mut out = String::with_capacity(inner.len());
        let mut chars = inner.chars();
        while let Some(c) = chars.next() {
            match (c, if c == '\\' { chars.next() } else { None }) {
                ('\\', Some('n')) => out.push('\n'),
                ('\\', Some('t')) => out.push('\t'),
                ('\\', Some('r')) => out.push('\r'),
                ('\\', Some('0')) => out.push('\0'),
                ('\\', Some(c @ ('"' | '\\' | '\''))) => out.push(c),
                ('\\', _) => return Err("unknown escape in text".into()),
                (c, _) => out.push(c),
            }
        }
        Ok(Text(out.into()))
    }
}

impl Attr for Text {}

impl From<&str> for Text {
    fn from(text: &str) -> Text {
        Text(text.into())
    }
}

/// Constants of an op type.
pub trait OpDef: Sized {
    /// Name in the textual IR.
    const MNEMONIC: &'static str;
    /// The lines of its documentation.
    const DOC: &'static [&'static str];
    /// Reads the fields.
    fn read(from: &mut FieldReader) -> Result<Self, String>;
}

/// Field access through `dyn`.
pub trait OpFields {
    /// Name in the textual IR.
    fn mnemonic(&self) -> &'static str;
    /// Hands the fields to the text.
    fn write(&self, to: &mut FieldWriter);
    /// Visits every operand, in declaration order.
    fn visit(&self, visit: &mut dyn FnMut(Value));
    /// Visits every operand, in declaration order, to replace it.
    fn visit_mut(&mut self, visit: &mut dyn FnMut(&mut Value));
    /// Visits every region, in declaration order.
    fn visit_regions(&self, visit: &mut dyn FnMut(Region));
    /// Visits every region, in declaration order, to replace it.
    fn visit_regions_mut(&mut self, visit: &mut dyn FnMut(&mut Region));
}

macro_rules! define_op {
    ($(#[doc = $doc:literal])+ $vis:vis struct $name:ident = $mnemonic:literal { $($(#[$meta:meta])* $field:ident : $ty:ty,)* }) => {
        $(#[doc = $doc])+
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        $vis struct $name { $($(#[$meta])* pub $field: $ty,)* }
        impl $crate::ops::define::OpDef for $name {
            const MNEMONIC: &'static str = $mnemonic;
            const DOC: &'static [&'static str] = &[$($doc),+];
            fn read(_from: &mut $crate::ops::define::FieldReader) -> Result<Self, String> {
                Ok(Self { $($field: $crate::ops::define::Field::read(_from, stringify!($field))?,)* })
            }
        }
        impl $crate::ops::define::OpFields for $name {
            fn mnemonic(&self) -> &'static str { $mnemonic }
            fn write(&self, _to: &mut $crate::ops::define::FieldWriter) {
                $($crate::ops::define::Field::write(&self.$field, stringify!($field), _to);)*
            }
            fn visit(&self, _visit: &mut dyn FnMut($crate::entity::Value)) {
                $($crate::ops::define::Field::visit(&self.$field, _visit);)*
            }
            fn visit_mut(&mut self, _visit: &mut dyn FnMut(&mut $crate::entity::Value)) {
                $($crate::ops::define::Field::visit_mut(&mut self.$field, _visit);)*
            }
            fn visit_regions(&self, _visit: &mut dyn FnMut($crate::entity::Region)) {
                $($crate::ops::define::Field::regions(&self.$field, _visit);)*
            }
            fn visit_regions_mut(&mut self, _visit: &mut dyn FnMut(&mut $crate::entity::Region)) {
                $($crate::ops::define::Field::regions_mut(&mut self.$field, _visit);)*
            }
        }
    };
}

/// An attribute that is one of a few words. A leading `unsaid` names the word that is meant when none is written.
macro_rules! attr_enum {
    ($(#[$meta:meta])* pub enum $name:ident { $($(#[$vmeta:meta])* $variant:ident = $text:literal,)+ } $(unsaid $unsaid:ident)?) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$vmeta])* $variant,)+ }
        impl $name {
            /// Every value, in declaration order.
            pub const ALL: &[$name] = &[$($name::$variant),+];
            /// The word in the text form.
            pub const fn name(self) -> &'static str { match self { $(Self::$variant => $text,)+ } }
        }
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result { f.write_str(self.name()) }
        }
        impl std::str::FromStr for $name {
            type Err = String;
            fn from_str(text: &str) -> Result<Self, String> {
                match text { $($text => Ok(Self::$variant),)+ _ => Err(format!("`{text}` is none of {:?}", [$($text),+])) }
            }
        }
        impl $crate::ops::define::Attr for $name {
            $(fn unsaid() -> Option<Self> { Some(Self::$unsaid) }
            fn is_unsaid(&self) -> bool { matches!(self, Self::$unsaid) })?
        }
        $(impl Default for $name { fn default() -> Self { Self::$unsaid } })?
    };
}
/// What ops answer in the same words, as methods of their `OpRules`:
///
/// ```text
/// answers!(effects(ORDERS), shared(barrier: Atomic), scratch, one_thread, free_layouts);
/// ```
macro_rules! answers {
    ($($answer:ident $(($($of:tt)*))?),+) => { $($crate::ops::define::answer!($answer $($($of)*)?);)+ };
}

macro_rules! answer {
    // Memory and order, which no field changes.
    (effects $effects:expr) => {
        fn effects(&self) -> $crate::Effects {
            $effects
        }
    };
    // The views in these fields are accessed in these ways.
    (shared $($view:ident: $access:ident),+) => {
        fn shared_accesses(&self) -> $crate::ops::SharedAccesses {
            smallvec::smallvec![$((self.$view, $crate::ops::SharedAccess::$access)),+]
        }
    };
    // The field `scratch` holds what is planned.
    (scratch) => {
        fn scratch(&self) -> Option<$crate::ops::Scratch> {
            Some(self.scratch)
        }
        fn set_scratch(&mut self, scratch: $crate::ops::Scratch) {
            self.scratch = scratch;
        }
    };
    // The field `scope` says among whom.
    (scope) => {
        fn sync_scope(&self) -> Option<$crate::ops::Scope> {
            Some(self.scope)
        }
    };
    // One thread alone can do it.
    (one_thread) => {
        fn suits_one_thread(&self) -> bool {
            true
        }
    };
    // Each CTA of a cluster does its part, in its own shared memory.
    (cta_parts) => {
        fn does_cta_parts(&self) -> bool {
            true
        }
    };
    // Each element of the result is computed from the operands' elements at the same place.
    (elementwise) => {
        fn is_elementwise(&self) -> bool {
            true
        }
    };
    // Each element of the result is one of this operand's.
    (moves $operand:ident) => {
        fn moved_operand(&self) -> Option<$crate::entity::Value> {
            Some(self.$operand)
        }
    };
    // The result is recomputed at each use and kept in no registers.
    (rematerializable) => {
        fn is_rematerializable(&self) -> bool {
            true
        }
    };
    // It arrives at the barrier of the cluster, waits there, or both.
    (cluster_barrier $($part:ident),+) => {
        $($crate::ops::define::answer!($part at_cluster_barrier);)+
    };
    (arrives at_cluster_barrier) => {
        fn arrives_at_cluster_barrier(&self) -> bool {
            true
        }
    };
    (waits at_cluster_barrier) => {
        fn waits_at_cluster_barrier(&self) -> bool {
            true
        }
    };
    // Nothing ties the layouts of its operands and results.
    (free_layouts) => {
        fn layout_rule(&self) -> $crate::ops::LayoutRule {
            $crate::ops::LayoutRule::Free
        }
    };
}

pub(crate) use {answer, answers, attr_enum, define_op};
