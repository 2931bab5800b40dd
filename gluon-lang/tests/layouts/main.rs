//! The layout algebra against Gluon's own values, brute force and an independent checker.

mod algebra;
mod coalesce;
mod convert;
mod family;
mod golden;
mod relate;
mod text;
