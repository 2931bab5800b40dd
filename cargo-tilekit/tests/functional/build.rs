//! `build` and `inspect`.

use std::path::Path;

use serde_json::json;

use crate::Package;
use crate::package::{COPIED, SCALE};

#[test]
fn artefacts_are_written_and_their_paths_printed() {
    let package = Package::new("built-kernels", SCALE);
    let said = package.tilekit("build scale --emit ir,ptx").ends_with(0);
    let paths: Vec<&str> = said.stdout.lines().collect();
    let expected: Vec<String> = ["ir", "ptx", "json"]
        .iter()
        .map(|suffix| {
            package
                .artifacts()
                .join(format!("scale-256.{suffix}"))
                .display()
                .to_string()
        })
        .collect();
    assert_eq!(paths, expected);
    let ptx = std::fs::read_to_string(paths[1]).expect("PTX");
    assert!(
        ptx.starts_with("// kernel: scale<256>") && ptx.contains(".entry scale_256"),
        "{ptx}"
    );
    let facts: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(paths[2]).expect("facts")).expect("JSON");
    assert_eq!(
        (&facts["threads"], &facts["parameters"][2]["name"]),
        (&128.into(), &"n".into())
    );
}

#[test]
fn a_description_has_what_a_launch_from_elsewhere_needs() {
    let package = Package::new("described-kernels", &format!("{SCALE}{COPIED}"));
    let described = |name: &str| -> serde_json::Value {
        let said = package
            .tilekit(&format!("build {name} --emit ptx"))
            .ends_with(0);
        let path = said.stdout.lines().last().expect("a path").to_string();
        let text = std::fs::read_to_string(path).expect("a description");
        serde_json::from_str(&text).expect("JSON")
    };
    let scale = described("scale");
    assert_eq!(scale["cluster"], json!([1, 1, 1]));
    assert_eq!(scale["waits_for_previous"], false);
    assert_eq!(scale["parameters"][0]["tensor_map"], json!(null));
    let copied = described("copied");
    assert_eq!(copied["cluster"], json!([2, 1, 1]));
    assert_eq!(copied["waits_for_previous"], true);
    // A message takes 128 bytes of a row.
    let map = json!({"element": "bf16", "box": [128, 64], "swizzle_bytes": 128});
    assert_eq!(copied["parameters"][0]["tensor_map"], map);
}

#[test]
fn every_stage_is_shown_with_what_it_costs() {
    let package = Package::new("seen-kernels", SCALE);
    package
        .tilekit("inspect scale --stage built")
        .ends_with(0)
        .prints(&["// kernel: scale<256>", "coalesced"]);
    package
        .tilekit("inspect scale --stage resolved")
        .ends_with(0)
        .prints(&["stage(resolved)", "Blocked("]);
    package
        .tilekit("inspect scale --stage allocated")
        .ends_with(0)
        .prints(&["stage(allocated)"]);
    package.tilekit("inspect scale").ends_with(0).prints(&[
        "// instructions: ",
        "// load at src/lib.rs:9: 8 bytes a thread, 8 sectors a warp, 256 of 256 bytes used\n",
        "ld.global.",
        ".entry scale_256",
    ]);
    package
        .tilekit("inspect scale --after drop-unused")
        .ends_with(0)
        .prints(&["coalesced"]);
    package
        .tilekit("inspect scale --after nonsense")
        .ends_with(2)
        .says(&["no pass is called `nonsense`", "resolve-coalesced"]);
}

