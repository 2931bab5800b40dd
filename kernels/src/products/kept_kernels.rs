//! The kernels that calls have needed so far, by what they are compiled for.

use std::any::TypeId;
use std::sync::PoisonError;

use tilekit::{CompiledKernel, LoadedKernel};

use super::block_scaled::ScaledWhich;
use super::call::Products;
use super::dense::ManyTile;
use super::error::Result;
use super::form::Form;
use super::instances::Instance;
use super::weight_only::WeightWhich;

/// A kernel of element types and an epilogue.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) enum Which {
    /// By what it is compiled for; of the epilogue its name; and whether its launches overlap.
    Product(Form<Instance, ()>, String, bool),
    /// The same of groups.
    Grouped(Form<ManyTile, ()>, String),
    /// With scales for blocks.
    Scaled(ScaledWhich),
    /// With packed weights.
    Weights(WeightWhich),
    /// From elements along this dimension to elements along that one.
    Repack(usize, usize),
    /// A kernel of another module, by a name that says what it is compiled for.
    Named(String),
}

impl Products {
    /// A kernel of another module, loaded at its first use: of these types, by a name that says what else it is compiled for.
    pub(crate) fn named<H: 'static>(
        &self,
        (types, name): (TypeId, String),
        compile: impl FnOnce() -> tilekit::Result<CompiledKernel<H>>,
    ) -> Result<LoadedKernel<H>> {
        self.kernel((types, Which::Named(name)), compile)
    }

    /// The same, of one that may start before the launch in front of it has ended.
    pub(crate) fn named_programmatic<H: 'static>(
        &self,
        (types, name): (TypeId, String),
        compile: impl FnOnce() -> tilekit::Result<CompiledKernel<H>>,
    ) -> Result<LoadedKernel<H>> {
        let load = || compile()?.load(self.device())?.programmatic();
        self.loaded((types, Which::Named(name)), load)
    }

    /// A kernel, loaded at its first use.
    pub(super) fn kernel<H: 'static>(
        &self,
        key: (TypeId, Which),
        compile: impl FnOnce() -> tilekit::Result<CompiledKernel<H>>,
    ) -> Result<LoadedKernel<H>> {
        self.loaded(key, || compile()?.load(self.device()))
    }

    /// The same, of one that is loaded otherwise.
    pub(super) fn loaded<H: 'static>(
        &self,
        key: (TypeId, Which),
        load: impl FnOnce() -> tilekit::Result<LoadedKernel<H>>,
    ) -> Result<LoadedKernel<H>> {
        let mut kernels = self.kernels.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(loaded) = kernels.get(&key).and_then(|kernel| kernel.downcast_ref()) {
            return Ok(LoadedKernel::clone(loaded));
        }
        let loaded = load()?;
        kernels.insert(key, Box::new(loaded.clone()));
        Ok(loaded)
    }
}
