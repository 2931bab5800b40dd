//! The clocks that strong writes have released at an address, and the threads that may acquire them (PTX ISA 8.8 and 8.9).

use super::clocks::{Clocks, Foreign};
use super::place::{Place, includes};
use crate::program::Strong;
use ptx::Scope;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// One release pattern: its clocks, the scope that all its operations include, and where it was executed.
#[derive(Clone, Debug)]
struct Release {
    scope: Scope,
    from: Place,
    known: Foreign,
}

/// The release patterns that a read of an address synchronizes with.
#[derive(Clone, Debug, Default)]
pub(crate) struct Releases {
    each: SmallVec<[Release; 1]>,
    /// Releases at `.gpu` scope or wider, joined for each device: many CTAs may have arrived at a counter that many poll.
    wide: SmallVec<[Wide; 1]>,
    /// Unique to this address and its last write.
    version: u64,
}

/// What the CTAs of a device have released at `.gpu` scope or wider.
#[derive(Clone, Debug, Default)]
struct Wide {
    device: u16,
    /// To the CTAs of the same device.
    to_device: Foreign,
    /// To those of the other devices too.
    to_system: Foreign,
}

/// The next [`Releases::version`]; that of an address which was never written is zero.
static VERSIONS: AtomicU64 = AtomicU64::new(1);

/// The effect of a warp's fences on its later strong operations.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fences {
    /// For each of [`SCOPES`], the clocks that strong writes after the last fence of that scope release, if there was one.
    released: [Option<Foreign>; 4],
    /// The releases that strong reads have observed and that no fence has acquired yet, by the place of the writer.
    observed: BTreeMap<Place, Foreign>,
    /// The last acquire of the warp: the [`Releases::version`] and the scope.
    acquired: Option<(u64, Scope)>,
    /// The lanes that acquired it.
    lanes: u32,
}

/// The scopes, each wider than the one before it.
const SCOPES: [Scope; 4] = [Scope::Cta, Scope::Cluster, Scope::Gpu, Scope::Sys];

/// The number of scopes that are no wider than this one.
fn covered(scope: Scope) -> usize {
    match scope {
        Scope::Cta => 1,
        Scope::Cluster => 2,
        Scope::Gpu => 3,
        Scope::Sys => 4,
    }
}

/// Does a scope include every thread of the device?
fn is_of_device(scope: Scope) -> bool {
    matches!(scope, Scope::Gpu | Scope::Sys)
}

impl Fences {
    /// Begins strong reads by these lanes: an acquire by other lanes does not count for them.
    pub(crate) fn read_by(&mut self, lanes: u32) {
        if self.lanes != lanes {
            (self.lanes, self.acquired) = (lanes, None);
        }
    }

    /// Forgets the last acquire: other lanes have yet to make it.
    pub(crate) fn acquire_again(&mut self) {
        self.acquired = None;
    }

    /// A fence with release semantics: later strong writes release what happens before it.
    pub(crate) fn release(&mut self, clocks: &Clocks, place: Place, scope: Scope) {
        let known = clocks.released(place.cluster);
        self.released[..covered(scope)].fill(Some(known));
    }

    /// A fence with acquire semantics: what earlier strong reads observed happens before the accesses after it.
    pub(crate) fn acquire(&mut self, clocks: &mut Clocks, place: Place, scope: Scope) {
        self.observed.retain(|&from, known| {
            let is_acquired = includes(scope, place, from);
            if is_acquired {
                clocks.acquire(known, place.cluster);
            }
            !is_acquired
        });
    }
}

impl Releases {
    /// A strong write. A read-modify-write continues the release sequence; any other write ends it.
    pub(crate) fn write(
        &mut self,
        (strong, from): (Strong, Place),
        reads: bool,
        (clocks, fences): (&Clocks, &Fences),
    ) {
        if !reads {
            *self = Releases::default();
        }
        self.version = VERSIONS.fetch_add(1, Ordering::Relaxed);
        let scopes = covered(strong.scope);
        if strong.releases {
            self.publish(strong.scope, from, clocks.released(from.cluster));
            return;
        }
        // The widest scope comes last, so that it is the one that remains where one fence covers several.
        for (scope, known) in SCOPES[..scopes].iter().zip(&fences.released) {
            if let Some(known) = known {
                self.publish(*scope, from, known.clone());
            }
        }
    }

