//! How many CTAs of a kernel an SM holds at a time.

use crate::Target;

/// What keeps an SM from holding more CTAs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limiter {
    /// Its threads.
    Threads,
    /// Its registers.
    Registers,
    /// Its shared memory.
    SharedMemory,
    /// The number of CTAs itself.
    Ctas,
}

impl Limiter {
    /// In words.
    pub const fn text(self) -> &'static str {
        match self {
            Limiter::Threads => "threads",
            Limiter::Registers => "registers",
            Limiter::SharedMemory => "shared memory",
            Limiter::Ctas => "the number of CTAs",
        }
    }
}

/// How many CTAs an SM holds at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Occupancy {
    /// CTAs of an SM; 0 where not even one fits.
    pub ctas: u32,
    /// Their warps.
    pub warps: u32,
    /// Warps that an SM can hold.
    pub most_warps: u32,
    /// What keeps it from more.
    pub limiter: Limiter,
}

impl Target {
    /// CTAs of `threads` threads with `registers` each and `shared_bytes` of shared memory, static and dynamic together, that an SM
    /// holds at a time. A warp is given registers in units of 256 (CUDA occupancy calculator).
    pub fn occupancy(&self, threads: u32, registers: u32, shared_bytes: u32) -> Occupancy {
        let warps = threads.div_ceil(32).max(1);
        let of_warp = (registers.max(1) * 32).next_multiple_of(self.registers.unit * 32);
        let taken = shared_bytes + self.sm.reserved_shared_bytes_per_cta;
        let taken = taken.next_multiple_of(self.sm.shared_unit_bytes).max(1);
        let limits = [
            (self.sm.threads / (warps * 32), Limiter::Threads),
            (self.sm.registers / (of_warp * warps), Limiter::Registers),
            (self.sm.shared_bytes / taken, Limiter::SharedMemory),
            (self.sm.ctas, Limiter::Ctas),
        ];
        let least = limits.into_iter().min_by_key(|(ctas, _)| *ctas);
        let (ctas, limiter) = least.unwrap_or((0, Limiter::Ctas));
        Occupancy {
            ctas,
            warps: ctas * warps,
            most_warps: self.sm.threads / 32,
            limiter,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Limiter;
    use crate::SM_90A;

    #[track_caller]
    fn check(threads: u32, registers: u32, shared_bytes: u32, expected: (u32, Limiter)) {
        let found = SM_90A.occupancy(threads, registers, shared_bytes);
        assert_eq!((found.ctas, found.limiter), expected);
        assert_eq!(found.warps, found.ctas * threads.div_ceil(32));
    }

    #[test]
    fn the_scarcest_limits() {
        check(128, 32, 0, (16, Limiter::Threads));
        check(128, 33, 0, (12, Limiter::Registers));
        check(128, 255, 0, (2, Limiter::Registers));
        check(384, 168, 0, (1, Limiter::Registers));
        check(32, 16, 0, (32, Limiter::Ctas));
        check(128, 32, 113 << 10, (2, Limiter::SharedMemory));
        check(128, 32, 227 << 10, (1, Limiter::SharedMemory));
        check(1024, 65, 0, (0, Limiter::Registers));
    }
}
