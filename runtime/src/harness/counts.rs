//! How often the instructions that matter occur in a PTX text: what a reviewer looks at before the text itself.

use std::collections::BTreeMap;
use std::fmt;

/// Counts by kind; memory accesses are told apart by their width.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InstructionCounts {
    /// All instructions.
    pub total: usize,
    /// By kind, such as `ld.global.128` (bits per thread), `bar.sync` or `wgmma`; what is not named has no kind.
    pub by_kind: BTreeMap<String, usize>,
}

impl InstructionCounts {
    /// Those of a PTX text.
    pub fn of(ptx: &str) -> InstructionCounts {
        let mut counts = InstructionCounts::default();
        for opcode in opcodes(ptx) {
            counts.total += 1;
            if let Some(kind) = kind_of(opcode) {
                *counts.by_kind.entry(kind).or_default() += 1;
            }
        }
        counts
    }
}

/// Such as `54: ld.global.128 ×2, st.global.128 ×1`.
impl fmt::Display for InstructionCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.total)?;
        for (at, (kind, count)) in self.by_kind.iter().enumerate() {
            let before = if at == 0 { ": " } else { ", " };
            write!(f, "{before}{kind} ×{count}")?;
        }
        Ok(())
    }
}

/// The opcodes of a text, with their modifiers. Directives, labels and braces are none.
fn opcodes(ptx: &str) -> impl Iterator<Item = &str> {
    ptx.lines().flat_map(|line| {
        let code = line.split("//").next().unwrap_or_default();
        code.split(';').filter_map(opcode_of)
    })
}

fn opcode_of(statement: &str) -> Option<&str> {
    let mut words = statement
        .split([' ', '\t', '{', '}'])
        .filter(|word| !word.is_empty() && !word.ends_with(':'));
    let mut first = words.next()?;
    if first.starts_with('@') {
        first = words.next()?;
    }
    first
        .starts_with(|c: char| c.is_ascii_lowercase())
        .then_some(first)
}

/// What an instruction is counted as; `None` for plain arithmetic, moves and branches.
fn kind_of(opcode: &str) -> Option<String> {
    let parts: Vec<&str> = opcode.split('.').collect();
    let has = |part: &str| parts.contains(&part);
    match parts[0] {
        "ld" | "ldu" | "st" | "atom" | "red" => access_kind(&parts),
        "bar" | "barrier" => {
            let scope = if has("cluster") { ".cluster" } else { "" };
            Some(format!(
                "bar{scope}.{}",
                if has("arrive") { "arrive" } else { "sync" }
            ))
        }
        "cp" if has("tensor") => Some(joined(&["cp.async.bulk.tensor"], &parts, &["prefetch"])),
        "cp" if has("bulk") => Some(joined(
            &["cp.async.bulk"],
            &parts,
            &["commit_group", "wait_group", "prefetch"],
        )),
        "cp" => Some(joined(
            &["cp.async"],
            &parts,
            &["commit_group", "wait_group", "wait_all"],
        )),
        "mbarrier" => Some(format!("mbarrier.{}", parts.get(1)?)),
        "wgmma" if has("mma_async") => Some("wgmma".into()),
        "wgmma" => Some(format!("wgmma.{}", parts.get(1)?)),
        "mma" => Some("mma".into()),
        "fence" if has("proxy") => Some("fence.proxy".into()),
        "fence" | "membar" => Some("fence".into()),
        "shfl" | "setmaxnreg" | "ldmatrix" | "stmatrix" | "redux" | "vote" | "elect"
        | "prefetch" | "trap" | "call" => Some(parts[0].to_string()),
        "ex2" | "lg2" | "sin" | "cos" | "tanh" | "rcp" | "sqrt" | "rsqrt" => {
            Some(parts[0].to_string())
        }
        "div" if has("f32") || has("f64") => Some("div".into()),
        "div" | "rem" => Some(format!("{}.int", parts[0])),
        _ => None,
    }
}

fn joined(base: &[&str], parts: &[&str], interesting: &[&str]) -> String {
    let mut name = base.join(".");
    for part in parts.iter().filter(|part| interesting.contains(part)) {
        name.push('.');
        name.push_str(part);
    }
    name
}

/// `ld.global.nc.v4.b32` moves 128 bits a thread: `ld.global.128`. Parameters are read for nothing.
fn access_kind(parts: &[&str]) -> Option<String> {
    const SPACES: [&str; 5] = ["global", "shared", "local", "const", "param"];
    let space = parts.iter().find_map(|part| {
        let name = part.split("::").next()?;
        SPACES.contains(&name).then_some(name)
    });
    let space = space.unwrap_or("generic");
    if space == "param" {
        return None;
    }
    let count = parts.iter().find_map(|part| match *part {
        "v2" => Some(2),
        "v4" => Some(4),
        "v8" => Some(8),
        _ => None,
    });
    Some(format!(
        "{}.{space}.{}",
        parts[0],
        count.unwrap_or(1) * type_bits(parts.last()?)?
    ))
}

/// Bits of `b32`, `f16x2` or `bf16`.
fn type_bits(name: &str) -> Option<usize> {
    let digits = name.trim_start_matches(char::is_alphabetic);
    match digits.split_once('x') {
        Some((bits, count)) => Some(bits.parse::<usize>().ok()? * count.parse::<usize>().ok()?),
        None => digits.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(ptx: &str, expected: &str) {
        assert_eq!(InstructionCounts::of(ptx).to_string(), expected);
    }

    #[test]
    fn accesses_are_counted_by_width() {
        check(
            "ld.param.b64 %rd1, [x];\n ld.global.nc.L1::no_allocate.v4.b32 {%r1, %r2, %r3, %r4}, [%rd1];\n\
             @%p1 ld.global.f32 %f1, [%rd1]; st.shared::cta.v2.b64 [%r1], {%rd1, %rd2};",
            "4: ld.global.128 ×1, ld.global.32 ×1, st.shared.128 ×1",
        );
    }

    #[test]
    fn only_code_is_counted() {
        check(
            ".version 8.0\n.visible .entry k(\n\t.param .u64 k_x\n)\n.reqntid 128, 1, 1\n{\n\t.reg .b32 %r<4>;\n\
             $loop:\n\t// add.s32 in a comment;\n\t@!%p1 bra $loop;\n\tadd.s32 %r1, %r2, %r3;\n\tret;\n}\n",
            "3",
        );
    }

    #[test]
    fn synchronisation_and_matrix_units_have_kinds() {
        check(
            "bar.sync 0;\nbarrier.cluster.arrive.release;\nwgmma.fence.sync.aligned;\n\
             wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f1}, %rd1, %rd2, 1, 1, 1, 0, 0;\n\
             mbarrier.try_wait.parity.shared.b64 %p1, [%r1], %r2;\n\
             cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r1], [%rd1, {%r2, %r3}], [%r4];\n\
             fence.proxy.async;\nshfl.sync.bfly.b32 %r1, %r2, 1, 31, -1;\nex2.approx.ftz.f32 %f1, %f2;\ndiv.u32 %r1, %r2, %r3;",
            "10: bar.cluster.arrive ×1, bar.sync ×1, cp.async.bulk.tensor ×1, div.int ×1, ex2 ×1, fence.proxy ×1, \
             mbarrier.try_wait ×1, shfl ×1, wgmma ×1, wgmma.fence ×1",
        );
    }
}
