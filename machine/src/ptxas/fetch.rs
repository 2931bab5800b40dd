//! Fetches NVIDIA's programs for a user who has none: from their Python packages, through the machine's own pip, into the user's cache.
//!
//! The packages are those of fixed releases, whose digests stand here: what comes through any mirror is these bytes or is refused.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::kept::{digest, user_folder};
use crate::process::output_within;

/// A program that can be fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetchable {
    /// The program's name.
    pub program: &'static str,
    /// The Python package that has it.
    pub package: &'static str,
    /// Its release.
    pub version: &'static str,
    /// SHA-256 of the package's wheel for each processor.
    wheels: [(&'static str, &'static str); 2],
}

/// The assembler. Figures in this project's snapshots are of this release.
pub const PTXAS: Fetchable = Fetchable {
    program: "ptxas",
    package: "nvidia-cuda-nvcc",
    version: "13.0.88",
    wheels: [
        (
            "x86_64",
            "56fe502eb77625a12f25172caa3cdddb4e4c8ba2c8c17dba44b164761b380f03",
        ),
        (
            "aarch64",
            "c7ff28f86a24effdc6c034fa15230c549a273e4771b10a7fec14996f8cf3307f",
        ),
    ],
};

/// The disassembler, the first release of 13.2 and later that is a package of its own.
pub const NVDISASM: Fetchable = Fetchable {
    program: "nvdisasm",
    package: "nvidia-cuda-nvdisasm",
    version: "13.2.86",
    wheels: [
        (
            "x86_64",
            "53606e719ecae07a2335f95902d5a1393a0cc1c317499ee7ffcf628a44385f2c",
        ),
        (
            "aarch64",
            "d02c627f7aecfcac4dd5e923e94adeaa6607c5fdae8df750b01ad948d38941d3",
        ),
    ],
};

/// A download of some 40 MB over a slow line.
const LIMIT: Duration = Duration::from_mins(10);

/// Writes the program of a wheel: `python3 -c SCRIPT wheel program target`.
const UNPACK: &str = "import sys, zipfile\n\
    wheel, program, target = sys.argv[1:]\n\
    with zipfile.ZipFile(wheel) as archive:\n\
    \x20   member = next(name for name in archive.namelist() if name.endswith('/bin/' + program))\n\
    \x20   open(target, 'wb').write(archive.read(member))\n";

/// Where fetched programs are kept: below the user's cache of cubins; nowhere if that is off.
pub fn fetched_folder() -> Option<PathBuf> {
    user_folder().map(|folder| folder.join("tools"))
}

impl Fetchable {
    /// Fetches it into `folder`, and says where it is.
    ///
    /// # Errors
    /// What stood in the way, and behind a semicolon what to do.
    pub fn fetch(&self, folder: &Path) -> Result<PathBuf, String> {
        let digest = self.digest_for(std::env::consts::ARCH)?;
        let made = |error: io::Error| format!("{} cannot be written: {error}", folder.display());
        fs::create_dir_all(folder).map_err(made)?;
        let place = tempfile::tempdir_in(folder).map_err(made)?;
        self.download(place.path())?;
        let wheel = wheel_in(place.path()).ok_or_else(|| {
            format!(
                "pip wrote no wheel of {}; `pip install {}` by hand",
                self.package, self.package
            )
        })?;
        check(&wheel, digest)?;
        let unpacked = place.path().join(self.program);
        python(&[
            "-c".as_ref(),
            UNPACK.as_ref(),
            wheel.as_os_str(),
            self.program.as_ref(),
            unpacked.as_os_str(),
        ])?;
        let target = folder.join(self.program);
        executable(&unpacked)
            .and_then(|()| fs::rename(&unpacked, &target))
            .map_err(made)?;
        Ok(target)
    }

    fn digest_for(&self, processor: &str) -> Result<&'static str, String> {
        let known = self.wheels.iter().find(|(name, _)| *name == processor);
        known.map(|(_, digest)| *digest).ok_or_else(|| {
            format!(
                "{} has no package for {processor}; set PTXAS or CUDA_HOME",
                self.program
            )
        })
    }

    fn download(&self, folder: &Path) -> Result<(), String> {
        let named = format!("{}=={}", self.package, self.version);
        python(&[
            "-m".as_ref(),
            "pip".as_ref(),
            "download".as_ref(),
            "--quiet".as_ref(),
            "--disable-pip-version-check".as_ref(),
            "--no-deps".as_ref(),
            "--only-binary=:all:".as_ref(),
            "--dest".as_ref(),
            folder.as_os_str(),
            named.as_ref(),
        ])
    }
}

fn check(wheel: &Path, expected: &str) -> Result<(), String> {
    let bytes = fs::read(wheel).map_err(|error| format!("{}: {error}", wheel.display()))?;
    let found = digest(&bytes);
    if found == expected {
        return Ok(());
    }
    Err(format!(
        "{}: SHA-256 is {found}, and {expected} was expected; nothing was kept, and pip's index gives another file than NVIDIA published",
        wheel.file_name().unwrap_or_default().display()
    ))
}

fn python(arguments: &[&std::ffi::OsStr]) -> Result<(), String> {
    let mut command = Command::new("python3");
    let run = output_within(command.args(arguments), LIMIT).map_err(|error| {
        format!("python3 cannot be started ({error}); install Python 3 with pip, or set PTXAS or CUDA_HOME")
    })?;
    let run = run.ok_or_else(|| {
        format!(
            "python3 did not end within {} s; try again",
            LIMIT.as_secs()
        )
    })?;
    if run.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&run.stderr);
    let last = said.lines().rev().find(|line| !line.trim().is_empty());
    Err(format!(
        "`python3 -m pip` failed: {}; check the network, or set PTXAS or CUDA_HOME",
        last.unwrap_or("it said nothing").trim()
    ))
}

fn wheel_in(folder: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(folder).ok()?.flatten();
    let mut paths = entries.map(|entry| entry.path());
    paths.find(|path| path.extension().is_some_and(|ending| ending == "whl"))
}

fn executable(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_wheel_is_refused_and_names_both_digests() {
        let folder = tempfile::tempdir().expect("a folder");
        let wheel = folder.path().join("nvidia.whl");
        fs::write(&wheel, b"something else").expect("written");
        let expected = PTXAS.digest_for("x86_64").expect("known");
        let said = check(&wheel, expected).expect_err("it is another");
        assert!(
            said.contains(&digest(b"something else")) && said.contains(expected),
            "{said}"
        );
        assert_eq!(wheel_in(folder.path()), Some(wheel));
    }

    #[test]
    fn a_processor_without_a_package_is_named() {
        let said = NVDISASM.digest_for("riscv64").expect_err("there is none");
        assert!(
            said.contains("riscv64") && said.contains("CUDA_HOME"),
            "{said}"
        );
        for fetched in [PTXAS, NVDISASM] {
            for (processor, digest) in fetched.wheels {
                assert_eq!(
                    (fetched.digest_for(processor), digest.len()),
                    (Ok(digest), 64)
                );
            }
        }
    }
}
