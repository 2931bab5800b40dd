//! Why nothing is known of a GPU's clocks and power.

use std::fmt;

use super::functions::LIBRARY;

/// Why the management library (NVML) says nothing of a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lack {
    /// The CUDA driver does not say at which bus the GPU is, by which the library knows it.
    BusId,
    /// The library was not opened: what the loader says.
    Library(String),
    /// The library lacks a function without which it says nothing.
    Symbol(&'static str),
    /// The library refused.
    Refused {
        /// The function.
        call: &'static str,
        /// Its result, an `nvmlReturn_t`.
        code: i32,
    },
}

/// `NVML_ERROR_NO_PERMISSION`
const NO_PERMISSION: i32 = 4;

/// What results of `nvml.h` mean.
const MEANINGS: [(i32, &str); 7] = [
    (NO_PERMISSION, "this user may not ask it"),
    (6, "it does not know this GPU"),
    (9, "the driver is not loaded"),
    (12, "the driver's part of it was not found"),
    (15, "the GPU has fallen off the bus"),
    (
        17,
        "a container or the operating system hides the GPU from it",
    ),
    (18, "its release is not that of the driver"),
];

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Lack::BusId => f.write_str("the driver does not say at which PCI bus the GPU is"),
            Lack::Library(why) => write!(f, "there is no {LIBRARY}: {why}"),
            Lack::Symbol(name) => write!(f, "{LIBRARY} has no `{name}`"),
            Lack::Refused { call, code } => {
                let meaning = MEANINGS.iter().find(|(known, _)| known == code);
                let meaning = meaning.map_or("it failed", |(_, meaning)| meaning);
                write!(f, "{LIBRARY}: {meaning} ({call} gave {code})")
            }
        }
    }
}

impl Lack {
    /// What can be done about it.
    pub fn help(&self) -> Option<&'static str> {
        match self {
            Lack::Library(_) => Some(
                "it is part of NVIDIA's driver; a container gets it by `NVIDIA_DRIVER_CAPABILITIES=compute,utility`",
            ),
            Lack::Symbol(_) => Some("it has it from driver 450 on"),
            Lack::Refused {
                code: NO_PERMISSION,
                ..
            } => Some("run as root, or as a user who may open /dev/nvidiactl"),
            Lack::Refused { code: 18, .. } => {
                Some("load the driver's module again, or restart: it was updated")
            }
            Lack::BusId | Lack::Refused { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_lack_says_what_it_is() {
        let refused = |code| Lack::Refused {
            call: "nvmlInit_v2",
            code,
        };
        let lacks = [
            Lack::Library("no such file".to_string()),
            Lack::Symbol("nvmlInit_v2"),
            refused(NO_PERMISSION),
            refused(18),
            refused(999),
            Lack::BusId,
        ];
        let texts: Vec<String> = lacks.iter().map(Lack::to_string).collect();
        assert_eq!(
            texts,
            [
                "there is no libnvidia-ml.so.1: no such file",
                "libnvidia-ml.so.1 has no `nvmlInit_v2`",
                "libnvidia-ml.so.1: this user may not ask it (nvmlInit_v2 gave 4)",
                "libnvidia-ml.so.1: its release is not that of the driver (nvmlInit_v2 gave 18)",
                "libnvidia-ml.so.1: it failed (nvmlInit_v2 gave 999)",
                "the driver does not say at which PCI bus the GPU is",
            ]
        );
        assert!(
            refused(NO_PERMISSION)
                .help()
                .is_some_and(|help| help.contains("root"))
        );
        assert_eq!(refused(999).help(), None);
    }
}
