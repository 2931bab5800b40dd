//! Exit codes.

use std::process::ExitCode;

macro_rules! exits {
    ($($variant:ident = $code:literal, $meaning:literal;)+) => {
        /// How a verb ended. The numbers never change meaning; scripts may rely on them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum Exit { $(#[doc = $meaning] $variant = $code,)+ }

        impl Exit {
            /// Every way to end.
            pub const ALL: &[Exit] = &[$(Exit::$variant),+];
            /// What it means, in a few words.
            pub const fn meaning(self) -> &'static str { match self { $(Exit::$variant => $meaning,)+ } }
        }
    };
}

exits! {
    Success = 0, "everything asked for was done";
    Internal = 1, "a bug of TileKit, or of the machine (a file that cannot be written)";
    Usage = 2, "the command line or the configuration is wrong";
    NothingSelected = 4, "no kernels in the package, or none matches";
    KernelFailed = 100, "a kernel gave a wrong result or failed while it ran";
    BuildFailed = 101, "the package does not compile";
    MetadataFailed = 102, "cargo could not read the package";
    Diagnostics = 103, "a kernel is wrong: diagnostics were reported";
    Snapshots = 104, "snapshots differ, are missing or stale, or a cost is beyond its limit";
    Toolchain = 105, "ptxas, a disassembler or CUPTI failed or was not found";
    NoGpu = 106, "a GPU was asked for and there is none that can be used";
    Hang = 107, "a kernel on the GPU did not end, and its process was stopped";
    Survivors = 108, "mutants survived that are not marked equivalent, or that fail on the device";
    Slower = 109, "`bench --against`: a run is slower than the baseline by more than is allowed";
    Untuned = 110, "`tune`: of some run no candidate gave right results";
}

impl Exit {
    /// The number.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The exit that a process with this status meant, if it is one of ours.
    pub fn of_code(code: i32) -> Option<Exit> {
        Exit::ALL
            .iter()
            .copied()
            .find(|exit| i32::from(exit.code()) == code)
    }

    /// The table for `--help`.
    pub fn table() -> String {
        let lines: Vec<String> = Exit::ALL
            .iter()
            .map(|exit| format!("  {:>3}  {}", exit.code(), exit.meaning()))
            .collect();
        lines.join("\n")
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.code())
    }
}

#[cfg(test)]
mod tests {
    use super::Exit;

    #[test]
    fn numbers_are_those_documented() {
        let codes: Vec<u8> = Exit::ALL.iter().map(|exit| exit.code()).collect();
        assert_eq!(
            codes,
            [
                0, 1, 2, 4, 100, 101, 102, 103, 104, 105, 106, 107, 108, 109, 110
            ]
        );
        assert_eq!(Exit::of_code(104), Some(Exit::Snapshots));
        assert_eq!(Exit::of_code(3), None);
        assert_eq!(Exit::table().lines().count(), Exit::ALL.len());
    }
}
