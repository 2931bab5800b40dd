//! Tuned kernels that a program calls, each with the cases that check and time it.
//!
//! [`attention::Attention`] is what a program calls: it checks tensors and options, chooses an instance from a table, and launches it.
//! Below it are [`attention::forward`], tuned for heads of equally many queries and keys, of 16 bits and of 8-bit floats, and [`attention::masked`], the same main loop
//! for windows, chunks, sequences of several lengths, any strides, and scores that an author's type changes. [`attention::backward`] has the gradients.
//! [`attention::blocks`] computes the blocks that a block-sparse mask shows. [`attention::append`] stores new tokens to a cache, [`attention::decode`] attends to it, [`attention::latent`] to one
//! of latent vectors (MLA), and [`attention::merge`] merges the results of splits and of calls.
//!
//! [`products`] has the kernels of matrix products, and the plan that says which of them computes a product, in how many CTAs.
//!
//! [`convolution`] has convolutions of images, and gradients of images.
//!
//! [`parallel`] has products over several GPUs, in one kernel with the collective in front of them or behind.
//!
//! [`collectives`] has collectives of several GPUs, and [`attention::ring`] attention of sequences that are divided among them.
//!
//! [`training`] has the kernels of training steps that memory bounds: gradients of norms, softmax and activations, cross entropy, `AdamW`.

// Cases take half of the time that this crate is compiled in, and unit tests run none.
#![cfg_attr(
    test,
    allow(
        dead_code,
        reason = "unit tests have no cases, and some is for cases alone"
    )
)]

pub mod attention;
pub mod collectives;
pub mod convolution;
mod error;
mod handles;
mod overlap;
pub mod parallel;
mod philox;
pub mod products;
pub mod training;
mod wait_limit;
