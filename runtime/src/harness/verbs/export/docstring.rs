//! The documentation of a kernel's function in Python.

use launch::{Manifest, Parameter, Role};

use super::exported::Exported;
use super::names::of_python;

/// The docstring: the author's words, then arguments, what a launch keeps, and what is raised.
pub(super) fn docstring(kernel: &Exported) -> String {
    let manifest = &kernel.manifest;
    let mut lines: Vec<String> = kernel.docs.lines().map(str::to_owned).collect();
    if lines.is_empty() {
        lines.push(format!(
            "Puts a launch of `{}` on a stream.",
            manifest.kernel
        ));
    }
    lines.extend([
        String::new(),
        format!("`{}`, compiled for {}.", manifest.kernel, manifest.arch),
    ]);
    lines.extend(arguments(manifest));
    if !manifest.requires.is_empty() {
        lines.extend([String::new(), "Every launch keeps:".to_owned()]);
        let conditions = manifest.requires.iter();
        lines.extend(conditions.map(|condition| format!("    {condition}")));
    }
    lines.extend(RAISED.map(str::to_owned));
    quoted(&lines)
}

const RAISED: [&str; 3] = [
    "",
    "The launch is enqueued and not waited for. TypeError for a type, ValueError for a shape, stride, address or",
    "device that does not fit, RuntimeError for what driver or GPU refuse.",
];

/// What a call passes, a line each.
fn arguments(manifest: &Manifest) -> Vec<String> {
    let mut lines = vec![String::new(), "Arguments:".to_owned()];
    lines.extend(
        manifest
            .arguments()
            .map(|parameter| format!("    {}", described(parameter))),
    );
    let mut say = |line: &str| lines.push(format!("    {line}"));
    if manifest.grid.is_none() {
        say("grid: CTAs along x, y and z: one to three ints");
    }
    say(
        "stream: its handle, or a stream of torch or CuPy; the one on which the tensors' framework works",
    );
    if manifest.waits_for_previous {
        say(
            "overlap: whether it may begin before the launch in front of it on the stream has ended",
        );
    }
    lines
}

/// As the first statement of a function.
fn quoted(lines: &[String]) -> String {
    let mut text = String::from("    \"\"\"");
    for (at, line) in lines.iter().enumerate() {
        if at > 0 && !line.is_empty() {
            text.push_str("    ");
        }
        let escaped = line.replace('\\', "\\\\");
        text.push_str(&escaped.replace("\"\"\"", "\\\"\\\"\\\""));
        text.push('\n');
    }
    text + "    \"\"\"\n"
}

/// The name of an argument, which is none of Python's words.
pub(super) fn argument(parameter: &Parameter) -> String {
    of_python(&parameter.name, &["stream", "grid", "overlap"])
}

/// `x: bf16[rows, cols], read`
fn described(parameter: &Parameter) -> String {
    let (name, kind) = (argument(parameter), parameter.role.data_type());
    if let Role::Scalar { .. } = parameter.role {
        return format!("{name}: {kind}");
    }
    let shape = parameter.shape().map(|shape| {
        let shape: Vec<String> = shape.iter().map(ToString::to_string).collect();
        format!("[{}]", shape.join(", "))
    });
    let shape = shape.unwrap_or_else(|| ", of any shape".to_owned());
    let access = if parameter.is_written {
        "written"
    } else {
        "read"
    };
    format!("{name}: {kind}{shape}, {access}")
}
