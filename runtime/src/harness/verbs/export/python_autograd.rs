//! Functions of Python that allocate what a kernel writes and record its gradients, which another kernel computes: `_autograd.py`.
//!
//! How the arguments of both follow from each other is checked before (`backward.rs`).

use std::fmt::Write;

use launch::{DataType, Expression, Manifest, Operator, Parameter, Role};

use super::docstring::argument;
use super::exported::Exported;
use super::names::of_python;
use super::python::{name_of, tuple};

/// The kernels that have gradients, each with the manifest of these.
pub(super) fn pairs(kernels: &[Exported]) -> Vec<(&Exported, &Manifest)> {
    let pair = |kernel: &Exported| {
        let name = kernel.backward.as_deref()?;
        kernels.iter().find(|other| other.manifest.name == name)
    };
    let both = kernels.iter().map(|kernel| (kernel, pair(kernel)));
    both.filter_map(|(kernel, backward)| Some((kernel, &backward?.manifest)))
        .collect()
}

/// `_autograd.py`
pub(super) fn functions(package: &str, kernels: &[Exported]) -> String {
    let mut text = format!(
        "\"\"\"Kernels of `{package}` as functions that torch differentiates, written by `cargo tilekit export --to python`, TileKit {}.\"\"\"\n\n\
         import sys\n\nimport torch\nfrom torch.autograd.function import once_differentiable\n\n\
         from ._cast import inputs as _inputs\n\n_kernels = sys.modules[__package__]\n",
        env!("CARGO_PKG_VERSION"),
    );
    for (kernel, backward) in pairs(kernels) {
        text.push_str(&Pair::new(kernel, backward).text());
    }
    text
}

/// A kernel and that of its gradients.
struct Pair<'k> {
    name: String,
    forward: &'k Manifest,
    backward_name: String,
    backward: &'k Manifest,
    /// What a caller passes, by Python's names.
    inputs: Vec<&'k Parameter>,
    outputs: Vec<&'k Parameter>,
}

impl<'k> Pair<'k> {
    fn new(kernel: &'k Exported, backward: &'k Manifest) -> Pair<'k> {
        let (outputs, inputs) = kernel
            .manifest
            .arguments()
            .partition(|parameter| parameter.is_written);
        Pair {
            name: name_of(&kernel.manifest),
            forward: &kernel.manifest,
            backward_name: name_of(backward),
            backward,
            inputs,
            outputs,
        }
    }

    fn text(&self) -> String {
        let inputs: Vec<String> = self.inputs.iter().map(|p| argument(p)).collect();
        let typed: Vec<String> = tensors(&self.inputs)
            .map(|p| format!("({}, {})", argument(p), torch_type(p.role.data_type())))
            .collect();
        let cast: Vec<String> = tensors(&self.inputs).map(argument).collect();
        let (name, list) = (&self.name, inputs.join(", "));
        let (forward, backward) = (self.forward_body(), self.backward_body());
        format!(
            "\n\nclass _{name}(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, {list}):\n{forward}\n    \
             @staticmethod\n    @once_differentiable\n    def backward(ctx, {gradients}):\n{backward}\n\n\
             def {name}({list}):\n    \"\"\"`{kernel}` of {list}, with gradients by `{of_gradients}`.\"\"\"\n    \
             {cast} = _inputs({typed})\n    return _{name}.apply({list})\n",
            gradients = self.incoming().join(", "),
            kernel = self.forward.kernel,
            of_gradients = self.backward.kernel,
            cast = cast.join(", ") + if cast.len() == 1 { "," } else { "" },
            typed = typed.join(", "),
        )
    }

    /// Names of the gradients of what the forward pass writes.
    fn incoming(&self) -> Vec<String> {
        let names = self.outputs.iter().map(|output| gradient_of(output));
        names.collect()
    }

    fn forward_body(&self) -> String {
        let mut text = self.sizes();
        let device = tensors(&self.inputs).next().map(argument);
        let device = device.unwrap_or_default();
        for output in &self.outputs {
            let extents = output.shape().unwrap_or_default().iter().map(in_python);
            let shape = tuple(&extents.collect::<Vec<_>>());
            let (name, kind) = (argument(output), torch_type(output.role.data_type()));
            let _ = writeln!(
                text,
                "        {name} = torch.empty({shape}, dtype={kind}, device={device}.device)"
            );
        }
        let passed: Vec<String> = self.forward.arguments().map(argument).collect();
        let _ = writeln!(
            text,
            "        _kernels.{}({})",
            self.name,
            passed.join(", ")
        );
        let saved: Vec<String> = self.saved().map(argument).collect();
        let _ = writeln!(text, "        ctx.save_for_backward({})", saved.join(", "));
        for number in self.numbers() {
            let _ = writeln!(text, "        ctx.{number} = {number}");
        }
        let constant = self
            .outputs
            .iter()
            .filter(|output| !self.backward_takes(&gradient_of(output)));
        let constant: Vec<String> = constant.map(|output| argument(output)).collect();
        if !constant.is_empty() {
            let _ = writeln!(
                text,
                "        ctx.mark_non_differentiable({})",
                constant.join(", ")
            );
        }
        let outputs: Vec<String> = self.outputs.iter().map(|p| argument(p)).collect();
        let _ = writeln!(text, "        return {}", outputs.join(", "));
        text
    }

    fn backward_body(&self) -> String {
        let saved: Vec<String> = self.saved().map(argument).collect();
        let mut text = String::new();
        if !saved.is_empty() {
            let comma = if saved.len() == 1 { "," } else { "" };
            let _ = writeln!(
                text,
                "        {}{comma} = ctx.saved_tensors",
                saved.join(", ")
            );
        }
        for input in tensors(&self.inputs) {
            let name = gradient_of(input);
            if self.backward_takes(&name) {
                let _ = writeln!(
                    text,
                    "        {name} = torch.empty_like({})",
                    argument(input)
                );
            }
        }
        let incoming = self.incoming();
        let passed = self.backward.arguments().map(|parameter| {
            let name = argument(parameter);
            match parameter.role {
                Role::Scalar { .. } => format!("ctx.{name}"),
                // What torch sums up may be one number that is repeated.
                _ if incoming.contains(&name) => format!("{name}.contiguous()"),
                _ => name,
            }
        });
        let passed: Vec<String> = passed.collect();
        let _ = writeln!(
            text,
            "        _kernels.{}({})",
            self.backward_name,
            passed.join(", ")
        );
        let results = self.inputs.iter().map(|input| {
            let name = gradient_of(input);
            if self.backward_takes(&name) {
                name
            } else {
                "None".to_owned()
            }
        });
        let _ = writeln!(
            text,
            "        return {}",
            results.collect::<Vec<_>>().join(", ")
        );
        text
    }

    /// A line for each size that an extent of what is written names: where it is read from.
    fn sizes(&self) -> String {
        let mut text = String::new();
        for size in self.forward.sizes() {
            let is_size =
                |extent: &Expression| matches!(extent, Expression::Name(name) if name == size);
            let place = tensors(&self.inputs)
                .find_map(|p| Some((argument(p), p.shape()?.iter().position(is_size)?)));
            let is_used = self
                .outputs
                .iter()
                .filter_map(|output| output.shape())
                .flatten()
                .any(|extent| {
                    let mut is_named = false;
                    extent.for_each_leaf(&mut |leaf| is_named |= is_size(leaf));
                    is_named
                });
            if let (Some((tensor, at)), true) = (place, is_used) {
                let _ = writeln!(text, "        {} = {tensor}.shape[{at}]", size_name(size));
            }
        }
        text
    }

    /// The tensors of the forward pass that the backward pass takes, and empty places for their gradients.
    fn saved(&self) -> impl Iterator<Item = &'k Parameter> {
        let backward = self.backward;
        let is_taken = move |name: &str| backward.arguments().any(|p| p.name == name);
        let wanted = move |p: &&Parameter| {
            !matches!(p.role, Role::Scalar { .. })
                && (is_taken(&p.name) || (!p.is_written && is_taken(&format!("d{}", p.name))))
        };
        self.forward.arguments().filter(wanted)
    }

    fn numbers(&self) -> Vec<String> {
        let numbers = self
            .backward
            .arguments()
            .filter(|p| matches!(p.role, Role::Scalar { .. }));
        numbers.map(argument).collect()
    }

    fn backward_takes(&self, name: &str) -> bool {
        self.backward.arguments().any(|p| argument(p) == name)
    }
}

