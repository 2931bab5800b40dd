//! Types that were found right, so that each is judged once and not again for every value that has it.

use super::shared::check_smem;
use super::tensors::check_map;
use crate::OpError;
use crate::{Func, SmemType, TensorMapType};
use diag::Code;

/// Types of shared memory and tensor maps that may exist. The key is the type itself, and the verdict depends on nothing
/// else but the kernel's clusters and target, so it holds however the kernel is changed. A kernel has few types: comparing with all of them costs less than
/// judging one, which lays out all of its elements.
#[derive(Debug, Default)]
pub(crate) struct KnownTypes {
    smems: Vec<SmemType>,
    maps: Vec<TensorMapType>,
}

impl KnownTypes {
    /// What [`check_smem`] says.
    pub(crate) fn check_smem(&mut self, ty: &SmemType, func: &Func) -> Result<(), OpError> {
        judged_once(&mut self.smems, ty, |ty| check_smem(ty, func))
    }

    /// What [`check_map`] says.
    pub(crate) fn check_map(
        &mut self,
        ty: &TensorMapType,
        func: &Func,
    ) -> Result<(), (Code, String)> {
        judged_once(&mut self.maps, ty, |ty| check_map(ty, func))
    }
}

fn judged_once<T: Clone + PartialEq, E>(
    right: &mut Vec<T>,
    ty: &T,
    judge: impl FnOnce(&T) -> Result<(), E>,
) -> Result<(), E> {
    if !right.contains(ty) {
        judge(ty)?;
        right.push(ty.clone());
    }
    Ok(())
}
