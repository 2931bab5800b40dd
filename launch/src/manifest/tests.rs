//! What is read, and what is said of mistakes.

use super::*;

/// A kernel over rows, as `cargo tilekit export` writes it.
pub(crate) const SOFTMAX: &str = include_str!("../../tests/manifests/softmax.json");

/// A product with tensor maps.
pub(crate) const MATMUL: &str = include_str!("../../tests/manifests/matmul.json");

#[test]
fn a_manifest_is_read() {
    let manifest = Manifest::read(SOFTMAX).unwrap();
    assert_eq!(manifest.signature(), "softmax(x, out)");
    assert_eq!(manifest.sizes(), ["rows", "cols"]);
    assert!(manifest.names_stride("x", 0) && !manifest.names_stride("x", 1));
    assert_eq!(manifest.capability, (9, 0));
    assert!(Manifest::read(MATMUL).is_ok());
}

#[test]
fn a_newer_form_is_refused_by_name() {
    let newer = SOFTMAX.replace("\"format\": 3", "\"format\": 4");
    let error = Manifest::read(&newer).unwrap_err().to_string();
    assert!(
        error.contains("softmax_bf16_4096_8 has format 4, written by TileKit 0.1.0"),
        "{error}"
    );
    assert!(error.contains("reads format 3"), "{error}");
}

/// Numbers of arrays are parameters each: attention backward has 44.
#[test]
fn more_parameters_than_a_launch_has_room_for_are_counted() {
    let with = |more: usize| {
        let scalar = |at: usize| {
            let offset = 32 + 4 * at;
            format!(
                r#"{{"name": "n{at}", "kind": "scalar", "type": "i32", "offset_bytes": {offset}, "size_bytes": 4, "divisor": 1, "readonly": false, "written": false}},"#
            )
        };
        let all: String = (0..more).map(scalar).collect();
        let begin = "\"parameters\": [";
        let text = SOFTMAX.replace(begin, &format!("{begin}{all}"));
        let bytes = 32 + 4 * more;
        Manifest::read(&text.replace(
            "\"parameter_bytes\": 32",
            &format!("\"parameter_bytes\": {bytes}"),
        ))
    };
    assert!(with(91).is_ok());
    let error = with(92).unwrap_err().to_string();
    let said = "softmax_bf16_4096_8: it has 97 parameters, of which a launch has 96 at the most";
    assert!(error.contains(said), "{error}");
}

#[test]
fn mistakes_name_the_field() {
    for (from, to, said) in [
        (
            "\"threads\": 256",
            "\"threads\": -1",
            "`threads` is -1; it must fit in 32 bits",
        ),
        ("\"threads\": 256,", "", "no field `threads`"),
        (
            "[2147483647, 65535, 65535]",
            "[2147483647, 65535]",
            "`grid` must be 3 counts",
        ),
        (
            "\"unit_bytes\": 16",
            "\"unit_bytes\": 0",
            "`unit_bytes` is 0; it must be 1 or more",
        ),
        ("\"bf16\"", "\"bf17\"", "`type` is `bf17`, which is no type"),
        ("x.stride(0)", "y.stride(0)", "`y.stride(0)` is no size"),
        ("x.stride(0)", "x.stride(2)", "`x.stride(2)` is no size"),
        (
            "cols <= 4096",
            "kols <= 4096",
            "`kols` is no size, no integer argument",
        ),
        (
            "\"kind\": \"scalar\"",
            "\"kind\": \"skalar\"",
            "it must be pointer, tensor_map or scalar",
        ),
        (
            "\"name\": \"cols\", \"kind\": \"scalar\", \"type\": \"i32\"",
            "\"name\": \"cols\", \"kind\": \"scalar\", \"type\": \"bf16\"",
            "`cols` follows from the tensors and is of type bf16; it must be an integer, f32 or f64",
        ),
        (
            "\"parameter_bytes\": 32",
            "\"parameter_bytes\": 30",
            "of a block of 30 bytes",
        ),
        ("{", "", "no JSON"),
    ] {
        assert!(SOFTMAX.contains(from), "{from}");
        let wrong = SOFTMAX.replacen(from, to, 1);
        assert_ne!(wrong, SOFTMAX, "{from}");
        let error = Manifest::read(&wrong).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
}
