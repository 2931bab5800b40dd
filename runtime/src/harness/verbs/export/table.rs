//! The manifest of a kernel, from which all exports are made.

use ir::elem::Elem;
use ir::{TensorMapMode, TensorMapType, Type};
use layout::SharedLayout;
use lowering::{LaunchInfo, ParamInfo};
use serde_json::{Value, json};
use target::Target;

use gluon_lang::rt::Signature;

use crate::kernel::Compiled;

/// The manifest as JSON, or why there is none.
pub(super) fn of(
    (name, backward): (&str, Option<&str>),
    compiled: &Compiled,
    signature: Option<&Signature>,
    cubin: &[u8],
    ptxas: &str,
) -> Result<String, String> {
    let info = compiled.info();
    let parameters: Result<Vec<Value>, String> = info
        .params
        .iter()
        .map(|param| parameter(info, param, signature))
        .collect();
    let target = info.target;
    let (major, minor) = target.compute_capability;
    let table = json!({
        "format": launch::FORMAT, "tilekit": env!("CARGO_PKG_VERSION"), "ptxas": ptxas,
        "name": name, "kernel": compiled.display(), "entry": &*info.entry,
        "arch": target.arch, "compute_capability": [major, minor], "limits": limits(target),
        "cubin_sha256": machine::cache::digest(cubin),
        "threads": info.threads, "cluster": info.cluster, "cooperative": info.is_cooperative,
        "waits_for_previous": compiled.waits_for_previous(), "shared_bytes": info.shared_bytes,
        "parameter_bytes": info.param_bytes, "parameters": parameters?,
        "backward": backward, "grid": signature.and_then(|signature| signature.grid.as_ref()),
        "requires": signature.map_or(&[][..], |signature| &signature.requires),
    });
    let text = serde_json::to_string_pretty(&table).expect("a value of strings and numbers");
    Ok(text + "\n")
}

/// The limits that a launcher checks, which knows no target.
fn limits(target: &Target) -> Value {
    let map = &target.tensor_map;
    json!({
        "grid": target.grid,
        "tensor_map": {
            "dim_elements": map.dim_elements, "unit_bytes": map.unit_bytes, "stride_bytes": map.stride_bytes,
            "box_elements": map.box_elements, "step": map.element_stride,
        },
    })
}

fn parameter(
    info: &LaunchInfo,
    param: &ParamInfo,
    signature: Option<&Signature>,
) -> Result<Value, String> {
    let shape = signature.and_then(|signature| {
        let mut tensors = signature.tensors.iter();
        tensors
            .find(|(name, _)| *name == &*param.name)
            .map(|(_, extents)| extents)
    });
    let value = signature.and_then(|signature| {
        let mut scalars = signature.scalars.iter();
        scalars
            .find(|(name, _)| *name == *param.name)
            .map(|(_, value)| value)
    });
    let table = json!({
        "name": &*param.name, "offset_bytes": param.offset, "size_bytes": param.size, "divisor": param.divisor,
        "readonly": param.is_readonly, "written": param.is_written,
    });
    let specific = match &param.ty {
        Type::TensorMap(map) => {
            let of_map = tensor_map(info.target, param, map, signature)?;
            merged(json!({ "kind": "tensor_map", "shape": shape }), of_map)
        }
        ty => match ty
            .elem()
            .expect("a verified kernel takes scalars and tensor maps")
        {
            Elem::Ptr(dtype) => json!({ "kind": "pointer", "type": dtype.name(), "shape": shape }),
            Elem::Data(dtype) => json!({ "kind": "scalar", "type": dtype.name(), "value": value }),
        },
    };
    Ok(merged(table, specific))
}

/// The fields of both.
fn merged(mut table: Value, more: Value) -> Value {
    if let (Value::Object(table), Value::Object(more)) = (&mut table, more) {
        table.extend(more);
    }
    table
}

/// What copies through a tensor map take.
fn tensor_map(
    target: &Target,
    param: &ParamInfo,
    map: &TensorMapType,
    signature: Option<&Signature>,
) -> Result<Value, String> {
    let name = &*param.name;
    let swizzle_bytes = match &map.layout {
        SharedLayout::Nvmma(nvmma) => nvmma.swizzle_bytes,
        _ => 0,
    };
    let block = map.box_dims(target).map_err(|error| error.to_string())?;
    let steps = signature.and_then(|signature| {
        let mut steps = signature.steps.iter();
        Some(&steps.find(|(tensor, _)| *tensor == name)?.1)
    });
    let window = signature.and_then(|signature| {
        let mut windows = signature.windows.iter();
        Some(&windows.find(|(tensor, _)| *tensor == name)?.1)
    });
    let part = match (map.mode, window) {
        (TensorMapMode::Tiled, None) => json!({ "box": block.to_vec() }),
        (TensorMapMode::Tiled, Some(_)) => {
            return Err(format!(
                "the signature gives `{name}` a window, which only a tensor map of pixels (`#[im2col]`) has; leave `window({name}, ..)` out"
            ));
        }
        (TensorMapMode::Im2col { rank }, Some([lower, upper])) => {
            let corners = target.tensor_map.corner_offsets(rank as usize);
            let corners = corners.map(|offsets| [*offsets.start(), *offsets.end()]);
            json!({ "pixels": block[0], "channels": block[1], "corners": corners, "lower": lower, "upper": upper })
        }
        (TensorMapMode::Im2col { rank }, None) => {
            let zeros = vec!["0"; rank.saturating_sub(2) as usize].join(", ");
            return Err(format!(
                "`{name}` is a tensor map of pixels (`#[im2col]`), and nothing says from which pixels its copies start; write a `signature(..)` \
                 with `window({name}, [lower offsets], [upper offsets])`, without padding `window({name}, [{zeros}], [{zeros}])`"
            ));
        }
    };
    let table =
        json!({ "type": map.elem.to_string(), "swizzle_bytes": swizzle_bytes, "steps": steps });
    Ok(merged(table, part))
}

#[cfg(test)]
mod tests {
    use super::*;
    use target::SM_90A;

    #[test]
    fn limits_are_those_of_the_target() {
        let mut machine = SM_90A.clone();
        machine.grid = [7, 8, 9];
        machine.tensor_map.stride_bytes = 1 << 20;
        let table = limits(&machine);
        assert_eq!(table["grid"], json!([7, 8, 9]));
        assert_eq!(table["tensor_map"]["stride_bytes"], json!(1 << 20));
        assert_eq!(
            table["tensor_map"]["unit_bytes"],
            json!(SM_90A.tensor_map.unit_bytes)
        );
    }
}
