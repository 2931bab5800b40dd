//! What the attribute of a kernel says is known while it is traced.
use tilekit::lang::prelude::*;

#[kernel(warps = n)] //~ an attribute of a kernel is a host integer, not `Scalar<i32>`
fn warps_of_a_launch(n: i32) {}

#[kernel(cluster = n)] //~ a cluster is a host integer or up to three of them, not `Scalar<i32>`
fn cluster_of_a_launch(n: i32) {}

#[kernel(cluster = [1, 1, 1, 2])] //~ a cluster is a host integer or up to three of them, not `[{integer}; 4]`
fn cluster_of_four_dimensions() {}

#[kernel(cluster = 2.0)] //~ a cluster is a host integer or up to three of them, not `{float}`
fn cluster_of_a_fraction() {}

#[kernel(cluster = Some(2))] //~ a cluster is a host integer or up to three of them, not `Option<{integer}>`
fn cluster_that_may_be_missing() {}

#[derive(Clone, Copy)]
struct Tile {
    ctas: usize,
}

#[kernel(cluster = tile.cats)] //~ no field `cats` on type `Tile`
fn misspelt_field(#[fixed] tile: Tile) {}

#[kernel(cluster = tile.cluster())] //~ no method named `cluster` found for struct `Tile`
fn missing_method(#[fixed] tile: Tile) {}

#[kernel(cluster = other.ctas)] //~ cannot find value `other` in this scope
fn unknown_value(#[fixed] tile: Tile) {}

#[kernel(cluster = 2, cluster = tile.ctas)] //~ `cluster` is given twice
fn said_twice() {}
