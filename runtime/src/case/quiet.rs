//! Panics that are caught and reported later are not printed at once.

use std::any::Any;
use std::panic::PanicHookInfo;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, Once, PoisonError};

/// How many [`Quiet`] there are.
static LISTENERS: AtomicUsize = AtomicUsize::new(0);

/// The panic that was not reported yet.
static PANICS: Mutex<Vec<Panic>> = Mutex::new(Vec::new());

struct Panic {
    message: String,
    /// `file:line:column`.
    place: String,
}

/// While it lives, panics print nothing; the code that catches them reports them. References are computed on threads of their own,
/// so those of all threads are meant. Who asks for a backtrace gets it at once.
pub(super) struct Quiet(());

impl Quiet {
    pub(super) fn begin() -> Quiet {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let earlier = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |info| {
                if LISTENERS.load(Ordering::SeqCst) == 0 || wants_backtrace() {
                    earlier(info);
                }
                if LISTENERS.load(Ordering::SeqCst) > 0 {
                    note(info);
                }
            }));
        });
        LISTENERS.fetch_add(1, Ordering::SeqCst);
        Quiet(())
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        if LISTENERS.fetch_sub(1, Ordering::SeqCst) == 1 {
            panics().clear();
        }
    }
}

/// What a caught panic said, and its place if it panicked while a [`Quiet`] lived.
pub(super) fn told(payload: &(dyn Any + Send)) -> (String, Option<String>) {
    let message = message_of(payload);
    let mut panics = panics();
    let at = panics.iter().position(|panic| panic.message == message);
    let place = at.map(|at| panics.remove(at).place);
    (message, place)
}

fn note(info: &PanicHookInfo<'_>) {
    let place = info.location().map(ToString::to_string);
    panics().push(Panic {
        message: message_of(info.payload()),
        place: place.unwrap_or_default(),
    });
}

fn panics() -> std::sync::MutexGuard<'static, Vec<Panic>> {
    PANICS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn wants_backtrace() -> bool {
    std::env::var_os("RUST_BACKTRACE").is_some_and(|value| value != "0")
}

fn message_of(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().cloned();
    let text = text.or_else(|| {
        payload
            .downcast_ref::<&str>()
            .map(|text| (*text).to_string())
    });
    text.unwrap_or_else(|| "a panic without a message".to_string())
}
