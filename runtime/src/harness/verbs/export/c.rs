//! C99: a header and a source for each kernel, what they share, and a configuration for `CMake`.

use std::fmt::Write;

use launch::{Condition, DataType, Expression, Manifest, Operator, Parameter, Role};

use super::exported::{Exported, File};
use super::names::plain;

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
        let (name, unit) = (&manifest.name, Unit::new(manifest));
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
        let name = &kernel.manifest.name;
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
                (None, Role::TensorMap { map, .. }) => vec![None; map.box_extents.len()],
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
            name,
            kernel,
            tilekit,
            ptxas,
            requires,
            ..
        } = self.manifest;
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
            name,
            kernel,
            entry,
            arch,
            cluster: [x, y, z],
            ..
        } = self.manifest;
        let (major, minor) = self.manifest.capability;
        let mut text = format!(
            "/* `{kernel}`: see {name}.h. */\n#include \"{name}.h\"\n\n#include <stddef.h>\n#include <string.h>\n\n"
        );
        let symbol = if is_large(cubin) {
            text.push_str(&included(name));
            format!("tk_{name}_cubin")
        } else {
            text.push_str(&listed(cubin));
            "cubin".to_owned()
        };
        let _ = write!(
            text,
            "\nstatic const tk_kernel kernel = {{\n  \"{}\", \"{entry}\", \"{arch}\", {symbol}, {}, {}, {{{x}, {y}, {z}}}, {}, {}\n}};\n\n\
             int tk_{name}_load(tk_{name}_module *module, int device) {{ return tk_load(&module->core, &kernel, device); }}\n\n\
             int tk_{name}_unload(tk_{name}_module *module) {{ return tk_unload(&module->core, &kernel); }}\n\n\
             int tk_{name}_launch(const tk_{name}_module *module, const tk_{name}_args *args, void *stream) {{\n  int bad = 0, \
             code = 0;\n",
            self.manifest.signature(),
            major * 10 + minor,
            self.manifest.threads,
            self.manifest.shared_bytes,
            i32::from(self.manifest.is_cooperative),
        );
        self.bind(&mut text);
        self.check(&mut text);
        self.pack(&mut text);
        text.push_str("}\n");
        text
    }

    /// Sizes, extents and strides as variables.
    fn bind(&self, text: &mut String) {
        let mut variable = |name: &str, value: &str| {
            let _ = writeln!(text, "  const int64_t {name} = {value};");
        };
        for size in self.manifest.sizes() {
            variable(&format!("s_{size}"), &format!("args->{}", c_name(size)));
        }
        for tensor in &self.tensors {
            let name = &tensor.parameter.name;
            for (dimension, extent) in tensor.extents.iter().enumerate().rev() {
                let value = match extent {
                    Some(extent) => self.value(extent),
                    None => format!("args->{name}_shape_{dimension}"),
                };
                variable(&format!("{name}_shape_{dimension}"), &value);
                let dense = if dimension + 1 == tensor.extents.len() {
                    "1".to_owned()
                } else {
                    let inner = dimension + 1;
                    format!("tk_mul(&bad, {name}_shape_{inner}, {name}_stride_{inner})")
                };
                let field = format!("args->{name}_stride_{dimension}");
                let stride = if self.is_free(tensor, dimension) {
                    format!("{field} == TK_STRIDE_ZERO ? 0 : {field} ? {field} : {dense}")
                } else {
                    dense
                };
                variable(&format!("{name}_stride_{dimension}"), &stride);
            }
        }
        for parameter in &self.manifest.parameters {
            if let Role::Scalar {
                rule: Some(rule), ..
            } = &parameter.role
            {
                variable(&format!("v_{}", parameter.name), &self.value(rule));
            }
        }
    }

    fn check(&self, text: &mut String) {
        for size in self.manifest.sizes() {
            let _ = writeln!(
                text,
                "  if (s_{size} < 0) return tk_fail(&kernel, TK_ERROR_VALUE, \"{size} is %lld; it cannot be negative\", (long long)s_{size});"
            );
        }
        for tensor in &self.tensors {
            let name = &tensor.parameter.name;
            for dimension in 0..tensor.extents.len() {
                let _ = writeln!(
                    text,
                    "  if ({name}_shape_{dimension} < 0 || {name}_stride_{dimension} < 0)\n    return tk_fail(&kernel, TK_ERROR_VALUE, \"{name} has \
                     %lld elements in steps of %lld along dimension {dimension}; neither can be negative\", (long \
                     long){name}_shape_{dimension}, (long long){name}_stride_{dimension});"
                );
            }
        }
        text.push_str("  if (bad) return tk_fail(&kernel, TK_ERROR_VALUE, \"a rule of the signature has no value of 64 bits for these sizes\");\n");
        for parameter in &self.manifest.parameters {
            check_parameter(text, parameter);
        }
        for condition in &self.manifest.requires {
            self.check_condition(text, condition);
        }
        self.check_apart(text);
    }

    fn check_condition(&self, text: &mut String, condition: &Condition) {
        let Condition {
            left,
            comparison,
            right,
        } = condition;
        // A value's place in the text, which itself may have a `%` of an expression.
        let refusal = self.manifest.refusal(condition, "\0", "\0");
        let values = [
            "",
            ", (long long)left",
            ", (long long)left, (long long)right",
        ];
        let _ = writeln!(
            text,
            "  {{\n    const int64_t left = {}, right = {};\n    if (!bad && !(left {} right)) return tk_fail(&kernel, TK_ERROR_VALUE, \
             \"{}\"{});\n  }}",
            self.value(left),
            self.value(right),
            comparison.symbol(),
            refusal.replace('%', "%%").replace('\0', "%lld"),
            values[refusal.matches('\0').count()],
        );
    }

    /// What is promised to be only read lies apart from what is written.
    fn check_apart(&self, text: &mut String) {
        let reach = |tensor: &Tensor<'_>| {
            let name = &tensor.parameter.name;
            let mut elements = "1".to_owned();
            for dimension in 0..tensor.extents.len() {
                elements = format!(
                    "tk_add(&bad, {elements}, tk_mul(&bad, tk_sub(&bad, {name}_shape_{dimension}, 1), {name}_stride_{dimension}))"
                );
            }
            format!(
                "(uint64_t)tk_mul(&bad, {elements}, {})",
                tensor.parameter.role.data_type().bytes()
            )
        };
        let empty = |tensor: &Tensor<'_>| {
            let name = &tensor.parameter.name;
            let extents = (0..tensor.extents.len()).map(|at| format!(" && {name}_shape_{at}"));
            extents.collect::<String>()
        };
        for read in self
            .tensors
            .iter()
            .filter(|tensor| tensor.parameter.is_readonly)
        {
            for written in self
                .tensors
                .iter()
                .filter(|tensor| tensor.parameter.is_written)
            {
                let (a, b) = (
                    c_name(&read.parameter.name),
                    c_name(&written.parameter.name),
                );
                let _ = writeln!(
                    text,
                    "  if (1{}{} && args->{a} < args->{b} + {} && args->{b} < args->{a} + {})\n    return tk_fail(&kernel, TK_ERROR_VALUE, \
                     \"{a} and {b} overlap; the kernel relies on {a} not changing while it runs: pass a copy\");",
                    empty(read),
                    empty(written),
                    reach(written),
                    reach(read),
                );
            }
        }
    }

    /// The parameters as variables, and the launch.
    fn pack(&self, text: &mut String) {
        let grid = match &self.manifest.grid {
            Some(grid) => grid.iter().map(|count| self.value(count)).collect(),
            None => ["x", "y", "z"]
                .map(|axis| format!("args->grid_{axis}"))
                .to_vec(),
        };
        let _ = writeln!(
            text,
            "  {{\n    int64_t grid[3];\n    void *parameters[{}];",
            self.manifest.parameters.len().max(1)
        );
        for parameter in &self.manifest.parameters {
            let name = &parameter.name;
            let _ = match &parameter.role {
                Role::TensorMap { .. } => {
                    writeln!(text, "    uint64_t p_{name}[TK_MAP_BYTES / 8];")
                }
                Role::Pointer { .. } => {
                    writeln!(text, "    uint64_t p_{name} = args->{};", c_name(name))
                }
                Role::Scalar {
                    data_type,
                    rule: Some(_),
                } => {
                    writeln!(
                        text,
                        "    {ty} p_{name} = ({ty})v_{name};",
                        ty = c_type(*data_type)
                    )
                }
                Role::Scalar {
                    data_type,
                    rule: None,
                } => {
                    writeln!(
                        text,
                        "    {} p_{name} = args->{};",
                        c_type(*data_type),
                        c_name(name)
                    )
                }
            };
        }
        for (at, count) in grid.iter().enumerate() {
            let _ = writeln!(text, "    grid[{at}] = {count};");
        }
        text.push_str("    if (bad) return tk_fail(&kernel, TK_ERROR_VALUE, \"a rule of the signature has no value of 64 bits for these sizes\");\n");
        text.push_str(
            "    if (!grid[0] || !grid[1] || !grid[2]) return 0;\n    parameters[0] = NULL;\n",
        );
        for (at, parameter) in self.manifest.parameters.iter().enumerate() {
            let is_map = matches!(parameter.role, Role::TensorMap { .. });
            let address = if is_map { "" } else { "&" };
            let _ = writeln!(
                text,
                "    parameters[{at}] = {address}p_{};",
                parameter.name
            );
        }
        for tensor in &self.tensors {
            map(text, tensor);
        }
        let overlaps = if self.manifest.waits_for_previous {
            "args->overlaps_previous"
        } else {
            "0"
        };
        let _ = writeln!(
            text,
            "    (void)code;\n    return tk_launch(&module->core, &kernel, grid, stream, {overlaps}, parameters);\n  }}"
        );
    }

    /// An expression in C.
    fn value(&self, expression: &Expression) -> String {
        match expression {
            Expression::Number(number) => format!("INT64_C({number})"),
            Expression::Multiprocessors => "module->core.multiprocessors".to_owned(),
            Expression::Extent(tensor, at) => format!("{tensor}_shape_{at}"),
            Expression::Stride(tensor, at) => format!("{tensor}_stride_{at}"),
            Expression::Name(name) if self.manifest.sizes().contains(&name.as_str()) => {
                format!("s_{name}")
            }
            Expression::Name(name) => format!("(int64_t)args->{}", c_name(name)),
            Expression::Pair(operator, pair) => {
                let [a, b] = &**pair;
                let function = match operator {
                    Operator::Add => "add",
                    Operator::Subtract => "sub",
                    Operator::Multiply => "mul",
                    Operator::Divide => "div",
                    Operator::Remainder => "rem",
                    Operator::CeilDivide => "cdiv",
                    Operator::Min => "min",
                    Operator::Max => "max",
                };
                format!("tk_{function}(&bad, {}, {})", self.value(a), self.value(b))
            }
        }
    }
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

