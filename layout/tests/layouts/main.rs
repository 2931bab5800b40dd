//! The layout algebra against Gluon's own values, brute force and an independent checker.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod algebra;
mod banks;
mod clusters;
mod coalesce;
mod convert;
mod cut;
mod family;
mod golden;
mod hostile;
mod limits;
mod local;
mod matrix;
mod pictures;
mod relate;
mod samples;
mod sparse;
mod text;
mod tma;
mod warp_sets;
