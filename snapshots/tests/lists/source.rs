//! What the files of the language offer to authors, read from their text: macros make many of the methods, so that the text
//! is the one place where each has its name and its documentation side by side.

use std::path::{Path, PathBuf};

use super::{at, read};

/// Functions and methods that share a line of the source, and its documentation.
pub(crate) struct Item {
    /// Their names: of most one, of a few two that a macro makes together.
    pub names: Vec<String>,
    /// The type whose `impl` they stand in, where it is written there and not filled in by a macro.
    pub of: Option<String>,
    /// The first sentence of the documentation.
    pub doc: String,
}

impl Item {
    /// A name as readers see it: behind its type, where that is known.
    pub(crate) fn shown(&self, name: &str) -> String {
        match &self.of {
            Some(of) => format!("{of}::{name}"),
            None => name.to_owned(),
        }
    }
}

/// One file of the language.
pub(crate) struct Source {
    /// Its name without the ending.
    pub name: String,
    /// The first sentence of its own documentation.
    pub idea: String,
    /// What it offers.
    pub items: Vec<Item>,
}

/// Methods that are not for authors: `value` is for code that extends the language.
const NOT_WRITTEN: &[&str] = &["value"];

/// Traits whose methods authors call; those of others bound what may stand somewhere.
const TRAITS_OF_METHODS: &[&str] = &["Hinted", "TileScheduler"];

/// The files of the language that offer something, by name.
pub(crate) fn language() -> Vec<Source> {
    sources(&["gluon-lang/src/lang", "gluon-lang/src/lang/functions"])
}

/// Those of the library.
pub(crate) fn library() -> Vec<Source> {
    let folders = ["", "/epilogue", "/pipeline", "/schedule"];
    sources(&folders.map(|folder| format!("library/src{folder}")))
}

fn sources(folders: &[impl AsRef<str>]) -> Vec<Source> {
    let mut files = Vec::new();
    for folder in folders {
        let entries = std::fs::read_dir(at(folder.as_ref())).expect("the sources are there");
        let paths = entries.map(|entry| entry.expect("it can be read").path());
        files.extend(paths.filter(|path| path.extension().is_some_and(|end| end == "rs")));
    }
    // Conversions of small floats on the host are no operations of a kernel.
    files.retain(|path: &PathBuf| path.file_stem().is_some_and(|stem| stem != "narrow"));
    files.sort();
    let sources = files.iter().map(|path| source(path));
    sources.filter(|source| !source.items.is_empty()).collect()
}

fn source(path: &Path) -> Source {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let folder = path.parent().and_then(Path::file_name).unwrap_or_default();
    let text = read(path);
    let own: Vec<&str> = text
        .lines()
        .map_while(|line| line.strip_prefix("//!"))
        .collect();
    let name = match &*stem {
        "mod" => folder.to_string_lossy().into_owned(),
        stem => stem.to_owned(),
    };
    Source {
        name,
        idea: first_sentence(&own),
        items: items(&text),
    }
}

/// The documented functions of a file, in its order.
pub(crate) fn items(text: &str) -> Vec<Item> {
    let mut reader = Reader::default();
    for line in text.lines() {
        reader.line(line);
    }
    reader.items
}

#[derive(Default)]
struct Reader {
    items: Vec<Item>,
    /// Lines of documentation since the last item.
    doc: Vec<String>,
    /// Attributes since the last item.
    attributes: String,
    /// Within an attribute of several lines.
    in_attribute: bool,
    /// The type of the `impl` that the line is in.
    of: Option<String>,
    /// The type of the first `impl` of the macro before: its rows are methods of that.
    of_macro: Option<String>,
    in_macro: bool,
    in_trait: bool,
}

impl Reader {
    fn line(&mut self, line: &str) {
        let text = line.trim();
        if self.in_attribute {
            self.in_attribute = !text.ends_with(']');
        } else if let Some(doc) = text.strip_prefix("///") {
            self.doc.push(doc.trim().to_owned());
        } else if text.starts_with("#[") {
            self.attributes += text;
            self.in_attribute = !text.ends_with(']');
        } else {
            self.code(line, text);
            self.doc.clear();
            self.attributes.clear();
        }
    }

    fn code(&mut self, line: &str, text: &str) {
        if text.starts_with("impl") {
            self.of = of_impl(text);
            self.in_trait = false;
            if self.in_macro && self.of_macro.is_none() {
                self.of_macro.clone_from(&self.of);
            }
        } else if let Some(name) = text.strip_prefix("pub trait ") {
            self.in_trait = TRAITS_OF_METHODS.contains(&ident(name).as_str());
        } else if line.starts_with("macro_rules!") {
            (self.of_macro, self.in_macro) = (None, true);
        } else if line == "}" {
            (self.of, self.in_trait, self.in_macro) = (None, false, false);
        }
        let is_private =
            line.starts_with("macro_rules!") && !self.attributes.contains("macro_export");
        let is_hidden = is_private || self.attributes.contains("doc(hidden)");
        let names = names(text, self.in_trait);
        if let Some(what) = rounded(text) {
            let doc = format!("Arithmetic rounded {what}");
            self.push(text_after(text, "\": "), doc, true);
        } else if !names.is_empty() && !self.doc.is_empty() && !is_hidden {
            let doc = first_sentence(&self.doc);
            self.push(names, doc, !text.contains("fn "));
        }
    }

