//! What one module says of names: which it defines, binds and uses.

use std::collections::{BTreeMap, BTreeSet};

use crate::tokens::behind_group;

/// A path as it is written: `["crate", "emit", "Code"]`.
pub(crate) type Path = Vec<String>;

/// A module, of a file or of a block in one.
#[derive(Default)]
pub(crate) struct Module {
    /// Its place in the crate; empty for the root.
    pub(crate) path: Path,
    /// The file that it stands in, below `src`.
    pub(crate) file: String,
    /// What it defines, modules among it.
    pub(crate) items: BTreeSet<String>,
    /// Modules that it declares without a block, so that each has a file.
    pub(crate) declared: Vec<String>,
    /// Names that a `use` gives it, and their paths.
    pub(crate) bindings: BTreeMap<String, Path>,
    /// Modules of which a `use` takes all names.
    pub(crate) globs: Vec<Path>,
    /// Paths that it imports or names in its code.
    pub(crate) named: Vec<Path>,
    /// Names that it re-exports, with their paths.
    re_exports: Vec<(String, Path)>,
    /// Words of its code that no path or value stands in front of.
    words: BTreeSet<String>,
}

const ITEMS: [&str; 9] = [
    "fn", "struct", "enum", "trait", "type", "const", "static", "union", "mod",
];

impl Module {
    /// The module of these tokens at `path`, and behind it those of the blocks `mod name { .. }` in it.
    pub(crate) fn read(path: &[String], file: &str, tokens: &[String]) -> Vec<Module> {
        let mut module = Module {
            path: path.to_vec(),
            file: file.to_owned(),
            ..Module::default()
        };
        let mut inner = module.scan(tokens);
        module.count_re_exports();
        inner.insert(0, module);
        inner
    }

    fn scan(&mut self, tokens: &[String]) -> Vec<Module> {
        let (mut at, mut depth, mut inner) = (0, 0_usize, Vec::new());
        let token = |at: usize| tokens.get(at).map_or("", String::as_str);
        while at < tokens.len() {
            let (before, now, next) = (
                at.checked_sub(1).map_or("", token),
                token(at),
                token(at + 1),
            );
            match now {
                "{" | "(" | "[" => depth += 1,
                "}" | ")" | "]" => depth = depth.saturating_sub(1),
                // Words of `pub(in crate::emit)` say who may see an item.
                "pub" if next == "(" && token(at + 2) == "in" => {
                    at = behind_group(tokens, at + 1);
                    continue;
                }
                "use" if is_word(next) || next == "::" || next == "{" => {
                    let is_re_export = before == "pub" || before == ")";
                    at = self.import(tokens, at + 1, depth == 0, is_re_export && depth == 0);
                    continue;
                }
                "mod" if token(at + 2) == "{" => {
                    let end = behind_group(tokens, at + 2);
                    let path = [self.path.clone(), vec![next.to_owned()]].concat();
                    self.items.insert(next.to_owned());
                    inner.extend(Module::read(&path, &self.file, &tokens[at + 3..end - 1]));
                    at = end;
                    continue;
                }
                "mod" if token(at + 2) == ";" && depth == 0 => {
                    self.declared.push(next.to_owned());
                }
                "macro_rules" => {
                    self.items.insert(token(at + 2).to_owned());
                }
                _ => {}
            }
            if depth == 0 && ITEMS.contains(&now) && is_word(next) {
                self.items.insert(next.to_owned());
                at += 2;
                continue;
            }
            at = self.name(tokens, at);
        }
        inner
    }

    /// Notes the path that begins at `at`, if one does; gives the place behind what was read.
    fn name(&mut self, tokens: &[String], at: usize) -> usize {
        let token = |at: usize| tokens.get(at).map_or("", String::as_str);
        let before = at.checked_sub(1).map_or("", token);
        if !is_word(token(at)) || before == "::" || before == "." {
            return at + 1;
        }
        let mut path = vec![token(at).to_owned()];
        let mut end = at + 1;
        while token(end) == "::" && is_word(token(end + 1)) {
            path.push(token(end + 1).to_owned());
            end += 2;
        }
        self.words.insert(path[0].clone());
        if path.len() > 1 || token(end) == "::" {
            self.named.push(path);
        }
        end
    }

    /// Reads the tree of a `use` at `at`; gives the place behind it.
    fn import(&mut self, tokens: &[String], at: usize, binds: bool, is_re_export: bool) -> usize {
        let mut leaves = Vec::new();
        // `use ::layout::X` names another crate, as does `layout::X` where no module is called so.
        let is_outside = tokens[at] == "::";
        let end = tree(tokens, at + usize::from(is_outside), &[], &mut leaves);
        for (path, name) in leaves {
            if is_outside {
                continue;
            }
            if name == "*" {
                if binds {
                    self.globs.push(path.clone());
                }
                if !is_re_export {
                    self.named.push(path);
                }
                continue;
            }
            if binds {
                self.bindings.insert(name.clone(), path.clone());
            }
            if is_re_export {
                self.re_exports.push((name, path));
            } else {
                self.named.push(path);
            }
        }
        end
    }

    /// A re-export is an import where the module's own code uses the name.
    fn count_re_exports(&mut self) {
        for (name, path) in std::mem::take(&mut self.re_exports) {
            if self.words.contains(&name) {
                self.named.push(path);
            }
        }
    }
}

fn is_word(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Reads one tree of a `use` at `at` into paths with the names that they give; gives the place behind it.
fn tree(
    tokens: &[String],
    mut at: usize,
    base: &[String],
    leaves: &mut Vec<(Path, String)>,
) -> usize {
    let mut path = base.to_vec();
    loop {
        match tokens[at].as_str() {
            "{" => {
                at += 1;
                while tokens[at] != "}" {
                    at = tree(tokens, at, &path, leaves);
                    at += usize::from(tokens[at] == ",");
                }
                return at + 1;
            }
            "*" => {
                leaves.push((path, "*".to_owned()));
                return at + 1;
            }
            "::" => at += 1,
            word => {
                // `a::{self}` is `a`.
                if word != "self" || path.is_empty() {
                    path.push(word.to_owned());
                }
                at += 1;
                if tokens[at] != "::" {
                    break;
                }
            }
        }
    }
    let mut name = path.last().cloned().unwrap_or_default();
    if tokens[at] == "as" {
        name.clone_from(&tokens[at + 1]);
        at += 2;
    }
    leaves.push((path, name));
    at
}

#[test]
fn paths_of_use_trees_and_of_code_are_read() {
    let text = "
        use crate::{a::{self, B as C, d::*}, e};
        pub(crate) use self::f::G;
        pub use h::I;
        use ::outside::J;
        pub(in crate::k) struct L(super::m::N);
        mod o { use super::P; }
        fn q() -> crate::r::S { t::u::<I>(x.v); print!(\"{}\", crate::w::X) }
    ";
    let modules = Module::read(&[], "lib.rs", &crate::tokens::tokens(text));
    let mut named: Vec<String> = modules[0]
        .named
        .iter()
        .map(|path| path.join("::"))
        .collect();
    named.sort();
    let expected = [
        "crate::a",
        "crate::a::B",
        "crate::a::d",
        "crate::e",
        "crate::r::S",
        "crate::w::X",
        "h::I",
        "super::m::N",
        "t::u",
    ];
    assert_eq!(named, expected);
    assert_eq!(modules[0].items, ["L", "o", "q"].map(str::to_owned).into());
    assert_eq!(modules[0].bindings["C"].join("::"), "crate::a::B");
    assert_eq!(modules[1].path, ["o"]);
    assert_eq!(modules[1].named, [["super", "P"]]);
}
