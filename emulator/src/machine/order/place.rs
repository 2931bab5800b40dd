//! Where a thread is, and which threads a strong operation names (PTX ISA 8.5).

use ptx::Scope;

/// A CTA of the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    /// Number of the cluster in the grid. No launch that ends has more than 32 bits can say.
    pub(crate) cluster: u32,
    /// Number of the CTA in its cluster.
    pub(crate) cta: u16,
}

/// Does an operation of this scope, executed at `from`, include threads at `to`?
pub(crate) fn includes(scope: Scope, from: Place, to: Place) -> bool {
    match scope {
        Scope::Cta => from == to,
        Scope::Cluster => from.cluster == to.cluster,
        // There is one device.
        Scope::Gpu | Scope::Sys => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_name_the_cta_the_cluster_and_all() {
        let here = Place { cluster: 3, cta: 1 };
        let beside = Place { cta: 0, ..here };
        let elsewhere = Place { cluster: 2, ..here };
        let check = |scope, expected: [bool; 3]| {
            let found = [here, beside, elsewhere].map(|to| includes(scope, here, to));
            assert_eq!(found, expected, "{scope:?}");
        };
        check(Scope::Cta, [true, false, false]);
        check(Scope::Cluster, [true, true, false]);
        check(Scope::Gpu, [true, true, true]);
        check(Scope::Sys, [true, true, true]);
    }
}