    fn publish(&mut self, scope: Scope, from: Place, known: Foreign) {
        if is_of_device(scope) && !from.is_host() {
            let wide = self.wide_of(from.device);
            wide.to_device.join(&known);
            if scope == Scope::Sys {
                wide.to_system.join(&known);
            }
        }
        let same = |old: &&mut Release| old.scope == scope && old.from == from;
        match self.each.iter_mut().find(same) {
            Some(old) => old.known.join(&known),
            None => self.each.push(Release { scope, from, known }),
        }
    }

    fn wide_of(&mut self, device: u16) -> &mut Wide {
        let known = self.wide.iter().position(|wide| wide.device == device);
        let at = known.unwrap_or_else(|| {
            self.wide.push(Wide {
                device,
                ..Wide::default()
            });
            self.wide.len() - 1
        });
        &mut self.wide[at]
    }

    /// An acquire of all that is released at `.gpu` scope or wider to a place.
    fn acquire_wide(&self, scope: Scope, place: Place, clocks: &mut Clocks) {
        for wide in &self.wide {
            if wide.device == place.device {
                clocks.acquire(&wide.to_device, place.cluster);
            } else if scope == Scope::Sys {
                clocks.acquire(&wide.to_system, place.cluster);
            }
        }
    }

    /// A strong read of the address.
    pub(crate) fn read(
        &self,
        (strong, place): (Strong, Place),
        clocks: &mut Clocks,
        fences: &mut Fences,
    ) {
        let acquires_all = strong.acquires && is_of_device(strong.scope) && !place.is_host();
        if acquires_all {
            // A polling warp has already acquired this version.
            let acquired = Some((self.version, strong.scope));
            if fences.acquired == acquired {
                return;
            }
            fences.acquired = acquired;
            self.acquire_wide(strong.scope, place, clocks);
        }
        for release in &self.each {
            if acquires_all && is_of_device(release.scope) && !release.from.is_host() {
                continue;
            }
            let is_mutual = includes(release.scope, release.from, place)
                && includes(strong.scope, place, release.from);
            if !is_mutual {
                continue;
            }
            if strong.acquires {
                clocks.acquire(&release.known, place.cluster);
            } else {
                let observed = fences.observed.entry(release.from).or_default();
                observed.join(&release.known);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::order::ActorId;

    const fn place(cluster: u32, cta: u16) -> Place {
        Place {
            cluster,
            cta,
            device: 0,
        }
    }

    const WRITER: Place = place(3, 1);
    const BESIDE: Place = place(3, 0);
    const ELSEWHERE: Place = place(5, 1);

    fn strong(scope: Scope) -> Strong {
        Strong {
            scope,
            acquires: false,
            releases: false,
        }
    }

    fn releasing(scope: Scope) -> Strong {
        Strong {
            releases: true,
            ..strong(scope)
        }
    }

    fn acquiring(scope: Scope) -> Strong {
        Strong {
            acquires: true,
            ..strong(scope)
        }
    }

    fn written() -> Clocks {
        let mut clocks = Clocks::default();
        clocks.advance(ActorId::new(7), 4);
        clocks
    }

    /// Do the clocks of a warp at `place` include the writer's epoch?
    fn knows(clocks: &Clocks, place: Place) -> bool {
        let of_writer = if place.cluster == WRITER.cluster {
            Some(clocks)
        } else {
            clocks.foreign.of(WRITER.cluster)
        };
        of_writer.is_some_and(|clocks| clocks.visible.includes(ActorId::new(7), 4))
    }

    fn read(releases: &Releases, by: (Strong, Place)) -> bool {
        let (mut clocks, mut fences) = (Clocks::default(), Fences::default());
        releases.read(by, &mut clocks, &mut fences);
        knows(&clocks, by.1)
    }

    fn after(write: Strong, fences: &Fences) -> Releases {
        let mut releases = Releases::default();
        releases.write((write, WRITER), false, (&written(), fences));
        releases
    }

    #[test]
    fn an_acquire_observes_a_release_when_each_scope_includes_the_other() {
        let check = |write, by: (Strong, Place), expected| {
            let releases = after(write, &Fences::default());
            assert_eq!(read(&releases, by), expected, "{write:?}, {by:?}");
        };
        check(
            releasing(Scope::Gpu),
            (acquiring(Scope::Gpu), ELSEWHERE),
            true,
        );
        check(
            releasing(Scope::Gpu),
            (strong(Scope::Gpu), ELSEWHERE),
            false,
        );
        check(
            strong(Scope::Gpu),
            (acquiring(Scope::Gpu), ELSEWHERE),
            false,
        );
        check(
            releasing(Scope::Cta),
            (acquiring(Scope::Gpu), ELSEWHERE),
            false,
        );
        check(
            releasing(Scope::Gpu),
            (acquiring(Scope::Cta), ELSEWHERE),
            false,
        );
        check(
            releasing(Scope::Cluster),
            (acquiring(Scope::Cluster), BESIDE),
            true,
        );
        check(
            releasing(Scope::Cta),
            (acquiring(Scope::Gpu), BESIDE),
            false,
        );
        check(releasing(Scope::Cta), (acquiring(Scope::Cta), WRITER), true);
    }

    #[test]
    fn only_system_scope_on_both_sides_reaches_another_device() {
        let peer = Place {
            cluster: 8,
            cta: 0,
            device: 1,
        };
        for (write, by, expected) in [
            (Scope::Sys, Scope::Sys, true),
            (Scope::Gpu, Scope::Sys, false),
            (Scope::Sys, Scope::Gpu, false),
            (Scope::Gpu, Scope::Gpu, false),
        ] {
            let releases = after(releasing(write), &Fences::default());
            assert_eq!(read(&releases, (acquiring(by), peer)), expected);
            assert!(read(&releases, (acquiring(by), ELSEWHERE)));
            // The same by a relaxed read and a fence.
            let (mut clocks, mut fences) = (Clocks::default(), Fences::default());
            releases.read((strong(by), peer), &mut clocks, &mut fences);
            fences.acquire(&mut clocks, peer, by);
            assert_eq!(knows(&clocks, peer), expected, "{write:?} {by:?}");
        }
    }

    #[test]
    fn fences_make_patterns_of_relaxed_operations() {
        let check = |fence, write, by: Strong, fence_of_reader, expected| {
            let mut fences = Fences::default();
            fences.release(&written(), WRITER, fence);
            let releases = after(strong(write), &fences);
            let (mut clocks, mut fences) = (Clocks::default(), Fences::default());
            releases.read((by, ELSEWHERE), &mut clocks, &mut fences);
            assert!(by.acquires || !knows(&clocks, ELSEWHERE));
            fences.acquire(&mut clocks, ELSEWHERE, fence_of_reader);
            assert_eq!(
                knows(&clocks, ELSEWHERE),
                expected,
                "{fence:?} {write:?} {by:?}"
            );
        };
        let relaxed = strong(Scope::Gpu);
        check(Scope::Gpu, Scope::Gpu, relaxed, Scope::Gpu, true);
        check(
            Scope::Gpu,
            Scope::Gpu,
            acquiring(Scope::Gpu),
            Scope::Cta,
            true,
        );
        check(Scope::Cta, Scope::Gpu, relaxed, Scope::Gpu, false);
        check(Scope::Gpu, Scope::Cta, relaxed, Scope::Gpu, false);
        check(
            Scope::Gpu,
            Scope::Gpu,
            strong(Scope::Cta),
            Scope::Gpu,
            false,
        );
        check(Scope::Gpu, Scope::Gpu, relaxed, Scope::Cta, false);
    }

    #[test]
    fn a_warp_that_polls_acquires_each_release_anew() {
        let reader = ELSEWHERE;
        let (mut clocks, mut fences) = (Clocks::default(), Fences::default());
        let mut releases = Releases::default();
        let other = place(9, 0);
        let nothing = (&Clocks::default(), &Fences::default());
        releases.write((releasing(Scope::Gpu), other), true, nothing);
        let by = (acquiring(Scope::Gpu), reader);
        releases.read(by, &mut clocks, &mut fences);
        assert!(!knows(&clocks, reader));
        let written = (&written(), &Fences::default());
        releases.write((releasing(Scope::Gpu), WRITER), true, written);
        releases.read(by, &mut clocks, &mut fences);
        assert!(knows(&clocks, reader));
        // An acquire at one address does not count for another.
        let elsewhere = after(releasing(Scope::Gpu), &Fences::default());
        let mut third = Clocks::default();
        elsewhere.read(by, &mut third, &mut fences);
        assert!(knows(&third, reader));
    }

    #[test]
    fn an_acquire_by_some_lanes_does_not_count_for_others() {
        let releases = after(releasing(Scope::Gpu), &Fences::default());
        let acquires = |fences: &mut Fences| {
            let mut clocks = Clocks::default();
            releases.read((acquiring(Scope::Gpu), ELSEWHERE), &mut clocks, fences);
            knows(&clocks, ELSEWHERE)
        };
        let mut fences = Fences::default();
        fences.read_by(0b01);
        assert!(acquires(&mut fences));
        fences.read_by(0b01);
        assert!(!acquires(&mut fences), "the same lanes have acquired it");
        fences.read_by(0b10);
        assert!(acquires(&mut fences));
        fences.acquire_again();
        assert!(acquires(&mut fences));
    }

    #[test]
    fn narrow_releases_of_two_ctas_stay_apart_and_wide_ones_are_joined() {
        let mut releases = Releases::default();
        let nothing = (&Clocks::default(), &Fences::default());
        releases.write((releasing(Scope::Cta), BESIDE), true, nothing);
        for _ in 0..2 {
            let written = (&written(), &Fences::default());
            releases.write((releasing(Scope::Cta), WRITER), true, written);
        }
        assert_eq!(releases.each.len(), 2);
        assert!(!read(&releases, (acquiring(Scope::Cta), BESIDE)));
        assert!(read(&releases, (acquiring(Scope::Cta), WRITER)));
        // A warp that polls acquires the releases of all CTAs at once.
        assert!(releases.wide.is_empty());
        let wide = after(releasing(Scope::Gpu), &Fences::default());
        assert!(wide.wide[0].to_device.of(WRITER.cluster).is_some());
        assert!(wide.wide[0].to_system.of(WRITER.cluster).is_none());
    }

    #[test]
    fn a_later_release_of_a_cta_adds_to_its_first() {
        let mut releases = after(releasing(Scope::Gpu), &Fences::default());
        let nothing = (&Clocks::default(), &Fences::default());
        releases.write((releasing(Scope::Gpu), WRITER), true, nothing);
        let (mut clocks, mut fences) = (Clocks::default(), Fences::default());
        releases.read((strong(Scope::Gpu), ELSEWHERE), &mut clocks, &mut fences);
        fences.acquire(&mut clocks, ELSEWHERE, Scope::Gpu);
        assert!(knows(&clocks, ELSEWHERE));
    }

    #[test]
    fn a_narrow_fence_leaves_what_a_wide_one_must_acquire() {
        let releases = after(releasing(Scope::Gpu), &Fences::default());
        let (mut clocks, mut fences) = (Clocks::default(), Fences::default());
        releases.read((strong(Scope::Gpu), ELSEWHERE), &mut clocks, &mut fences);
        fences.acquire(&mut clocks, ELSEWHERE, Scope::Cta);
        assert!(!knows(&clocks, ELSEWHERE));
        fences.acquire(&mut clocks, ELSEWHERE, Scope::Gpu);
        assert!(knows(&clocks, ELSEWHERE));
    }

    #[test]
    fn what_comes_after_a_wide_fence_is_not_released_by_it() {
        let mut fences = Fences::default();
        fences.release(&Clocks::default(), WRITER, Scope::Gpu);
        fences.release(&written(), WRITER, Scope::Cta);
        let releases = after(strong(Scope::Gpu), &fences);
        assert!(!read(&releases, (acquiring(Scope::Gpu), ELSEWHERE)));
        assert!(read(&releases, (acquiring(Scope::Gpu), WRITER)));
    }

    #[test]
    fn a_store_of_one_address_hides_what_fences_released_there() {
        let mut fences = Fences::default();
        fences.release(&written(), WRITER, Scope::Gpu);
        let mut releases = after(strong(Scope::Gpu), &fences);
        assert!(read(&releases, (acquiring(Scope::Gpu), ELSEWHERE)));
        let nothing = (&Clocks::default(), &Fences::default());
        releases.write((strong(Scope::Gpu), ELSEWHERE), false, nothing);
        let third = place(9, 0);
        assert!(!read(&releases, (acquiring(Scope::Gpu), third)));
        assert!(!read(&releases, (strong(Scope::Gpu), third)));
    }

    #[test]
    fn a_read_modify_write_continues_a_release_and_a_store_hides_it() {
        for reads in [true, false] {
            let mut releases = after(releasing(Scope::Gpu), &Fences::default());
            let nothing = (&Clocks::default(), &Fences::default());
            releases.write((strong(Scope::Gpu), ELSEWHERE), reads, nothing);
            let third = place(9, 0);
            assert_eq!(read(&releases, (acquiring(Scope::Gpu), third)), reads);
        }
    }
}
