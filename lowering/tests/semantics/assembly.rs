//! What the emulator executes, NVIDIA's assembler accepts too, without a word.
//!
//! It is asked of every kernel in which an instruction has a form that no kernel before had: another opcode, another
//! kind of operand, a number of another length. The thousands of kernels that differ in registers alone take minutes.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, Once, OnceLock, PoisonError};

/// Has ptxas assemble a kernel with new forms, if `PTXAS` names one.
#[track_caller]
pub(crate) fn assemble(ptx: &str) {
    static TOLD: Once = Once::new();
    static KNOWN: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let Some(ptxas) = ptxas() else {
        TOLD.call_once(|| eprintln!("skipped: no ptxas"));
        return;
    };
    let new: Vec<String> = {
        let known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let forms = ptx.lines().map(form_of);
        forms.filter(|form| !known.contains(form)).collect()
    };
    if !new.is_empty() {
        let said = said_of(ptxas, ptx);
        assert!(said.is_empty(), "ptxas says\n{said}\nof\n{ptx}");
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        known.extend(new);
    }
}

/// A line with every digit alike, and without the number of any register or label.
fn form_of(line: &str) -> String {
    let mut form = String::with_capacity(line.len());
    let mut is_name = false;
    for c in line.trim().chars() {
        match c {
            '%' | '$' => is_name = true,
            c if !c.is_alphanumeric() && c != '_' => is_name = false,
            _ => {}
        }
        match c {
            '0'..='9' if is_name => {}
            '0'..='9' => form.push('9'),
            c => form.push(c),
        }
    }
    form
}

/// `$PTXAS`, which is a mistake if it names no file.
fn ptxas() -> Option<&'static PathBuf> {
    static PTXAS: OnceLock<Option<PathBuf>> = OnceLock::new();
    let found = PTXAS.get_or_init(|| {
        let named = PathBuf::from(std::env::var_os("PTXAS").filter(|name| !name.is_empty())?);
        assert!(named.is_file(), "PTXAS names no file: {}", named.display());
        Some(named)
    });
    found.as_ref()
}

/// Everything that ptxas prints; nothing where it is content, for its figures come with `-v` only.
fn said_of(ptxas: &PathBuf, ptx: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("kernel.ptx");
    std::fs::write(&input, ptx).unwrap();
    let run = Command::new(ptxas)
        .arg("-arch=sm_90a")
        .arg(&input)
        .arg("-o")
        .arg(folder.path().join("kernel.cubin"))
        .output()
        .unwrap_or_else(|error| panic!("{}: {error}", ptxas.display()));
    let mut said = String::from_utf8_lossy(&run.stderr).into_owned();
    said += &String::from_utf8_lossy(&run.stdout);
    if !run.status.success() {
        said += &format!("{}\n", run.status);
    }
    said
}
