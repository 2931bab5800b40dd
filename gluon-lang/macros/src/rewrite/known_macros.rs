//! Which macros are known to take expressions, and which to hold no `break`.

use syn::Macro;

/// What takes expressions, a text with its arguments among them.
pub(super) const OF_EXPRESSIONS: [&str; 18] = [
    "assert",
    "assert_eq",
    "assert_ne",
    "debug_assert",
    "debug_assert_eq",
    "debug_assert_ne",
    "eprint",
    "eprintln",
    "format",
    "panic",
    "print",
    "println",
    "static_assert",
    "static_print",
    "todo",
    "unimplemented",
    "unreachable",
    "vec",
];

/// Others of std's, which leave nothing either.
const OF_STD: [&str; 12] = [
    "concat",
    "column",
    "dbg",
    "env",
    "file",
    "format_args",
    "include_str",
    "line",
    "matches",
    "stringify",
    "write",
    "writeln",
];

/// May it hold a `break` or anything else?
pub(super) fn is_opaque(mac: &Macro) -> bool {
    let last = mac.path.segments.last();
    !last.is_some_and(|s| {
        let known = OF_EXPRESSIONS.iter().chain(&OF_STD);
        known.into_iter().any(|known| s.ident == known)
    })
}
