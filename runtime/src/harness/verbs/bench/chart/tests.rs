//! Pictures of three runs: a product beside a peer, with bytes that were counted, a norm, and a copy, which does nothing but move bytes.

use super::*;

fn mark(name: &str, ms: f64) -> Mark {
    Mark {
        name: name.to_string(),
        ms,
        spread: Some(0.004),
        counted_bytes: None,
    }
}

fn charts() -> Charts {
    let roofline = |tensor_cores| Roofline::modelled(tensor_cores);
    let product = Work {
        title: "product m=8192 n=8192 k=8192".to_string(),
        flops: Some(2 * 8192_u64.pow(3)),
        moved_bytes: Some(3 * 2 * 8192 * 8192),
        tensor_cores: Some(DType::Bf16),
        roofline: roofline(Some(DType::Bf16)),
        marks: vec![
            Mark {
                counted_bytes: Some(910_000_000),
                ..mark("product<bf16, 256>", 1.325)
            },
            mark("cublasGemmEx", 1.384),
        ],
    };
    let norm = Work {
        title: "norm rows=8192 cols=4096".to_string(),
        flops: Some(8 * 8192 * 4096),
        moved_bytes: Some(2 * 2 * 8192 * 4096),
        tensor_cores: None,
        roofline: roofline(None),
        marks: vec![mark("norm<bf16, 4096>", 0.0345)],
    };
    let copy = Work {
        title: "copy n=134217728".to_string(),
        flops: None,
        marks: vec![mark("copy<f32>", 0.2531)],
        moved_bytes: Some(8 << 27),
        ..norm.clone()
    };
    let mut charts = Charts::new("NVIDIA H200".to_string());
    for work in [product, norm, copy] {
        charts.push(work);
    }
    charts
}

/// Compares with a file beside this one, which `UPDATE_PICTURES=1` writes.
#[track_caller]
fn check(name: &str, found: &str) {
    let path = format!(
        "{}/src/harness/verbs/bench/chart/{name}",
        env!("CARGO_MANIFEST_DIR")
    );
    if std::env::var_os("UPDATE_PICTURES").is_some() {
        std::fs::write(&path, found).expect("written");
    }
    let want = std::fs::read_to_string(&path).expect("it is there");
    assert_eq!(found, want, "UPDATE_PICTURES=1 writes {path}");
}

#[test]
fn pictures_are_those_that_were_looked_at() {
    let (_, bars) = charts().bars();
    check("bars.svg", &bars);
    let (_, roofline) = charts().roofline().expect("two runs have a place");
    check("roofline.svg", &roofline);
}

#[test]
fn bars_of_a_terminal_are_times() {
    let (text, _) = charts().bars();
    let expect = "\
product m=8192 n=8192 k=8192
  product<bf16, 256>  ██████████████████████████████████████    1.325 ms ±0.4 %, 829.8 TFLOP/s
  cublasGemmEx        ░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░  1.384 ms ±0.4 %, 1.045×, 794.4 TFLOP/s
norm rows=8192 cols=4096
  norm<bf16, 4096>    █████                                     34.50 µs ±0.4 %, 7.8 TFLOP/s
copy n=134217728
  copy<f32>           ████████████████████████████████████████  253.10 µs ±0.4 %, 4242 GB/s
";
    assert_eq!(text, expect);
}

#[test]
fn the_roofline_of_a_terminal_has_every_mark_and_says_what_has_no_place() {
    let (text, _) = charts().roofline().expect("two runs have a place");
    check("roofline.txt", &text);
    let none = Charts::new("nothing".to_string());
    assert!(none.roofline().is_none());
}
