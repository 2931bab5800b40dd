//! Where ptxas may be, in order of preference.

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::Version;
use crate::Error;
use crate::process::output_within;

/// A ptxas that can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ptxas {
    /// The program.
    pub path: PathBuf,
    /// Its release.
    pub version: Version,
    /// Why it was looked for there.
    pub origin: Origin,
}

/// Why a place was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The environment variable `PTXAS`.
    PtxasVariable,
    /// The environment variable `CUDA_HOME` or `CUDA_PATH`.
    CudaHome,
    /// A folder of `PATH`.
    Path,
    /// A toolkit below `/usr/local`.
    UsrLocal,
    /// The user's cache, into which it was fetched.
    Fetched,
    /// A Python package.
    PythonPackage,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Origin::PtxasVariable => "$PTXAS",
            Origin::CudaHome => "$CUDA_HOME",
            Origin::Path => "PATH",
            Origin::UsrLocal => "/usr/local",
            Origin::Fetched => "fetched",
            Origin::PythonPackage => "Python package",
        })
    }
}

/// A program that was found, and why it is not used if it is not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The program.
    pub path: PathBuf,
    /// Why it was looked for there.
    pub origin: Origin,
    /// Its release, or what is wrong with it.
    pub verdict: Result<Version, String>,
}

/// The outcome of a search, for `doctor` to show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Search {
    /// Programs that were looked at, in order; the search ends with the first that can be used.
    pub candidates: Vec<Candidate>,
}

impl Search {
    /// The program that is used.
    pub fn found(&self) -> Option<Ptxas> {
        let last = self.candidates.last()?;
        let version = *last.verdict.as_ref().ok()?;
        Some(Ptxas {
            path: last.path.clone(),
            version,
            origin: last.origin,
        })
    }
}

/// What of the process' environment decides where ptxas is looked for.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// `$PTXAS`: this program and no other.
    pub ptxas: Option<PathBuf>,
    /// `$CUDA_HOME` and `$CUDA_PATH`.
    pub toolkits: Vec<PathBuf>,
    /// The folders of `$PATH`.
    pub path: Vec<PathBuf>,
    /// The folder in which toolkits are installed, `/usr/local`.
    pub local: PathBuf,
    /// The folder of fetched programs.
    pub fetched: Option<PathBuf>,
    /// Folders that hold Python environments: `$VIRTUAL_ENV`, `$CONDA_PREFIX`, `.venv`, `venv`, `~/.local`.
    pub python_prefixes: Vec<PathBuf>,
}

impl Environment {
    /// That of this process.
    pub fn of_process() -> Environment {
        let folder = |name: &str| {
            env::var_os(name)
                .filter(|value| !value.is_empty())
                .map(PathBuf::from)
        };
        let home = folder("HOME").map(|home| home.join(".local"));
        Environment {
            ptxas: folder("PTXAS"),
            toolkits: ["CUDA_HOME", "CUDA_PATH"]
                .into_iter()
                .filter_map(folder)
                .collect(),
            path: env::var_os("PATH")
                .map_or_else(Vec::new, |path| env::split_paths(&path).collect()),
            local: PathBuf::from("/usr/local"),
            fetched: super::fetched_folder(),
            python_prefixes: ["VIRTUAL_ENV", "CONDA_PREFIX"]
                .into_iter()
                .filter_map(folder)
                .chain([PathBuf::from(".venv"), PathBuf::from("venv")])
                .chain(home)
                .collect(),
        }
    }

    /// Looks for ptxas. `driver` is the driver's CUDA version if code for this machine's GPU is wanted.
    pub fn search(&self, driver: Option<i32>) -> Search {
        let mut search = Search::default();
        for (path, origin) in self.programs("ptxas") {
            let verdict = examine(&path, driver);
            let done = verdict.is_ok();
            search.candidates.push(Candidate {
                path,
                origin,
                verdict,
            });
            if done {
                break;
            }
        }
        search
    }

    /// Files called `program` in every place, in order. `$PTXAS` is the only place if it is set, so that a wrong value
    /// is reported and not passed over.
    pub fn programs(&self, program: &str) -> impl Iterator<Item = (PathBuf, Origin)> {
        let named = self.ptxas.clone().filter(|_| program == "ptxas");
        let elsewhere = named
            .is_none()
            .then(|| self.places(program))
            .into_iter()
            .flatten();
        named
            .into_iter()
            .map(|path| (path, Origin::PtxasVariable))
            .chain(elsewhere)
    }

    /// Folders of NVIDIA's libraries, in order; `None` stands for what the loader knows (`LD_LIBRARY_PATH`, `ldconfig`).
    pub fn library_folders(&self) -> impl Iterator<Item = Option<PathBuf>> {
        let of_toolkit = |home: &PathBuf| [home.join("lib64"), home.join("lib")];
        let toolkits = self.toolkits.iter().flat_map(of_toolkit);
        let local = toolkits_below(&self.local);
        let local: Vec<PathBuf> = local.iter().flat_map(of_toolkit).collect();
        let python = self
            .python_packages()
            .flat_map(|site| folders_in(&site.join("nvidia"), |_| true))
            .map(|package| package.join("lib"));
        toolkits
            .map(Some)
            .chain([None])
            .chain(local.into_iter().chain(python).map(Some))
    }

