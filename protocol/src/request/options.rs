//! What the command line says of every verb: output and device.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::MessageFormat;

/// Format, colours and amount of output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputOptions {
    /// Text, one line a diagnostic, or JSON.
    pub format: MessageFormat,
    /// Colours.
    pub color: ColorChoice,
    /// No progress and no remarks.
    pub quiet: bool,
    /// More of both.
    pub verbose: bool,
}

/// When to colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ColorChoice {
    /// On a terminal that shows colours, unless `NO_COLOR` or `CLICOLOR_FORCE` says otherwise.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// What kernels run on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DeviceChoice {
    /// A GPU where there is one that can be used, else the emulator.
    #[default]
    Auto,
    /// A GPU, or an error.
    Cuda,
    /// The emulator.
    Emulator,
}

impl FromStr for DeviceChoice {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(DeviceChoice::Auto),
            "cuda" => Ok(DeviceChoice::Cuda),
            "emulator" => Ok(DeviceChoice::Emulator),
            _ => Err(format!("`{text}` is no device: auto, cuda or emulator")),
        }
    }
}
