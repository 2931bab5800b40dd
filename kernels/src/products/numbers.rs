//! Numbers of instances, by which cases name what they run. A tile that the table does not have is an error of compilation.

use super::cluster_tiles::ClusterTile;
use super::dense::ManyTile;
use super::factor::INSTRUCTION_ROWS;
use super::few_tiles::FewTile;
use super::instances::Instance;
use super::persistent_tile::PersistentTile;
use super::precise::PreciseTile;
use super::split_k::SplitTile;

/// The plan that the model says is the fastest.
pub(super) const PLANNED: usize = 0;

/// Of warpgroups, rows of each, columns and stages, as all tiles below but for rows.
pub(super) const fn many(tile: [usize; 4]) -> usize {
    Instance::Many(ManyTile::of(tile)).number()
}

pub(super) const fn many_by_pairs(tile: [usize; 4]) -> usize {
    Instance::Many(ManyTile::of(tile).by_pairs()).number()
}

const fn wave_tile([groups, columns, stages]: [usize; 3]) -> ManyTile {
    ManyTile::of([groups, INSTRUCTION_ROWS, columns, stages])
}

pub(super) const fn wave(tile: [usize; 3]) -> usize {
    Instance::Wave(wave_tile(tile)).number()
}

pub(super) const fn wave_by_pairs(tile: [usize; 3]) -> usize {
    Instance::Wave(wave_tile(tile).by_pairs()).number()
}

const fn few_tile(ctas: usize, tile @ [_, _, stages]: [usize; 3]) -> FewTile {
    FewTile::of(tile).by(ctas, stages)
}

/// By so many CTAs along K.
pub(super) const fn few(ctas: usize, tile: [usize; 3]) -> usize {
    Instance::Few(few_tile(ctas, tile)).number()
}

/// The same, A and B exchanged.
pub(super) const fn few_exchanged(ctas: usize, tile: [usize; 3]) -> usize {
    Instance::Few(few_tile(ctas, tile).exchanged()).number()
}

pub(super) const fn split(tile: [usize; 3]) -> usize {
    Instance::Split(SplitTile::of(tile)).number()
}

pub(super) const fn split_by_pairs(tile: [usize; 3]) -> usize {
    Instance::Split(SplitTile::of(tile).by_pairs()).number()
}

/// By clusters of so many tiles along rows and along columns.
pub(super) const fn split_by_clusters(along: [usize; 2], tile: [usize; 3]) -> usize {
    Instance::Split(SplitTile::of(tile).by_clusters(along)).number()
}

pub(super) const fn split_exchanged_by_clusters(along: [usize; 2], tile: [usize; 3]) -> usize {
    Instance::Split(SplitTile::of(tile).by_clusters(along).exchanged()).number()
}

pub(super) const fn split_exchanged(tile: [usize; 3]) -> usize {
    Instance::Split(SplitTile::of(tile).exchanged()).number()
}

pub(super) const fn split_exchanged_by_pairs(tile: [usize; 3]) -> usize {
    Instance::Split(SplitTile::of(tile).by_pairs().exchanged()).number()
}

pub(super) const fn cluster(tile: ClusterTile) -> usize {
    Instance::Cluster(tile).number()
}

pub(super) const fn persistent(tile: PersistentTile) -> usize {
    Instance::Persistent(tile).number()
}

pub(super) const fn precise(tile: PreciseTile) -> usize {
    Instance::Precise(tile).number()
}

pub(super) const fn precise_parts(tile: PreciseTile) -> usize {
    Instance::PreciseParts(tile).number()
}
