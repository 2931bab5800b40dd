//! The top level of a file.

use super::ParseError;
use super::body::BodyParser;
use super::lexer::{Token, TokenKind};
use super::locations::DebugInfo;
use super::scope::{Meaning, Scopes};
use super::tokens::Tokens;
use crate::module::{
    Body, Directives, Entry, Func, Linkage, Module, Param, TargetDirective, Version,
};
use crate::operand::Symbol;

const TOP_LEVEL: &str =
    "a directive such as `.version`, `.target`, `.visible`, `.entry`, `.func` or `.global`";

/// Reads a module from its tokens.
pub(crate) struct ModuleParser<'s> {
    pub(super) tokens: Tokens<'s>,
    pub(super) scopes: Scopes,
    pub(super) debug: DebugInfo,
    module: Module,
}

impl<'s> ModuleParser<'s> {
    pub(crate) fn new(text: &'s str) -> Result<Self, ParseError> {
        let tokens = Tokens::new(text)?;
        let debug = DebugInfo::scan(&tokens);
        Ok(Self {
            tokens,
            scopes: Scopes::new(),
            debug,
            module: Module::default(),
        })
    }

    pub(crate) fn run(mut self) -> Result<Module, ParseError> {
        self.header()?;
        while self.tokens.peek().kind != TokenKind::End {
            self.item()?;
        }
        self.module.files = self.debug.files;
        self.module.inlined_functions = self.debug.functions;
        Ok(self.module)
    }

    /// `.version`, `.target` and `.address_size`, in this order.
    fn header(&mut self) -> Result<(), ParseError> {
        self.keyword(".version")?;
        self.module.version = self.version()?;
        self.keyword(".target")?;
        self.module.target = self.target()?;
        if self.tokens.eat_word(".address_size") {
            let offset = self.tokens.peek().offset;
            if self.tokens.unsigned::<u32>("64")? != 64 {
                return Err(self.tokens.error(
                    offset,
                    "only 64-bit addresses are supported: `.address_size 64`",
                ));
            }
        }
        Ok(())
    }

    fn keyword(&mut self, word: &str) -> Result<(), ParseError> {
        if self.tokens.eat_word(word) {
            Ok(())
        } else {
            Err(self.tokens.unexpected(&format!("`{word}`")))
        }
    }

    fn version(&mut self) -> Result<Version, ParseError> {
        let token = self.tokens.peek();
        let version = token.text.split_once('.').and_then(|(major, minor)| {
            Some(Version {
                major: major.parse().ok()?,
                minor: minor.parse().ok()?,
            })
        });
        let version = version.ok_or_else(|| self.tokens.unexpected("a version such as 8.0"))?;
        self.tokens.next();
        Ok(version)
    }

    fn target(&mut self) -> Result<TargetDirective, ParseError> {
        let token = self.tokens.word("a target such as sm_90a")?;
        let name = token.text.strip_prefix("sm_").unwrap_or_default();
        let digits = name.strip_suffix('a').unwrap_or(name);
        let Ok(sm) = digits.parse() else {
            let message = format!("expected a target such as sm_90a, found `{}`", token.text);
            return Err(self.tokens.error(token.offset, message));
        };
        let mut target = TargetDirective {
            sm,
            arch_specific: name.ends_with('a'),
            debug: false,
        };
        while self.tokens.eat(',') {
            let option = self.tokens.word("the target option `debug`")?;
            if option.text != "debug" {
                let message = format!(
                    "expected the target option `debug`, found `{}`",
                    option.text
                );
                return Err(self.tokens.error(option.offset, message));
            }
            target.debug = true;
        }
        Ok(target)
    }

    fn item(&mut self) -> Result<(), ParseError> {
        let token = self.tokens.peek();
        match token.text {
            ".file" => DebugInfo::skip_file(&mut self.tokens),
            ".section" => self.skip_section(),
            ".extern" | ".visible" | ".weak" => {
                self.tokens.next();
                let linkage = match token.text {
                    ".extern" => Linkage::Extern,
                    ".visible" => Linkage::Visible,
                    _ => Linkage::Weak,
                };
                self.definition(linkage)
            }
            ".entry" | ".func" | ".global" | ".shared" | ".const" => {
                self.definition(Linkage::Internal)
            }
            _ => Err(self.tokens.unexpected(TOP_LEVEL)),
        }
    }

    /// Debug sections were read or given up by [`DebugInfo::scan`].
    fn skip_section(&mut self) -> Result<(), ParseError> {
        self.tokens.next();
        self.tokens.word("the name of a section")?;
        self.tokens.expect('{')?;
        let end = self.tokens.end_of_block(self.tokens.position());
        self.tokens.go_to(end);
        Ok(())
    }

