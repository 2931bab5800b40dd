//! What a captured graph and a prepared launch keep alive: the memory and the code that they use, of which they have addresses only.

use std::any::Any;
use std::cell::RefCell;
use std::sync::Arc;

/// Memory or code that is used.
pub(crate) type Kept = Arc<dyn Any + Send + Sync>;

thread_local! {
    /// What this thread's work uses, where somebody keeps it; the innermost is the last.
    static COLLECTING: RefCell<Vec<Vec<Kept>>> = const { RefCell::new(Vec::new()) };
}

/// Notes that work of this thread uses something, if that is kept by who has begun to collect.
#[inline]
pub(crate) fn note(thing: impl FnOnce() -> Kept) {
    COLLECTING.with_borrow_mut(|collecting| {
        if let Some(innermost) = collecting.last_mut() {
            add(innermost, thing());
        }
    });
}

/// Does `work`; gives what it used too.
pub(crate) fn collect<R>(work: impl FnOnce() -> R) -> (R, Vec<Kept>) {
    let collecting = Collecting::begin();
    let done = work();
    (done, collecting.end())
}

/// Things are few, and used often.
fn add(kept: &mut Vec<Kept>, thing: Kept) {
    if !kept.iter().any(|known| Arc::ptr_eq(known, &thing)) {
        kept.push(thing);
    }
}

/// Ends when it is dropped, as where `work` panics.
struct Collecting {
    depth: usize,
}

impl Collecting {
    fn begin() -> Collecting {
        COLLECTING.with_borrow_mut(|collecting| {
            collecting.push(Vec::new());
            Collecting {
                depth: collecting.len(),
            }
        })
    }

    fn end(self) -> Vec<Kept> {
        let depth = self.depth;
        COLLECTING.with_borrow_mut(|collecting| {
            let is_innermost = collecting.len() == depth;
            is_innermost
                .then(|| collecting.pop())
                .flatten()
                .unwrap_or_default()
        })
    }
}

impl Drop for Collecting {
    fn drop(&mut self) {
        let below = self.depth - 1;
        // What is dropped here may free memory, which must find the list at rest.
        let rest = COLLECTING.with_borrow_mut(|collecting| {
            let end = collecting.len().max(below);
            collecting.drain(below.min(end)..end).collect::<Vec<_>>()
        });
        drop(rest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_keeps_each_thing_once() {
        let [a, b] = [1, 2].map(|number| Arc::new(number) as Kept);
        note(|| unreachable!("nobody collects"));
        let ((inner, ()), outer) = collect(|| {
            note(|| Arc::clone(&a));
            note(|| Arc::clone(&a));
            let ((), inner) = collect(|| note(|| Arc::clone(&b)));
            (inner, ())
        });
        assert_eq!((inner.len(), outer.len()), (1, 1));
        assert!(Arc::ptr_eq(&inner[0], &b) && Arc::ptr_eq(&outer[0], &a));
        note(|| unreachable!("nobody collects any more"));
    }

    #[test]
    fn a_panic_ends_it() {
        let caught = std::panic::catch_unwind(|| collect(|| panic!("of the test")));
        assert!(caught.is_err());
        note(|| unreachable!("nobody collects any more"));
    }
}
