//! The tensors of a kernel with their layouts, for `layout KERNEL` to draw.

use serde_json::json;

use super::inspect::only;
use crate::error::Error;
use crate::harness::Exit;
use crate::harness::artifact::{KEPT_STAGE, ir_text};
use crate::harness::context::{Context, Done};

pub(in crate::harness) fn values(context: &Context, kernel: &str) -> Done {
    let catalog = context.declared_catalog()?;
    let variants = context.variants(&catalog, &[kernel.to_string()])?;
    let variant = only(&variants, kernel, &context.speaker)?;
    let traced = variant
        .instance
        .trace()
        .and_then(|traced| ir_text(traced.func, &KEPT_STAGE));
    let text = traced.map_err(|error| {
        context
            .speaker
            .error(&variant.display, &Error::Kernel(error))
    })?;
    for tensor in tensors_of(&text) {
        let Tensor {
            name,
            shape,
            element,
            layout,
            bits,
        } = &tensor;
        let sizes: Vec<String> = shape.iter().map(u32::to_string).collect();
        context.speaker.tell(&format!("{name:<12} {:<16} {layout}\n", format!("{}x{element}", sizes.join("x"))), || {
            json!({
                "reason": "tilekit-value", "variant": variant.display, "value": name, "shape": shape,
                "element": element, "layout": layout, "bits": bits,
            })
        });
    }
    Ok(Exit::Success)
}

/// One tensor of the printed IR.
#[derive(Debug, PartialEq, Eq)]
struct Tensor {
    name: String,
    shape: Vec<u32>,
    element: String,
    layout: String,
    bits: u32,
}

/// Every result of the text whose type is a tensor. The text names values as its readers see them, which the IR itself
/// does not.
fn tensors_of(text: &str) -> Vec<Tensor> {
    let layouts: Vec<(&str, &str)> = text
        .lines()
        .filter(|line| line.starts_with('#'))
        .filter_map(|line| line.split_once(" = "))
        .collect();
    let layout = |alias: &str| {
        layouts
            .iter()
            .find(|(name, _)| *name == alias)
            .map(|(_, layout)| (*layout).to_string())
    };
    let mut found = Vec::new();
    for line in text.lines() {
        let Some((names, rest)) = line.trim().split_once(" = ") else {
            continue;
        };
        let Some((_, types)) = rest.rsplit_once(" : ") else {
            continue;
        };
        if !names.starts_with('%') {
            continue;
        }
        for (name, ty) in names.split(", ").zip(split_types(types)) {
            found.extend(tensor(name.trim_start_matches('%'), ty, &layout));
        }
    }
    found
}

/// `tensor<64x32xf32, #a>` under a name.
fn tensor(name: &str, ty: &str, layout: &dyn Fn(&str) -> Option<String>) -> Option<Tensor> {
    let (sizes, alias) = ty
        .strip_prefix("tensor<")?
        .strip_suffix('>')?
        .rsplit_once(", ")?;
    let mut parts: Vec<&str> = sizes.split('x').collect();
    // `ptr<f32>` holds no `x`; what is no number belongs to the element.
    let digits = parts
        .iter()
        .take_while(|part| part.parse::<u32>().is_ok())
        .count();
    let element = parts.split_off(digits).join("x");
    let shape = parts.iter().filter_map(|part| part.parse().ok()).collect();
    Some(Tensor {
        name: name.to_string(),
        shape,
        bits: bits_of(&element),
        element,
        layout: layout(alias)?,
    })
}

fn bits_of(element: &str) -> u32 {
    if element.starts_with("ptr") {
        return 64;
    }
    let digits: String = element.chars().filter(char::is_ascii_digit).collect();
    match (element, digits.parse()) {
        ("i1" | "e4m3" | "e5m2", _) => 8,
        (_, Ok(bits)) => bits,
        _ => 32,
    }
}

/// Types at the commas between them, not at those inside `<>`.
fn split_types(types: &str) -> Vec<&str> {
    let mut depth = 0_usize;
    let mut parts = Vec::new();
    let mut start = 0;
    for (at, c) in types.char_indices() {
        match c {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(types[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(types[start..].trim());
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_are_read_with_their_layouts() {
        let text = "#a = Blocked([1], [32], [4], [0])\nkernel @k(%n: i32) warps(4) {\n  %n2 = constant {value=1} : i32\n  \
                    %p = splat %x : tensor<256xptr<f32>, #a>\n  \
                    %m, %i = reduce [%p, %q] : tensor<8x16xbf16, #a>, tensor<8x16xi32, #a>\n}\n";
        let found: Vec<_> = tensors_of(text)
            .iter()
            .map(|tensor| {
                format!(
                    "{} {:?} {} {}",
                    tensor.name, tensor.shape, tensor.element, tensor.bits
                )
            })
            .collect();
        assert_eq!(
            found,
            [
                "p [256] ptr<f32> 64",
                "m [8, 16] bf16 16",
                "i [8, 16] i32 32"
            ]
        );
        assert_eq!(tensors_of(text)[0].layout, "Blocked([1], [32], [4], [0])");
    }
}
