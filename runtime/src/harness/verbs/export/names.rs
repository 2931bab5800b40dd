//! Names of Rust, C and Python that a parameter or size cannot have.

/// Words of Rust, C and C++, which headers for C are read by too.
const WORDS: &[&str] = &[
    "abstract",
    "alignas",
    "and",
    "as",
    "asm",
    "async",
    "auto",
    "await",
    "become",
    "bool",
    "box",
    "break",
    "case",
    "catch",
    "char",
    "class",
    "const",
    "continue",
    "crate",
    "default",
    "delete",
    "do",
    "double",
    "dyn",
    "else",
    "enum",
    "explicit",
    "export",
    "extern",
    "false",
    "final",
    "float",
    "fn",
    "for",
    "friend",
    "gen",
    "goto",
    "if",
    "impl",
    "in",
    "inline",
    "int",
    "let",
    "long",
    "loop",
    "macro",
    "match",
    "mod",
    "move",
    "mut",
    "mutable",
    "namespace",
    "new",
    "not",
    "operator",
    "or",
    "override",
    "priv",
    "private",
    "protected",
    "pub",
    "public",
    "ref",
    "register",
    "restrict",
    "return",
    "self",
    "short",
    "signed",
    "sizeof",
    "static",
    "struct",
    "super",
    "switch",
    "template",
    "this",
    "throw",
    "trait",
    "true",
    "try",
    "type",
    "typedef",
    "typename",
    "typeof",
    "union",
    "unsafe",
    "unsized",
    "unsigned",
    "use",
    "using",
    "virtual",
    "void",
    "volatile",
    "where",
    "while",
    "xor",
    "yield",
];

/// The name, with `_` behind it where it would mean something else.
pub(super) fn plain(name: &str, taken: &[&str]) -> String {
    if WORDS.contains(&name) || taken.contains(&name) {
        format!("{name}_")
    } else {
        name.to_owned()
    }
}

/// The name, with `_` behind it where a file, module or target of the package has it.
pub(super) fn apart_from(taken: &[&str], name: &str) -> String {
    let behind = if taken.contains(&name) { "_" } else { "" };
    format!("{name}{behind}")
}

/// Words of Rust, of which a kernel has the name as `r#type`.
pub(super) const RUST: &[&str] = &[
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "do", "dyn",
    "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let",
    "loop", "macro", "match", "mod", "move", "mut", "override", "priv", "pub", "ref", "return",
    "static", "struct", "trait", "true", "try", "type", "typeof", "unsafe", "unsized", "use",
    "virtual", "where", "while", "yield",
];

/// Words of Python.
const PYTHON: &[&str] = &[
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue",
    "def", "del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import",
    "in", "is", "lambda", "nonlocal", "not", "or", "pass", "raise", "return", "try", "while",
    "with", "yield",
];

/// The same in Python.
pub(super) fn of_python(name: &str, taken: &[&str]) -> String {
    if PYTHON.contains(&name) || taken.contains(&name) {
        format!("{name}_")
    } else {
        name.to_owned()
    }
}
