//! Running ptxas on PTX text.

use std::fmt;
use std::path::PathBuf;
use std::process::{Command, ExitStatus};
use std::sync::OnceLock;
use std::time::Duration;

use target::{SM_90A, Target};

use super::{AssemblyReport, Message, Ptxas, Severity, Version, budget, dropped};
use crate::Error;
use crate::process::output_watched;

/// The command line for PTX text, without input and output: `-arch` is the target that it names, and `sm_90a` where that is an
/// architecture that others build on, such as `sm_90`.
///
/// `-c`, `-g` and `-O0` are never used: each serialises `wgmma` or drops `setmaxnreg`. `-lineinfo` is not needed: ptxas
/// keeps the `.loc` lines that it is given.
pub fn flags(ptx: &str) -> [String; 2] {
    let line = ptx.lines().find_map(|line| line.strip_prefix(".target "));
    let named = line.and_then(|line| Target::named(line.split(',').next()?.trim()));
    let arch = named.unwrap_or(&SM_90A).arch;
    [format!("-arch={arch}"), "-v".to_owned()]
}

/// The largest kernels take ptxas some seconds.
pub(super) const WORK_LIMIT: Duration = Duration::from_mins(10);

/// The variable with another limit, seconds.
const LIMIT_VARIABLE: &str = "TILEKIT_PTXAS_SECONDS";

/// The time between two notes that ptxas is still at work.
const INTERVAL: Duration = Duration::from_secs(10);

/// The note on a ptxas that takes long.
type Watcher = Box<dyn Fn(Duration) + Send + Sync>;

static WATCHER: OnceLock<Watcher> = OnceLock::new();

/// Has `tell` be called every few seconds with the time that one run of ptxas has taken. The first call counts, for the process has one
/// place where it speaks.
pub fn watch(tell: impl Fn(Duration) + Send + Sync + 'static) {
    let _ = WATCHER.set(Box::new(tell));
}

fn tell(taken: Duration) {
    if let Some(watcher) = WATCHER.get() {
        watcher(taken);
    }
}

/// How long ptxas may work on one kernel.
fn work_limit() -> Result<Duration, String> {
    let Some(text) = std::env::var_os(LIMIT_VARIABLE).filter(|text| !text.is_empty()) else {
        return Ok(WORK_LIMIT);
    };
    let seconds = text.to_str().and_then(|text| text.parse().ok());
    let sensible = seconds.filter(|seconds| (1..=86400).contains(seconds));
    sensible.map(Duration::from_secs).ok_or_else(|| {
        let text = text.display();
        format!("{LIMIT_VARIABLE} is `{text}`, and must be a whole number of seconds, 1 to 86400")
    })
}

/// How an ELF image begins.
const ELF: &[u8] = b"\x7fELF";

/// A cubin and what ptxas said of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assembled {
    /// The ELF image that the driver loads.
    pub cubin: Vec<u8>,
    /// What ptxas said, word for word.
    pub log: String,
    /// Registers, spills, shared memory, messages: the log, read.
    pub report: AssemblyReport,
}

/// PTX that ptxas rejected, or did not assemble as it stands.
#[derive(Clone, Debug)]
pub struct PtxasFailure {
    /// The program.
    pub program: PathBuf,
    /// Its release.
    pub version: Version,
    /// Whether ptxas itself refused the text. It assembled it otherwise, and what it noted or left out is the problem.
    pub is_rejection: bool,
    /// What is wrong, each with its place.
    pub problems: Vec<Problem>,
}

/// One message with the PTX line and the author's line that it is about.
#[derive(Clone, Debug)]
pub struct Problem {
    /// What ptxas said.
    pub message: Message,
    /// The text of the PTX line.
    pub ptx: Option<String>,
    /// The line of the kernel, if the PTX says it by `.loc`.
    pub source: Option<SourcePlace>,
}

/// A place in the kernel's source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourcePlace {
    /// The file, as `.file` names it.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1.
    pub column: u32,
}

