//! Kernels that are slow for a known reason: each reason is named at its line.

use crate::Package;

pub(crate) const SPILLS: &str = r"
use tilekit::prelude::*;

#[kernel(warps = 4, max_registers = 32)]
pub fn spills(x: Ptr<f32>, out: Ptr<f32>) {
    let at = arange(0..16384, Coalesced);
    let v = x.at(at).load();
    let sum = v.sum(0);
    out.at(at).store(v * sum);
}
";

pub(crate) const NARROW: &str = r"
use tilekit::prelude::*;

#[kernel(warps = 4)]
pub fn narrow(x: Ptr<f32>, out: Ptr<f32>, row_stride: i32) {
    let at = arange(0..512, Coalesced);
    let v = x.at(program_id(0) * row_stride + at).load();
    out.at(program_id(0) * 512 + at).store(v);
}
";

/// Eight rows of one warp lie in the same four banks.
pub(crate) const CONFLICTS: &str = r"
use tilekit::prelude::*;

#[kernel(warps = 4)]
pub fn conflicts(x: Ptr<f32>) {
    let tile = Smem::<f32>::alloc([64, 64], Swizzled::plain([1, 0]));
    let rows = Blocked::new([1, 1], [8, 4], [4, 1], [1, 0]);
    tile.store(zeros::<f32>([64, 64], rows));
    let at = arange(0..4096, Blocked::new([4], [32], [4], [0]));
    x.at(at).store(tile.reshape([4096]).load(at.layout()));
}
";

const SERIALISED: &str = r#"
use tilekit::prelude::*;

#[kernel(warps = 4)]
pub fn serialised() {
    let tile = || Smem::<bf16>::alloc([64, 64], Nvmma::B128.of(16));
    let (a, b) = (tile(), tile());
    let acc = Accumulator::<f32>::zeros([64, 64], Wgmma::new([4, 1], [64, 64, 16]));
    device_print("sum", acc.mma(a, b.transpose()).wait_all());
}
"#;

pub(crate) fn has_machine_code() -> bool {
    let environment = machine::ptxas::Environment::of_process();
    environment.search(None).found().is_some()
        && machine::ptxas::find_nvdisasm(&environment).is_some()
}

#[test]
fn a_spill_is_named_at_the_line_that_causes_it() {
    if !has_machine_code() {
        eprintln!("skipped: no ptxas or no nvdisasm");
        return;
    }
    let package = Package::new("spilling-kernels", SPILLS);
    let said = package
        .tilekit("inspect spills --source --beneath none")
        .ends_with(0);
    let line = said
        .stdout
        .lines()
        .find(|line| line.contains("bytes of a thread spilled: "));
    let line = line.unwrap_or_else(|| panic!("{}", said.stdout));
    assert!(
        line.contains("stores and") && line.contains(" at src/lib.rs:7"),
        "{line}"
    );
}

#[test]
fn a_load_of_four_bytes_is_named_with_what_would_widen_it() {
    let package = Package::new("narrow-loads", NARROW);
    let said = package
        .tilekit("inspect narrow --source --at 7 --beneath none")
        .ends_with(0);
    said.prints(&["load: 4 bytes a thread", "`row_stride`", "multiple_of"]);
}

#[test]
fn bank_conflicts_are_named_at_their_line() {
    let package = Package::new("conflicting-kernels", CONFLICTS);
    let said = package
        .tilekit("inspect conflicts --source --at 8 --beneath none")
        .ends_with(0);
    // Of each 8 wavefronts one would do.
    let line = said
        .stdout
        .lines()
        .find(|line| line.contains("by bank conflicts"));
    let line = line
        .unwrap_or_else(|| panic!("{}", said.stdout))
        .replace(',', "");
    let number = |before: &str| {
        let (head, _) = line.split_once(before).expect("a figure");
        head.rsplit(' ')
            .next()
            .and_then(|word| word.parse::<u32>().ok())
            .expect("a number")
    };
    let (all, wasted) = (number(" wavefronts a warp"), number(" of them by bank"));
    assert_eq!(all - wasted, all / 8, "{line}");
}

#[test]
fn a_serialised_product_is_named_at_its_line() {
    let package = Package::new("serialised-kernels", SERIALISED);
    let said = package.tilekit("check serialised").ends_with(0);
    said.says(&[
        "it serializes `wgmma` on a GPU",
        "src/lib.rs:9:",
        "this `wgmma` is serialized",
    ]);
    if has_machine_code() {
        let said = package.tilekit("inspect serialised --source");
        assert_ne!(said.code, Some(0), "it is not assembled");
        said.says(&["src/lib.rs:9:"]);
    }
}

/// A change that costs more fails until it is accepted, and one that costs less is written.
#[test]
fn costs_that_grow_are_refused_and_costs_that_shrink_are_written() {
    let wide = NARROW.replace("row_stride: i32", "#[multiple_of(4)] row_stride: i32");
    let package = Package::new("ratcheted-kernels", &wide);
    package.tilekit("snapshot --accept").ends_with(0);
    let kept = "snapshots/narrow.facts.snap";
    let accepted = package.read(kept);
    assert!(accepted.contains("ld.global.16B"), "{accepted}");

    package.write("src/lib.rs", NARROW);
    let said = package.tilekit("snapshot --ratchet").ends_with(104);
    said.prints(&["  worse: ", "instructions by ", "ld.global by "])
        .says(&["1 variant worse than accepted", "inspect KERNEL --source"]);
    assert_eq!(package.read(kept), accepted, "nothing was written");
    package
        .cargo("test -q --test tilekit snapshots")
        .ends_with(100)
        .prints(&["1 cost more than accepted"]);
    package
        .tilekit("snapshot --check")
        .ends_with(104)
        .prints(&["worse: "]);
    package.tilekit("snapshot --accept").ends_with(0);

    package.write("src/lib.rs", &wide);
    package
        .tilekit("snapshot --ratchet")
        .ends_with(0)
        .prints(&["narrow.facts.snap\n"]);
    assert_eq!(package.read(kept), accepted);
    package.tilekit("snapshot --check").ends_with(0);

    // Rows of conflicts are facts too.
    let package = Package::new(
        "ratcheted-banks",
        &CONFLICTS.replace("Swizzled::plain([1, 0])", "Padded::new([[64, 4]], [1, 0])"),
    );
    package.tilekit("snapshot --accept").ends_with(0);
    package.write("src/lib.rs", CONFLICTS);
    let said = package.tilekit("snapshot --ratchet").ends_with(104);
    said.prints(&["bank conflicts by "]);
}
