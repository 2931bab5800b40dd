//! ptxas versions, and which of them can be used.

use std::fmt;

/// A release of ptxas, such as 13.0.88.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// CUDA major version.
    pub major: u32,
    /// CUDA minor version.
    pub minor: u32,
    /// Build of that release.
    pub build: u32,
}

impl Version {
    /// The oldest release that is used. 12.0 and 12.1 crash on `mbarrier.try_wait.acquire.cluster`; 12.3 does not.
    pub const FLOOR: Version = Version {
        major: 12,
        minor: 3,
        build: 0,
    };

    /// Reads the answer to `ptxas --version`, whose line of interest ends in `release 13.0, V13.0.88`.
    pub fn parse(answer: &str) -> Option<Version> {
        let after = answer.split(", V").nth(1)?;
        let mut numbers = after.split_whitespace().next()?.split('.').map(str::parse);
        let mut next = || numbers.next()?.ok();
        Some(Version {
            major: next()?,
            minor: next()?,
            build: next()?,
        })
    }

    /// Why this release cannot be used, if it cannot. `driver` is the driver's CUDA version, 1000 · major + 10 · minor;
    /// a cubin of a newer major version than the driver's does not load.
    pub(super) fn objection(self, driver: Option<i32>) -> Option<String> {
        if self < Version::FLOOR {
            return Some(format!(
                "{self} is older than 12.3, the oldest that is used"
            ));
        }
        let driver_major = u32::try_from(driver? / 1000).ok()?;
        (self.major > driver_major).then(|| {
            format!("{self} makes code that the driver (CUDA {driver_major}) does not load")
        })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.build)
    }
}
