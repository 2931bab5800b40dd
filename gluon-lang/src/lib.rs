//! The TileKit language: what a kernel is made of, from the author's handles to the verified tile IR.
//!
//! No IO, no GPU, no PTX words. See [`ir`] for the IR itself, [`ops`] for the list of operations, [`layout`] for who holds
//! which element, [`lang`] for what an author writes, and [`diag`] for what is said when a kernel is wrong.
#![forbid(unsafe_code)]

pub mod build;
pub mod diag;
pub mod elem;
pub mod entity;
pub mod ir;
pub mod lang;
pub mod layout;
pub mod nearest;
pub mod ops;
pub mod rt;
pub mod text;
pub mod verify;
