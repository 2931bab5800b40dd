//! The layout algebra against Gluon's own values, brute force and an independent checker.

mod algebra;
mod banks;
mod coalesce;
mod convert;
mod family;
mod golden;
mod relate;
mod text;
