//! C99: a header and a source for each kernel, what they share, and a configuration for `CMake`.

mod check;
mod pack;

use std::fmt::Write;

use launch::{DataType, Expression, Limits, Manifest, Parameter, Role};

use super::exported::{Exported, File};
use super::names::{apart_from, plain};

pub(super) fn files(kernels: &[Exported]) -> Vec<File> {
    let mut files = vec![
        (
            "tilekit.h".to_owned(),
            include_bytes!("core/tilekit.h").to_vec(),
        ),
        (
            "tilekit.c".to_owned(),
            include_bytes!("core/tilekit.c").to_vec(),
        ),
        (
            "tilekitConfig.cmake".to_owned(),
            cmake(kernels).into_bytes(),
        ),
    ];
    for Exported {
        manifest,
        cubin,
        text,
        ..
    } in kernels
    {
        let (name, unit) = (name_of(manifest), Unit::new(manifest));
        files.push((format!("{name}.h"), unit.header().into_bytes()));
        files.push((format!("{name}.c"), unit.source(cubin).into_bytes()));
        files.push((format!("{name}.json"), text.clone().into_bytes()));
        if is_large(cubin) {
            files.push((format!("{name}.cubin"), cubin.clone()));
        }
    }
    files
}

fn cmake(kernels: &[Exported]) -> String {
    let mut text = format!(
        "# Written by `cargo tilekit export --to c`, TileKit {}: a target tilekit::NAME for each kernel.\n\
         if(NOT TARGET tilekit::core)\n  add_library(tilekit_core STATIC \"${{CMAKE_CURRENT_LIST_DIR}}/tilekit.c\")\n  \
         target_include_directories(tilekit_core PUBLIC \"${{CMAKE_CURRENT_LIST_DIR}}\")\n  target_link_libraries(tilekit_core \
         PUBLIC ${{CMAKE_DL_LIBS}})\n  add_library(tilekit::core ALIAS tilekit_core)\nendif()\n",
        env!("CARGO_PKG_VERSION")
    );
    for kernel in kernels {
        let name = name_of(&kernel.manifest);
        let _ = write!(
            text,
            "if(NOT TARGET tilekit::{name})\n  add_library(tilekit_{name} STATIC \"${{CMAKE_CURRENT_LIST_DIR}}/{name}.c\")\n  \
             target_link_libraries(tilekit_{name} PUBLIC tilekit::core)\n  add_library(tilekit::{name} ALIAS tilekit_{name})\n{}endif()\n",
            if is_large(&kernel.cubin) {
                format!(
                    "  set_source_files_properties(\"${{CMAKE_CURRENT_LIST_DIR}}/{name}.c\" PROPERTIES OBJECT_DEPENDS \
                     \"${{CMAKE_CURRENT_LIST_DIR}}/{name}.cubin\")\n  target_compile_definitions(tilekit_{name} PRIVATE \
                     \"TK_FOLDER=\\\"${{CMAKE_CURRENT_LIST_DIR}}/\\\"\")\n"
                )
            } else {
                String::new()
            }
        );
    }
    text
}

/// The name of a kernel's files, functions and target, which are not those of what all kernels share.
fn name_of(manifest: &Manifest) -> String {
    apart_from(&["tilekit", "core"], &manifest.name)
}

/// A dimension of a tensor.
struct Tensor<'m> {
    parameter: &'m Parameter,
    /// What is evaluated for each extent; none where the caller passes it.
    extents: Vec<Option<&'m Expression>>,
}

/// One kernel's files.
struct Unit<'m> {
    manifest: &'m Manifest,
    tensors: Vec<Tensor<'m>>,
}

