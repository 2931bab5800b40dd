//! Panics that are caught and told later are not printed at once.

use std::cell::Cell;
use std::sync::Once;

thread_local! {
    static IS_QUIET: Cell<bool> = const { Cell::new(false) };
}

/// While it lives, panics of this thread print nothing; whoever catches them tells them.
pub(super) struct Quiet {
    before: bool,
}

impl Quiet {
    pub(super) fn begin() -> Quiet {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let earlier = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |info| {
                if !IS_QUIET.try_with(Cell::get).unwrap_or(false) {
                    earlier(info);
                }
            }));
        });
        Quiet {
            before: IS_QUIET.replace(true),
        }
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        IS_QUIET.set(self.before);
    }
}
