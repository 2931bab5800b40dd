//! Statements between the braces of a function.

use super::ParseError;
use super::declarations::directive;
use super::lexer::TokenKind;
use super::locations::{DebugInfo, LocationTable};
use super::opcode;
use super::scope::{Meaning, Scopes};
use super::tokens::Tokens;
use crate::inst::Bound;
use crate::module::{Body, Linkage};
use crate::operand::{Label, Predicate, Reg, Symbol};
use crate::registers::RegClass;
use crate::spelling::Spelled as _;
use crate::statement::{Instruction, LocId, Stmt};
use crate::types::Space;
use std::collections::{HashMap, HashSet};

/// Registers that a body may declare: far more than a compiler makes, and little enough to keep a table of.
const MAX_REGISTERS: u64 = 1 << 20;

/// Reads a body; nested blocks become part of it, with its names made unique.
pub(super) struct BodyParser<'p, 's> {
    tokens: &'p mut Tokens<'s>,
    scopes: &'p mut Scopes,
    debug: &'p mut DebugInfo,
    body: Body,
    locations: LocationTable,
    loc: Option<LocId>,
    label_names: HashSet<String>,
    /// The number behind the last label of a name.
    label_numbers: HashMap<String, u32>,
    placed: HashSet<Label>,
    depth: usize,
}

/// Blocks inside each other: the end of each is looked for where it opens.
const DEEPEST: usize = 64;

impl<'p, 's> BodyParser<'p, 's> {
    pub(super) fn new(
        tokens: &'p mut Tokens<'s>,
        scopes: &'p mut Scopes,
        debug: &'p mut DebugInfo,
    ) -> Self {
        Self {
            tokens,
            scopes,
            debug,
            body: Body::default(),
            locations: LocationTable::default(),
            loc: None,
            label_names: HashSet::new(),
            label_numbers: HashMap::new(),
            placed: HashSet::new(),
            depth: 0,
        }
    }

    pub(super) fn run(mut self) -> Result<Body, ParseError> {
        self.tokens.expect('{')?;
        self.open_block();
        while self.depth > 0 {
            self.line()?;
        }
        self.body.locations = self.locations.list;
        self.body.canonicalize();
        Ok(self.body)
    }

    /// Labels may be used before they are placed, so those of a block are collected when it opens.
    fn open_block(&mut self) {
        self.depth += 1;
        self.scopes.open();
        let start = self.tokens.position();
        let end = self.tokens.end_of_block(start);
        let mut depth = 0;
        for position in start..end {
            let token = self.tokens.list()[position];
            match token.kind {
                TokenKind::Mark('{') => depth += 1,
                TokenKind::Mark('}') => depth -= 1,
                TokenKind::Word if depth == 0 && self.tokens.list()[position + 1].is_mark(':') => {
                    self.new_label(token.text);
                }
                _ => {}
            }
        }
    }

    fn new_label(&mut self, name: &str) {
        let mut unique = name.to_owned();
        // Each search begins where the last one for the name ended: one name may stand in many blocks.
        let mut number = self.label_numbers.get(name).copied().unwrap_or(1);
        while !self.label_names.insert(unique.clone()) {
            number += 1;
            unique = format!("{name}_{number}");
        }
        self.label_numbers.insert(name.to_owned(), number);
        self.scopes
            .add_label(name, Label(self.body.labels.len() as u32));
        self.body.labels.push(unique);
    }

    fn line(&mut self) -> Result<(), ParseError> {
        let token = self.tokens.peek_raw();
        match (token.kind, token.text) {
            (TokenKind::Comment, text) => {
                self.tokens.skip_raw();
                let statement = self
                    .bound(text)
                    .unwrap_or_else(|| Stmt::Comment(text.to_owned()));
                self.body.statements.push(statement);
            }
            (TokenKind::Mark('}'), _) => {
                self.tokens.skip_raw();
                self.scopes.close();
                self.depth -= 1;
            }
            (TokenKind::Mark('{'), _) => {
                if self.depth >= DEEPEST {
                    let message =
                        format!("this block stands inside {DEEPEST} others, and more are not read");
                    return Err(self.tokens.error(token.offset, message));
                }
                self.tokens.skip_raw();
                self.open_block();
            }
            (TokenKind::Mark(';'), _) => self.tokens.skip_raw(),
            (TokenKind::Mark('@'), _) => self.guarded()?,
            (TokenKind::Word, ".reg") => self.registers()?,
            (TokenKind::Word, ".loc") => {
                self.tokens.next();
                self.loc = self.locations.parse(self.tokens, self.debug)?;
            }
            (TokenKind::Word, ".pragma") => self.pragma()?,
            (TokenKind::Word, text) if directive::<Space>(text).is_some() => self.variable()?,
            (TokenKind::Word, text) if text.starts_with('.') => {
                let message = format!(
                    "unknown directive `{text}`; expected one of `.reg`, `.shared`, `.local`, `.param`, `.loc`, `.pragma`"
                );
                return Err(self.tokens.error(token.offset, message));
            }
            (TokenKind::Word, text) => self.label_or_instruction(text)?,
            _ => return Err(self.tokens.unexpected("an instruction, a label or `}`")),
        }
        Ok(())
    }

    fn label_or_instruction(&mut self, text: &str) -> Result<(), ParseError> {
        if !self
            .tokens
            .ahead()
            .get(1)
            .is_some_and(|next| next.is_mark(':'))
        {
            return self.instruction(None);
        }
        let offset = self.tokens.next().offset;
        self.tokens.expect(':')?;
        let label = self.scopes.find_label(text);
        let label = label.ok_or_else(|| {
            self.tokens
                .error(offset, format!("label `{text}` has no block"))
        })?;
        if !self.placed.insert(label) {
            return Err(self
                .tokens
                .error(offset, format!("label `{text}` is defined twice")));
        }
        self.body.statements.push(Stmt::Label(label));
        Ok(())
    }

