//! Peers of a launch: made ready, checked against the kernel's own results, and timed with it.

use std::any::Any;

use super::bed::Bed;
use super::bench::{BenchOptions, Contest, Contestant, Part, Timing, Track};
use super::outputs::Outputs;
use super::tolerance::Tolerance;
use crate::code::PreparedLaunch;
use crate::error::{Error, Result};
use crate::peer::{LaunchCopy, Peer, Rivals};
use crate::stream::Stream;

/// What is timed beside the next launch of a case.
pub(super) enum Beside {
    Peer(Peer),
    Kernel {
        name: String,
        tolerance: Tolerance,
        copies: Vec<PreparedLaunch>,
    },
    /// The launches themselves, each after the end of the one before.
    WithoutOverlap {
        name: String,
        launch: LaunchCopy<'static>,
    },
    /// What a peer offers on all ranks.
    OnRanks {
        tolerance: Option<Tolerance>,
        rivals: Rivals,
    },
}

/// Launches that are to be timed, with what is timed beside them.
pub(super) struct Match<'a> {
    pub(super) bed: &'a Bed,
    pub(super) track: Track<'a>,
    pub(super) options: BenchOptions,
    pub(super) name: String,
    /// How many of the launches overlap the one in front.
    pub(super) overlapping: usize,
    pub(super) launch: LaunchCopy<'static>,
    /// Its launches one by one, where they are counted.
    pub(super) parts: Vec<Part<'static>>,
    pub(super) copies: usize,
    pub(super) beside: Vec<Beside>,
    pub(super) outputs: &'a Outputs,
}

impl Match<'_> {
    /// Checks every peer against the kernel, then times all.
    pub(super) fn time(self) -> Result<Timing> {
        let Match {
            bed,
            track,
            options,
            name,
            overlapping,
            launch,
            parts,
            copies: count,
            beside,
            outputs,
        } = self;
        let mut notes = Vec::new();
        let mut contestants = vec![Contestant {
            name,
            family: None,
            check: None,
            overlapping,
            launch,
            parts,
        }];
        let mut checker = None;
        for peer in beside {
            let tolerance = peer.tolerance();
            let is_library = matches!(peer, Beside::Peer(_));
            let Rivals { found, notes: said } = peer.rivals(track.stream(), count);
            notes.extend(said);
            if !found.is_empty() && tolerance.is_some() && checker.is_none() {
                checker = Some(Checker::new(&contestants[0], track, bed, outputs)?);
            }
            for rival in found {
                let mut contestant = Contestant {
                    name: rival.name,
                    family: rival.family,
                    check: None,
                    overlapping: 0,
                    launch: rival.launch,
                    parts: Vec::new(),
                };
                if let (Some(checker), Some(tolerance)) = (&checker, tolerance) {
                    contestant.check = Some(checker.check(&contestant, tolerance, is_library)?);
                }
                contestants.push(contestant);
            }
        }
        let timing = (options, bed.launch_limit);
        let contest = Contest::new(track, contestants, count, timing);
        contest.hold(notes)
    }
}

impl Beside {
    /// The peer, if it is one.
    pub(super) fn into_peer(self) -> Option<Peer> {
        match self {
            Beside::Peer(peer) => Some(peer),
            _ => None,
        }
    }

    /// How far its results may be from the kernel's; none if they are not compared.
    fn tolerance(&self) -> Option<Tolerance> {
        match self {
            Beside::Peer(peer) => peer.tolerance(),
            Beside::Kernel { tolerance, .. } => Some(*tolerance),
            // Sums by atomics come out otherwise each time; what overlaps too early is further off.
            Beside::WithoutOverlap { .. } => Some(Tolerance::Frobenius(1e-2)),
            Beside::OnRanks { tolerance, .. } => *tolerance,
        }
    }

    fn rivals(self, stream: &Stream, copies: usize) -> Rivals {
        match self {
            Beside::Peer(peer) => peer.rivals(stream, copies),
            Beside::Kernel {
                name,
                copies: launches,
                ..
            } => Rivals::of_kernel(name, in_order(vec![launches])),
            Beside::WithoutOverlap { name, launch } => Rivals::of_kernel(name, launch),
            Beside::OnRanks { rivals, .. } => rivals,
        }
    }
}

