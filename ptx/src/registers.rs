//! The virtual registers of a body.

use crate::operand::Reg;
use crate::spelling::{Spelled, spelled};
use crate::types::{Special, Type, TypeKind};
use rustc_hash::FxHashSet;

spelled! {
    /// What a register holds. PTX has typed registers; here signedness belongs to the instructions and only
    /// the width and float-or-not stay (`.b32` may be used wherever 32 bits are requested, PTX ISA 9.4).
    RegClass {
        Pred = "pred",
        B16 = "b16" | "u16" | "s16" | "f16" | "bf16",
        B32 = "b32" | "u32" | "s32" | "f16x2" | "bf16x2",
        B64 = "b64" | "u64" | "s64",
        B128 = "b128",
        F32 = "f32",
        F64 = "f64",
    }
}

impl RegClass {
    /// Width in bits; one for a predicate.
    pub const fn bits(self) -> u32 {
        match self {
            Self::Pred => 1,
            Self::B16 => 16,
            Self::B32 | Self::F32 => 32,
            Self::B64 | Self::F64 => 64,
            Self::B128 => 128,
        }
    }

    /// The class in which an emitter keeps values of `ty`. Types below 16 bits live in 16-bit registers.
    pub const fn of(ty: Type) -> Self {
        match (ty.kind(), ty.bits()) {
            (TypeKind::Pred, _) => Self::Pred,
            (_, 0..=16) => Self::B16,
            (_, 128) => Self::B128,
            _ => match ty {
                Type::F32 => Self::F32,
                Type::F64 => Self::F64,
                Type::B64 | Type::U64 | Type::S64 => Self::B64,
                _ => Self::B32,
            },
        }
    }

    /// Name of the unnamed registers of this class, without the percent sign.
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::Pred => "p",
            Self::B16 => "rs",
            Self::B32 => "r",
            Self::B64 => "rd",
            Self::B128 => "rq",
            Self::F32 => "f",
            Self::F64 => "fd",
        }
    }
}

/// Registers that share a name: `.reg .f32 %acc<64>;` or the single `.reg .b32 %row;`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegGroup {
    /// The full name with its percent sign, where it has one; members of a range append their index.
    pub name: String,
    /// What every member holds.
    pub class: RegClass,
    /// Members of a range; none for a single register without an index.
    pub len: Option<u32>,
}

/// Class and name of one register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RegInfo {
    pub(crate) class: RegClass,
    pub(crate) group: u32,
    pub(crate) index: u32,
}

/// The register table of a body. [`Reg`] is an index into it.
#[derive(Clone, Debug, Default)]
pub struct Registers {
    groups: Vec<RegGroup>,
    list: Vec<RegInfo>,
    /// Group of the unnamed registers of each class, by class number.
    unnamed: [Option<u32>; RegClass::ALL.len()],
    names: FxHashSet<String>,
}

/// Two tables are equal when they declare the same registers.
impl PartialEq for Registers {
    fn eq(&self, other: &Self) -> bool {
        self.groups == other.groups && self.list == other.list
    }
}

impl Registers {
    /// Number of registers.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// No registers at all.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The class of `reg`, or none when the table has no such register.
    pub fn get(&self, reg: Reg) -> Option<RegClass> {
        self.list.get(reg.0 as usize).map(|info| info.class)
    }

    /// The class of a register of this table.
    pub fn class(&self, reg: Reg) -> RegClass {
        self.list[reg.0 as usize].class
    }

    /// Every register with its class, in table order.
    pub fn iter(&self) -> impl Iterator<Item = (Reg, RegClass)> {
        self.list
            .iter()
            .enumerate()
            .map(|(index, info)| (Reg(index as u32), info.class))
    }

    /// The groups, in the order of their declarations.
    pub fn groups(&self) -> &[RegGroup] {
        &self.groups
    }

    /// The name of `reg`, such as `%r7` or `%acc12`.
    pub fn name(&self, reg: Reg) -> String {
        match self.parts(reg) {
            Some((name, Some(index))) => format!("{name}{index}"),
            Some((name, None)) => name.to_owned(),
            None => format!("%undeclared{}", reg.0),
        }
    }

