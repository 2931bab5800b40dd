//! Errors of the driver, of ptxas and of disassemblers.
//!
//! Each variant is one fact, its text is one clear line, and where there is a help the line ends with it.

use std::fmt;
use std::path::PathBuf;

use target::{TARGETS, Target};

use crate::cupti::Failure;
use crate::driver::{CudaFailure, Unavailable};
use crate::ptxas::{Candidate, Origin, PtxasFailure};

/// What went wrong, as data: every field that the text shows can be matched on.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Error {
    /// There is no GPU: no driver, an old or broken one, or none of this number.
    Unavailable(Unavailable),
    /// No target has the GPU's compute capability.
    UnsupportedGpu {
        /// The GPU's name.
        name: String,
        /// Its compute capability, major and minor.
        capability: (u32, u32),
    },
    /// No usable ptxas; a GPU's driver can compile instead.
    NoPtxas {
        /// Programs that were looked at, each with what is wrong with it.
        rejected: Vec<Candidate>,
    },
    /// ptxas rejected PTX, or noted that it is not what was requested.
    Ptxas(Box<PtxasFailure>),
    /// Neither `nvdisasm` nor `cuobjdump` was found.
    NoDisassembler,
    /// No CUPTI: why, and what to do.
    NoCupti(String),
    /// CUPTI refused to count.
    Counters(Failure),
    /// A program could not be started or its output not be read.
    Tool {
        /// The program.
        program: PathBuf,
        /// What the operating system said.
        reason: String,
    },
    /// Any other refusal by the driver.
    Cuda(CudaFailure),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Unavailable(lack) if lack.is_lack() => write!(f, "{lack}, or use the emulator"),
            Error::Unavailable(lack) => write!(f, "{lack}"),
            Error::UnsupportedGpu {
                name,
                capability: (major, minor),
            } => write!(
                f,
                "{name} has compute capability {major}.{minor}, and {}; use the emulator",
                runnable()
            ),
            Error::NoPtxas { rejected } => write_no_ptxas(f, rejected),
            Error::Ptxas(failure) => write!(f, "{failure}"),
            Error::NoDisassembler => write!(
                f,
                "neither nvdisasm nor cuobjdump was found; `cargo tilekit doctor --fix` fetches nvdisasm, or set CUDA_HOME"
            ),
            Error::NoCupti(why) => f.write_str(why),
            Error::Counters(failure) => write_refusal(f, failure),
            Error::Tool { program, reason } => write!(f, "{}: {reason}", program.display()),
            Error::Cuda(failure) => write!(f, "{failure}"),
        }
    }
}

fn write_no_ptxas(f: &mut fmt::Formatter<'_>, rejected: &[Candidate]) -> fmt::Result {
    let reason = |candidate: &Candidate| match &candidate.verdict {
        Ok(_) => "usable".to_string(),
        Err(reason) => reason.clone(),
    };
    // `$PTXAS` is the only place searched.
    if let [named] = rejected
        && named.origin == Origin::PtxasVariable
    {
        let (path, reason) = (named.path.display(), reason(named));
        return write!(
            f,
            "$PTXAS names {path}, which cannot be used: {reason}; correct or unset it"
        );
    }
    let what = if rejected.is_empty() {
        "no ptxas"
    } else {
        "no usable ptxas"
    };
    write!(
        f,
        "{what} was found; `cargo tilekit doctor --fix` fetches one, or set PTXAS or CUDA_HOME"
    )?;
    rejected.iter().try_for_each(|candidate| {
        let (path, origin) = (candidate.path.display(), candidate.origin);
        write!(f, "\n  {path} ({origin}): {}", reason(candidate))
    })
}

/// The refusal, and on a line of its own what can be done about it.
fn write_refusal(f: &mut fmt::Formatter<'_>, failure: &Failure) -> fmt::Result {
    write!(f, "{failure}")?;
    match failure.help() {
        Some(help) => write!(f, "\n  {help}"),
        None => Ok(()),
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Ptxas(failure) => Some(failure.as_ref()),
            Error::Cuda(failure) => Some(failure),
            Error::Counters(failure) => Some(failure),
            Error::Unavailable(lack) => Some(lack),
            _ => None,
        }
    }
}

impl From<CudaFailure> for Error {
    fn from(failure: CudaFailure) -> Error {
        Error::Cuda(failure)
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Error {
        Error::Counters(failure)
    }
}

impl From<Unavailable> for Error {
    fn from(lack: Unavailable) -> Error {
        match lack {
            Unavailable::Refused(failure) => Error::Cuda(failure),
            lack => Error::Unavailable(lack),
        }
    }
}

/// Which code runs where: `sm_90a code runs on 9.0 (H100, H200) only`.
fn runnable() -> String {
    let place = |target: &&Target| {
        let (major, minor) = target.compute_capability;
        format!(
            "{} code runs on {major}.{minor} ({}) only",
            target.arch, target.gpus
        )
    };
    let places: Vec<String> = TARGETS.iter().map(place).collect();
    places.join(", ")
}
