//! What happens before, for each lane of a warp: the same for all while they converge, more for those that waited alone.

use crate::machine::order::Clocks;

/// The clocks of the lanes of a warp.
#[derive(Clone, Debug, Default)]
pub(crate) struct LaneClocks {
    /// Those of the lanes that are in no group.
    common: Clocks,
    /// Lanes that know more than others, and what they know.
    groups: Vec<(u32, Clocks)>,
}

impl LaneClocks {
    /// Those of all lanes, if they are alike.
    #[inline(always)]
    pub(crate) fn of_all(&self) -> Option<&Clocks> {
        self.groups.is_empty().then_some(&self.common)
    }

    /// Those of a lane.
    #[inline(always)]
    pub(crate) fn of(&self, lane: usize) -> &Clocks {
        let mut groups = self.groups.iter();
        let own = groups.find(|(lanes, _)| lanes >> lane & 1 != 0);
        own.map_or(&self.common, |(_, clocks)| clocks)
    }

    /// Those of some lanes, each with its lanes.
    pub(crate) fn each(&self, lanes: u32) -> impl Iterator<Item = (u32, &Clocks)> {
        let rest = self.groups.iter().fold(lanes, |rest, (own, _)| rest & !own);
        let common = std::iter::once((rest, &self.common));
        let groups = self
            .groups
            .iter()
            .map(move |(own, clocks)| (own & lanes, clocks));
        common.chain(groups).filter(|(lanes, _)| *lanes != 0)
    }

    /// Some of the lanes that are `alive` learn what the others do not.
    pub(crate) fn acquire(&mut self, lanes: u32, alive: u32, mut learn: impl FnMut(&mut Clocks)) {
        if lanes & alive == alive {
            learn(&mut self.common);
            self.groups.iter_mut().for_each(|(_, clocks)| learn(clocks));
            return;
        }
        self.split(lanes & alive);
        let groups = self.groups.iter_mut();
        let own = groups.filter(|(own, _)| own & lanes != 0);
        own.for_each(|(_, clocks)| learn(clocks));
    }

    /// Makes groups such that each has these lanes or none of them.
    fn split(&mut self, lanes: u32) {
        let mut rest = lanes;
        for index in 0..self.groups.len() {
            let own = self.groups[index].0;
            rest &= !own;
            if own & lanes != 0 && own & !lanes != 0 {
                self.groups[index].0 = own & lanes;
                let clocks = self.groups[index].1.clone();
                self.groups.push((own & !lanes, clocks));
            }
        }
        if rest != 0 {
            self.groups.push((rest, self.common.clone()));
        }
    }

    /// Some of the lanes that are `alive` meet: each knows from now on what one of them knew.
    pub(crate) fn merge(&mut self, lanes: u32, alive: u32) {
        if self.groups.is_empty() {
            return;
        }
        if lanes & alive == alive {
            for (_, clocks) in self.groups.drain(..) {
                self.common.join(&clocks);
            }
            return;
        }
        self.split(lanes & alive);
        let (met, others) = std::mem::take(&mut self.groups)
            .into_iter()
            .partition(|(own, _)| own & lanes != 0);
        self.groups = others;
        let join = |(lanes, mut clocks): (u32, Clocks), (own, other): (u32, Clocks)| {
            clocks.join(&other);
            (lanes | own, clocks)
        };
        let met: Vec<(u32, Clocks)> = met;
        self.groups.extend(met.into_iter().reduce(join));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::order::ActorId;

    const ALL: u32 = u32::MAX;

    /// Which of lanes 0, 1 and 9 know of epoch 4.
    fn know(clocks: &LaneClocks) -> [bool; 3] {
        [0, 1, 9].map(|lane| clocks.of(lane).ordered.includes(ActorId::new(7), 4))
    }

    fn learn(clocks: &mut Clocks) {
        clocks.advance(ActorId::new(7), 4);
    }

    #[test]
    fn what_a_lane_acquires_others_know_when_they_have_met_it() {
        let mut clocks = LaneClocks::default();
        clocks.acquire(0b11, ALL, |_| {});
        clocks.acquire(0b01, ALL, learn);
        assert_eq!(know(&clocks), [true, false, false]);
        assert!(clocks.of_all().is_none());
        clocks.merge(0b11, ALL);
        assert_eq!(know(&clocks), [true, true, false]);
        let lanes: Vec<u32> = clocks.each(0x201).map(|(lanes, _)| lanes).collect();
        assert_eq!(lanes, [0x200, 1]);
        clocks.merge(ALL, ALL);
        assert_eq!(know(&clocks), [true; 3]);
        assert!(clocks.of_all().is_some());
    }

    #[test]
    fn what_all_living_lanes_acquire_makes_no_groups() {
        let mut clocks = LaneClocks::default();
        clocks.acquire(0b11, 0b11, learn);
        assert_eq!(know(&clocks), [true; 3]);
        assert!(clocks.of_all().is_some());
    }
}
