//! Calls of device functions, and exits out of a region that would lose the rest of it.

use super::{At, TRACE, Trace, with};
use diag::Code;
use ir::OpError;

/// A device function being traced; leaves it when dropped.
pub struct Frame {
    at: At,
    depth: usize,
}

/// Calls of device functions inside each other. All are inlined, and each takes stack of the host while it is traced: one that calls itself
/// without a host's condition that ends it would abort the process.
const MOST_CALLS: usize = 100;

/// Enters a device function.
#[inline(never)]
pub(crate) fn enter(function: &str, at: At) -> Frame {
    if with(at, |trace| trace.builder.calls()) >= MOST_CALLS {
        refuse_recursion(function, at);
    }
    let depth = with(at, |trace| {
        trace.builder.enter(function, at);
        trace.builder.depth()
    });
    Frame { at, depth }
}

impl Drop for Frame {
    fn drop(&mut self) {
        let is_panicking = std::thread::panicking();
        // Also runs while a panic of the author's leaves the function, when the trace may be gone or in use.
        TRACE.with(|trace| {
            if let Ok(mut trace) = trace.try_borrow_mut()
                && let Some(trace) = trace.as_mut()
            {
                trace.builder.leave();
                if !is_panicking {
                    trace.close_left(self.depth, self.at);
                }
            }
        });
    }
}

impl Trace {
    /// A function ends where it began. If regions are still open, something left them that no rewriting saw: a `return` or
    /// `?` in a macro.
    pub(super) fn close_left(&mut self, depth: usize, at: At) {
        if self.builder.depth() <= depth {
            return;
        }
        while self.builder.depth() > depth {
            self.builder.close();
        }
        let error = OpError::new(
            Code::EarlyExit,
            "this function was left inside a runtime loop or branch",
        )
        .help("look for a `return`, `break` or `?` inside a macro, and write it outside");
        self.fail(error, at);
    }
}

/// How many regions are open: what [`leaving`] compares with.
#[inline(never)]
pub(crate) fn depth(at: At) -> usize {
    with(at, |trace| trace.builder.depth())
}

/// The author's `break`, `continue`, `return` or `?` goes to where `depth` regions were open. If a runtime condition decides at
/// run time whether this code runs, that is a mistake, and tracing ends.
#[inline(never)]
pub(crate) fn leaving(what: &str, depth: usize, at: At) {
    let is_early = with(at, |trace| trace.builder.depth() > depth);
    if is_early {
        refuse(what, at);
    }
}

fn refuse_recursion(function: &str, at: At) -> ! {
    let error = OpError::new(
        Code::TooLarge,
        format!("this call of `{function}` stands inside {MOST_CALLS} others, and no more are traced"),
    )
    .note("a device function is inlined where it is called: a call of itself is traced again and again, under any runtime condition")
    .help("write a runtime loop, `for i in range(low, high)`; or end the recursion by a condition of the host, such as a `const` argument");
    with(at, |trace| trace.fail(error, at));
    end();
}

pub(super) fn refuse(what: &str, at: At) -> ! {
    let named = match what {
        "break out of a block" => "`break` out of a block".to_owned(),
        other => format!("`{other}`"),
    };
    let error = OpError::new(
        Code::EarlyExit,
        format!("{named} inside a runtime loop or branch"),
    )
    .note("this code is traced once; leaving it while tracing would lose what follows")
    .help(match what {
        "return" => "write it outside of the macro or the condition of the `while`",
        "break out of a block" => "write the block as a closure that is called, and `return` its value, or as a `#[device]` function: these may be left under runtime conditions",
        "break" | "continue" => "make it a runtime loop, over `range(low, high)`, which the kernel may leave; in a loop that the host unrolls, put the rest under an `if`",
        _ => "unwrap it outside of the runtime loop or branch, or use `if` and `return`",
    });
    with(at, |trace| trace.fail(error, at));
    end();
}

/// Ends tracing for a mistake that is reported already.
pub(crate) fn end() -> ! {
    std::panic::resume_unwind(Box::new(super::panic::Ended));
}
