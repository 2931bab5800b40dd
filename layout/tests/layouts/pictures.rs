//! Pictures of every layout kind, kept as files: look at each that changes. `UPDATE_PICTURES=1` rewrites them.

use std::path::Path;

use layout::AnyLayout;
use layout::view::{Colour, View, picture, svg};

fn check(name: &str, layout: &str, shape: &[u32], view: View, elem_bits: u32) {
    let layout: AnyLayout = layout.parse().unwrap();
    let drawn = svg(&picture(&layout, shape, view, elem_bits).unwrap());
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/layouts/pictures")
        .join(format!("{name}.svg"));
    if std::env::var_os("UPDATE_PICTURES").is_some() {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, &drawn).unwrap();
    }
    let kept = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        drawn == kept,
        "{name}.svg differs: run with UPDATE_PICTURES=1, then look at the picture"
    );
}

#[test]
fn distributed_layouts() {
    let tensor =
        |name: &str, layout: &str, shape: &[u32]| check(name, layout, shape, View::Tensor, 32);
    tensor(
        "blocked",
        "Blocked([1, 4], [8, 4], [4, 1], [1, 0])",
        &[32, 16],
    );
    tensor("blocked_vector", "Blocked([4], [32], [2], [0])", &[512]);
    tensor(
        "blocked_cluster",
        "Blocked([2, 2], [4, 8], [1, 2], [1, 0], cta=[[1, 0]])",
        &[16, 32],
    );
    tensor(
        "slice",
        "Slice(1, Blocked([1, 4], [8, 4], [4, 1], [1, 0]))",
        &[64],
    );
    tensor(
        "linear",
        "Linear(register=[[0, 1], [8, 0]], lane=[[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], warp=[[0, 8]])",
        &[16, 16],
    );
    tensor(
        "blocked_solid",
        "Blocked([1, 1, 2], [2, 4, 4], [2, 2, 1], [2, 1, 0])",
        &[4, 8, 8],
    );
    tensor(
        "warp_sets",
        "Slice(1, Blocked([1, 1], [4, 8], [3, 1], [1, 0]))",
        &[6],
    );
    tensor("mma", "Mma([2, 2], [16, 8])", &[32, 16]);
    tensor("wgmma", "Wgmma([4, 1], [64, 16, 16])", &[64, 16]);
    tensor(
        "dot_operand",
        "DotOperand(0, Mma([2, 1], [16, 8]), 2)",
        &[32, 16],
    );
    check(
        "blocked_hardware",
        "Blocked([1, 4], [8, 4], [2, 1], [1, 0])",
        &[32, 16],
        View::Hardware,
        32,
    );
}

#[test]
fn shared_layouts() {
    check(
        "nvmma_offsets",
        "Nvmma(128, 16)",
        &[8, 64],
        View::Tensor,
        16,
    );
    check("nvmma_banks", "Nvmma(128, 16)", &[8, 64], View::Banks, 16);
    check(
        "nvmma_lines",
        "Nvmma(64, 16)",
        &[16, 32],
        View::Hardware,
        16,
    );
    check(
        "swizzled_banks",
        "Swizzled(4, 1, 8, [1, 0])",
        &[16, 32],
        View::Banks,
        32,
    );
    check(
        "padded_banks",
        "Padded([[32, 4]], [1, 0])",
        &[16, 32],
        View::Banks,
        32,
    );
    check(
        "padded_lines",
        "Padded([[32, 4]], [1, 0])",
        &[8, 32],
        View::Hardware,
        32,
    );
    check(
        "shared_linear",
        "SharedLinear(offset=[[0, 1], [0, 2], [1, 1], [2, 2], [0, 4], [4, 0]])",
        &[8, 8],
        View::Tensor,
        32,
    );
    check(
        "shared_linear_lines",
        "SharedLinear(offset=[[0, 1], [0, 2], [1, 1], [0, 0], [2, 2]])",
        &[4, 4],
        View::Hardware,
        32,
    );
}

#[test]
fn what_cannot_be_drawn_says_why() {
    let message = |layout: &str, shape: &[u32], view| {
        picture(&layout.parse().unwrap(), shape, view, 32)
            .unwrap_err()
            .to_string()
    };
    assert!(message("Auto", &[64], View::Tensor).contains("placeholder"));
    assert!(
        message("Blocked([1], [32], [4], [0])", &[64], View::Banks)
            .contains("registers, which have no banks")
    );
    assert!(
        message("Blocked([1], [32], [4], [0])", &[1 << 20], View::Tensor)
            .contains("at most 16384 elements")
    );
    assert!(message("Blocked([1], [32], [4], [0])", &[], View::Tensor).contains("a scalar"));
}

#[test]
fn colours_are_those_of_the_eye() {
    let rgb = |hue, lightness| Colour { hue, lightness }.rgb();
    let [red, green, blue] = rgb(145, 80);
    assert!(green > red && green > blue);
    let [red, green, blue] = rgb(265, 80);
    assert!(blue > red && blue > green);
    let darker = rgb(25, 60);
    assert!(
        rgb(25, 90)
            .iter()
            .zip(darker)
            .all(|(&light, dark)| light > dark)
    );
}
