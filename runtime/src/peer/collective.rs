//! Collectives of a case's tensors, by NCCL.

use std::sync::Arc;

use super::nccl::Nccl;
use super::rivals::{Rival, Rivals};
use crate::buffer::Buffer;
use crate::case::{Input, Output, Tolerance};
use crate::element::DeviceElement;
use crate::error::Result;
use crate::world::World;

/// A collective of the tensors that the ranks of a case have, by rank: what [`Peer::Nccl`](crate::Peer::Nccl) times beside a launch on ranks.
#[derive(Clone)]
pub struct Collective {
    call: Arc<Call>,
    name: &'static str,
    tolerance: Tolerance,
}

/// Puts it on the streams of all ranks with a copy of the tensors.
type Call = dyn Fn(&Nccl, &World, usize) -> Result<()> + Send + Sync;

/// How NCCL is called with buffers of all ranks.
type OfNccl<T> = fn(&Nccl, &World, &[&Buffer<T>], &[&Buffer<T>]) -> Result<()>;

impl Collective {
    /// Every rank receives the sum of what all send.
    pub fn all_reduce<T: DeviceElement>(send: &[Input<T>], receive: &[Output<T>]) -> Collective {
        let tolerance = of_sums::<T>(send.len());
        Collective::new(("all-reduce", Nccl::all_reduce), send, receive, tolerance)
    }

    /// Every rank receives its part of the sum of what all send.
    pub fn reduce_scatter<T: DeviceElement>(
        send: &[Input<T>],
        receive: &[Output<T>],
    ) -> Collective {
        let tolerance = of_sums::<T>(send.len());
        Collective::new(
            ("reduce-scatter", Nccl::reduce_scatter),
            send,
            receive,
            tolerance,
        )
    }

    /// Every rank receives what all send, by rank.
    pub fn all_gather<T: DeviceElement>(send: &[Input<T>], receive: &[Output<T>]) -> Collective {
        Collective::new(
            ("all-gather", Nccl::all_gather),
            send,
            receive,
            Tolerance::Exactly,
        )
    }

    /// Part `i` of what rank `j` sends is part `j` of what rank `i` receives.
    pub fn all_to_all<T: DeviceElement>(send: &[Input<T>], receive: &[Output<T>]) -> Collective {
        Collective::new(
            ("all-to-all", Nccl::all_to_all),
            send,
            receive,
            Tolerance::Exactly,
        )
    }

    fn new<T: DeviceElement>(
        (name, call): (&'static str, OfNccl<T>),
        send: &[Input<T>],
        receive: &[Output<T>],
        tolerance: Tolerance,
    ) -> Collective {
        let (send, receive) = (send.to_vec(), receive.to_vec());
        let of_ranks = move |nccl: &Nccl, world: &World, copy: usize| {
            let devices = || world.devices().iter();
            let from = send
                .iter()
                .zip(devices())
                .map(|(x, device)| x.copy_on_device(device, copy));
            let from: Vec<Arc<Buffer<T>>> = from.collect::<Result<_>>()?;
            let to = receive
                .iter()
                .zip(devices())
                .map(|(x, device)| x.copy_on_device(device, copy));
            let to: Vec<Arc<Buffer<T>>> = to.collect::<Result<_>>()?;
            let from: Vec<&Buffer<T>> = from.iter().map(|buffer| &**buffer).collect();
            let to: Vec<&Buffer<T>> = to.iter().map(|buffer| &**buffer).collect();
            call(nccl, world, &from, &to)
        };
        Collective {
            call: Arc::new(of_ranks),
            name,
            tolerance,
        }
    }

    /// How far its results may be from a kernel's.
    pub(super) fn tolerance(&self) -> Tolerance {
        self.tolerance
    }

    /// NCCL on a world, tried once with each copy of the tensors.
    pub(super) fn rivals(&self, world: &Arc<World>, copies: usize) -> Rivals {
        let mut rivals = Rivals::default();
        match self.rival(world, copies) {
            Ok(rival) => rivals.found.push(rival),
            Err(why) => rivals.notes.push(format!("NCCL is not timed: {why}")),
        }
        rivals
    }

    fn rival(&self, world: &Arc<World>, copies: usize) -> Result<Rival> {
        let (nccl, world, call) = (Nccl::new(world)?, Arc::clone(world), Arc::clone(&self.call));
        for copy in 0..copies {
            call(&nccl, &world, copy)?;
        }
        world.synchronize()?;
        Ok(Rival {
            name: format!("NCCL {} {}", nccl.version(), self.name),
            family: None,
            launch: Box::new(move |_, copy| call(&nccl, &world, copy)),
        })
    }
}

/// A library may round a sum to the element type at each rank, in any order.
fn of_sums<T: DeviceElement>(ranks: usize) -> Tolerance {
    let half_ulp = match size_of::<T>() {
        1 => 2f64.powi(-3),
        2 => 2f64.powi(-8),
        4 => 2f64.powi(-24),
        _ => 2f64.powi(-53),
    };
    let relative = half_ulp * ranks as f64;
    Tolerance::Close {
        relative,
        // Of terms around 1 that cancel.
        absolute: 4.0 * relative,
    }
}
