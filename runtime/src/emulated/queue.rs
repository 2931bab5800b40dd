//! Work of a stream of the emulator that the host does not wait for: launches beside the host, and what follows them.

use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use emulator::Announced;

use crate::error::{Error, Result};

/// Work of a stream in order. Nearly all of it is done when it is given; a launch beside the host, and all behind it, by a thread.
#[derive(Default)]
pub(crate) struct Queue {
    /// Held by who does work at once. It is taken before `state`, and not by the thread of the queue.
    turn: Mutex<()>,
    state: Mutex<State>,
    changed: Condvar,
    busy: BusyQueues,
}

/// The queues of a device that the host has not waited for.
pub(crate) type BusyQueues = Arc<Mutex<Vec<Arc<Queue>>>>;

/// A piece of work, and what watches the host beside it.
struct Job {
    work: Box<dyn FnOnce() -> Result<()> + Send>,
    watch: Option<Arc<Announced>>,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Job>,
    is_running: bool,
    /// Pieces of work that were queued, and of those the ones that have ended.
    queued: u64,
    ended: u64,
    failed: Option<Error>,
    panicked: Option<Box<dyn Any + Send>>,
    /// Of launches that have ended; the host has not waited for them, and what it accesses may still race with them.
    watches: Vec<Arc<Announced>>,
}

impl Queue {
    /// An empty one, which tells `busy` while it is not.
    pub(crate) fn new(busy: &BusyQueues) -> Arc<Queue> {
        Arc::new(Queue {
            busy: Arc::clone(busy),
            ..Queue::default()
        })
    }

    /// Does `work` now, or after what is queued.
    ///
    /// # Errors
    /// What earlier work that nobody has waited for ended with, or `work`.
    pub(crate) fn run(
        self: &Arc<Self>,
        work: impl FnOnce() -> Result<()> + Send + 'static,
    ) -> Result<()> {
        if let Some(_turn) = self.idle_turn()? {
            return work();
        }
        self.push(None, work)
    }

    /// Held while work is done at once, so that what other threads give comes after it. None where work is queued, which it comes after.
    ///
    /// # Errors
    /// As for [`is_idle`](Queue::is_idle).
    pub(crate) fn idle_turn(&self) -> Result<Option<MutexGuard<'_, ()>>> {
        let turn = self.turn();
        Ok(self.is_idle()?.then_some(turn))
    }

    /// The turns of several queues, in an order of which there is one, so that no two threads wait for each other.
    pub(crate) fn turns(mut queues: Vec<&Arc<Queue>>) -> Vec<MutexGuard<'_, ()>> {
        queues.sort_unstable_by_key(|queue| Arc::as_ptr(queue));
        queues.dedup_by_key(|queue| Arc::as_ptr(queue));
        queues.into_iter().map(|queue| queue.turn()).collect()
    }

    fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues `work` and returns.
    ///
    /// # Errors
    /// What earlier work that nobody has waited for ended with.
    pub(crate) fn push(
        self: &Arc<Self>,
        watch: Option<Arc<Announced>>,
        work: impl FnOnce() -> Result<()> + Send + 'static,
    ) -> Result<()> {
        // Behind what another thread does at once.
        let _turn = self.turn();
        let mut state = self.state();
        state.report()?;
        let work = Box::new(work);
        state.waiting.push_back(Job { work, watch });
        state.queued += 1;
        if !std::mem::replace(&mut state.is_running, true) {
            drop(state);
            self.become_busy();
            let queue = Arc::clone(self);
            std::thread::spawn(move || queue.work());
        }
        Ok(())
    }

    /// Whether all of it has ended. What has, the host has waited for.
    ///
    /// # Errors
    /// What it ended with; the next question is of what follows.
    pub(crate) fn is_idle(&self) -> Result<bool> {
        let mut state = self.state();
        if !state.is_running {
            state.watches.clear();
            state.report()?;
        }
        Ok(!state.is_running)
    }

    /// Waits for all of it.
    ///
    /// # Errors
    /// What it ended with.
    pub(crate) fn wait(&self) -> Result<()> {
        self.wait_for(u64::MAX)
    }

    /// What has been queued so far, for [`wait_for`](Queue::wait_for).
    pub(crate) fn position(&self) -> u64 {
        self.state().queued
    }

    /// Waits for what had been queued at a position.
    ///
    /// # Errors
    /// What it ended with.
    pub(crate) fn wait_for(&self, position: u64) -> Result<()> {
        let mut state = self.state();
        while state.is_running && state.ended < position {
            let woken = self.changed.wait(state);
            state = woken.unwrap_or_else(PoisonError::into_inner);
        }
        state.watches.clear();
        state.report()
    }

    /// Does what is queued, to its end. After a failure nothing more is done, as on a GPU.
    fn work(&self) {
        while let Some(job) = self.next() {
            let ended = catch_unwind(AssertUnwindSafe(job.work));
            let mut state = self.state();
            state.ended += 1;
            state.watches.extend(job.watch);
            match ended {
                Ok(Ok(())) => {}
                Ok(Err(error)) => state.failed = Some(error),
                Err(panic) => state.panicked = Some(panic),
            }
            if state.failed.is_some() || state.panicked.is_some() {
                state.ended += state.waiting.len() as u64;
                state.waiting.clear();
            }
            self.changed.notify_all();
        }
    }

    fn next(&self) -> Option<Job> {
        let mut state = self.state();
        let job = state.waiting.pop_front();
        if job.is_some() {
            // It comes after what has ended: who acquires from it has that before, too.
            state.watches.clear();
        } else {
            state.is_running = false;
            self.changed.notify_all();
        }
        job
    }

    fn become_busy(self: &Arc<Self>) {
        let mut busy = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        if !busy.iter().any(|known| Arc::ptr_eq(known, self)) {
            busy.push(Arc::clone(self));
        }
    }

    /// Its changes are complete before anything can panic.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// What work ended with, once.
    fn report(&mut self) -> Result<()> {
        if let Some(panic) = self.panicked.take() {
            resume_unwind(panic);
        }
        self.failed.take().map_or(Ok(()), Err)
    }
}

/// Waits for all queues of a device.
///
/// # Errors
/// What one of them ended with.
pub(crate) fn wait_for_all(busy: &BusyQueues) -> Result<()> {
    let list = || busy.lock().unwrap_or_else(PoisonError::into_inner);
    let waited: Vec<Arc<Queue>> = list().clone();
    let ended = waited.iter().try_for_each(|queue| queue.wait());
    list().retain(|queue| queue.state().is_running);
    ended
}
