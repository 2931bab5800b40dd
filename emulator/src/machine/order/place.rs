//! Where a thread is executed, and which threads the scope of a strong operation includes (PTX ISA 8.5).
//!
//! Devices that run as one number their clusters on, so that a number names one cluster of all of them. The host is a place of its own, on a
//! device of its own: it accesses mapped memory while a launch is running. Only `.sys` scope includes other devices and the host.

use ptx::Scope;

/// A CTA of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    /// Number of the cluster: its index in the grid, after the clusters of the devices before this one. 32 bits suffice: the emulator would
    /// not finish a larger launch.
    pub(crate) cluster: u32,
    /// Rank of the CTA in its cluster.
    pub(crate) cta: u16,
    /// Rank of the device.
    pub(crate) device: u16,
}

impl Place {
    /// The threads of the host, which count as one. No cluster has this index.
    pub(crate) const HOST: Self = Self {
        cluster: u32::MAX,
        cta: 0,
        device: u16::MAX,
    };

    pub(crate) fn is_host(self) -> bool {
        self == Self::HOST
    }
}

/// Does an operation of this scope, executed at `from`, include threads at `to`?
pub(crate) fn includes(scope: Scope, from: Place, to: Place) -> bool {
    match scope {
        Scope::Cta => from == to,
        Scope::Cluster => from.cluster == to.cluster,
        Scope::Gpu => from.device == to.device,
        Scope::Sys => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_name_the_cta_the_cluster_the_device_and_all() {
        let here = Place {
            cluster: 3,
            cta: 1,
            device: 0,
        };
        let beside = Place { cta: 0, ..here };
        let elsewhere = Place { cluster: 2, ..here };
        let peer = Place {
            cluster: 9,
            device: 1,
            ..here
        };
        let check = |scope, expected: [bool; 5]| {
            let found = [here, beside, elsewhere, peer, Place::HOST];
            assert_eq!(
                found.map(|to| includes(scope, here, to)),
                expected,
                "{scope:?}"
            );
            assert_eq!(
                found.map(|to| includes(scope, to, here)),
                expected,
                "{scope:?}"
            );
        };
        check(Scope::Cta, [true, false, false, false, false]);
        check(Scope::Cluster, [true, true, false, false, false]);
        check(Scope::Gpu, [true, true, true, false, false]);
        check(Scope::Sys, [true; 5]);
    }
}
