//! The manifest of a kernel, from which all exports are made.

use ir::elem::Elem;
use ir::{TensorMapMode, Type};
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
            .find(|(name, _)| *name == &*param.name)
            .map(|(_, value)| value)
    });
    let mut table = json!({
        "name": &*param.name, "offset_bytes": param.offset, "size_bytes": param.size, "divisor": param.divisor,
        "readonly": param.is_readonly, "written": param.is_written,
    });
    let specific = match &param.ty {
        Type::TensorMap(map) => {
            if map.mode != TensorMapMode::Tiled {
                return Err(format!(
                    "`{}` is a tensor map of pixels (`#[im2col]`), which exports do not make; export a kernel that \
                     takes a pointer or a tensor map of boxes (`#[block]`)",
                    param.name
                ));
            }
            let swizzle_bytes = match &map.layout {
                SharedLayout::Nvmma(nvmma) => nvmma.swizzle_bytes,
                _ => 0,
            };
            let extents = map
                .box_dims(info.target)
                .map_err(|error| error.to_string())?;
            json!({ "kind": "tensor_map", "type": map.elem.to_string(), "shape": shape,
                "box": extents.to_vec(), "swizzle_bytes": swizzle_bytes })
        }
        ty => match ty
            .elem()
            .expect("a verified kernel takes scalars and tensor maps")
        {
            Elem::Ptr(dtype) => json!({ "kind": "pointer", "type": dtype.name(), "shape": shape }),
            Elem::Data(dtype) => json!({ "kind": "scalar", "type": dtype.name(), "value": value }),
        },
    };
    if let (Value::Object(table), Value::Object(specific)) = (&mut table, specific) {
        table.extend(specific);
    }
    Ok(table)
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
