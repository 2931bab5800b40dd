//! What ptxas' performance notes mean for a kernel author, and what to do.

use std::fmt;

/// A note of ptxas with a number, such as C7510.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Code(pub u32);

impl Code {
    /// Finds `(C7510)` in a line.
    pub(super) fn find(line: &str) -> Option<Code> {
        let digits = line.split("(C").nth(1)?.split(')').next()?;
        digits.parse().ok().map(Code)
    }

    /// Whether the note means that the code is not what was requested.
    pub fn is_fatal(self) -> bool {
        matches!(self.0, 7500..=7699)
    }

    /// What happened and the help, for the codes whose causes are known.
    pub fn explanation(self) -> Option<&'static str> {
        Some(match self.0 {
            7504 => {
                "setmaxnreg was ignored because the code was compiled relocatably; assemble whole programs only"
            }
            7505 => "setmaxnreg was ignored because of debug code; assemble without -g",
            7506 => {
                "setmaxnreg was ignored because of a call to an extern function; remove device_print and the like"
            }
            7507 => {
                "setmaxnreg was ignored because a warp role needs more registers than it asks for; raise its count"
            }
            7508 => {
                "setmaxnreg was ignored because the entry has no .reqntid, so its register count is unknown"
            }
            7509 | 7510 => {
                "wgmma was serialised because the kernel calls an extern function; remove device_print and the like"
            }
            7511 | 7512 => {
                "wgmma was serialised because registers ran out; use smaller tiles, more warpgroups or setmaxnreg"
            }
            7513 => {
                "wgmma was serialised because an input register is written while a group is in flight; wait first"
            }
            7514 => {
                "wgmma was serialised because an accumulator is read or copied while its group is in flight; wait for \
                 all groups first, or feed it to wgmma only"
            }
            7515 => {
                "wgmma was serialised because an accumulator is defined inside a stage; define it before the fence"
            }
            7517 => "a wait for wgmma was inserted because an accumulator is used before its wait",
            7519 => {
                "wgmma was serialised because it stands in a branch that lanes of one warp take differently"
            }
            7602 => {
                "a wgmma instruction needs more registers than this many threads leave; use fewer warps or a smaller N"
            }
            _ => return None,
        })
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "C{:04}", self.0)
    }
}
