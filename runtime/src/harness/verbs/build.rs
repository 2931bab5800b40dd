//! `build`: writes what a variant is at each stage, and prints where.

use std::path::{Path, PathBuf};

use ir::{TensorMapMode, TensorMapType};
use layout::SharedLayout;
use serde_json::{Value, json};
use target::Target;

use super::check_variant;
use crate::error::Error;
use crate::harness::artifact::{FileNames, KEPT_STAGE, comment, facts, ir_text, without_head};
use crate::harness::catalog::Variant;
use crate::harness::context::{Context, Done};
use crate::harness::files::write_whole;
use crate::harness::request::Emit;
use crate::harness::speak::{Speaker, Verdict};
use crate::kernel::{Compiled, Compiler};
use crate::ptxas::{Assembled, Environment, disassemble};
use crate::report::Remark;
use crate::toolchain::{Image, Toolchain};

pub(in crate::harness) fn build(context: &Context, filters: &[String], emit: &[Emit]) -> Done {
    let catalog = context.declared_catalog()?;
    let variants = context.variants(&catalog, filters)?;
    let replaced = context.replaced()?;
    let names = FileNames::new(&catalog);
    let wants_code = emit.contains(&Emit::Cubin) || emit.contains(&Emit::Sass);
    let builder = Builder {
        speaker: &context.speaker,
        folder: &context.place.artifacts,
        compiler: Context::compiler(&replaced),
        toolchain: wants_code.then(|| Toolchain::find(None)),
        emit,
    };
    let mut verdict = Verdict::good();
    for (kernel, variant) in variants {
        if let Err(exit) = builder.variant(&names.name(kernel, variant), variant) {
            verdict.note(exit);
        }
    }
    Ok(verdict.exit())
}

struct Builder<'a> {
    speaker: &'a Speaker,
    folder: &'a Path,
    compiler: Compiler,
    toolchain: Option<Toolchain>,
    emit: &'a [Emit],
}

impl Builder<'_> {
    fn variant(&self, name: &str, variant: &Variant) -> Done<()> {
        let compiled = check_variant(variant, &self.compiler, self.speaker)?;
        let assembled = self.assemble(&compiled)?;
        for kind in self.emit {
            let content = self.content(*kind, variant, &compiled, assembled.as_ref())?;
            self.write(name, kind.extension(), &content)?;
        }
        let description = describe(&compiled, assembled.as_ref());
        let text = serde_json::to_string_pretty(&description)
            .expect("a value of strings and numbers")
            + "\n";
        self.write(name, "json", text.as_bytes())
    }

    fn assemble(&self, compiled: &Compiled) -> Done<Option<Assembled>> {
        let Some(toolchain) = &self.toolchain else {
            return Ok(None);
        };
        compiled
            .check_assembly()
            .map_err(|error| self.speaker.error(compiled.display(), &error))?;
        match toolchain.assemble(compiled.ptx()) {
            Ok(Image::Cubin { assembled, .. }) => Ok(Some(assembled)),
            Ok(Image::Ptx(_)) => unreachable!("assembling gives a cubin or fails"),
            Err(error) => Err(self.speaker.error(compiled.display(), &error)),
        }
    }

    fn content(
        &self,
        kind: Emit,
        variant: &Variant,
        compiled: &Compiled,
        assembled: Option<&Assembled>,
    ) -> Done<Vec<u8>> {
        let fail = |error: Error| self.speaker.error(&variant.display, &error);
        match (kind, assembled) {
            (Emit::Ir, _) => {
                let traced = variant
                    .instance
                    .trace()
                    .map_err(|error| fail(Error::Kernel(error)))?;
                let text = ir_text(traced.func, &KEPT_STAGE)
                    .map_err(|error| fail(Error::Kernel(error)))?;
                Ok(text.into_bytes())
            }
            (Emit::Ptx, _) => {
                let header = facts(compiled);
                Ok(format!("{}{}", comment(&header), without_head(compiled.ptx())).into_bytes())
            }
            (Emit::Cubin, Some(assembled)) => Ok(assembled.cubin.clone()),
            (Emit::Sass, Some(assembled)) => {
                let text = disassemble(&assembled.cubin, &Environment::of_process())
                    .map_err(|error| fail(error.into()))?;
                Ok(text.into_bytes())
            }
            (Emit::Cubin | Emit::Sass, None) => {
                unreachable!("code is assembled where it is wanted")
            }
        }
    }

    fn write(&self, name: &str, extension: &str, content: &[u8]) -> Done<()> {
        let path: PathBuf = self.folder.join(format!("{name}.{extension}"));
        if let Err(error) = write_whole(&path, content) {
            return Err(self.speaker.failure(&Remark::error(error.to_string())));
        }
        let path = path.display().to_string();
        self.speaker.tell(&format!("{path}\n"), || {
            json!({ "reason": "tilekit-artifact", "kind": extension, "name": name, "path": path })
        });
        Ok(())
    }
}

/// What a program that launches the kernel wants to know.
fn describe(compiled: &Compiled, assembled: Option<&Assembled>) -> Value {
    let info = compiled.info();
    let stats = ptx::Stats::of_module(compiled.module());
    let counts: serde_json::Map<String, Value> = stats
        .iter()
        .map(|(name, count)| (name.to_string(), count.into()))
        .collect();
    let parameters: Vec<Value> = info
        .params
        .iter()
        .map(|param| {
            json!({
                "name": &*param.name, "type": param.ty.to_string(), "offset_bytes": param.offset,
                "size_bytes": param.size, "divisor": param.divisor,
                "readonly": param.is_readonly, "written": param.is_written,
                "tensor_map": param.ty.as_tensor_map().and_then(|map| describe_map(info.target, map)),
            })
        })
        .collect();
    let report = assembled.and_then(|assembled| assembled.report.entry(&info.entry));
    let machine = report.map(|report| {
        json!({
            "registers": report.registers, "spill_store_bytes": report.spill_store_bytes,
            "spill_load_bytes": report.spill_load_bytes, "stack_bytes": report.stack_bytes,
            "static_shared_bytes": report.shared_bytes,
        })
    });
    json!({
        "kernel": compiled.display(), "entry": &*info.entry, "threads": info.threads,
        "cluster": info.cluster, "cooperative": info.is_cooperative, "waits_for_previous": compiled.waits_for_previous(),
        "shared_bytes": info.shared_bytes, "parameter_bytes": info.param_bytes, "parameters": parameters,
        "instructions": stats.instructions(), "instruction_counts": counts, "is_edited_by_hand": compiled.is_replaced(),
        "machine": machine,
    })
}

/// What the host makes a tiled tensor map with: the box of one message in row-major order, and the swizzle. Maps of pixels are
/// made of more than the kernel knows.
fn describe_map(target: &Target, map: &TensorMapType) -> Option<Value> {
    let swizzle_bytes = match &map.layout {
        SharedLayout::Nvmma(nvmma) => nvmma.swizzle_bytes,
        _ => 0,
    };
    let extents = map.box_dims(target).ok()?.to_vec();
    (map.mode == TensorMapMode::Tiled).then(
        || json!({ "element": map.elem.to_string(), "box": extents, "swizzle_bytes": swizzle_bytes }),
    )
}
