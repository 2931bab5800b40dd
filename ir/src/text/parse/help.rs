//! What helps who wrote a text that is not read: how the part is written, or the name that comes nearest.

use std::fmt;

/// Which characters begin something.
pub(super) const TOKENS: &str = "names begin with `%` (values), `#` (layouts) or `@` (the kernel), comments with `//`; words have letters, digits and \
                                 `_ . - + $`, and between them stand `( ) [ ] { } < > , : =`";

/// A part of the text form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    File,
    Layout,
    Parameter,
    Property,
    Instruction,
    Type,
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Form::File => {
                "a file has lines of layouts, `#line = Blocked([1], [32], [4], [0])`, and then one kernel, \
                 `kernel @name(%x: ptr<f32>) warps(4) stage(built) { .. }`; `cargo tilekit inspect KERNEL --stage built` prints one"
            }
            Form::Layout => "a line of a layout is `#line = Blocked([1], [32], [4], [0])`; `cargo tilekit layout EXPR` draws one",
            Form::Parameter => {
                "a parameter is `%x: ptr<f32> {divisor=16, readonly}` or `%n: i32`; commas stand between them"
            }
            Form::Property => {
                "between parameters and body stand `warps(4)`, `stage(built)`, `target(sm_90a)`, `cluster(2, 1, 1)`, `max_registers(128)`, \
                 `min_ctas_per_sm(2)`, `shared_bytes(1024)`, `deny(conversions, uncoalesced, bank_conflicts, spills)` and `cooperative`"
            }
            Form::Instruction => {
                "an instruction is `%sum = binary %a, %b {op=add} : f32`: results, op, operands, attributes, `(parameters) { region }` \
                 and types of the results, of which each may be left out where the op has none"
            }
            Form::Type => {
                "a type is an element as `f32`, `ptr<f32>`, `tensor<64x32xf32, #layout>` with `auto` or `coalesced` for a layout, `smem<2x64x32xf16, #layout>`, \
                 `in_flight<..>` or `tensor_map<..>`"
            }
        })
    }
}

/// What is said of a character that begins nothing.
pub(super) fn of_character(c: char) -> String {
    match c {
        '"' => "this quoted text has no end".to_owned(),
        c => format!("`{c}` begins nothing here"),
    }
}

/// Names that are so many changes away are likely to be meant.
const NEAR: usize = 2;

/// Names of which all are listed.
const FEW: usize = 8;

/// Which of the known names comes nearest to one that is not, or which there are. `sign` stands before a name.
pub(super) fn nearest<'n>(
    wrong: &str,
    known: impl Iterator<Item = &'n str>,
    sign: &str,
) -> Option<String> {
    let mut known: Vec<&str> = known.collect();
    known.sort_unstable();
    let shown = |name: &str| format!("`{sign}{name}`");
    let near = known.iter().min_by_key(|name| distance(wrong, name))?;
    if distance(wrong, near) <= NEAR {
        return Some(format!("did you mean {}?", shown(near)));
    }
    let all: Vec<String> = known.iter().map(|name| shown(name)).collect();
    (known.len() <= FEW).then(|| format!("there is {}", all.join(", ")))
}

/// Bytes to insert, remove or replace to make `b` of `a`.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.bytes().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}
