//! Pieces of work on several threads, each of which keeps to one core.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

/// As many workers as there are cores.
pub(in crate::harness::verbs) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}

/// Does `count` pieces of work, at most `workers` at a time, and gives each result to `done` as it comes. A piece keeps to one
/// thread, since there are more of them than cores.
pub(in crate::harness::verbs) fn in_parallel<T: Send>(
    count: usize,
    workers: usize,
    work: impl Fn(usize) -> T + Sync,
    mut done: impl FnMut(usize, T),
) {
    let next = AtomicUsize::new(0);
    let (sender, results) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..workers.min(count) {
            let (sender, work, next) = (sender.clone(), &work, &next);
            scope.spawn(move || {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build();
                let pool = pool.expect("a thread can be started");
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    if at >= count {
                        break;
                    }
                    let result = pool.install(|| work(at));
                    if sender.send((at, result)).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        for (at, result) in results {
            done(at, result);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_piece_is_done_once_whatever_the_number_of_workers() {
        for workers in [1, 3, 50] {
            let mut seen = Vec::new();
            in_parallel(
                20,
                workers,
                |at| at * at,
                |at, square| seen.push((at, square)),
            );
            seen.sort_unstable();
            let expected: Vec<(usize, usize)> = (0..20).map(|at| (at, at * at)).collect();
            assert_eq!(seen, expected);
        }
    }
}
