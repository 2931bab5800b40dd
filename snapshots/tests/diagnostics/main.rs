//! Wrong kernels, and word for word what their author reads.

mod asynchronous;
mod bulk;
mod collective;
mod control;
mod costs;
mod hopper;
mod layouts;
mod maps;
mod named_barriers;
mod peers;
mod products;
mod rules;
mod shapes;
mod shared;
mod sizes;
mod sparse;
mod split;
mod tensor_cores;
mod tensor_maps;
mod values;
mod warp_sets;

use std::path::PathBuf;

use ir::Func;
use lowering::{Options, compile};
use tilekit::diag::Diagnostics;
use tilekit::report::{MessageFormat, Reporter, Sources};
use tilekit::rt::Traced;

/// Compiles a wrong kernel as far as it goes and compares what is reported with `expected/diagnostics/NAME.snap`.
#[track_caller]
fn check(name: &str, traced: Result<Traced, Diagnostics>) {
    check_func(name, traced.map(|traced| traced.func));
}

/// The same of a kernel as it is after tracing.
#[track_caller]
fn check_func(name: &str, func: Result<Func, Diagnostics>) {
    let compiled = func.and_then(|func| compile(func, &Options::default()));
    let Err(diagnostics) = compiled else {
        panic!("the kernel `{name}` is wrong, and it compiled");
    };
    compare(name, &diagnostics);
}

/// The same of a kernel that is probably not what its author wants.
#[track_caller]
fn check_warned(name: &str, traced: Result<Traced, Diagnostics>) {
    let compiled = traced.and_then(|traced| compile(traced.func, &Options::default()));
    let compiled = compiled.unwrap_or_else(|wrong| panic!("{wrong}"));
    assert!(
        !compiled.warnings.0.is_empty(),
        "nothing is said of the kernel `{name}`"
    );
    compare(name, &compiled.warnings);
}

#[track_caller]
fn compare(name: &str, diagnostics: &Diagnostics) {
    let reporter = Reporter {
        format: MessageFormat::Human,
        color: false,
        sources: Sources::below([PathBuf::from(env!("CARGO_MANIFEST_DIR"))]),
    };
    let texts: Vec<String> = diagnostics.0.iter().map(|d| reporter.render(d)).collect();
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../../expected/diagnostics");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, texts.join("\n")));
}
