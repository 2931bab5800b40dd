//! Runs the real binary on throwaway packages.
//!
//! [`Package`] is a package in a temporary folder that depends on this checkout; `package.tilekit("run add")` runs
//! `cargo-tilekit` in it and returns what it said. All packages build into this workspace's target folder, so that what
//! they depend on is compiled once. One file holds one kind of behaviour.

mod baseline;
#[path = "build.rs"]
mod build_verb;
mod counters;
mod diff;
mod export;
mod export_python;
mod faults;
mod limits;
mod lines;
mod machine;
mod mutate;
mod mutate_apart;
mod newcomer;
mod output;
mod package;
mod programs;
mod run;
mod selection;
mod snapshot;
#[path = "../../../launch/tests/stand_in/mod.rs"]
mod stand_in;
mod tools;
mod trace;
mod tune;
mod wrong;

use package::Package;
