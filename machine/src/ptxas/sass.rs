//! Machine code as text, by NVIDIA's disassemblers.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::Environment;
use super::run::{WORK_LIMIT, failure, too_long};
use crate::Error;
use crate::process::output_within;

/// `nvdisasm`, or else `cuobjdump`, looked for where ptxas is.
pub fn find_disassembler(environment: &Environment) -> Option<PathBuf> {
    let find = |program| environment.programs(program).next().map(|(path, _)| path);
    find("nvdisasm").or_else(|| find("cuobjdump"))
}

/// The SASS of a cubin, by `nvdisasm` or else `cuobjdump`, looked for where ptxas is (wheels
/// `nvidia-cuda-nvdisasm`, `nvidia-cuda-cuobjdump`).
///
/// # Errors
/// [`Error::NoDisassembler`] if neither is there, [`Error::Tool`] if it fails.
pub fn disassemble(cubin: &[u8], environment: &Environment) -> Result<String, Error> {
    let program = find_disassembler(environment).ok_or(Error::NoDisassembler)?;
    let is_nvdisasm = program.file_name().is_some_and(|name| name == "nvdisasm");
    run_on(&program, &[if is_nvdisasm { "-c" } else { "-sass" }], cubin)
}

/// What a disassembler prints of a cubin.
pub(super) fn run_on(program: &Path, arguments: &[&str], cubin: &[u8]) -> Result<String, Error> {
    let tool = |reason: String| Error::Tool {
        program: program.to_path_buf(),
        reason,
    };
    let folder =
        tempfile::tempdir().map_err(|error| tool(format!("no temporary folder: {error}")))?;
    let input = folder.path().join("kernel.cubin");
    std::fs::write(&input, cubin).map_err(|error| tool(format!("{}: {error}", input.display())))?;
    let mut command = Command::new(program);
    command.args(arguments).arg(&input);
    let run = output_within(&mut command, WORK_LIMIT)
        .map_err(|error| tool(error.to_string()))?
        .ok_or_else(|| tool(too_long(WORK_LIMIT)))?;
    if run.status.success() {
        Ok(String::from_utf8_lossy(&run.stdout).into_owned())
    } else {
        Err(tool(failure(
            run.status,
            &String::from_utf8_lossy(&run.stderr),
        )))
    }
}
