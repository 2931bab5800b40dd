//! Panics of the author's host code: caught, and reported with their place.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::sync::Once;

use super::TRACE;
use diag::Place;

/// Tracing was ended by a mistake that is reported already.
pub(super) struct Ended;

/// A panic of the host code inside a kernel.
pub(super) struct Panicked {
    pub(super) message: String,
    pub(super) at: Option<Place>,
}

thread_local! {
    static IS_TRACING: Cell<bool> = const { Cell::new(false) };
}

/// Runs the kernel function. A panic ends it, and stays in the trace; `Err` if it was none of a kernel's.
pub(super) fn run(body: &mut dyn FnMut()) -> Result<(), ()> {
    watch();
    let was_tracing = IS_TRACING.replace(true);
    let outcome = catch_unwind(AssertUnwindSafe(body));
    IS_TRACING.set(was_tracing);
    outcome.map_err(drop)
}

/// Panics of a thread that traces are kept instead of printed; all others continue to whoever was asked before.
fn watch() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let earlier = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let is_kept = IS_TRACING.try_with(Cell::get).unwrap_or(false) && keep(info);
            if !is_kept {
                earlier(info);
            }
        }));
    });
}

fn keep(info: &PanicHookInfo<'_>) -> bool {
    TRACE.with(|trace| {
        let Ok(mut trace) = trace.try_borrow_mut() else {
            // The panic is in the builder itself: a bug of ours, which the usual report shows better.
            return false;
        };
        let Some(trace) = trace.as_mut() else {
            return false;
        };
        let at = info.location().map(|at| {
            let loc = trace.builder.loc(at);
            trace.builder.func().locations.place(loc)
        });
        trace.panicked = Some(Panicked {
            message: message(info),
            at,
        });
        true
    })
}

fn message(info: &PanicHookInfo<'_>) -> String {
    info.payload_as_str()
        .unwrap_or("it gave no message")
        .to_owned()
}
