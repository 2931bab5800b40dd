//! Which exit an error leads to.

use machine::Error as MachineError;
use protocol::Exit;

use crate::error::Error;

/// What an error of the runtime ends the tool with.
pub(super) fn exit_of(error: &Error) -> Exit {
    match error {
        Error::Machine(lack) => exit_of_lack(lack),
        Error::TooFewGpus { .. } => Exit::NoGpu,
        Error::Kernel(_) => Exit::Diagnostics,
        Error::Jit { .. } => Exit::Toolchain,
        Error::UnknownSize { .. } | Error::UnevenSizes { .. } | Error::CaseTooLarge { .. } => {
            Exit::Usage
        }
        _ => Exit::KernelFailed,
    }
}

fn exit_of_lack(error: &MachineError) -> Exit {
    match error {
        MachineError::Unavailable(_) | MachineError::UnsupportedGpu { .. } => Exit::NoGpu,
        MachineError::NoPtxas { .. }
        | MachineError::Ptxas(_)
        | MachineError::NoDisassembler
        | MachineError::NoCupti(_)
        | MachineError::Counters(_)
        | MachineError::Tool { .. } => Exit::Toolchain,
        _ => Exit::KernelFailed,
    }
}

#[cfg(test)]
mod tests {
    use protocol::Exit;

    #[test]
    fn the_watchdog_ends_a_process_with_its_documented_number() {
        assert_eq!(Exit::of_code(crate::HANG_EXIT_CODE), Some(Exit::Hang));
    }
}