/// One launch after the other, all with one copy of the tensors.
pub(super) fn in_order(links: Vec<Vec<PreparedLaunch>>) -> LaunchCopy<'static> {
    Box::new(move |stream, copy| links.iter().try_for_each(|link| link[copy].launch(stream)))
}

/// The kernel's own results, and what compares others with them.
struct Checker<'a> {
    track: Track<'a>,
    bed: &'a Bed,
    outputs: &'a Outputs,
    results: Vec<Box<dyn Any>>,
}

impl<'a> Checker<'a> {
    fn new(
        ours: &Contestant<'_>,
        track: Track<'a>,
        bed: &'a Bed,
        outputs: &'a Outputs,
    ) -> Result<Checker<'a>> {
        let mut checker = Checker {
            track,
            bed,
            outputs,
            results: Vec::new(),
        };
        checker.run(ours)?;
        let elements = outputs.iter().map(|output| output.elements(&bed.device));
        checker.results = elements.collect::<Result<_>>()?;
        Ok(checker)
    }

    fn run(&self, contestant: &Contestant<'_>) -> Result<()> {
        self.outputs.set_back(&self.bed.device)?;
        (contestant.launch)(self.track.stream(), 0)?;
        self.track.synchronize()
    }

    /// How its results agree, with the norm. A library knows nothing of outputs that are the kernel's own, such as a counter; one that writes none is compared.
    fn check(
        &self,
        contestant: &Contestant<'_>,
        tolerance: Tolerance,
        is_library: bool,
    ) -> Result<String> {
        self.run(contestant)?;
        let device = &self.bed.device;
        let untouched = self
            .outputs
            .iter()
            .map(|output| output.is_untouched(device));
        let untouched = untouched.collect::<Result<Vec<bool>>>()?;
        let leaves = is_library && untouched.contains(&false);
        let mut said = Vec::new();
        for (at, (output, want)) in self.outputs.iter().zip(&self.results).enumerate() {
            if leaves && untouched[at] {
                continue;
            }
            let compared = output.compare(device, want.as_ref(), tolerance)?;
            let agreement = compared.map_err(|mismatch| Error::PeerDisagrees {
                peer: contestant.name.clone(),
                mismatch,
            })?;
            said.push(agreement.to_string());
        }
        Ok(said.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::shape::Shape;
    use super::super::tensor::Output;
    use super::*;
    use crate::device::Device;

    /// Writes to the outputs whose numbers it has.
    fn writer(device: &Device, outputs: &[(Output<i32>, i32)]) -> Contestant<'static> {
        let (device, outputs) = (device.clone(), outputs.to_vec());
        Contestant {
            name: "it".to_string(),
            family: None,
            check: None,
            overlapping: 0,
            launch: Box::new(move |_, _| {
                let write = |(output, number): &(Output<i32>, i32)| {
                    output.where_written(&device)?.write(&[*number; 4])
                };
                outputs.iter().try_for_each(write)
            }),
            parts: Vec::new(),
        }
    }

    #[test]
    fn a_library_leaves_the_counter_of_a_kernel_alone() {
        let device = Device::emulator();
        let stream = Stream::new(&device).expect("a stream");
        let bed = Bed::new(&device);
        let [c, counter] = ["c", "counter"].map(|name| Output::<i32>::new(name, Shape::from([4])));
        let mut all = Outputs::default();
        all.push(Arc::new(c.clone()));
        all.push(Arc::new(counter.clone()));
        let ours = writer(&device, &[(c.clone(), 7), (counter.clone(), 0)]);
        let checker = Checker::new(&ours, Track::One(&stream), &bed, &all).expect("it runs");
        let check = |outputs: &[(Output<i32>, i32)], is_library| {
            let said = checker.check(&writer(&device, outputs), Tolerance::Exactly, is_library);
            said.map_err(|error| error.to_string())
        };
        assert_eq!(check(&[(c.clone(), 7)], true), Ok("`c` exact".to_string()));
        assert!(check(&[(c.clone(), 8)], true).is_err_and(|said| said.contains("`c` is wrong")));
        let said = check(&[(c.clone(), 7)], false);
        assert!(
            said.is_err_and(|said| said.contains("`counter` is wrong")),
            "a rival kernel writes all"
        );
        assert!(
            check(&[], true).is_err(),
            "a library that writes nothing does not agree"
        );
    }
}
