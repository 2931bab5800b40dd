//! Attention to caches of keys and values, and new tokens for them.

mod append;
mod decode;
mod latent;
mod room;
mod shared;