    /// The name of the group of `reg` and, in a range, its number.
    pub(crate) fn parts(&self, reg: Reg) -> Option<(&str, Option<u32>)> {
        let info = self.list.get(reg.0 as usize)?;
        let group = &self.groups[info.group as usize];
        Some((&group.name, group.len.map(|_| info.index)))
    }

    /// A new register `%r7`, `%f3`, ... of `class`.
    pub fn add(&mut self, class: RegClass) -> Reg {
        let group = if let Some(group) = self.unnamed[class as usize] {
            group
        } else {
            let prefix = format!("%{}", class.prefix());
            let name = if self.names.contains(&prefix) {
                self.free_name(class.prefix())
            } else {
                prefix
            };
            let group = self.push_group(name, class, Some(0));
            self.unnamed[class as usize] = Some(group);
            group
        };
        let len = self.groups[group as usize].len.unwrap_or(0);
        self.groups[group as usize].len = Some(len + 1);
        self.push_member(group, len)
    }

    /// A new register called `%name`; a name that is taken gets a suffix.
    pub fn add_named(&mut self, name: &str, class: RegClass) -> Reg {
        let name = self.free_name(name);
        let group = self.push_group(name, class, None);
        self.push_member(group, 0)
    }

    /// `len` new registers `%name0`, `%name1`, ...; a name that is taken gets a suffix.
    pub fn add_range(&mut self, name: &str, class: RegClass, len: u32) -> Vec<Reg> {
        let name = self.free_name(name);
        self.declare_range(name, class, len)
    }

    /// Declares a single register under exactly this name.
    pub(crate) fn declare(&mut self, name: String, class: RegClass) -> Reg {
        let group = self.push_group(name, class, None);
        self.push_member(group, 0)
    }

    /// Declares a range under exactly this name; the prefix of a class becomes the group of its unnamed registers.
    pub(crate) fn declare_range(&mut self, name: String, class: RegClass, len: u32) -> Vec<Reg> {
        let is_unnamed = name.strip_prefix('%') == Some(class.prefix());
        let group = self.push_group(name, class, Some(len));
        if is_unnamed {
            self.unnamed[class as usize].get_or_insert(group);
        }
        (0..len)
            .map(|index| self.push_member(group, index))
            .collect()
    }

    fn push_group(&mut self, name: String, class: RegClass, len: Option<u32>) -> u32 {
        self.names.insert(name.clone());
        self.groups.push(RegGroup { name, class, len });
        self.groups.len() as u32 - 1
    }

    fn push_member(&mut self, group: u32, index: u32) -> Reg {
        let class = self.groups[group as usize].class;
        self.list.push(RegInfo {
            class,
            group,
            index,
        });
        Reg(self.list.len() as u32 - 1)
    }

    /// A name that no other register can have: members of a range end in a digit, so a name itself never does.
    fn free_name(&self, wanted: &str) -> String {
        let mut name: String = std::iter::once('%')
            .chain(wanted.chars().map(|c| {
                if c.is_ascii_alphanumeric() || c == '$' {
                    c
                } else {
                    '_'
                }
            }))
            .collect();
        if name.ends_with(|c: char| c.is_ascii_digit()) || name.len() == 1 {
            name.push('_');
        }
        let reserved = RegClass::ALL
            .iter()
            .any(|class| name[1..] == *class.prefix())
            || Special::SPELLINGS
                .iter()
                .any(|(text, _)| text.split('.').next() == Some(&name));
        if !reserved && !self.names.contains(&name) {
            return name;
        }
        let mut number = 1;
        loop {
            let unique = format!("{name}_{number}_");
            if !self.names.contains(&unique) {
                return unique;
            }
            number += 1;
        }
    }

    /// Puts the members of each group next to each other, in the order of the groups, as their declarations
    /// read back; returns the new number of every register.
    pub(crate) fn canonicalize(&mut self) -> Vec<Reg> {
        let mut order: Vec<u32> = (0..self.list.len() as u32).collect();
        order.sort_by_key(|&reg| {
            let info = self.list[reg as usize];
            (info.group, info.index)
        });
        let mut renumbered = vec![Reg(0); order.len()];
        for (new, &old) in order.iter().enumerate() {
            renumbered[old as usize] = Reg(new as u32);
        }
        self.list = order.iter().map(|&old| self.list[old as usize]).collect();
        renumbered
    }
}