    fn guarded(&mut self) -> Result<(), ParseError> {
        self.tokens.expect('@')?;
        let negated = self.tokens.eat('!');
        let name = self.tokens.word("a predicate register")?;
        let reg = match self.scopes.find(name.text) {
            Some(Meaning::Reg(reg)) => reg,
            Some(meaning) => {
                let message = format!(
                    "a guard must be a predicate register, but `{}` is {}",
                    name.text,
                    meaning.describe()
                );
                return Err(self.tokens.error(name.offset, message));
            }
            None => {
                let message = format!(
                    "`{}` is not declared; expected a predicate register",
                    name.text
                );
                return Err(self.tokens.error(name.offset, message));
            }
        };
        self.instruction(Some(Predicate { reg, negated }))
    }

    fn instruction(&mut self, guard: Option<Predicate>) -> Result<(), ParseError> {
        let inst = opcode::instruction(self.tokens, self.scopes)?;
        self.body.statements.push(Stmt::Inst(Instruction {
            guard,
            inst,
            loc: self.loc,
        }));
        Ok(())
    }

    /// A comment that states a bound, with its guard.
    fn bound(&self, text: &str) -> Option<Stmt> {
        let register = |name: &str| match self.scopes.find(name)? {
            Meaning::Reg(reg) => Some(reg),
            _ => None,
        };
        let (guard, text) = match text.strip_prefix('@') {
            Some(rest) => {
                let (name, rest) = rest.split_once(' ')?;
                let negated = name.starts_with('!');
                let reg = register(name.trim_start_matches('!'))?;
                (Some(Predicate { reg, negated }), rest)
            }
            None => (None, text),
        };
        let inst = Bound::parse_comment(text, register)?.into();
        let loc = self.loc;
        Some(Stmt::Inst(Instruction { guard, inst, loc }))
    }

    fn pragma(&mut self) -> Result<(), ParseError> {
        self.tokens.next();
        let text = self.tokens.text("the text of the pragma")?;
        self.tokens.expect(';')?;
        self.body.statements.push(Stmt::Pragma(text.to_owned()));
        Ok(())
    }

    /// `.reg .b32 %r<10>, %row;`
    fn registers(&mut self) -> Result<(), ParseError> {
        self.tokens.next();
        let token = self.tokens.word("a register type such as `.b32`")?;
        let class: RegClass = directive(token.text).ok_or_else(|| {
            let mut known: Vec<String> = RegClass::SPELLINGS
                .iter()
                .map(|(text, _)| format!("`.{text}`"))
                .collect();
            known.sort();
            let message = format!(
                "`{}` is not a register type; expected one of {}",
                token.text,
                known.join(", ")
            );
            self.tokens.error(token.offset, message)
        })?;
        loop {
            self.register(class)?;
            if self.tokens.eat(';') {
                return Ok(());
            }
            if !self.tokens.eat(',') {
                return Err(self.tokens.unexpected("`,` or `;`"));
            }
        }
    }

    fn register(&mut self, class: RegClass) -> Result<(), ParseError> {
        let name = self.tokens.word("the name of a register")?;
        let len: Option<u32> = if self.tokens.eat('<') {
            let len = self.tokens.unsigned("a number of registers")?;
            self.tokens.expect('>')?;
            Some(len)
        } else {
            None
        };
        let declared = self.body.registers.len() as u64 + u64::from(len.unwrap_or(1));
        if declared > MAX_REGISTERS {
            let message = format!(
                "with `{}` the body declares {declared} registers; at most {MAX_REGISTERS} are supported",
                name.text
            );
            return Err(self.tokens.error(name.offset, message));
        }
        let first = len.map_or_else(|| name.text.to_owned(), |_| format!("{}0", name.text));
        if self.scopes.has_local(&first) {
            return Err(self
                .tokens
                .error(name.offset, format!("`{}` is declared twice", name.text)));
        }
        let declared_name = self.body_name(name.text, &first);
        let first_reg = Reg(self.body.registers.len() as u32);
        if let Some(len) = len {
            self.body.registers.declare_range(declared_name, class, len);
            self.scopes.add_range(name.text, first_reg, len);
        } else {
            self.body.registers.declare(declared_name, class);
            self.scopes.add(name.text, Meaning::Reg(first_reg));
        }
        Ok(())
    }

    /// The name under which a declaration of a nested block joins the body: its own, or a new one when
    /// something outside has that name. `first` is the name that could clash.
    fn body_name(&self, name: &str, first: &str) -> String {
        let is_taken = |name: &str| {
            self.body
                .registers
                .groups()
                .iter()
                .any(|group| group.name == name)
                || self
                    .body
                    .variables
                    .iter()
                    .any(|variable| variable.name == name)
        };
        if !is_taken(name) && (self.depth == 1 || self.scopes.find(first).is_none()) {
            return name.to_owned();
        }
        let mut number = 2;
        loop {
            let unique = format!("{name}_{number}_");
            if !is_taken(&unique) && self.scopes.find(&unique).is_none() {
                return unique;
            }
            number += 1;
        }
    }

    fn variable(&mut self) -> Result<(), ParseError> {
        let (name, mut variable) = self.tokens.variable(Linkage::Internal)?;
        if self.scopes.has_local(name.text) {
            return Err(self
                .tokens
                .error(name.offset, format!("`{}` is declared twice", name.text)));
        }
        variable.name = self.body_name(name.text, name.text);
        self.scopes.add(
            name.text,
            Meaning::Symbol(Symbol::Variable(self.body.variables.len() as u32)),
        );
        self.body.variables.push(variable);
        Ok(())
    }
}