impl Ptxas {
    /// Assembles PTX text for the target that it names.
    ///
    /// # Errors
    /// [`Error::Ptxas`] for rejected PTX, for notes that mean a slow kernel ([`Code`](super::Code)), and for code that would hang
    /// or lacks products; [`Error::Tool`] if the program could not be run.
    pub fn assemble(&self, ptx: &str) -> Result<Assembled, Error> {
        let tool = |reason: String| Error::Tool {
            program: self.path.clone(),
            reason,
        };
        let folder =
            tempfile::tempdir().map_err(|error| tool(format!("no temporary folder: {error}")))?;
        let (input, output) = (
            folder.path().join("kernel.ptx"),
            folder.path().join("kernel.cubin"),
        );
        std::fs::write(&input, ptx)
            .map_err(|error| tool(format!("{}: {error}", input.display())))?;
        let mut command = Command::new(&self.path);
        command.args(flags(ptx)).arg(&input).arg("-o").arg(&output);
        let limit = work_limit().map_err(tool)?;
        let run = output_watched(&mut command, limit, INTERVAL, &tell)
            .map_err(|error| tool(error.to_string()))?
            .ok_or_else(|| tool(too_long(limit)))?;
        let mut said = String::from_utf8_lossy(&run.stderr).into_owned();
        said.push_str(&String::from_utf8_lossy(&run.stdout));
        let report = AssemblyReport::parse(&said);
        let shortfalls = budget::shortfalls(ptx, &report);
        self.expect_none(
            report.problems().chain(&shortfalls),
            ptx,
            report.has_errors(),
        )?;
        if !run.status.success() {
            return Err(tool(failure(run.status, &said)));
        }
        let cubin = std::fs::read(&output).map_err(|error| {
            tool(format!(
                "it ended well and wrote no cubin ({error}); is this ptxas?"
            ))
        })?;
        if !cubin.starts_with(ELF) {
            return Err(tool(format!(
                "it ended well and wrote {} bytes that are no ELF image; is this ptxas?",
                cubin.len()
            )));
        }
        self.expect_none(dropped::products(ptx, &cubin).iter(), ptx, false)?;
        Ok(Assembled {
            cubin,
            log: said,
            report,
        })
    }

    /// An error with all these messages, but for the one that only says that there are others.
    fn expect_none<'m>(
        &self,
        messages: impl Iterator<Item = &'m Message>,
        ptx: &str,
        is_rejection: bool,
    ) -> Result<(), Error> {
        let messages = messages.filter(|message| says_more_than_aborted(message));
        let problems: Vec<Problem> = messages.map(|message| locate(message, ptx)).collect();
        if problems.is_empty() {
            return Ok(());
        }
        Err(Error::Ptxas(Box::new(PtxasFailure {
            program: self.path.clone(),
            version: self.version,
            is_rejection,
            problems,
        })))
    }
}

/// What is said of a program that was stopped.
pub(super) fn too_long(limit: Duration) -> String {
    format!(
        "it did not end within {} s and was stopped; make the kernel smaller, try another release of it, or set \
         {LIMIT_VARIABLE}",
        limit.as_secs()
    )
}

/// What is said of a program that failed; a crash has no words of its own.
pub(super) fn failure(status: ExitStatus, said: &str) -> String {
    match said.trim() {
        "" => format!("it ended by {status} and said nothing; try another release of it"),
        said => format!("it ended by {status}: {said}"),
    }
}

/// ptxas ends every failure with a line that only says so.
fn says_more_than_aborted(message: &Message) -> bool {
    message.severity != Severity::Error || !message.text.starts_with("Ptx assembly aborted")
}

fn locate(message: &Message, ptx: &str) -> Problem {
    let text = message
        .line
        .and_then(|line| ptx.lines().nth(line as usize - 1));
    Problem {
        message: message.clone(),
        ptx: text.map(|text| text.trim().to_string()),
        source: message
            .line
            .and_then(|line| SourcePlace::of_ptx_line(ptx, line)),
    }
}

impl SourcePlace {
    /// The author's place of a line of PTX: that of the `.loc` before it.
    pub fn of_ptx_line(ptx: &str, line: u32) -> Option<SourcePlace> {
        let before: Vec<&str> = ptx.lines().take(line as usize).collect();
        let location = before
            .iter()
            .rev()
            .find_map(|line| line.trim().strip_prefix(".loc "))?;
        let mut numbers = location
            .split([' ', '\t', ',', ';'])
            .filter(|word| !word.is_empty())
            .map(str::parse);
        let mut next = || -> Option<u32> { numbers.next()?.ok() };
        let (file, line, column) = (next()?, next()?, next()?);
        Some(SourcePlace {
            file: file_name(ptx, file)?,
            line,
            column,
        })
    }
}

/// The name that `.file 1 "name"` gives. The directive may stand anywhere at module level.
fn file_name(ptx: &str, number: u32) -> Option<String> {
    ptx.lines().find_map(|line| {
        let (index, name) = line
            .trim()
            .strip_prefix(".file")?
            .trim()
            .split_once(char::is_whitespace)?;
        (index.parse() == Ok(number)).then(|| name.split('"').nth(1).map(str::to_string))?
    })
}

impl fmt::Display for PtxasFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "ptxas {} does not accept the kernel as it stands",
            self.version
        )?;
        self.problems
            .iter()
            .try_for_each(|problem| write!(f, "\n  {problem}"))
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(source) = &self.source {
            write!(f, "{}:{}:{}: ", source.file, source.line, source.column)?;
        }
        write!(f, "{}", self.message.text)?;
        if let (Some(line), Some(text)) = (self.message.line, &self.ptx) {
            write!(f, " (PTX line {line}: `{text}`)")?;
        }
        let explanation = self.message.code.and_then(super::Code::explanation);
        explanation.map_or(Ok(()), |text| write!(f, "\n    {text}"))
    }
}

impl std::error::Error for PtxasFailure {}
