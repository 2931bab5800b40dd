//! Memory through which the launches of all ranks transfer data.

use tilekit::prelude::*;
use tilekit::{Peers, Symmetric, World};

use super::error::Result;
use super::exchange::{SLOT_BYTES, SLOTS};
use super::form::MOST_RANKS;
use super::packets::{PACKET_SLOTS, PACKETS};
use super::plan::{MOST_CTAS, MOST_PACKET_CTAS};
use super::sentinel::{SENTINEL_SLOTS, WORDS, steps};

/// Staging of launches that signal, for one element type, with counts of its own.
pub(super) struct Staging<T> {
    pub(super) chunks: Symmetric<T>,
    pub(super) counts: Symmetric<i32>,
    pub(super) epochs: Symmetric<i32>,
}

impl<T: DeviceElement> Staging<T> {
    pub(super) fn new(world: &World) -> Result<Staging<T>> {
        let slots = MOST_CTAS * SLOTS * world.ranks();
        Ok(Staging {
            chunks: world.symmetric(slots * (SLOT_BYTES / size_of::<T>()))?,
            counts: world.symmetric(MOST_CTAS * MOST_RANKS)?,
            epochs: world.symmetric(MOST_CTAS)?,
        })
    }
}

/// What a launch passes for an [`Exchange`](super::exchange::Exchange), with the limit of waits and the word that says what a rank waited for.
pub(super) type ExchangeArguments<'s, T, W> = (
    &'s Buffer<T>,
    Peers<'s, T>,
    &'s Buffer<i32>,
    Peers<'s, i32>,
    &'s Buffer<i32>,
    i32,
    (i64, W),
);

/// What a launch passes for a [`PacketExchange`](super::packets::PacketExchange).
pub(super) type PacketArguments<'s, W> = (
    &'s Buffer<u64>,
    Peers<'s, u64>,
    &'s Buffer<i32>,
    i32,
    (i64, W),
);

impl<T: DeviceElement> Staging<T> {
    /// Of a rank.
    pub(super) fn of_rank<W>(&self, rank: usize, limit: (i64, W)) -> ExchangeArguments<'_, T, W> {
        (
            self.chunks.part(rank),
            self.chunks.peers(rank),
            self.counts.part(rank),
            self.counts.peers(rank),
            self.epochs.part(rank),
            rank as i32,
            limit,
        )
    }
}

impl PacketStaging {
    /// Of a rank.
    pub(super) fn of_rank<W>(&self, rank: usize, limit: (i64, W)) -> PacketArguments<'_, W> {
        (
            self.packets.part(rank),
            self.packets.peers(rank),
            self.epochs.part(rank),
            rank as i32,
            limit,
        )
    }
}

/// Staging of packets, which are the same for all element types.
pub(super) struct PacketStaging {
    pub(super) packets: Symmetric<u64>,
    pub(super) epochs: Symmetric<i32>,
}

impl PacketStaging {
    pub(super) fn new(world: &World) -> Result<PacketStaging> {
        let slots = MOST_PACKET_CTAS * PACKET_SLOTS * world.ranks();
        Ok(PacketStaging {
            packets: world.symmetric(slots * PACKETS)?,
            epochs: world.symmetric(MOST_PACKET_CTAS)?,
        })
    }

    /// Of sums, in one step or two.
    pub(super) fn of_sentinels(world: &World, is_two_shot: bool) -> Result<PacketStaging> {
        let slots = MOST_PACKET_CTAS * SENTINEL_SLOTS * world.ranks() * steps(is_two_shot);
        Ok(PacketStaging {
            packets: world.symmetric(slots * WORDS)?,
            epochs: world.symmetric(MOST_PACKET_CTAS * WORDS)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collectives::plan::{BYTES_PER_US, START_US};

    #[test]
    fn the_functions_of_python_make_memory_of_the_same_sizes() {
        let python = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../python");
        // A package of this crate alone is without them.
        if !python.exists() {
            return;
        }
        let path = python.join("emulate/python/tilekit/kernels/collectives.py");
        let text = std::fs::read_to_string(path).expect("the functions of Python");
        let sizes = format!("SLOTS, SLOT_BYTES, MOST_CTAS = {SLOTS}, {SLOT_BYTES}, {MOST_CTAS}");
        let of_packets = format!(
            "PACKETS, PACKET_SLOTS, MOST_PACKET_CTAS = {PACKETS}, {PACKET_SLOTS}, {MOST_PACKET_CTAS}"
        );
        let of_sentinels = format!("WORDS, SENTINEL_SLOTS = {WORDS}, {SENTINEL_SLOTS}");
        let [packets, one, two, sentinel, sentinel_two] = START_US;
        let model = format!(
            "START_US, BYTES_PER_US = ({packets:?}, {one:?}, {two:?}, {sentinel:?}, {sentinel_two:?}), {BYTES_PER_US:?}"
        );
        for said in [sizes, of_packets, of_sentinels, model] {
            assert!(text.contains(&said), "{said}");
        }
        let path = python.join("emulate/python/tilekit/kernels/_ranks.py");
        let text = std::fs::read_to_string(path).expect("what the functions share");
        assert!(text.contains(&format!("MOST_RANKS = {MOST_RANKS}\n")));
    }
}
