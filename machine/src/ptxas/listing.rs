//! Machine code as data: each instruction with the line of PTX that it is of and the registers that are alive at it.
//!
//! `nvdisasm -gp` names lines of PTX, from the table `.nv_debug_line_sass` that ptxas writes for each instruction; `nvdisasm -lrm count`
//! counts live registers. `cuobjdump` does neither.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::thread;

use super::Environment;
use super::sass::run_on;
use crate::Error;

/// One instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineInst {
    /// Its offset in the code, bytes.
    pub offset: u32,
    /// Its text, with the predicate before it.
    pub text: String,
    /// The line of PTX that it is of, from 1.
    pub ptx_line: Option<u32>,
    /// 32-bit registers of a thread alive at it, as nvdisasm counts them; none where its analysis gave up.
    pub alive: Option<u32>,
}

/// `nvdisasm`, looked for where ptxas is.
pub fn find_nvdisasm(environment: &Environment) -> Option<PathBuf> {
    let mut programs = environment.programs("nvdisasm");
    programs.next().map(|(path, _)| path)
}

/// The instructions of a cubin's function called `entry`, in order.
///
/// # Errors
/// [`Error::Tool`] if nvdisasm fails.
pub fn listing(nvdisasm: &Path, cubin: &[u8], entry: &str) -> Result<Vec<MachineInst>, Error> {
    let (lines, alive) = thread::scope(|scope| {
        let alive = scope.spawn(|| run_on(nvdisasm, &["-c", "-lrm", "count"], cubin));
        let lines = run_on(nvdisasm, &["-c", "-gp"], cubin);
        (lines, alive.join())
    });
    let alive = alive.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
    let mut insts = read_lines(&lines?, entry);
    let alive = read_alive(&alive, entry);
    for inst in &mut insts {
        inst.alive = alive.get(&inst.offset).copied();
    }
    Ok(insts)
}

/// The lines of one function's section.
fn section<'t>(text: &'t str, entry: &str) -> impl Iterator<Item = &'t str> {
    let begin = format!(".section\t.text.{entry},");
    let mut is_inside = false;
    text.lines().filter(move |line| {
        if line.trim_start().starts_with(".section") {
            is_inside = line.trim_start().starts_with(&begin);
        }
        is_inside
    })
}

/// `/*0010*/  S2R R2, SR_TID.X ;` as offset and text.
fn instruction(line: &str) -> Option<(u32, &str)> {
    let (offset, rest) = line.trim_start().strip_prefix("/*")?.split_once("*/")?;
    let (text, _) = rest.split_once(';')?;
    Some((u32::from_str_radix(offset, 16).ok()?, text.trim()))
}

fn read_lines(text: &str, entry: &str) -> Vec<MachineInst> {
    let mut ptx_line = None;
    let mut insts = Vec::new();
    for line in section(text, entry) {
        if let Some(named) = line.trim_start().strip_prefix("//## File ") {
            let number = named.split_once(", line ").map(|(_, number)| number);
            let digits = number.and_then(|number| number.split(' ').next());
            ptx_line = digits.and_then(|digits| digits.trim().parse().ok());
        } else if let Some((offset, text)) = instruction(line) {
            insts.push(MachineInst {
                offset,
                text: text.to_string(),
                ptx_line,
                alive: None,
            });
        }
    }
    insts
}

/// The live registers at each offset: the first column behind an instruction.
fn read_alive(text: &str, entry: &str) -> HashMap<u32, u32> {
    let count = |line: &str| {
        let (offset, _) = instruction(line)?;
        let (_, columns) = line.rsplit_once("// |")?;
        let first = columns.split('|').next()?.trim();
        let alive = if first.is_empty() {
            0
        } else {
            first.parse().ok()?
        };
        Some((offset, alive))
    };
    section(text, entry).filter_map(count).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = "\t.section\t.text.k,\"ax\",@progbits\n.text.k:\n\t//## File \".nv_debug_ptx_txt\", line 36\n\
        \x20       /*0000*/                   LDC R1, c[0x0][0x28] ;\n\
        \t//## File \".nv_debug_ptx_txt\", line 44\n\
        \x20       /*0010*/              @!P0 BRA `(.L_x_1) ;\n.L_x_1:\n\
        \t.section\t.text.other,\"ax\",@progbits\n        /*0000*/                   EXIT ;\n";

    #[test]
    fn instructions_have_lines_of_ptx() {
        let found = read_lines(LINES, "k");
        let inst = |offset, text: &str, line| MachineInst {
            offset,
            text: text.into(),
            ptx_line: Some(line),
            alive: None,
        };
        assert_eq!(
            found,
            [
                inst(0, "LDC R1, c[0x0][0x28]", 36),
                inst(16, "@!P0 BRA `(.L_x_1)", 44)
            ]
        );
        assert_eq!(read_lines(LINES, "other").len(), 1);
        assert_eq!(read_lines("", "k"), []);
    }

    #[test]
    fn live_registers_are_in_the_first_column() {
        let text = "\t.section\t.text.k,\"ax\",@progbits\n// | GPR   | PRED |\n\
            \x20       /*0000*/   LDC R1, c[0x0][0x28] ;    // |    2  |   1    |        |         |\n\
            \x20       /*0010*/   EXIT ;                    // |       |        |        |         |\n";
        let found = read_alive(text, "k");
        assert_eq!((found[&0], found[&16]), (2, 0));
    }
}
