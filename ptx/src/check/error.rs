//! What can be wrong with a module.

use crate::module::Version;
use crate::operand::{Label, Reg};
use crate::registers::RegClass;
use crate::statement::LocId;
use std::borrow::Cow;
use std::fmt;

/// One thing that is wrong, and where.
#[derive(Clone, Debug, PartialEq)]
pub struct CheckError {
    /// The entry or function; empty for the module itself.
    pub function: String,
    /// Index into the statements of its body.
    pub statement: Option<usize>,
    /// Text of the instruction; empty when the error is not about one.
    pub instruction: String,
    /// Location of the instruction in the body's table.
    pub loc: Option<LocId>,
    /// What is wrong.
    pub problem: Problem,
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq)]
pub enum Problem {
    /// The register table has no such register.
    UnknownRegister(Reg),
    /// No label has this number.
    UnknownLabel(Label),
    /// A label is branched to and never placed.
    LabelNotPlaced(String),
    /// A label is placed twice.
    LabelPlacedTwice(String),
    /// A symbol's number is past the end of its list.
    UnknownSymbol(&'static str, u32),
    /// A register of the wrong class.
    RegisterClass {
        /// Which operand.
        operand: &'static str,
        /// The class of the register.
        class: RegClass,
        /// What fits, in words.
        expected: String,
    },
    /// An operand of the wrong kind, such as an immediate where only a register is allowed.
    OperandKind {
        /// Which operand.
        operand: &'static str,
        /// What it is, in words.
        found: &'static str,
        /// What fits, in words.
        expected: String,
    },
    /// The wrong number of elements in braces, or an operand too few or too many.
    Count {
        /// Which operand.
        operand: &'static str,
        /// How many there are.
        found: usize,
        /// How many there must be.
        expected: usize,
    },
    /// An immediate out of its range.
    Immediate {
        /// Which operand.
        operand: &'static str,
        /// Its value.
        value: i64,
        /// What is allowed, in words.
        allowed: Cow<'static, str>,
    },
    /// A modifier or type that the instruction does not have in this combination.
    Modifier(String),
    /// An address whose known part is not a multiple of what the access needs.
    Alignment {
        /// Name of the variable or parameter.
        symbol: String,
        /// Byte offset from it.
        offset: i64,
        /// Bytes that the access must be aligned to.
        align: u32,
    },
    /// An access that starts before or ends after its variable or parameter.
    OutOfBounds {
        /// Name of the variable or parameter.
        symbol: String,
        /// First byte of the access.
        offset: i64,
        /// Bytes of the access.
        bytes: u32,
        /// Bytes of the variable.
        size: u64,
    },
    /// The module's `.version` is too low.
    Version {
        /// What needs it.
        feature: &'static str,
        /// Lowest version that has it.
        needs: Version,
        /// Version of the module.
        has: Version,
    },
    /// The module's `.target` lacks the feature.
    Target {
        /// What needs it.
        feature: &'static str,
        /// The target that has it.
        needs: &'static str,
    },
    /// A directive, variable or parameter that cannot be.
    Declaration(String),
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownRegister(reg) => write!(f, "register {} is not declared", reg.0),
            Self::UnknownLabel(label) => write!(f, "label {} is not declared", label.0),
            Self::LabelNotPlaced(name) => {
                write!(f, "label `{name}` is branched to but stands nowhere")
            }
            Self::LabelPlacedTwice(name) => write!(f, "label `{name}` is placed twice"),
            Self::UnknownSymbol(what, index) => write!(f, "there is no {what} number {index}"),
            Self::RegisterClass {
                operand,
                class,
                expected,
            } => {
                write!(
                    f,
                    "operand `{operand}` is a .{} register; expected {expected}",
                    class.text()
                )
            }
            Self::OperandKind {
                operand,
                found,
                expected,
            } => {
                write!(f, "operand `{operand}` is {found}; expected {expected}")
            }
            Self::Count {
                operand,
                found,
                expected,
            } => {
                write!(
                    f,
                    "operand `{operand}` has {found} elements; expected {expected}"
                )
            }
            Self::Immediate {
                operand,
                value,
                allowed,
            } => {
                write!(f, "operand `{operand}` is {value}; expected {allowed}")
            }
            Self::Modifier(message) | Self::Declaration(message) => f.write_str(message),
            Self::Alignment {
                symbol,
                offset,
                align,
            } => {
                write!(
                    f,
                    "`{symbol}+{offset}` is not aligned to the {align} bytes that the access needs"
                )
            }
            Self::OutOfBounds {
                symbol,
                offset,
                bytes,
                size,
            } => {
                write!(
                    f,
                    "{bytes} bytes at `{symbol}+{offset}` leave its {size} bytes"
                )
            }
            Self::Version {
                feature,
                needs,
                has,
            } => write!(f, "{feature} needs .version {needs}, the module has {has}"),
            Self::Target { feature, needs } => write!(f, "{feature} needs .target {needs}"),
        }
    }
}

impl fmt::Display for CheckError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.problem)?;
        if !self.instruction.is_empty() {
            write!(f, ", in `{}`", self.instruction)?;
        }
        if !self.function.is_empty() {
            write!(f, ", in `{}`", self.function)?;
        }
        Ok(())
    }
}

impl std::error::Error for CheckError {}
