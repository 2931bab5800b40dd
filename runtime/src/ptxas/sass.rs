//! Machine code as text, by NVIDIA's disassemblers.

use std::process::Command;

use super::Environment;
use crate::error::Error;

/// The SASS of a cubin, by `nvdisasm` or else `cuobjdump`, looked for where ptxas is (wheels
/// `nvidia-cuda-nvdisasm`, `nvidia-cuda-cuobjdump`).
///
/// # Errors
/// [`Error::NoDisassembler`] if neither is there, [`Error::Tool`] if it fails.
pub fn disassemble(cubin: &[u8], environment: &Environment) -> Result<String, Error> {
    let find = |program| environment.programs(program).next().map(|(path, _)| path);
    let (program, arguments): (_, &[&str]) = match find("nvdisasm") {
        Some(path) => (path, &["-c"]),
        None => (find("cuobjdump").ok_or(Error::NoDisassembler)?, &["-sass"]),
    };
    let tool = |reason: String| Error::Tool {
        program: program.clone(),
        reason,
    };
    let folder =
        tempfile::tempdir().map_err(|error| tool(format!("no temporary folder: {error}")))?;
    let input = folder.path().join("kernel.cubin");
    std::fs::write(&input, cubin).map_err(|error| tool(format!("{}: {error}", input.display())))?;
    let run = Command::new(&program)
        .args(arguments)
        .arg(&input)
        .output()
        .map_err(|error| tool(error.to_string()))?;
    if run.status.success() {
        Ok(String::from_utf8_lossy(&run.stdout).into_owned())
    } else {
        Err(tool(format!(
            "{}: {}",
            run.status,
            String::from_utf8_lossy(&run.stderr).trim()
        )))
    }
}