#[test]
fn a_hand_edit_of_the_ptx_takes_effect_until_it_is_taken_back() {
    let package = Package::new("edited-kernels", SCALE);
    let said = package.tilekit("build --emit ptx").ends_with(0);
    let path = said.stdout.lines().next().expect("a path");
    let ptx = std::fs::read_to_string(path).expect("PTX");
    // 2.0 as PTX writes it, and 3.0.
    assert!(ptx.contains("0f40000000"), "{ptx}");
    package.write("edited.ptx", &ptx.replace("0f40000000", "0f40400000"));
    package
        .tilekit("build --from-ptx edited.ptx")
        .ends_with(0)
        .says(&["from now on `run` uses this text"]);
    let said = package
        .tilekit("run --device emulator -s n=10")
        .ends_with(100);
    said.says(&["is used as edited by hand in", "out[0]"]);
    package
        .tilekit("inspect scale")
        .ends_with(0)
        .prints(&["edited by hand"]);
    package
        .tilekit("build --reset")
        .ends_with(0)
        .prints(&["scale_256"]);
    package
        .tilekit("run --device emulator -s n=10")
        .ends_with(0);

    package.write("edited.ptx", &ptx.replace("mul", "mull"));
    package
        .tilekit("build --from-ptx edited.ptx")
        .ends_with(103)
        .says(&["edited.ptx:", "mull"]);
    package.write(
        "edited.ptx",
        &ptx.replace(".entry scale_256", ".entry other"),
    );
    package
        .tilekit("build --from-ptx edited.ptx")
        .ends_with(4)
        .says(&["the kernels' entries are `scale_256`"]);
    package.tilekit("build --from-ptx nowhere.ptx").ends_with(2);
    // It never ends.
    package
        .tilekit("build --from-ptx /dev/zero")
        .ends_with(2)
        .says(&["/dev/zero cannot be read: found a character device, expected a regular file"]);
}

#[test]
fn a_hand_edit_of_the_tile_ir_takes_effect() {
    let package = Package::new("edited-ir-kernels", SCALE);
    let said = package.tilekit("build --emit ir").ends_with(0);
    let path = said.stdout.lines().next().expect("a path");
    assert_eq!(
        Path::new(path)
            .extension()
            .and_then(|suffix| suffix.to_str()),
        Some("ir")
    );
    let ir = std::fs::read_to_string(path).expect("IR");
    package.write("edited.ir", &ir.replace("op=mul", "op=add"));
    assert!(ir.contains("op=mul"), "{ir}");
    package.tilekit("build --from-ir edited.ir").ends_with(0);
    package
        .tilekit("run --device emulator -s n=10")
        .ends_with(100);
    package.tilekit("build --from-ir none").ends_with(0);
    package.write("edited.ir", "kernel @scale_256() {");
    package
        .tilekit("build --from-ir edited.ir")
        .ends_with(103)
        .says(&["edited.ir:1:"]);
}

#[test]
fn machine_code_needs_ptxas_and_says_so() {
    let package = Package::new("machine-kernels", SCALE);
    if machine::ptxas::Ptxas::find(None).is_ok() {
        let said = package.tilekit("build --emit cubin").ends_with(0);
        let path = said.stdout.lines().next().expect("a path");
        assert!(
            std::fs::read(path)
                .expect("a cubin")
                .starts_with(b"\x7fELF")
        );
    } else {
        package
            .tilekit("build --emit cubin")
            .ends_with(105)
            .says(&["no ptxas was found"]);
        package
            .tilekit("inspect scale --stage sass")
            .ends_with(105)
            .says(&["no ptxas was found"]);
    }
}

const TILED: &str = r#"
use tilekit::prelude::*;

#[kernel(warps = 4)]
pub fn tiled(x: Ptr<f32>) {
    let at = arange(0..1024, Blocked::new([4], [32], [4], [0]));
    let ring = Smem::<f32>::alloc([3, 1024], Swizzled::plain([0]));
    ring.index(1).store(x.at(at).load());
    let wide = Smem::<f32>::alloc([256, 128], Padded::new([[128, 4]], [1, 0]));
    wide.slice(0, 0..8).reshape([1024]).store(x.at(at).load());
    x.at(at).store(ring.index(1).load(at.layout()) + wide.slice(0, 0..8).reshape([1024]).load(at.layout()));
}

