//! The harness: what runs a package's kernels when `cargo tilekit` or `cargo test` asks.
//!
//! Kernels and cases are found where they are linked, so the program that lists, checks and runs them is built from the
//! package itself: its test target `tests/tilekit.rs`, whose whole body is `tilekit::harness!(my_crate);`. Started by
//! `cargo tilekit` it does what a [`request`] says; started by `cargo test` or nextest it is a test like any other, with
//! every case as a test on the emulator.

mod artifact;
mod catalog;
mod context;
mod device;
mod exit;
mod files;
mod golden;
mod libtest;
mod package;
mod process;
mod replaced;
mod select;
mod speak;
mod verbs;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

pub use package::Harness;
pub use protocol::{Exit, config, request};

use context::Context;
use request::{Request, Verb};

/// The program of a test target `tests/tilekit.rs` (with `harness = false` in `Cargo.toml`): names the crates whose
/// kernels it runs. A crate that is not named here may not be linked, and its kernels are then not found.
///
/// ```text
/// tilekit::harness!(my_crate);
/// ```
#[macro_export]
macro_rules! harness {
    ($($package:ident),+ $(,)?) => {
        $(use $package as _;)+

        fn main() -> ::std::process::ExitCode {
            $crate::harness::main(&$crate::harness::Harness {
                package: ::core::env!("CARGO_PKG_NAME"),
                root: ::core::env!("CARGO_MANIFEST_DIR"),
                crates: &[::core::module_path!(), $(::core::stringify!($package)),+],
            })
        }
    };
}

/// What [`harness!`](crate::harness!) calls.
pub fn main(harness: &Harness) -> ExitCode {
    // A panic is a bug of ours. Its usual exit code is also cargo's for a failed build, so it gets one of its own.
    let exit = catch_unwind(AssertUnwindSafe(|| match Request::from_environment() {
        Some(Ok(request)) => {
            process::end_with_parent();
            carry_out(harness, request)
        }
        Some(Err(error)) => {
            eprintln!("error: {error}");
            Exit::Usage
        }
        None => libtest::main(harness),
    }));
    exit.unwrap_or(Exit::Internal).into()
}

fn carry_out(harness: &Harness, request: Request) -> Exit {
    let verb = request.verb.clone();
    let mut context = match Context::of_request(harness, request) {
        Ok(context) => context,
        Err(exit) => return exit,
    };
    let done = match &verb {
        Verb::List { filters } => verbs::list(&context, filters),
        Verb::Check {
            filters,
            prove,
            mutants,
        } => verbs::check(&context, filters, prove.then_some(mutants.unwrap_or(0))),
        Verb::Build {
            filters,
            emit,
            timings,
            replace,
        } => match replace {
            Some(replace) => verbs::replace(&context, replace),
            None if *timings => verbs::timings(&context, filters),
            None => verbs::build(&context, filters, emit),
        },
        Verb::Export {
            filters,
            to,
            folder,
        } => verbs::export(&context, filters, *to, folder.as_deref()),
        Verb::Run {
            filters,
            seed,
            checking,
        } => verbs::run(&mut context, filters, (*seed, *checking)),
        Verb::Bench(request) => verbs::bench(&mut context, request),
        Verb::Test {
            filters,
            seeds,
            checking,
        } => verbs::test(&mut context, filters, (*seeds, *checking)),
        Verb::Mutate(request) => verbs::mutate(&mut context, request),
        Verb::Tune(request) => verbs::tune(&mut context, request),
        Verb::TuneShare(request) => verbs::share(&context, request),
        Verb::Trial(request) => verbs::trial(&context, request),
        Verb::Snapshot { filters, mode } => verbs::snapshot(&context, filters, *mode),
        Verb::Trace(request) => verbs::trace(&context, request),
        Verb::Values { kernel } => verbs::values(&context, kernel),
        Verb::Inspect { kernel, view } => verbs::inspect(&context, kernel, view),
    };
    done.unwrap_or_else(|exit| exit)
}