    /// Folders of Python's packages. Asking Python itself takes tens of milliseconds, so that comes last, and only if nothing
    /// before it has what is looked for.
    fn python_packages(&self) -> impl Iterator<Item = PathBuf> {
        let prefixes = self.python_prefixes.iter();
        let known = prefixes.flat_map(|prefix| site_packages_below(prefix));
        known.chain(std::iter::once_with(|| python_site_packages(&self.path)).flatten())
    }

    fn places(&self, program: &str) -> impl Iterator<Item = (PathBuf, Origin)> {
        // Where the user's own ptxas is, its companions are.
        let beside = self.ptxas.iter().filter_map(|ptxas| ptxas.parent());
        let beside = beside.map(|folder| (folder.to_path_buf(), Origin::PtxasVariable));
        let toolkits = self
            .toolkits
            .iter()
            .map(|home| (home.join("bin"), Origin::CudaHome));
        let path = self
            .path
            .iter()
            .map(|folder| (folder.clone(), Origin::Path));
        let local = toolkits_below(&self.local)
            .into_iter()
            .map(|home| (home.join("bin"), Origin::UsrLocal));
        let fetched = self
            .fetched
            .iter()
            .map(|folder| (folder.clone(), Origin::Fetched));
        let python = self
            .python_packages()
            .flat_map(|site| package_folders(&site))
            .map(|folder| (folder, Origin::PythonPackage));
        let folders = beside
            .chain(toolkits)
            .chain(path)
            .chain(local)
            .chain(fetched)
            .chain(python);
        let program = program.to_string();
        folders
            .map(move |(folder, origin)| (folder.join(&program), origin))
            .filter(|(path, _)| path.is_file())
    }
}

impl Ptxas {
    /// The first usable ptxas on this machine; the error lists what was found and why it cannot be used.
    pub fn find(driver: Option<i32>) -> Result<Ptxas, Error> {
        let search = Environment::of_process().search(driver);
        search.found().ok_or(Error::NoPtxas {
            rejected: search.candidates,
        })
    }
}

/// A program that is only asked who it is answers sooner, however busy the machine.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// Runs `--version` and judges the answer.
fn examine(path: &Path, driver: Option<i32>) -> Result<Version, String> {
    let output = output_within(Command::new(path).arg("--version"), ANSWER_LIMIT)
        .map_err(|error| error.to_string())?
        .ok_or_else(|| {
            format!(
                "did not answer --version within {} s",
                ANSWER_LIMIT.as_secs()
            )
        })?;
    let answer = String::from_utf8_lossy(&output.stdout);
    let version = Version::parse(&answer).ok_or("did not answer --version as ptxas does")?;
    version.objection(driver).map_or(Ok(version), Err)
}

/// `/usr/local/cuda` and `/usr/local/cuda-*`, the plain name first, then the newest.
fn toolkits_below(local: &Path) -> Vec<PathBuf> {
    let mut found = folders_in(local, |name| name.starts_with("cuda"));
    found.sort_by_key(|path| {
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let numbers: Vec<u32> = name
            .trim_start_matches("cuda")
            .trim_start_matches('-')
            .split('.')
            .filter_map(|number| number.parse().ok())
            .collect();
        (name != "cuda", std::cmp::Reverse(numbers))
    });
    found
}

fn site_packages_below(prefix: &Path) -> Vec<PathBuf> {
    folders_in(&prefix.join("lib"), |name| name.starts_with("python3"))
        .into_iter()
        .map(|folder| folder.join("site-packages"))
        .collect()
}

/// The folders of the first `python3` on the path, as it names them itself.
fn python_site_packages(path: &[PathBuf]) -> Vec<PathBuf> {
    let Some(python) = path
        .iter()
        .map(|folder| folder.join("python3"))
        .find(|file| file.is_file())
    else {
        return Vec::new();
    };
    let script = "import site, sysconfig\n\
        print(sysconfig.get_path('purelib')); print(sysconfig.get_path('platlib')); print(site.getusersitepackages())\n\
        print(*site.getsitepackages(), sep='\\n')";
    let answer = output_within(
        Command::new(python).args(["-I", "-c", script]),
        ANSWER_LIMIT,
    );
    // A python3 that is broken knows no packages.
    let text = answer
        .ok()
        .flatten()
        .map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
        .unwrap_or_default();
    let mut folders = Vec::new();
    for folder in text.lines().map(PathBuf::from) {
        if !folders.contains(&folder) {
            folders.push(folder);
        }
    }
    folders
}

/// Where packages keep NVIDIA's programs inside a site-packages folder.
fn package_folders(site: &Path) -> Vec<PathBuf> {
    [
        "nvidia/cu13/bin",
        "nvidia/cuda_nvcc/bin",
        "nvidia/cuda_nvdisasm/bin",
        "nvidia/cuda_cuobjdump/bin",
        "triton/backends/nvidia/bin",
    ]
    .into_iter()
    .map(|folder| site.join(folder))
    .filter(|folder| folder.is_dir())
    .collect()
}

fn folders_in(parent: &Path, wanted: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(parent) else {
        return Vec::new();
    };
    let name_of = |name: OsString| name.into_string().ok();
    let mut folders: Vec<PathBuf> = entries
        .flatten()
        .filter(|entry| name_of(entry.file_name()).is_some_and(|name| wanted(&name)))
        .map(|entry| entry.path())
        .filter(|path| path.is_dir())
        .collect();
    folders.sort();
    folders
}
