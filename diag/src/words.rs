//! How the author writes what the tile IR calls by a mnemonic.

/// The operator or method behind an op: `+` for `add`, `at` for `ptr_add`. Other ops are called as they are written.
pub fn as_written(mnemonic: &str) -> &str {
    match mnemonic {
        "add" => "+",
        "sub" => "-",
        "mul" => "*",
        "div" => "/",
        "rem" => "%",
        "and" => "&",
        "or" => "|",
        "xor" => "^",
        "shl" => "<<",
        "shr" => ">>",
        "ptr_add" => "at",
        other => other,
    }
}