fn tensors<'k>(parameters: &[&'k Parameter]) -> impl Iterator<Item = &'k Parameter> {
    let all = parameters.iter().copied();
    all.filter(|p| !matches!(p.role, Role::Scalar { .. }))
}

/// `dout` of `out`.
fn gradient_of(parameter: &Parameter) -> String {
    format!("d{}", parameter.name)
}

/// A size may have the name of a tensor of torch's module.
fn size_name(size: &str) -> String {
    of_python(size, &["torch", "ctx"])
}

fn in_python(expression: &Expression) -> String {
    match expression {
        Expression::Number(number) => number.to_string(),
        Expression::Name(name) => size_name(name),
        Expression::Pair(operator, pair) => {
            let [a, b] = &**pair;
            let (a, b) = (in_python(a), in_python(b));
            match operator {
                Operator::Add => format!("({a} + {b})"),
                Operator::Subtract => format!("({a} - {b})"),
                Operator::Multiply => format!("({a} * {b})"),
                // Neither is negative.
                Operator::Divide => format!("({a} // {b})"),
                Operator::Remainder => format!("({a} % {b})"),
                Operator::CeilDivide => format!("(-(-{a} // {b}))"),
                Operator::Min => format!("min({a}, {b})"),
                Operator::Max => format!("max({a}, {b})"),
            }
        }
        Expression::Extent(..) | Expression::Stride(..) | Expression::Multiprocessors => {
            unreachable!("extents of what is written are made of sizes, which is checked")
        }
    }
}

/// What torch calls the type.
fn torch_type(data_type: DataType) -> &'static str {
    match data_type {
        DataType::I1 => "torch.bool",
        DataType::I8 => "torch.int8",
        DataType::I16 => "torch.int16",
        DataType::I32 => "torch.int32",
        DataType::I64 => "torch.int64",
        DataType::U16 => "torch.uint16",
        DataType::U32 => "torch.uint32",
        DataType::U64 => "torch.uint64",
        DataType::F16 => "torch.float16",
        DataType::Bf16 => "torch.bfloat16",
        DataType::F32 => "torch.float32",
        DataType::F64 => "torch.float64",
        DataType::E4m3 => "torch.float8_e4m3fn",
        DataType::E5m2 => "torch.float8_e5m2",
        DataType::E8m0 => "torch.float8_e8m0fnu",
        // Types that torch does not have are passed as bytes.
        DataType::U8 | DataType::E4m3b15 | DataType::E2m1 => "torch.uint8",
    }
}
