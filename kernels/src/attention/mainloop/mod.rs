//! The main loop of attention forward, which all kernels that compute an output share: a [`Problem`](problem::Problem) says which keys a tile sees and where
//! its rows lie, and [`attend`](attend::attend) loads, multiplies and stores.

pub(super) mod attend;
mod buffers;
mod consumer;
mod first_block;
mod operands;
pub(super) mod problem;
pub(super) mod shape;
pub(super) mod softmax;
pub(super) mod tiles;
mod transpose;