impl<'m> Unit<'m> {
    fn new(manifest: &'m Manifest) -> Unit<'m> {
        let tensors = manifest.parameters.iter().filter_map(|parameter| {
            let extents = match (parameter.shape(), &parameter.role) {
                (Some(shape), _) => shape.iter().map(Some).collect(),
                (None, Role::TensorMap { map, .. }) => vec![None; map.rank()],
                _ => return None,
            };
            Some(Tensor { parameter, extents })
        });
        Unit {
            manifest,
            tensors: tensors.collect(),
        }
    }

    /// Whether the caller may say a stride.
    fn is_free(&self, tensor: &Tensor<'_>, dimension: usize) -> bool {
        let is_map = matches!(tensor.parameter.role, Role::TensorMap { .. });
        let is_last = dimension + 1 == tensor.extents.len();
        (is_map && !is_last)
            || self
                .manifest
                .names_stride(&tensor.parameter.name, dimension)
    }

    /// The fields of the arguments: type, name, and what it is.
    fn fields(&self) -> Vec<(&'static str, String, String)> {
        let mut fields = Vec::new();
        for parameter in self.manifest.arguments() {
            let data_type = parameter.role.data_type();
            if !matches!(parameter.role, Role::Scalar { .. }) {
                let shape = parameter.shape().map_or_else(String::new, |shape| {
                    let shape: Vec<String> = shape.iter().map(ToString::to_string).collect();
                    format!(" [{}]", shape.join(", "))
                });
                let text = format!("address of {data_type}{shape}");
                fields.push(("uint64_t", c_name(&parameter.name), text));
            }
        }
        for size in self.manifest.sizes() {
            fields.push(("int64_t", c_name(size), "size".to_owned()));
        }
        for tensor in &self.tensors {
            let name = &tensor.parameter.name;
            for (dimension, extent) in tensor.extents.iter().enumerate() {
                if extent.is_none() {
                    fields.push((
                        "int64_t",
                        format!("{name}_shape_{dimension}"),
                        "extent".to_owned(),
                    ));
                }
                if self.is_free(tensor, dimension) {
                    let text =
                        "elements from one index to the next; 0: no gaps, TK_STRIDE_ZERO: none"
                            .to_owned();
                    fields.push(("int64_t", format!("{name}_stride_{dimension}"), text));
                }
            }
        }
        for parameter in self.manifest.arguments() {
            if let Role::Scalar { data_type, .. } = &parameter.role {
                fields.push((
                    c_type(*data_type),
                    c_name(&parameter.name),
                    data_type.to_string(),
                ));
            }
        }
        if self.manifest.grid.is_none() {
            for axis in ["x", "y", "z"] {
                fields.push(("int64_t", format!("grid_{axis}"), "CTAs".to_owned()));
            }
        }
        if self.manifest.waits_for_previous {
            let text = "1: begin before the launch in front has ended".to_owned();
            fields.push(("int", "overlaps_previous".to_owned(), text));
        }
        if fields.is_empty() {
            fields.push((
                "int",
                "unused".to_owned(),
                "the kernel takes nothing".to_owned(),
            ));
        }
        fields
    }

    fn header(&self) -> String {
        let Manifest {
            kernel,
            tilekit,
            ptxas,
            requires,
            ..
        } = self.manifest;
        let name = name_of(self.manifest);
        let guard = format!("TILEKIT_{}_H", name.to_uppercase());
        let mut text = format!(
            "/* `{kernel}`, by TileKit {tilekit} and ptxas {ptxas}.\n * Functions return 0, a CUresult, or a negative code of \
             tilekit.h; tk_error_text() says what is wrong.\n"
        );
        for condition in requires {
            let _ = writeln!(text, " * Every launch keeps {condition}.");
        }
        let _ = write!(
            text,
            " */\n#ifndef {guard}\n#define {guard}\n\n#include \"tilekit.h\"\n\n#ifdef __cplusplus\nextern \"C\" {{\n#endif\n\n\
             typedef struct tk_{name}_module {{\n  tk_module core;\n}} tk_{name}_module;\n\ntypedef struct tk_{name}_args {{\n"
        );
        for (ty, field, what) in self.fields() {
            let _ = writeln!(text, "  {ty} {field}; /* {what} */");
        }
        let _ = write!(
            text,
            "}} tk_{name}_args;\n\n/* `device` is the number of a GPU, for its primary context, or TK_CURRENT_CONTEXT. */\n\
             int tk_{name}_load(tk_{name}_module *module, int device);\n\n/* Enqueues on `stream`, a CUstream of the module's \
             context; 0 is the default stream. */\nint tk_{name}_launch(const tk_{name}_module *module, const tk_{name}_args \
             *args, void *stream);\n\nint tk_{name}_unload(tk_{name}_module *module);\n\n#ifdef __cplusplus\n}}\n#endif\n#endif\n"
        );
        text
    }

    fn source(&self, cubin: &[u8]) -> String {
        let Manifest {
            kernel,
            entry,
            arch,
            cluster: [x, y, z],
            ..
        } = self.manifest;
        let name = name_of(self.manifest);
        let (major, minor) = self.manifest.capability;
        let mut text = format!(
            "/* `{kernel}`: see {name}.h. */\n#include \"{name}.h\"\n\n#include <stddef.h>\n#include <string.h>\n\n"
        );
        let symbol = if is_large(cubin) {
            text.push_str(&included(&name));
            format!("tk_{name}_cubin")
        } else {
            text.push_str(&listed(cubin));
            "cubin".to_owned()
        };
        let _ = write!(
            text,
            "\nstatic const tk_kernel kernel = {{\n  \"{}\", \"{entry}\", \"{arch}\", {symbol}, {}, {}, {{{x}, {y}, {z}}}, {}, {}, {}\n}};\n\n\
             int tk_{name}_load(tk_{name}_module *module, int device) {{ return tk_load(&module->core, &kernel, device); }}\n\n\
             int tk_{name}_unload(tk_{name}_module *module) {{ return tk_unload(&module->core, &kernel); }}\n\n\
             int tk_{name}_launch(const tk_{name}_module *module, const tk_{name}_args *args, void *stream) {{\n  int bad = 0, \
             code = 0;\n",
            self.manifest.signature(),
            major * 10 + minor,
            self.manifest.threads,
            self.manifest.shared_bytes,
            i32::from(self.manifest.is_cooperative),
            limits(&self.manifest.limits),
        );
        self.bind(&mut text);
        self.check(&mut text);
        self.pack(&mut text);
        text.push_str("}\n");
        text
    }
}

/// The initializer of a `tk_limits`.
fn limits(limits: &Limits) -> String {
    let [x, y, z] = limits.grid;
    let map = &limits.tensor_map;
    let (elements, unit, stride) = (map.dim_elements, map.unit_bytes, map.stride_bytes);
    let (reach, step) = (map.box_elements, map.step);
    format!(
        "{{{{{x}, {y}, {z}}}, INT64_C({elements}), {unit}, UINT64_C({stride}), {reach}, {step}}}"
    )
}

/// A compiler takes seconds and gigabytes for a list of more bytes than this.
const MOST_LISTED_BYTES: usize = 1 << 20;

fn is_large(cubin: &[u8]) -> bool {
    cubin.len() > MOST_LISTED_BYTES
}

/// The cubin as a list of bytes.
fn listed(cubin: &[u8]) -> String {
    let mut text =
        "static const unsigned char cubin[] __attribute__((aligned(16))) = {\n".to_owned();
    for line in cubin.chunks(32) {
        let bytes: Vec<String> = line.iter().map(u8::to_string).collect();
        let _ = writeln!(text, "{},", bytes.join(","));
    }
    text + "};\n"
}

/// The cubin by the assembler, from its file.
fn included(name: &str) -> String {
    let symbol = format!("tk_{name}_cubin");
    format!(
        "/* Where the folder of this file lies from that of the compiler, with a `/` behind it. */\n#ifndef TK_FOLDER\n#define \
         TK_FOLDER \"\"\n#endif\n\n__asm__(\n  \".pushsection .rodata\\n.balign 16\\n.globl {symbol}\\n.hidden \
         {symbol}\\n{symbol}:\\n\"\n  \".incbin \\\"\" TK_FOLDER \"{name}.cubin\\\"\\n.popsection\\n\");\n\nextern const \
         unsigned char {symbol}[] __attribute__((visibility(\"hidden\")));\n"
    )
}

fn c_name(name: &str) -> String {
    plain(name, &["overlaps_previous", "grid_x", "grid_y", "grid_z"])
}

fn c_type(data_type: DataType) -> &'static str {
    match data_type {
        DataType::I8 => "int8_t",
        DataType::I16 => "int16_t",
        DataType::I32 => "int32_t",
        DataType::I64 => "int64_t",
        DataType::U16 | DataType::F16 | DataType::Bf16 => "uint16_t",
        DataType::U32 => "uint32_t",
        DataType::U64 => "uint64_t",
        DataType::F32 => "float",
        DataType::F64 => "double",
        _ => "uint8_t",
    }
}
