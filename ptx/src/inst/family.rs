//! The macro that declares an instruction family: its data, spelling and operands in one place.

use crate::operand::{Reg, Role};
use crate::parse::{OperandParser, Reject};
use crate::print::Printer;
use crate::spelling::Modifiers;

/// What every instruction family can do; all of it follows from its declaration.
pub(crate) trait Family: Sized {
    fn print(&self, printer: &mut Printer<'_>);
    fn parse(
        modifiers: &mut Modifiers<'_>,
        operands: &mut OperandParser<'_, '_>,
    ) -> Result<Self, Reject>;
    fn visit(&self, f: &mut dyn FnMut(Reg, Role));
    fn visit_mut(&mut self, f: &mut dyn FnMut(&mut Reg, Role));
}

/// Declares instruction families.
///
/// ```text
/// Name: ["head" field: Type, field ? Type, field = "flag"; "tail"] (out a: T, in b: T, in c ? T; in field)
/// ```
///
/// Brackets hold the opcode, in printed order: literal pieces, required modifiers (`:`), optional ones (`?`,
/// an `Option`) and flags (`=`, a `bool`). Parentheses hold the operands with their role (`out`, `in`, `inout`);
/// after the semicolon come operands that belong to a modifier (`.L2::cache_hint` and its policy).
macro_rules! family {
    ($(
        $(#[$meta:meta])*
        $name:ident : [
            $( $($lit:literal)* $(#[$fm:meta])* $field:ident $(: $ty:ident)? $(? $oty:ident)? $(= $flag:literal)? ),*
            $(; $($tail:literal)+)?
        ] (
            $( $(#[$om:meta])* $role:ident $op:ident $(: $opty:ident)? $(? $oopty:ident)? ),*
            $(; $($lrole:ident $late:ident),+)?
        );
    )+) => { $(
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            $(
                $(#[doc = concat!("The modifier [`", stringify!($ty), "`].")])?
                $(#[doc = concat!("The modifier [`", stringify!($oty), "`], when given.")])?
                $(#[doc = concat!("`.", $flag, "`")])?
                $(#[$fm])*
                pub $field: $crate::inst::family::field_type!($($ty)? $(? $oty)? $(= $flag)?),
            )*
            $(
                #[doc = concat!("Operand `", stringify!($op), "` (", stringify!($role), ").")]
                $(#[$om])*
                pub $op: $crate::inst::family::field_type!($($opty)? $(? $oopty)?),
            )*
        }

        impl $name {
            /// The instruction with its required parts; optional ones are absent.
            #[allow(clippy::too_many_arguments, reason = "one argument per required part of the instruction")]
            #[allow(clippy::new_without_default, reason = "an instruction without parts is no default of anything")]
            pub fn new($($($field: $ty,)?)* $($($op: impl Into<$opty>,)?)*) -> Self {
                Self {
                    $($field: $crate::inst::family::initial!($field $($ty)? $(? $oty)? $(= $flag)?),)*
                    $($op: $crate::inst::family::initial_operand!($op $($opty)? $(? $oopty)?),)*
                }
            }
        }

        impl From<$name> for $crate::inst::Inst {
            fn from(inst: $name) -> Self {
                Self::$name(inst)
            }
        }

        impl $crate::inst::family::Family for $name {
            fn print(&self, printer: &mut $crate::print::Printer<'_>) {
                #[allow(unused_mut, reason = "an opcode may have no modifiers")]
                let mut opcode = printer.opcode();
                $(
                    $(opcode.piece($lit);)*
                    $crate::inst::family::print_modifier!(opcode, self.$field, $($ty)? $(? $oty)? $(= $flag)?);
                )*
                $($(opcode.piece($tail);)+)?
                $($crate::inst::family::print_operand!(printer, self.$op, $($opty)? $(? $oopty)?);)*
                $($($crate::inst::family::print_operand!(printer, self.$late, ? Late);)+)?
            }

            fn parse(
                modifiers: &mut $crate::spelling::Modifiers<'_>,
                operands: &mut $crate::parse::OperandParser<'_, '_>,
            ) -> Result<Self, $crate::parse::Reject> {
                $(
                    $(modifiers.require($lit)?;)*
                    #[allow(unused_mut, reason = "only modifiers with an operand are filled in later")]
                    let mut $field = $crate::inst::family::parse_modifier!(
                        modifiers, $($ty)? $(? $oty)? $(= $flag)?);
                )*
                $($(modifiers.require($tail)?;)+)?
                modifiers.end()?;
                operands.begin(
                    0 $($(+ { let _ = stringify!($opty); 1 })?)* $($(+ usize::from($late.is_some()))+)?);
                $(let $op = $crate::inst::family::parse_operand!(operands, $($opty)? $(? $oopty)?);)*
                $($(
                    if $late.is_some() {
                        $late = Some(operands.required()?);
                    }
                )+)?
                operands.finish()?;
                Ok(Self { $($field,)* $($op,)* })
            }

            #[allow(unused_variables, reason = "an instruction may have no operands")]
            fn visit(&self, f: &mut dyn FnMut($crate::operand::Reg, $crate::operand::Role)) {
                #[allow(unused_imports, reason = "an instruction may have no operands")]
                use $crate::inst::operands::OperandSyntax as _;
                $(self.$op.visit($crate::inst::family::role!($role), f);)*
                $($(self.$late.visit($crate::inst::family::role!($lrole), f);)+)?
            }

            #[allow(unused_variables, reason = "an instruction may have no operands")]
            fn visit_mut(&mut self, f: &mut dyn FnMut(&mut $crate::operand::Reg, $crate::operand::Role)) {
                #[allow(unused_imports, reason = "an instruction may have no operands")]
                use $crate::inst::operands::OperandSyntax as _;
                $(self.$op.visit_mut($crate::inst::family::role!($role), f);)*
                $($(self.$late.visit_mut($crate::inst::family::role!($lrole), f);)+)?
            }
        }
    )+ };
}

macro_rules! field_type {
    ($ty:ident) => { $ty };
    (? $ty:ident) => { Option<$ty> };
    (= $flag:literal) => { bool };
}

macro_rules! initial {
    ($field:ident $ty:ident) => {
        $field
    };
    ($field:ident ? $ty:ident) => {
        None
    };
    ($field:ident = $flag:literal) => {
        false
    };
}

macro_rules! initial_operand {
    ($field:ident $ty:ident) => {
        $field.into()
    };
    ($field:ident ? $ty:ident) => {
        None
    };
}

macro_rules! print_modifier {
    ($out:ident, $value:expr, $ty:ident) => {
        $crate::spelling::Modifier::print(&$value, &mut $out)
    };
    ($out:ident, $value:expr, ? $ty:ident) => {
        if let Some(value) = &$value {
            $crate::spelling::Modifier::print(value, &mut $out)
        }
    };
    ($out:ident, $value:expr, = $flag:literal) => {
        if $value {
            $out.piece($flag)
        }
    };
}

macro_rules! parse_modifier {
    ($modifiers:ident, $ty:ident) => {
        <$ty as $crate::spelling::Modifier>::parse($modifiers).ok_or($crate::spelling::Mismatch)?
    };
    ($modifiers:ident, ? $ty:ident) => {
        <$ty as $crate::spelling::Modifier>::parse($modifiers)
    };
    ($modifiers:ident, = $flag:literal) => {
        $modifiers.eat($flag)
    };
}

macro_rules! print_operand {
    ($printer:ident, $value:expr, $ty:ident) => {
        $printer.operand(&$value)
    };
    ($printer:ident, $value:expr, ? $ty:ident) => {
        if let Some(value) = &$value {
            $printer.operand(value)
        }
    };
}

macro_rules! parse_operand {
    ($operands:ident, $ty:ident) => {
        $operands.required::<$ty>()?
    };
    ($operands:ident, ? $ty:ident) => {
        $operands.optional::<$ty>()?
    };
}

macro_rules! role {
    (out) => {
        $crate::operand::Role::Write
    };
    (in) => {
        $crate::operand::Role::Read
    };
    (inout) => {
        $crate::operand::Role::ReadWrite
    };
}

pub(crate) use {
    family, field_type, initial, initial_operand, parse_modifier, parse_operand, print_modifier,
    print_operand, role,
};
