//! NVIDIA's assembler, where there is one.

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::Once;

static SAID: Once = Once::new();

/// Panics unless `$PTXAS` takes the text. Without it nothing is checked, and that is said once.
#[track_caller]
pub(crate) fn accepts(ptx: &str) {
    let Some(ptxas) = std::env::var_os("PTXAS") else {
        SAID.call_once(|| println!("skipped: no ptxas; set PTXAS"));
        return;
    };
    let mut child = Command::new(&ptxas)
        .args(["-arch=sm_90a", "-o", "/dev/null", "/dev/stdin"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|e| panic!("{}: {e}", ptxas.to_string_lossy()));
    child
        .stdin
        .take()
        .expect("the input is a pipe")
        .write_all(ptx.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(
        output.status.success(),
        "{}\n{ptx}",
        String::from_utf8_lossy(&output.stderr)
    );
}