/// Has the driver make a tensor's map.
fn map(text: &mut String, tensor: &Tensor<'_>) {
    let Role::TensorMap { map, .. } = &tensor.parameter.role else {
        return;
    };
    let name = &tensor.parameter.name;
    let all = |what: &str| {
        let all = (0..tensor.extents.len()).map(|at| format!("{name}_{what}_{at}"));
        all.collect::<Vec<_>>().join(", ")
    };
    let extents: Vec<String> = map.box_extents.iter().map(u32::to_string).collect();
    let swizzle = map
        .swizzle_bytes
        .checked_ilog2()
        .map_or(0, |log| log.saturating_sub(4));
    let _ = writeln!(
        text,
        "    {{\n      tk_tensor tensor = {{\"{name}\", 0, {rank}, {{0}}, {{0}}, {{{box_extents}}}, {data_type}, {bytes}, {swizzle}}};\n      \
         const int64_t shape[] = {{{shape}}}, strides[] = {{{strides}}};\n      tensor.address = args->{field};\n      \
         memcpy(tensor.shape, shape, sizeof shape);\n      memcpy(tensor.strides, strides, sizeof strides);\n      code = \
         tk_tensor_map(&module->core, &kernel, &tensor, p_{name});\n      if (code) return code;\n    }}",
        rank = tensor.extents.len(),
        box_extents = extents.join(", "),
        data_type = map.data_type.in_tensor_map() as u32,
        bytes = map.data_type.bytes(),
        shape = all("shape"),
        strides = all("stride"),
        field = c_name(name),
    );
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

/// What an integer of fewer than 64 bits can hold.
fn range(data_type: DataType) -> Option<(i64, i64)> {
    let (least, most) = data_type.integers()?;
    (data_type != DataType::I64).then_some((least, most))
}

fn check_parameter(text: &mut String, parameter: &Parameter) {
    let (name, divisor) = (&parameter.name, parameter.divisor);
    let Role::Scalar { data_type, rule } = &parameter.role else {
        let field = format!("args->{}", c_name(name));
        if divisor > 1 {
            let _ = writeln!(
                text,
                "  if ({field} % {divisor}) return tk_fail(&kernel, TK_ERROR_VALUE, \"{name} is at address 0x%llx; it must be at a multiple of {divisor}\", (unsigned long long){field});"
            );
        }
        return;
    };
    let value = match rule {
        Some(_) => format!("v_{name}"),
        None => format!("args->{}", c_name(name)),
    };
    if rule.is_some()
        && let Some((least, most)) = range(*data_type)
    {
        let _ = writeln!(
            text,
            "  if ({value} < {least} || {value} > {most}) return tk_fail(&kernel, TK_ERROR_VALUE, \"{name} is %lld, which {data_type} cannot hold\", (long long){value});"
        );
    }
    if divisor > 1 && data_type.is_integer() {
        let _ = writeln!(
            text,
            "  if ({value} % {divisor}) return tk_fail(&kernel, TK_ERROR_VALUE, \"{name} is %lld; it must be a multiple of {divisor}\", (long long){value});"
        );
    }
}
