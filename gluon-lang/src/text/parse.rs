//! The parser: tokens to a function. It has no arm for any op.

use std::collections::HashMap;
use std::fmt;

use smallvec::SmallVec;

use super::lex::{Spanned, Token, lex};
use crate::elem::Elem;
use crate::entity::{Region, Value};
use crate::ir::{Func, SmemType, TensorMapMode, TensorMapType, Type};
use crate::layout::{AnyLayout, Dims, Layout, SharedLayout};
use crate::ops::{FieldReader, Op, TextOperand};

/// Where a text leaves the grammar, and what was expected there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
    /// What is there and what was expected.
    pub message: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.message)
    }
}

impl std::error::Error for ParseError {}

/// Reads one kernel. `file` names the text in the places of its instructions.
pub fn parse(file: &str, text: &str) -> Result<Func, ParseError> {
    let tokens =
        lex(text).map_err(|(at, c)| error_at(text, at, format!("`{c}` begins nothing here")))?;
    let mut parser = Parser {
        text,
        file,
        tokens,
        at: 0,
        layouts: HashMap::new(),
        scopes: Vec::new(),
        func: Func::new("", 1),
    };
    parser.file_of_one_kernel()?;
    Ok(parser.func)
}

fn line_column(text: &str, at: usize) -> (u32, u32) {
    let before = &text[..at];
    let line = before.matches('\n').count() as u32 + 1;
    let start = before.rfind('\n').map_or(0, |i| i + 1);
    (line, before[start..].chars().count() as u32 + 1)
}

fn error_at(text: &str, at: usize, message: String) -> ParseError {
    let (line, column) = line_column(text, at);
    ParseError {
        line,
        column,
        message,
    }
}

type Parsed<T> = Result<T, ParseError>;

struct Parser<'t> {
    text: &'t str,
    file: &'t str,
    tokens: Vec<Spanned>,
    at: usize,
    layouts: HashMap<String, AnyLayout>,
    scopes: Vec<HashMap<String, Value>>,
    func: Func,
}

