//! Regions and their instructions. Which fields an op has is the op's own to say.

use std::collections::HashMap;

use smallvec::SmallVec;

use super::help::{Form, nearest};
use super::{Parsed, Parser, Token};
use crate::Type;
use crate::entity::{Region, Value};
use crate::ops::{FieldReader, Op, TextOperand};

/// Regions inside each other: passes walk them on the stack. Loops and branches of a kernel stand some ten deep.
const DEEPEST: usize = 64;

impl Parser<'_> {
    /// `%name: type`
    pub(super) fn declaration(&mut self) -> Parsed<(String, Type)> {
        let Token::Value(name) = self.next() else {
            return self.error_before("expected `%name: type`");
        };
        self.expect(':')?;
        Ok((name, self.ty()?))
    }

    pub(super) fn define(&mut self, name: String, value: Value, named_at: usize) -> Parsed<()> {
        if self.scopes.iter().any(|s| s.contains_key(&name)) {
            return self.error_from(named_at, format!("`%{name}` is defined twice"));
        }
        // Numbers are no hints: they are given anew when the function is printed. Neither is the count behind a hint.
        if !name.starts_with(|c: char| c.is_ascii_digit()) {
            let hint = match name.rsplit_once('.') {
                Some((hint, count)) if count.parse::<u32>().is_ok() => hint,
                _ => &name,
            };
            self.func.set_name(value, hint);
        }
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name, value);
        }
        Ok(())
    }

    fn lookup(&mut self, name: &str) -> Parsed<Value> {
        if let Some(value) = self.scopes.iter().rev().find_map(|s| s.get(name)) {
            return Ok(*value);
        }
        let known = self
            .scopes
            .iter()
            .flat_map(|s| s.keys())
            .map(String::as_str);
        let help = nearest(name, known, "%").unwrap_or_else(|| {
            "a value is defined before it is used, in this region or one around it".into()
        });
        let message = format!("`%{name}` is not defined here");
        self.error_with_help(self.at.saturating_sub(1), message, help)
    }

    pub(super) fn block(&mut self, region: Region) -> Parsed<()> {
        self.expect('{')?;
        while !self.eat('}') {
            if *self.peek() == Token::End {
                return self.error("expected `}`");
            }
            self.part(Form::Instruction, |parser| parser.inst(region))?;
        }
        Ok(())
    }

    fn inst(&mut self, region: Region) -> Parsed<()> {
        self.place = self.place.moved_to(self.text, self.tokens[self.at].start);
        let (line, column) = (self.place.line, self.place.column(self.text));
        let mut names = Vec::new();
        while let Token::Value(name) = self.peek().clone() {
            names.push((name, self.at));
            self.next();
            if !self.eat(',') {
                self.expect('=')?;
                break;
            }
        }
        let start = self.at;
        let mnemonic = self.word("an op")?;
        let mut fields = self.fields()?;
        let types = self.result_types()?;
        let op = match Op::read(&mnemonic, &mut fields) {
            Some(Ok(op)) => op,
            Some(Err(e)) => return self.error_from(start, format!("`{mnemonic}`: {e}")),
            None => {
                let help = nearest(&mnemonic, Op::MNEMONICS.iter().copied(), "");
                let help = help.unwrap_or_else(|| self.form.to_string());
                let message = format!("no op is called `{mnemonic}`");
                return self.error_with_help(start, message, help);
            }
        };
        if let Some(extra) = fields.leftover() {
            return self.error_from(start, format!("`{mnemonic}`: {extra}"));
        }
        if names.len() != types.len() {
            return self.error_from(
                start,
                format!(
                    "{} results are named and {} types given",
                    names.len(),
                    types.len()
                ),
            );
        }
        let loc = self.func.locations.add(self.file, line, column, None);
        let inst = self.func.make_inst(op, types, Some(loc));
        self.func.append(region, inst);
        let results: SmallVec<[Value; 4]> = self.func.results(inst).into();
        for ((name, named_at), value) in names.into_iter().zip(results) {
            self.define(name, value, named_at)?;
        }
        Ok(())
    }

    fn fields(&mut self) -> Parsed<FieldReader> {
        let mut fields = FieldReader::default();
        // What an op without operands is followed by on the next line names that line's results.
        if self.continues_line() {
            self.operands(&mut fields)?;
        }
        if self.eat('{') {
            self.attributes(&mut fields)?;
        }
        while self.is('(') {
            let region = self.region()?;
            fields.regions.push_back(region);
        }
        Ok(fields)
    }

    fn operands(&mut self, fields: &mut FieldReader) -> Parsed<()> {
        loop {
            match self.peek().clone() {
                Token::Value(name) => {
                    self.next();
                    let value = self.lookup(&name)?;
                    fields.operands.push_back(TextOperand::One(value));
                }
                Token::Punct('[') => {
                    self.next();
                    let values = self.value_list()?;
                    fields.operands.push_back(TextOperand::Many(values));
                }
                Token::Word(field)
                    if self.tokens.get(self.at + 1).map(|t| &t.token)
                        == Some(&Token::Punct('=')) =>
                {
                    self.next();
                    self.next();
                    let Token::Value(name) = self.next() else {
                        return self.error_before(format!("expected `{field}=%value`"));
                    };
                    let value = self.lookup(&name)?;
                    fields.operands.push_back(TextOperand::Named(field, value));
                }
                _ => return Ok(()),
            }
            if !self.eat(',') {
                return Ok(());
            }
        }
    }

    fn value_list(&mut self) -> Parsed<Vec<Value>> {
        let mut values = Vec::new();
        self.list(']', |parser| {
            let Token::Value(name) = parser.next() else {
                return parser.error_before("expected `%value` or `]`");
            };
            values.push(parser.lookup(&name)?);
            Ok(())
        })?;
        Ok(values)
    }

    fn attributes(&mut self, fields: &mut FieldReader) -> Parsed<()> {
        self.list('}', |parser| {
            let name = parser.word("an attribute name")?;
            parser.expect('=')?;
            let text = parser.attribute_text()?;
            fields.attrs.push((name, text));
            Ok(())
        })
    }

    /// The raw text up to the comma or brace that ends an attribute.
    fn attribute_text(&mut self) -> Parsed<String> {
        let start = self.tokens[self.at].start;
        let mut end = start;
        let mut depth = 0_u32;
        loop {
            match self.peek() {
                Token::Punct(',' | '}') if depth == 0 => break,
                Token::Punct('(' | '[' | '{' | '<') => depth += 1,
                Token::Punct(')' | ']' | '}' | '>') => depth = depth.saturating_sub(1),
                Token::End => return self.error("expected `}`"),
                _ => {}
            }
            end = self.tokens[self.at].end;
            self.next();
        }
        Ok(self.text[start..end].to_owned())
    }

    fn region(&mut self) -> Parsed<Region> {
        if self.scopes.len() > DEEPEST {
            return self.error(format!(
                "this region stands inside {DEEPEST} others, and more are not read"
            ));
        }
        let region = self.func.new_region();
        self.scopes.push(HashMap::new());
        self.expect('(')?;
        self.list(')', |parser| {
            let named_at = parser.at;
            let (name, ty) = parser.declaration()?;
            let value = parser.func.add_region_param(region, ty);
            parser.define(name, value, named_at)
        })?;
        self.block(region)?;
        self.scopes.pop();
        Ok(region)
    }

    fn result_types(&mut self) -> Parsed<SmallVec<[Type; 1]>> {
        let mut types = SmallVec::new();
        if !self.eat(':') {
            return Ok(types);
        }
        types.push(self.ty()?);
        while self.eat(',') {
            types.push(self.ty()?);
        }
        Ok(types)
    }
}
