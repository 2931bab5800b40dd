//! What ptxas makes of a kernel with records and without: a timeline of a kernel that spills only because of its records says nothing.

use lowering::trace::{TraceLevel, TraceOptions};
use serde_json::{Value, json};

use crate::harness::Exit;
use crate::harness::catalog::RunItem;
use crate::harness::context::{Context, Done};
use crate::harness::replaced::Replaced;
use crate::kernel::{Compiled, Compiler, Instance};
use crate::ptxas::EntryReport;
use crate::report::Remark;
use crate::toolchain::{Image, Toolchain};

/// The kernels of a run, as far as ptxas is there to tell.
pub(super) struct Builds(Vec<(String, Build)>);

/// One kernel without records and with them.
pub(super) struct Build {
    plain: EntryReport,
    traced: EntryReport,
}

impl Builds {
    /// That of a kernel.
    pub(super) fn of(&self, instance: &Instance) -> Option<&Build> {
        let found = self.0.iter().find(|(path, _)| path == instance.path());
        found.map(|(_, build)| build)
    }
}

/// Compiles and assembles all kernels of a run both ways.
///
/// # Errors
/// A kernel that spills with records and not, or less, without; and what stands in the way of compiling.
pub(super) fn builds(
    context: &Context,
    replaced: &Replaced,
    run: &RunItem,
    options: TraceOptions,
) -> Done<Builds> {
    let toolchain = Toolchain::find(None);
    let plain = Context::compiler(replaced);
    let traced = plain.clone().tracing(options);
    let mut builds: Vec<(String, Build)> = Vec::new();
    for launch in &run.described.launches {
        let path = launch.instance.path();
        if builds.iter().any(|(known, _)| known == path) {
            continue;
        }
        let report = |compiler: &Compiler| {
            let compiled = compiler.compile(&launch.instance);
            let assembled = compiled.and_then(|compiled| assembled(&compiled, &toolchain));
            assembled.map_err(|error| context.speaker.error(&launch.instance.display(), &error))
        };
        let pair = report(&plain)?.zip(report(&traced)?);
        let Some((plain, traced)) = pair else {
            continue;
        };
        let build = Build { plain, traced };
        if build.spills() {
            let display = launch.instance.display();
            return Err(refused(context, &display, &build, options.level));
        }
        builds.push((path.to_string(), build));
    }
    Ok(Builds(builds))
}

/// What ptxas says of a kernel; none without ptxas. Products that it serializes are its error.
fn assembled(compiled: &Compiled, toolchain: &Toolchain) -> crate::Result<Option<EntryReport>> {
    if !toolchain.assembles() {
        return Ok(None);
    }
    let Image::Cubin { assembled, .. } = toolchain.assemble(compiled.ptx())? else {
        return Ok(None);
    };
    Ok(assembled.report.entry(&compiled.info().entry).cloned())
}

fn refused(context: &Context, kernel: &str, build: &Build, level: TraceLevel) -> Exit {
    let remark = Remark::error(format!(
        "`{kernel}` spills {} bytes with records and {} without: its timeline would be that of another kernel",
        spilled(&build.traced),
        spilled(&build.plain)
    ))
    .with_note(format!(
        "{} registers with records, {} without",
        build.traced.registers, build.plain.registers
    ))
    .with_help(match level {
        TraceLevel::Steps => {
            "record less: `--level tiles` or `--level partitions`, or fewer marks"
        }
        TraceLevel::Tiles => "record less: `--level partitions`, or fewer marks",
        TraceLevel::Partitions => {
            "a recorder takes three registers, which this kernel does not have: fewer marks, smaller tiles or a variant that \
             spills nothing; `bench --counters` says at which lines its warps wait"
        }
    });
    context.speaker.failure(&remark);
    Exit::Toolchain
}

fn spilled(report: &EntryReport) -> u32 {
    report.spill_store_bytes + report.spill_load_bytes
}

impl Build {
    fn spills(&self) -> bool {
        spilled(&self.traced) > spilled(&self.plain)
    }

    pub(super) fn text(&self) -> String {
        format!(
            "  registers: {} with records, {} without; {} bytes spilled\n",
            self.traced.registers,
            self.plain.registers,
            spilled(&self.traced)
        )
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "registers": self.traced.registers, "plain_registers": self.plain.registers,
            "spilled_bytes": spilled(&self.traced),
        })
    }
}