impl Parser<'_> {
    fn peek(&self) -> &Token {
        &self.tokens[self.at].token
    }

    fn next(&mut self) -> Token {
        let token = self.tokens[self.at].token.clone();
        if self.at + 1 < self.tokens.len() {
            self.at += 1;
        }
        token
    }

    /// An error at the token read last.
    fn error_before<T>(&self, message: impl Into<String>) -> Parsed<T> {
        let start = self.tokens[self.at.saturating_sub(1)].start;
        Err(error_at(self.text, start, message.into()))
    }

    /// An error at the token to come.
    fn error<T>(&self, message: impl Into<String>) -> Parsed<T> {
        Err(error_at(
            self.text,
            self.tokens[self.at].start,
            message.into(),
        ))
    }

    fn is(&self, c: char) -> bool {
        *self.peek() == Token::Punct(c)
    }

    fn eat(&mut self, c: char) -> bool {
        let is = self.is(c);
        if is {
            self.next();
        }
        is
    }

    fn expect(&mut self, c: char) -> Parsed<()> {
        if self.eat(c) {
            return Ok(());
        }
        self.error(format!("expected `{c}`, found {}", self.peek()))
    }

    fn word(&mut self, what: &str) -> Parsed<String> {
        match self.peek() {
            Token::Word(_) => match self.next() {
                Token::Word(w) => Ok(w),
                _ => self.error_before(format!("expected {what}")),
            },
            other => self.error(format!("expected {what}, found {other}")),
        }
    }

    fn number(&mut self, what: &str) -> Parsed<u32> {
        let word = self.word(what)?;
        word.parse()
            .or_else(|_| self.error_before(format!("expected {what}, found `{word}`")))
    }

    fn file_of_one_kernel(&mut self) -> Parsed<()> {
        while let Token::Alias(_) = self.peek() {
            self.layout_alias()?;
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
        self.func = Func::new(&name, 4);
        self.scopes.push(HashMap::new());
        self.expect('(')?;
        while !self.eat(')') {
            self.kernel_param()?;
            if !self.is(')') {
                self.expect(',')?;
            }
        }
        while !self.is('{') {
            self.kernel_property()?;
        }
        let body = self.func.body;
        self.block(body)
    }

    fn kernel_param(&mut self) -> Parsed<()> {
        let named_at = self.at;
        let (name, ty) = self.declaration()?;
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
        self.expect('(')?;
        match word.as_str() {
            "warps" => self.func.warps = self.number("the number of warps")?,
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

    fn cluster(&mut self) -> Parsed<()> {
        for axis in 0..3 {
            if axis > 0 {
                self.expect(',')?;
            }
            self.func.cluster[axis] = self.number("CTAs along x, y and z")?;
        }
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

    /// `%name: type`
    fn declaration(&mut self) -> Parsed<(String, Type)> {
        let Token::Value(name) = self.next() else {
            return self.error_before("expected `%name: type`");
        };
        self.expect(':')?;
        Ok((name, self.ty()?))
    }

    fn define(&mut self, name: String, value: Value, named_at: usize) -> Parsed<()> {
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
        match self.scopes.iter().rev().find_map(|s| s.get(name)) {
            Some(value) => Ok(*value),
            None => self.error_before(format!("`%{name}` is not defined here")),
        }
    }

    fn block(&mut self, region: Region) -> Parsed<()> {
        self.expect('{')?;
        while !self.eat('}') {
            if *self.peek() == Token::End {
                return self.error("expected `}`");
            }
            self.inst(region)?;
        }
        Ok(())
    }

    fn inst(&mut self, region: Region) -> Parsed<()> {
        let (line, column) = line_column(self.text, self.tokens[self.at].start);
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
            None => return self.error_from(start, format!("no op is called `{mnemonic}`")),
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

    fn error_from<T>(&self, token: usize, message: String) -> Parsed<T> {
        Err(error_at(self.text, self.tokens[token].start, message))
    }

    /// Does the token to come stand on the line of the one read last?
    fn continues_line(&self) -> bool {
        let end = self.tokens[self.at.saturating_sub(1)].end;
        let start = self.tokens[self.at].start;
        !self.text[end..start.max(end)].contains('\n')
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
        while !self.eat(']') {
            let Token::Value(name) = self.next() else {
                return self.error_before("expected `%value` or `]`");
            };
            values.push(self.lookup(&name)?);
            if !self.is(']') {
                self.expect(',')?;
            }
        }
        Ok(values)
    }

    fn attributes(&mut self, fields: &mut FieldReader) -> Parsed<()> {
        while !self.eat('}') {
            let name = self.word("an attribute name")?;
            self.expect('=')?;
            let text = self.attribute_text()?;
            fields.attrs.push((name, text));
            if !self.is('}') {
                self.expect(',')?;
            }
        }
        Ok(())
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
        let region = self.func.new_region();
        self.scopes.push(HashMap::new());
        self.expect('(')?;
        while !self.eat(')') {
            let named_at = self.at;
            let (name, ty) = self.declaration()?;
            let value = self.func.add_region_param(region, ty);
            self.define(name, value, named_at)?;
            if !self.is(')') {
                self.expect(',')?;
            }
        }
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

    fn ty(&mut self) -> Parsed<Type> {
        let word = self.word("a type")?;
        match word.as_str() {
            "tensor" => self.tensor_type(),
            "in_flight" => match self.tensor_type()? {
                Type::Tensor(t) => Ok(Type::InFlight(t)),
                other => Ok(other),
            },
            "tensor_map" => self.tensor_map_type(),
            "smem" => self.smem_type(),
            "ptr" => Ok(Type::Scalar(self.pointee()?)),
            _ => match word.parse::<Elem>() {
                Ok(elem) => Ok(Type::Scalar(elem)),
                Err(e) => self.error_before(e),
            },
        }
    }

    fn pointee(&mut self) -> Parsed<Elem> {
        self.expect('<')?;
        let word = self.word("an element type")?;
        let dtype = word.parse().or_else(|e: String| self.error_before(e))?;
        self.expect('>')?;
        Ok(Elem::Ptr(dtype))
    }

    /// `<64x32xf32, #layout>`
    fn tensor_type(&mut self) -> Parsed<Type> {
        self.expect('<')?;
        let (shape, elem) = self.shape_and_element()?;
        self.expect(',')?;
        let layout = match self.peek() {
            Token::Word(w) if w == "auto" => {
                self.next();
                Layout::Auto
            }
            Token::Word(w) if w == "coalesced" => {
                self.next();
                Layout::Coalesced
            }
            _ => match self.layout_name()? {
                AnyLayout::Distributed(layout) => layout,
                AnyLayout::Shared(_) => {
                    return self.error_before(
                        "a tensor is in registers; this is a layout of shared memory",
                    );
                }
            },
        };
        self.expect('>')?;
        Ok(Type::tensor(shape, elem, layout))
    }

    /// `<2x64x32xf16, #layout, alloc=[4, 64, 32]>`
    fn smem_type(&mut self) -> Parsed<Type> {
        self.expect('<')?;
        let (shape, elem) = self.shape_and_element()?;
        self.expect(',')?;
        let layout: SharedLayout = match self.layout_name()? {
            AnyLayout::Shared(layout) => layout,
            AnyLayout::Distributed(_) => {
                return self.error_before("this is a layout of registers, not of shared memory");
            }
        };
        let mut alloc_shape = shape.clone();
        if self.eat(',') {
            if self.word("`alloc=[..]`")? != "alloc" {
                return self.error_before("expected `alloc=[..]`");
            }
            self.expect('=')?;
            self.expect('[')?;
            alloc_shape = Dims::default();
            while !self.eat(']') {
                alloc_shape.push(self.number("a dimension")?);
                if !self.is(']') {
                    self.expect(',')?;
                }
            }
        }
        self.expect('>')?;
        Ok(Type::Smem(SmemType {
            shape,
            elem,
            layout,
            alloc_shape,
        }))
    }

    /// `<128x64xbf16, #layout, im2col=4>`
    fn tensor_map_type(&mut self) -> Parsed<Type> {
        self.expect('<')?;
        let (block, elem) = self.shape_and_element()?;
        self.expect(',')?;
        let layout = match self.layout_name()? {
            AnyLayout::Shared(layout) => layout,
            AnyLayout::Distributed(_) => {
                return self.error_before("this is a layout of registers, not of shared memory");
            }
        };
        let mut mode = TensorMapMode::Tiled;
        if self.eat(',') {
            if self.word("`im2col=RANK`")? != "im2col" {
                return self.error_before("expected `im2col=RANK`");
            }
            self.expect('=')?;
            let rank = self.number("the rank of the tensor")?;
            mode = TensorMapMode::Im2col { rank };
        }
        self.expect('>')?;
        Ok(Type::TensorMap(TensorMapType {
            block,
            elem,
            layout,
            mode,
        }))
    }

    /// `64x32xf32`
    fn shape_and_element(&mut self) -> Parsed<(Dims, Elem)> {
        let word = self.word("a shape and element type, as `64x32xf32`")?;
        let mut shape = Dims::default();
        let mut rest = word.as_str();
        while let Some((dim, tail)) = rest.split_once('x') {
            let Ok(dim) = dim.parse::<u32>() else { break };
            shape.push(dim);
            rest = tail;
        }
        let elem = match rest {
            "ptr" => self.pointee()?,
            _ => rest.parse().or_else(|e: String| self.error_before(e))?,
        };
        if shape.is_empty() {
            return self.error_before("at least one dimension is expected, as in `64xf32`");
        }
        Ok((shape, elem))
    }

    /// `#name`
    fn layout_name(&mut self) -> Parsed<AnyLayout> {
        match self.next() {
            Token::Alias(name) => match self.layouts.get(&name) {
                Some(layout) => Ok(layout.clone()),
                None => self.error_before(format!("no layout is called `#{name}`")),
            },
            other => self.error_before(format!("expected a layout, found {other}")),
        }
    }
}
