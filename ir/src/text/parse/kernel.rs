//! What stands around the body of a kernel: layouts, parameters and properties.

use std::collections::HashMap;

use super::help::Form;
use super::{Parsed, Parser, Token};
use crate::Func;
use crate::elem::Elem;
use layout::AnyLayout;
use target::{TARGETS, Target};

/// Is it a name in PTX (PTX ISA, Identifiers)? A sign before the first letter has a meaning there or none.
fn is_identifier(name: &str) -> bool {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$');
    let begins = |c: char| c.is_ascii_alphabetic() || matches!(c, '_' | '$') && name.len() > 1;
    name.starts_with(begins) && name.chars().all(is_of_name)
}

impl Parser<'_> {
    pub(super) fn file_of_one_kernel(&mut self) -> Parsed<()> {
        while let Token::Alias(_) = self.peek() {
            self.part(Form::Layout, Self::layout_alias)?;
        }
        match self.word("`kernel`")?.as_str() {
            "kernel" => self.kernel()?,
            other => return self.error_before(format!("expected `kernel`, found `{other}`")),
        }
        match self.peek() {
            Token::End => Ok(()),
            other => self.error(format!(
                "a file holds one kernel; expected its end, found {other}"
            )),
        }
    }

    fn layout_alias(&mut self) -> Parsed<()> {
        let Token::Alias(name) = self.next() else {
            return self.error_before("expected a layout name");
        };
        self.expect('=')?;
        // A layout ends where the next line begins; its own grammar is the layout module's.
        let start = self.tokens[self.at].start;
        let end = self.text[start..]
            .find('\n')
            .map_or(self.text.len(), |i| start + i);
        let text = self.text[start..end]
            .split("//")
            .next()
            .unwrap_or("")
            .trim();
        let layout = text
            .parse::<AnyLayout>()
            .or_else(|e| self.error(format!("{e}")))?;
        while self.tokens[self.at].start < end && *self.peek() != Token::End {
            self.next();
        }
        self.layouts.insert(name, layout);
        Ok(())
    }

    fn kernel(&mut self) -> Parsed<()> {
        let Token::Symbol(name) = self.next() else {
            return self.error_before("expected the kernel's name as `@name`");
        };
        if !is_identifier(&name) {
            return self.error_before(format!(
                "a kernel's name is an identifier of PTX: a letter and then letters, digits, `_` and `$`, not `@{name}`"
            ));
        }
        self.func = Func::new(&name, 4);
        self.scopes.push(HashMap::new());
        self.expect('(')?;
        self.part(Form::Parameter, |parser| {
            parser.list(')', Self::kernel_param)
        })?;
        while !self.is('{') {
            self.part(Form::Property, Self::kernel_property)?;
        }
        let body = self.func.body;
        self.block(body)
    }

    fn kernel_param(&mut self) -> Parsed<()> {
        let named_at = self.at;
        let (name, ty) = self.declaration()?;
        // Its name in PTX is the kernel's with this behind it.
        if !is_identifier(&format!("k_{name}")) {
            let message =
                format!("a parameter's name has letters, digits, `_` and `$`, not `%{name}`");
            return self.error_from(named_at, message);
        }
        let (mut divisor, mut is_readonly) = (1, false);
        if self.eat('{') {
            loop {
                match self.word("`divisor` or `readonly`")?.as_str() {
                    "divisor" => divisor = self.divisor()?,
                    "readonly" if ty.elem().is_some_and(Elem::is_ptr) => is_readonly = true,
                    "readonly" => return self.error_before("only a pointer is `readonly`"),
                    word => {
                        let message =
                            format!("a parameter has a `divisor` or is `readonly`, not `{word}`");
                        return self.error_before(message);
                    }
                }
                if !self.eat(',') {
                    break;
                }
            }
            self.expect('}')?;
        }
        let value = self.func.add_param(&name, ty, divisor);
        if let Some(param) = self.func.params.last_mut() {
            param.is_readonly = is_readonly;
        }
        self.define(name, value, named_at)
    }

    fn divisor(&mut self) -> Parsed<u32> {
        self.expect('=')?;
        let divisor: u32 = self.number("a power of two")?;
        if divisor.is_power_of_two() {
            Ok(divisor)
        } else {
            self.error_before("a divisor is a power of two")
        }
    }

    fn kernel_property(&mut self) -> Parsed<()> {
        let word = self.word("`warps(..)`, `stage(..)` or `{`")?;
        if word == "cooperative" {
            self.func.is_cooperative = true;
            return Ok(());
        }
        self.expect('(')?;
        match word.as_str() {
            "warps" => self.func.warps = self.number("the number of warps")?,
            "target" => self.target()?,
            "max_registers" => self.func.max_registers = Some(self.number("registers")?),
            "min_ctas_per_sm" => self.func.min_ctas_per_sm = Some(self.number("CTAs")?),
            "cluster" => self.cluster()?,
            "shared_bytes" => self.func.shared_bytes = self.number("bytes of shared memory")?,
            "deny" => self.denied()?,
            "stage" => {
                let name = self.word("a stage")?;
                self.func.stage = name.parse().or_else(|e: String| self.error_before(e))?;
            }
            _ => return self.error_before(format!("a kernel has no `{word}`")),
        }
        self.expect(')')
    }

    fn target(&mut self) -> Parsed<()> {
        let arch = self.word("a target")?;
        let Some(target) = Target::named(&arch) else {
            let known = TARGETS
                .map(|target| format!("`{}`", target.arch))
                .join(", ");
            return self.error_before(format!("`{arch}` is no target; there is {known}"));
        };
        self.func.target = target;
        Ok(())
    }

    fn cluster(&mut self) -> Parsed<()> {
        for axis in 0..3 {
            if axis > 0 {
                self.expect(',')?;
            }
            self.func.cluster[axis] = self.number("CTAs along x, y and z")?;
        }
        self.func.says_cluster = true;
        Ok(())
    }

    fn denied(&mut self) -> Parsed<()> {
        loop {
            let word = self.word("what is denied")?;
            let c = &mut self.func.contracts;
            match word.as_str() {
                "conversions" => c.denies_conversions = true,
                "uncoalesced" => c.denies_uncoalesced = true,
                "bank_conflicts" => c.denies_bank_conflicts = true,
                "spills" => c.denies_spills = true,
                _ => return self.error_before(format!("`{word}` cannot be denied")),
            }
            if !self.eat(',') {
                return Ok(());
            }
        }
    }
}