    fn definition(&mut self, linkage: Linkage) -> Result<(), ParseError> {
        if self.tokens.eat_word(".entry") {
            return self.entry(linkage);
        }
        if self.tokens.eat_word(".func") {
            return self.function(linkage);
        }
        let variable = self.tokens.variable(linkage)?;
        let symbol = Symbol::Global(self.module.globals.len() as u32);
        self.declare(variable.0, symbol)?;
        self.module.globals.push(variable.1);
        Ok(())
    }

    /// Declares a name; two things cannot share one.
    fn declare(&mut self, name: Token<'s>, symbol: Symbol) -> Result<(), ParseError> {
        if self.scopes.has_local(name.text) {
            return Err(self
                .tokens
                .error(name.offset, format!("`{}` is declared twice", name.text)));
        }
        self.scopes.add(name.text, Meaning::Symbol(symbol));
        Ok(())
    }

    fn entry(&mut self, linkage: Linkage) -> Result<(), ParseError> {
        let name = self.tokens.word("the name of the entry")?;
        let params = if self.tokens.peek().is_mark('(') {
            self.tokens.params()?
        } else {
            Vec::new()
        };
        let directives = self.directives()?;
        let body = self.body(&params, &[])?;
        let (name, params) = (
            name.text.to_owned(),
            params.into_iter().map(|(_, param)| param).collect(),
        );
        self.module.entries.push(Entry {
            name,
            linkage,
            params,
            directives,
            body,
        });
        Ok(())
    }

    fn function(&mut self, linkage: Linkage) -> Result<(), ParseError> {
        let returns = if self.tokens.peek().is_mark('(') {
            self.tokens.params()?
        } else {
            Vec::new()
        };
        let name = self.tokens.word("the name of the function")?;
        let params = if self.tokens.peek().is_mark('(') {
            self.tokens.params()?
        } else {
            Vec::new()
        };
        let directives = self.directives()?;
        let known = self
            .module
            .functions
            .iter()
            .position(|f| f.name == name.text && f.body.is_none());
        let index = known.unwrap_or(self.module.functions.len());
        if known.is_none() {
            self.declare(name, Symbol::Function(index as u32))?;
        }
        let body = if self.tokens.eat(';') {
            None
        } else {
            Some(self.body(&params, &returns)?)
        };
        let strip =
            |params: Vec<(Token<'s>, Param)>| params.into_iter().map(|(_, param)| param).collect();
        let (name, returns, params) = (name.text.to_owned(), strip(returns), strip(params));
        let function = Func {
            name,
            linkage,
            returns,
            params,
            directives,
            body,
        };
        match known {
            Some(index) => self.module.functions[index] = function,
            None => self.module.functions.push(function),
        }
        Ok(())
    }

    fn directives(&mut self) -> Result<Directives, ParseError> {
        let mut directives = Directives::default();
        loop {
            let token = self.tokens.peek();
            if token.kind != TokenKind::Word {
                return Ok(directives);
            }
            self.tokens.next();
            match token.text {
                ".reqntid" => directives.reqntid = Some(self.triple()?),
                ".maxntid" => directives.maxntid = Some(self.triple()?),
                ".reqnctapercluster" => directives.reqnctapercluster = Some(self.triple()?),
                ".minnctapersm" => {
                    directives.minnctapersm = Some(self.tokens.unsigned("a number of CTAs")?);
                }
                ".maxnreg" => {
                    directives.maxnreg = Some(self.tokens.unsigned("a number of registers")?);
                }
                ".maxclusterrank" => {
                    directives.maxclusterrank = Some(self.tokens.unsigned("a number of CTAs")?);
                }
                ".explicitcluster" => directives.explicitcluster = true,
                ".noreturn" => directives.noreturn = true,
                _ => {
                    let message = format!(
                        "unknown directive `{}`; expected `{{` or one of `.reqntid`, `.maxntid`, `.minnctapersm`, \
                         `.maxnreg`, `.explicitcluster`, `.reqnctapercluster`, `.maxclusterrank`, `.noreturn`",
                        token.text
                    );
                    return Err(self.tokens.error(token.offset, message));
                }
            }
        }
    }

    /// One to three numbers; those left out are one.
    fn triple(&mut self) -> Result<[u32; 3], ParseError> {
        let mut sizes = [self.tokens.unsigned("a size")?, 1, 1];
        for size in &mut sizes[1..] {
            if !self.tokens.eat(',') {
                break;
            }
            *size = self.tokens.unsigned("a size")?;
        }
        Ok(sizes)
    }

    fn body(
        &mut self,
        params: &[(Token<'s>, Param)],
        returns: &[(Token<'s>, Param)],
    ) -> Result<Body, ParseError> {
        self.scopes.open();
        for (index, (name, _)) in params.iter().enumerate() {
            self.declare(*name, Symbol::Param(index as u32))?;
        }
        for (index, (name, _)) in returns.iter().enumerate() {
            self.declare(*name, Symbol::Return(index as u32))?;
        }
        let body = BodyParser::new(&mut self.tokens, &mut self.scopes, &mut self.debug).run();
        self.scopes.close();
        body
    }
}
