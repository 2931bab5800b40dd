//! Finding the allocation of an address.

use super::allocation::Allocation;
use std::sync::Arc;

/// How many freed ranges are remembered for messages.
const REMEMBERED: usize = 64;

/// Allocations by address, and the ranges that were freed lately.
#[derive(Clone, Debug, Default)]
pub(crate) struct AllocationMap {
    sorted: Vec<Arc<Allocation>>,
    freed: Vec<(u64, u64)>,
}

impl AllocationMap {
    /// Adds an allocation; addresses only grow, so it is the last.
    pub(crate) fn insert(&mut self, allocation: Arc<Allocation>) {
        self.sorted.push(allocation);
    }

    /// The allocations of several devices, in the order of their addresses.
    pub(crate) fn merged<'a>(maps: impl Iterator<Item = &'a Arc<Self>>) -> Self {
        let mut all = Self::default();
        for map in maps {
            all.sorted.extend(map.sorted.iter().cloned());
            all.freed.extend(&map.freed);
        }
        all
    }

    /// Takes out the allocation that starts at `base`.
    pub(crate) fn remove(&mut self, base: u64) -> Option<Arc<Allocation>> {
        let index = self
            .sorted
            .binary_search_by_key(&base, |allocation| allocation.base)
            .ok()?;
        let allocation = self.sorted.remove(index);
        if self.freed.len() == REMEMBERED {
            self.freed.remove(0);
        }
        self.freed.push((allocation.base, allocation.bytes));
        Some(allocation)
    }

    /// All allocations, by address.
    pub(crate) fn list(&self) -> &[Arc<Allocation>] {
        &self.sorted
    }

    /// Number of the allocation that holds all of `bytes` bytes at `address`.
    pub(crate) fn find(&self, address: u64, bytes: u64) -> Option<usize> {
        let index = self
            .sorted
            .partition_point(|allocation| allocation.base <= address)
            .checked_sub(1)?;
        let allocation = &self.sorted[index];
        let inside = address - allocation.base <= allocation.bytes
            && bytes <= allocation.bytes - (address - allocation.base);
        inside.then_some(index)
    }

    /// Says where the nearest allocation is, and by how much an access misses it.
    pub(crate) fn describe(&self, address: u64, bytes: u64) -> String {
        if let Some((base, size)) = self
            .freed
            .iter()
            .find(|(base, size)| (*base..base + size).contains(&address))
        {
            let offset = address - base;
            return format!(
                "it was byte {offset} of an allocation of {size} bytes that has been freed"
            );
        }
        let after = self
            .sorted
            .partition_point(|allocation| allocation.base <= address);
        let below = after.checked_sub(1).map(|index| &self.sorted[index]);
        let above = self.sorted.get(after);
        let past = below.map(|b| address.saturating_add(bytes).saturating_sub(b.end()));
        let before = above.map(|a| a.base - address);
        match (below, above) {
            (Some(b), _) if before.is_none_or(|before| past.is_some_and(|past| past <= before)) => {
                let past = past.unwrap_or(0);
                format!(
                    "it ends {past} bytes past the end of the allocation of {} bytes at {:#x}",
                    b.bytes, b.base
                )
            }
            (_, Some(a)) => {
                let before = before.unwrap_or(0);
                format!(
                    "it is {before} bytes before the allocation of {} bytes at {:#x}",
                    a.bytes, a.base
                )
            }
            _ => "there are no allocations".to_owned(),
        }
    }
}
