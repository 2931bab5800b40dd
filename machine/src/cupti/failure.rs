//! What CUPTI refuses.

use std::fmt;

/// A call of CUPTI that did not succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The function.
    pub call: &'static str,
    /// Its result, a `CUptiResult`.
    pub code: i32,
    /// What CUPTI says of it.
    pub text: String,
}

/// `CUPTI_ERROR_INVALID_METRIC_NAME`, and `CUPTI_ERROR_INVALID_PARAMETER`, which CUPTI 13.0 says instead.
const INVALID_METRIC_NAME: [i32; 2] = [17, 1];
/// `CUPTI_ERROR_INSUFFICIENT_PRIVILEGES`, and the same of a virtual machine's GPU.
const INSUFFICIENT_PRIVILEGES: [i32; 2] = [35, 40];
/// `CUPTI_ERROR_HARDWARE_BUSY`, `CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED`
const TAKEN: [i32; 2] = [26, 39];

/// How a user comes to read counters.
pub const PERMISSION_HELP: &str = "run as root; or give the program the capability CAP_SYS_ADMIN (a container: `--cap-add SYS_ADMIN`); or let \
                            every user read counters: `options nvidia NVreg_RestrictProfilingToAdminUsers=0` in a file of /etc/modprobe.d, then load \
                            the module nvidia again";

/// Does the driver let this user read counters? None where it does not say. A capability is not looked at: CUPTI does.
pub fn is_allowed() -> Option<bool> {
    use std::os::unix::fs::MetadataExt;
    let facts = std::fs::read_to_string("/proc/driver/nvidia/params").ok()?;
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0);
    Some(is_root || !is_restricted(&facts)?)
}

/// What the driver's parameters say.
fn is_restricted(parameters: &str) -> Option<bool> {
    let mut lines = parameters.lines();
    let value = lines.find_map(|line| line.strip_prefix("RmProfilingAdminOnly:"))?;
    Some(value.trim() != "0")
}

impl Failure {
    /// May this user not read counters?
    pub fn lacks_permission(&self) -> bool {
        INSUFFICIENT_PRIVILEGES.contains(&self.code)
    }

    /// Where the name of a metric was all that could be wrong: is it one that the chip does not have?
    pub(super) fn is_unknown_metric(&self) -> bool {
        INVALID_METRIC_NAME.contains(&self.code)
    }

    /// What can be done about it.
    pub fn help(&self) -> Option<&'static str> {
        if self.lacks_permission() {
            return Some(PERMISSION_HELP);
        }
        let is_taken = TAKEN.contains(&self.code);
        is_taken.then_some(
            "end ncu, nsys or DCGM, which read counters of this GPU as well: one at a time can",
        )
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { call, code, text } = self;
        if self.lacks_permission() {
            f.write_str("the driver lets administrators alone read hardware counters: ")?;
        }
        write!(f, "{call}: {text} ({code})")
    }
}

impl std::error::Error for Failure {}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(code: i32) -> Failure {
        Failure {
            call: "cuptiRangeProfilerStart",
            code,
            text: "CUPTI_ERROR".to_string(),
        }
    }

    #[test]
    fn the_drivers_parameters_say_who_may_count() {
        assert_eq!(is_restricted("A: 1\nRmProfilingAdminOnly: 1\n"), Some(true));
        assert_eq!(
            is_restricted("RmProfilingAdminOnly: 0\nA: 1\n"),
            Some(false)
        );
        assert_eq!(is_restricted("A: 1\n"), None);
    }

    #[test]
    fn a_lack_of_permission_names_what_gives_it() {
        let lack = failure(35);
        assert_eq!(
            lack.to_string(),
            "the driver lets administrators alone read hardware counters: cuptiRangeProfilerStart: CUPTI_ERROR (35)"
        );
        let help = lack.help().expect("a help");
        for way in [
            "root",
            "CAP_SYS_ADMIN",
            "NVreg_RestrictProfilingToAdminUsers=0",
        ] {
            assert!(help.contains(way), "{way}: {help}");
        }
        assert!(failure(26).help().is_some_and(|help| help.contains("ncu")));
        assert_eq!(failure(999).help(), None);
    }
}