    /// `The same where ..` is said of the item before, which a row of a list does not show.
    fn beside_the_one_before(&self, doc: String) -> String {
        let rest = doc.strip_prefix("The same").unwrap_or_default();
        let ways = [",", " where ", " of ", " for ", " from "];
        let goes_on = ways.iter().any(|way| rest.starts_with(way));
        match self.items.last() {
            Some(before) if goes_on => {
                let name = before.shown(&before.names[0]);
                format!("As `{name}`, {}", rest.trim_start_matches([',', ' ']))
            }
            _ => doc,
        }
    }

    /// The next item, unless it is one again: a macro gives several types the methods that one has.
    fn push(&mut self, names: Vec<String>, doc: String, is_row: bool) {
        let of = if is_row {
            self.of_macro.clone()
        } else {
            self.of.clone()
        };
        let is_again = |item: &Item| (item.of == of || of.is_none()) && item.names == names;
        let doc = self.beside_the_one_before(doc);
        let is_for_authors = !NOT_WRITTEN.contains(&names[0].as_str());
        if is_for_authors && !doc.starts_with("See `") && !self.items.iter().any(is_again) {
            self.items.push(Item { names, of, doc });
        }
    }
}

/// The names that a line gives to functions: by `fn`, or as a row of a macro, `name = Op;` or `name other 1.0 = ..`.
fn names(text: &str, in_trait: bool) -> Vec<String> {
    if let Some(name) = text.strip_prefix("macro_rules! ") {
        return vec![format!("{}!", ident(name))];
    }
    let public = text.strip_prefix("pub ").or(in_trait.then_some(text));
    if let Some(public) = public {
        let function = public.strip_prefix("const ").unwrap_or(public);
        let name = function.strip_prefix("fn ").map(ident);
        return name.into_iter().filter(|name| !name.is_empty()).collect();
    }
    let Some((row, _)) = text.split_once(" = ") else {
        return Vec::new();
    };
    let is_name = |word: &&str| ident(word) == **word && word.starts_with(char::is_lowercase);
    let words: Vec<&str> = row.split_whitespace().collect();
    let all_fit = words.iter().all(|w| is_name(w) || w.parse::<f64>().is_ok());
    let is_binding = ["let", "const", "type", "static"].contains(words.first().unwrap_or(&""));
    if !all_fit || is_binding {
        return Vec::new();
    }
    words
        .into_iter()
        .filter(is_name)
        .map(str::to_owned)
        .collect()
}

/// `Nearest "to the nearest, ties to even": add_rn sub_rn ..;` makes functions of one direction of rounding.
fn rounded(text: &str) -> Option<&str> {
    let (direction, rest) = text.split_once(" \"")?;
    let (what, names) = rest.split_once("\": ")?;
    let is_row = ident(direction) == direction && names.starts_with("add_");
    is_row.then_some(what)
}

fn text_after(text: &str, mark: &str) -> Vec<String> {
    let rest = text.split_once(mark).map_or("", |(_, rest)| rest);
    let words = rest.trim_end_matches(';').split_whitespace();
    words.map(str::to_owned).collect()
}

/// The identifier that a text begins with.
fn ident(text: &str) -> String {
    let is_part = |c: &char| c.is_alphanumeric() || *c == '_';
    text.chars().take_while(is_part).collect()
}

/// The type of `impl<..> Type<..> {`; none of a trait's, and none that a macro fills in.
fn of_impl(text: &str) -> Option<String> {
    if text.contains(" for ") {
        return None;
    }
    let mut depth = 0;
    let after = text["impl".len()..].char_indices().find(|(_, c)| {
        match c {
            '<' => depth += 1,
            '>' => depth -= 1,
            _ => {}
        }
        depth == 0 && *c == ' '
    });
    let name = ident(&text["impl".len() + after?.0 + 1..]);
    (!name.is_empty()).then_some(name)
}

/// The first sentence of documentation, without links.
pub(crate) fn first_sentence(doc: &[impl AsRef<str>]) -> String {
    let lines = doc.iter().map(|line| line.as_ref().trim());
    let paragraph: Vec<&str> = lines.take_while(|line| !line.is_empty()).collect();
    let text = paragraph.join(" ");
    let mut ends = text.match_indices(". ").map(|(at, _)| at);
    // `$1, ... stand for` goes on behind its dots.
    let end = ends.find(|at| !text[..*at].ends_with('.'));
    without_links(text[..end.unwrap_or(text.len())].trim_end_matches('.'))
}

/// `[text](target)` and `[text]` become `text`, where the text or the target is Rust's.
fn without_links(text: &str) -> String {
    let (mut shown, mut rest) = (String::new(), text);
    while let Some((before, link)) = rest.split_once('[') {
        shown += before;
        let Some((inner, after)) = link.split_once(']') else {
            shown.push('[');
            rest = link;
            continue;
        };
        let target = after.strip_prefix('(').and_then(|t| t.split_once(')'));
        match target {
            Some((_, after)) => (shown, rest) = (shown + inner, after),
            None if inner.starts_with('`') => (shown, rest) = (shown + inner, after),
            None => {
                shown.push('[');
                rest = link;
            }
        }
    }
    shown + rest
}
