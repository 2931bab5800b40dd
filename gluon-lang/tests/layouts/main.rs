//! The layout algebra against Gluon's own values, brute force and an independent checker.

mod golden;
mod text;