#[case]
fn tiled_case(case: &mut Case) -> CaseResult {
    let x = case.normal::<f32>("x", [1024]);
    case.launch(tiled, grid(1u32), (&x,))
}
"#;

/// Of a ring one buffer is drawn; for a tile that is too large the help says how to draw a smaller one.
#[test]
fn shared_memory_of_a_kernel_is_named_and_drawn() {
    let package = Package::new("tiled-kernels", TILED);
    package.tilekit("layout tiled").ends_with(0).prints(&[
        "smem 3x1024xf32   src/lib.rs:7 ",
        "smem 256x128xf32  src/lib.rs:9 ",
    ]);
    package
        .tilekit("layout tiled --value ring --view banks")
        .ends_with(0)
        .prints(&["Swizzled(1, 1, 1, [0]) on 1024", "\n992  0"]);
    package.tilekit("layout tiled --value wide").ends_with(2).says(&[
        "at most 16384 elements",
        "a smaller tensor shows as much: cargo tilekit layout 'Padded([[128, 4]], [1, 0])' --shape 32x32",
    ]);
}

#[test]
fn the_tensors_of_a_kernel_are_named_and_drawn() {
    let package = Package::new("drawn-kernels", SCALE);
    package
        .tilekit("layout scale")
        .ends_with(0)
        .prints(&["inside  256xi1        src/lib.rs:8  Blocked([2], [32], [4], [0])\n"]);
    package
        .tilekit("layout scale --value at")
        .ends_with(0)
        .prints(&["Blocked([2], [32], [4], [0]) on 256", "T31"]);
    package
        .tilekit("layout scale --value nothing")
        .ends_with(2)
        .says(&["`scale` has no tile `nothing`"]);
    package
        .tilekit("layout Nvmma(128,16) --shape 8x64 --bits 16 --view banks --svg banks.svg")
        .ends_with(0)
        .prints(&["banks.svg"]);
    assert!(package.read("banks.svg").starts_with("<svg"));
    package
        .tilekit("layout Blocked( --shape 8x64")
        .ends_with(2)
        .says(&["this is no layout"]);
    package
        .tilekit("layout Nvmma(128,16) --shape 8x32")
        .ends_with(2)
        .says(&["64 bytes, less than the swizzle", "      ^^^"]);
    for (shape, wanted) in [
        ("8x0", "dimension 1 is 0"),
        ("8x", "dimension 1 is ``"),
        ("4294967296", "2147483648 is the largest"),
        ("2147483648x2147483648x2147483648", "at most 16384 elements"),
    ] {
        package
            .tilekit(&format!("layout Nvmma(0,16) --shape {shape}"))
            .ends_with(2)
            .says(&[wanted]);
    }
}

/// The generated harness compiles the package as a path dependency, whose files rustc names absolutely.
#[test]
fn ptx_of_a_package_without_a_test_target_names_files_relative_to_its_workspace() {
    let library = SCALE.replace(
        "let inside = at < n;",
        "let inside = at < n;\n    device_assert(n > 0, \"n is positive\");",
    );
    let package = Package::without_stub("asserting-kernels", &library);
    let said = package.tilekit("build scale --emit ptx").ends_with(0);
    let path = said
        .stdout
        .lines()
        .find(|line| Path::new(line).extension().is_some_and(|end| end == "ptx"));
    let text = std::fs::read_to_string(path.expect("a path")).expect("the PTX");
    let (line, _) = library
        .lines()
        .enumerate()
        .find(|(_, line)| line.contains("device_assert"))
        .expect("the assertion");
    let wanted = format!("src/lib.rs:{}:5: assertion failed: n is positive", line + 1);
    // A string of PTX is a list of its bytes.
    let bytes: Vec<String> = wanted.bytes().map(|byte| byte.to_string()).collect();
    let is_there = text.contains(&format!("{{{}", bytes.join(", ")));
    assert!(is_there, "{wanted} is missing in\n{text}");
    package
        .tilekit("list")
        .ends_with(0)
        .prints(&["  src/lib.rs:"]);
}
