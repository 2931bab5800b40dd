//! The pipeline as a whole, on kernels as the front end makes them.

use diag::Code;
use ir::Stage;
use ir::text::{parse, print};

use crate::test::read;
use crate::{LaunchInfo, Options, PIPELINE, StopAt, run_to};

pub(crate) const VECTOR_ADD: &str = include_str!("../tests/kernels/vector_add.tile");
pub(crate) const SOFTMAX: &str = include_str!("../tests/kernels/softmax.tile");
pub(crate) const TRANSPOSE: &str = include_str!("../tests/kernels/transpose.tile");
pub(crate) const ROW_SUM: &str = include_str!("../tests/kernels/row_sum.tile");

const KERNELS: [&str; 4] = [VECTOR_ADD, SOFTMAX, TRANSPOSE, ROW_SUM];

#[test]
fn every_pass_starts_where_the_one_before_ended() {
    let mut stage = Stage::Built;
    for pass in PIPELINE {
        assert_eq!(pass.needs, stage, "{}", pass.name);
        assert!(pass.gives >= stage, "{}", pass.name);
        stage = pass.gives;
    }
    assert_eq!(stage, Stage::Allocated);
}

/// `parse(print(x)) == x` after every pass; the runner verifies each.
#[test]
fn the_text_reads_back_after_every_pass() {
    let options = Options {
        print_after: vec!["all".into()],
        verify_each_pass: true,
        ..Options::default()
    };
    for kernel in KERNELS {
        let lowered = run_to(read(kernel), &StopAt::Stage(Stage::Allocated), &options).unwrap();
        assert_eq!(lowered.printed.len(), PIPELINE.len());
        for (pass, text) in &lowered.printed {
            let again =
                parse("again.tile", text).unwrap_or_else(|e| panic!("after {pass}: {e}\n{text}"));
            assert_eq!(print(&again), *text, "after {pass}");
        }
    }
}

/// Whatever text one stops at, going on from it gives the same kernel as not stopping.
#[test]
fn a_kernel_continues_from_any_stage() {
    let options = Options::default();
    let end = StopAt::Stage(Stage::Allocated);
    for kernel in KERNELS {
        let whole = run_to(read(kernel), &end, &options).unwrap();
        let half = run_to(read(kernel), &StopAt::Stage(Stage::Resolved), &options).unwrap();
        assert_eq!(half.func.stage, Stage::Resolved);
        let text = print(&half.func);
        let rest = run_to(parse("half.tile", &text).unwrap(), &end, &options).unwrap();
        assert_eq!(print(&rest.func), print(&whole.func));
        let done = run_to(whole.func.clone(), &end, &options).unwrap();
        assert_eq!(
            (print(&done.func), done.timings.len()),
            (print(&whole.func), 0)
        );
    }
}

#[test]
fn a_kernel_is_right_without_optimisation() {
    let options = Options {
        optimises: false,
        ..Options::default()
    };
    for kernel in KERNELS {
        let lowered = run_to(read(kernel), &StopAt::Stage(Stage::Allocated), &options).unwrap();
        let ran: Vec<&str> = lowered.timings.iter().map(|t| t.name).collect();
        let needed = PIPELINE.iter().filter(|p| !p.is_optional).map(|p| p.name);
        assert!(needed.eq(ran));
    }
}

#[test]
fn stops_at_a_pass_and_names_those_there_are() {
    let options = Options::default();
    let lowered = run_to(
        read(VECTOR_ADD),
        &StopAt::Pass("resolve-coalesced".into()),
        &options,
    )
    .unwrap();
    assert_eq!(
        lowered.timings.iter().map(|t| t.name).collect::<Vec<_>>(),
        ["drop-unused", "resolve-coalesced"]
    );
    let error = run_to(read(VECTOR_ADD), &StopAt::Pass("resolve".into()), &options).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("the passes are drop-unused, resolve-coalesced, "),
        "{error}"
    );
}

#[test]
fn broken_input_is_an_error_and_no_panic() {
    let text = VECTOR_ADD.replace(
        "{op=lt} : tensor<1024xi1, coalesced>",
        "{op=lt} : tensor<1024xi32, coalesced>",
    );
    let func = parse("broken.tile", &text).unwrap();
    let error = run_to(func, &StopAt::Stage(Stage::Allocated), &Options::default()).unwrap_err();
    assert_eq!(error.0[0].code, Code::BrokenRule);
}

#[test]
fn a_bug_in_a_pass_names_the_pass_and_shows_the_kernel() {
    let broken = crate::Pass {
        name: "breaks-things",
        summary: "for this test alone",
        needs: Stage::Built,
        gives: Stage::Resolved,
        is_optional: false,
        run: |func, _| func.warps = 33,
    };
    let options = Options {
        verify_each_pass: true,
        ..Options::default()
    };
    let outcome =
        std::panic::catch_unwind(|| crate::pipeline::run(read(VECTOR_ADD), &[broken], &options));
    let payload = outcome.unwrap_err();
    let text = payload
        .downcast_ref::<String>()
        .cloned()
        .unwrap_or_default();
    assert!(
        text.starts_with("bug in pass `breaks-things`: error[TK0022]"),
        "{text}"
    );
    assert!(
        text.contains("before it:\nkernel @vector_add(") && text.contains("warps(33)"),
        "{text}"
    );
}

#[test]
fn parameters_are_laid_out_as_ptx_does() {
    let func = read(
        "
        #tile = Nvmma(128, 16)
        kernel @k(%a: i8, %b: ptr<f32> {divisor=16}, %c: i1, %d: i16, %e: f32, %m: tensor_map<64x64xbf16, #tile>,
                  %f: i16) warps(2) {
          return
        }",
    );
    let launch = LaunchInfo::of(&func);
    let offsets: Vec<(u32, u32, u32)> = launch
        .params
        .iter()
        .map(|p| (p.offset, p.size, p.divisor))
        .collect();
    assert_eq!(
        offsets,
        [
            (0, 1, 1),
            (8, 8, 16),
            (16, 1, 1),
            (18, 2, 1),
            (20, 4, 1),
            (64, 128, 1),
            (192, 2, 1)
        ]
    );
    assert_eq!(
        (launch.threads, launch.shared_bytes, launch.param_bytes),
        (64, 0, 194)
    );
}

/// The allocated kernel has this many lines that begin so.
#[track_caller]
fn check_count(kernel: &str, what: &str, expected: usize) {
    let lowered = run_to(
        read(kernel),
        &StopAt::Stage(Stage::Allocated),
        &Options::default(),
    )
    .unwrap();
    let text = print(&lowered.func);
    assert_eq!(
        text.matches(what).count(),
        expected,
        "of `{what}` in\n{text}"
    );
}

#[test]
fn kernels_come_out_as_they_should() {
    check_count(VECTOR_ADD, "Blocked([4], [32], [4], [0])", 1);
    check_count(VECTOR_ADD, "barrier", 0);
    // Two reductions with scratch of their own need no barrier between them.
    check_count(SOFTMAX, "scratch=", 2);
    check_count(SOFTMAX, "barrier", 0);
    check_count(TRANSPOSE, "convert_layout", 1);
    check_count(ROW_SUM, "scratch=", 1);
}
