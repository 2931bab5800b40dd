//! A kernel's table with its checks, for who launches by other means than the driver, as on an emulator.

use crate::argument::Argument;
use crate::block::Block;
use crate::check::{Bound, Kernel, Place};
use crate::driver::MapShape;
use crate::error::Error;
use crate::manifest::Manifest;

/// A manifest with what every launch asks of it.
pub struct Table(Kernel);

/// A launch whose arguments fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packed {
    /// CTAs in x, y and z; without launch if one of them is 0.
    pub grid: [u32; 3],
    /// The parameters, each where the manifest says.
    pub parameters: Vec<u8>,
}

impl Table {
    /// Reads a manifest.
    ///
    /// # Errors
    /// One of a newer form, or a broken one.
    pub fn read(manifest: &str) -> Result<Table, Error> {
        Kernel::read(manifest).map(Table)
    }

    /// The manifest.
    pub fn manifest(&self) -> &Manifest {
        &self.0.manifest
    }

    /// Checks arguments for a launch on a machine with so many multiprocessors and packs them; `encode` makes tensor maps. `grid` is
    /// given for a kernel whose signature has no rule for it.
    ///
    /// # Errors
    /// What does not fit the table, or what `encode` says.
    pub fn pack(
        &self,
        multiprocessors: u32,
        grid: Option<[i64; 3]>,
        arguments: &[Argument<'_>],
        encode: impl Fn(&MapShape) -> Result<[u8; 128], String>,
    ) -> Result<Packed, Error> {
        let manifest = &self.0.manifest;
        let place = Place {
            device: 0,
            multiprocessors,
        };
        let mut bound = Bound::new(&self.0, place, arguments);
        bound.check()?;
        let grid = bound.grid(grid)?;
        let mut block = Block::new(manifest.parameter_bytes);
        if !grid.contains(&0) {
            bound.pack(&mut block, |map| {
                encode(&map.shape()?).map_err(|rule| {
                    Error::of_value(format!("{}: a tensor map: {rule}", manifest.signature()))
                })
            })?;
        }
        let parameters = block.bytes()[..manifest.parameter_bytes as usize].to_vec();
        Ok(Packed { grid, parameters })
    }
}
