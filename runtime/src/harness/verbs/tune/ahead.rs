//! Compiling on all other cores what is checked and timed later.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Scope;

use super::work::path_of;
use crate::case::{CaseEntry, Mode, Sizes};
use crate::device::Device;
use crate::harness::request::TuneJob;
use crate::harness::verbs::mutate::workers::cores;
use crate::kernel::{Compiled, Compiler, Instance};
use crate::toolchain::Toolchain;

/// A candidate by the place of its run among those of the process, and its own among those of the run.
type Place = (usize, usize);

/// Threads that compile candidates in the order in which they are needed, and what they have.
pub(super) struct Ahead<'j> {
    jobs: &'j [TuneJob],
    order: Vec<Place>,
    /// The next of `order` that nobody compiles yet.
    next: AtomicUsize,
    is_stopped: AtomicBool,
    toolchain: Option<Toolchain>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    done: HashSet<Place>,
    /// By the path of the instance; none while one thread compiles it, and where that failed.
    compiled: HashMap<String, Option<Compiled>>,
}

impl<'j> Ahead<'j> {
    pub(super) fn new(jobs: &'j [TuneJob], device: &Device) -> Ahead<'j> {
        let places = jobs.iter().enumerate().flat_map(|(run, job)| {
            let candidates = 0..job.candidates.len();
            candidates.map(move |candidate| (run, candidate))
        });
        Ahead {
            jobs,
            order: places.collect(),
            next: AtomicUsize::new(0),
            is_stopped: AtomicBool::new(false),
            toolchain: device.is_cuda().then(|| device.toolchain().clone()),
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// Begins, with a thread for each core but one, which launches.
    pub(super) fn start<'s>(&'s self, scope: &'s Scope<'s, '_>) {
        for _ in 0..cores().saturating_sub(1).max(1) {
            scope.spawn(|| {
                while !self.is_stopped.load(Ordering::Relaxed) {
                    let at = self.next.fetch_add(1, Ordering::Relaxed);
                    let Some(&place) = self.order.get(at) else {
                        break;
                    };
                    self.prepare(place);
                    self.lock().done.insert(place);
                    self.changed.notify_all();
                }
            });
        }
    }

    /// Nothing more is needed.
    pub(super) fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }

    /// A compiler that knows the kernels of a candidate, when they are there. What could not be compiled it tries again, and says why not.
    pub(super) fn compiler(&self, place: Place) -> Compiler {
        let mut state = self.lock();
        while !state.done.contains(&place) {
            let waited = self.changed.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
        let compiled = state.compiled.iter();
        let compiled = compiled.filter_map(|(path, one)| Some((path.clone(), one.clone()?)));
        Compiler::default().knowing(compiled.collect())
    }

    fn prepare(&self, (run, candidate): Place) {
        let job = &self.jobs[run];
        let mut entries = CaseEntry::all().into_iter();
        let Some(entry) = entries.find(|entry| path_of(entry) == job.case) else {
            return;
        };
        let (sizes, at) = (Sizes::of(&job.sizes), job.candidates[candidate].at);
        let (outcome, _) = entry.run_candidate(&sizes, &Mode::Describe, Some(at));
        for launch in &outcome.report.launches {
            self.compile(&launch.instance);
        }
    }

    /// Compiles an instance, or waits for the thread that does.
    fn compile(&self, instance: &Instance) {
        let path = instance.path().to_string();
        let mut state = self.lock();
        if state.compiled.contains_key(&path) {
            return;
        }
        state.compiled.insert(path.clone(), None);
        drop(state);
        let compiled = Compiler::default().compile(instance).ok();
        if let (Some(toolchain), Some(compiled)) = (&self.toolchain, &compiled) {
            // It is found in the cache when it is loaded; what ptxas has against it is said then.
            let _ = toolchain.image(compiled.ptx());
        }
        self.lock().compiled.insert(path, compiled);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
