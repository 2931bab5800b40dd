//! What runs of a case at the same sizes need not do again.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::compare::Agreement;
use super::random::Generator;
use super::shape::Shape;
use crate::element::DeviceElement;

/// Random inputs, and results that were compared and found right. Runs of one case at one choice of sizes and one seed
/// of its data may share it: a result with the same bits as one that was right needs no reference.
#[derive(Default)]
pub struct CaseCache {
    inputs: Mutex<HashMap<InputKey, Arc<dyn Any + Send + Sync>>>,
    right: Mutex<HashMap<usize, Right>>,
    references: Mutex<HashMap<usize, Arc<dyn Any + Send + Sync>>>,
    tensors: Mutex<HashMap<TensorKey, Arc<dyn Any + Send + Sync>>>,
}

/// How candidates of a run name a tensor: by its place among those of the case, its name and extents, and its type.
type TensorKey = (usize, String, Vec<usize>, TypeId);

/// What the elements of a random input depend on.
#[derive(PartialEq, Eq, Hash)]
struct InputKey {
    name: String,
    generator: String,
    seed: u64,
    element: TypeId,
    len: usize,
}

/// A result that was right.
struct Right {
    bytes: Vec<u8>,
    agreement: Agreement,
}

impl CaseCache {
    /// The elements of the random input `name`, made at the first call.
    pub(super) fn input<T: DeviceElement>(
        &self,
        name: &str,
        generator: &Generator,
        seed: u64,
        len: usize,
    ) -> Arc<Vec<T>> {
        let key = InputKey {
            name: name.to_string(),
            generator: format!("{generator:?}"),
            seed,
            element: TypeId::of::<T>(),
            len,
        };
        let known = lock(&self.inputs).get(&key).cloned();
        let known = known.and_then(|elements| elements.downcast::<Vec<T>>().ok());
        known.unwrap_or_else(|| {
            let made = Arc::new(generator.make(seed, name, len));
            lock(&self.inputs).insert(key, Arc::clone(&made) as Arc<dyn Any + Send + Sync>);
            made
        })
    }

    /// A tensor, made at the first call; says whether it was there.
    pub(super) fn tensor<S: Clone + Send + Sync + 'static>(
        &self,
        (place, name, shape): (usize, &str, Shape),
        make: impl FnOnce(Shape) -> S,
    ) -> (S, bool) {
        let extents = shape.extents().to_vec();
        let key = (place, name.to_string(), extents, TypeId::of::<S>());
        let known = lock(&self.tensors).get(&key).cloned();
        if let Some(tensor) = known.and_then(|tensor| tensor.downcast::<S>().ok()) {
            return (S::clone(&tensor), true);
        }
        let made = make(shape);
        lock(&self.tensors).insert(key, Arc::new(made.clone()));
        (made, false)
    }

    /// The reference of comparison number `index`, computed at the first call: it depends on the inputs alone.
    pub(super) fn reference<R: Send + Sync + 'static>(
        &self,
        index: usize,
        compute: impl FnOnce() -> Vec<R>,
    ) -> Arc<Vec<R>> {
        let known = lock(&self.references).get(&index).cloned();
        let known = known.and_then(|reference| reference.downcast::<Vec<R>>().ok());
        known.unwrap_or_else(|| {
            let made = Arc::new(compute());
            lock(&self.references).insert(index, Arc::clone(&made) as Arc<dyn Any + Send + Sync>);
            made
        })
    }

    /// How comparison number `index` of the case ended for these bytes, if it was seen and they were right.
    pub(super) fn agreement(&self, index: usize, bytes: &[u8]) -> Option<Agreement> {
        let right = lock(&self.right);
        let known = right.get(&index).filter(|right| right.bytes == bytes);
        known.map(|right| right.agreement.clone())
    }

    /// Notes that these bytes were right in comparison number `index`.
    pub(super) fn note(&self, index: usize, bytes: Vec<u8>, agreement: Agreement) {
        lock(&self.right).insert(index, Right { bytes, agreement });
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for CaseCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CaseCache").finish_non_exhaustive()
    }
}
