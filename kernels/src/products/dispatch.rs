//! Which instance computes a product: the one that was measured to be the fastest at its size, or near it, or the model's.
//!
//! Records are made by `cargo tilekit tune` and name the kind of GPU for which they hold. Where a size has none of its own kind, one of another kind with as many multiprocessors is still better than the model: the
//! fastest instance of an H100 has 0.995 of the speed of the fastest one on an H200, and the model's choice 0.98 (`bench/results/products/choice.md`), unless the model contradicts. The choice depends on the need, the records and the model, and on nothing else.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tilekit::{Device, Tuned};

use super::epilogue_kind::Finishing;
use super::even_tiles;
use super::instances::{INSTANCES, Instance};
use super::nearby::{Near, is_confirmed_elsewhere, nearby};
use super::need::Need;
use super::options::Precision;
use super::plan::Plan;

/// What `cargo tilekit tune --export` wrote, one file for each kind of GPU.
const RECORDS: [&str; 1] = [include_str!("records/h200.jsonl")];

/// Why an instance was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It was the fastest when this size was tuned.
    Tuned,
    /// It was the fastest when this size was tuned on another kind of GPU with as many multiprocessors, and the model does not contradict.
    TunedElsewhere,
    /// It was the fastest at this M, N and K nearby, and the model does not contradict.
    TunedNear([usize; 3]),
    /// The model says that it is the fastest.
    Model,
    /// The dispatch is [by number](Dispatch::by_number).
    Number(usize),
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::Tuned => write!(f, "fastest when tuned"),
            Why::TunedElsewhere => write!(f, "fastest when tuned on another kind of GPU"),
            Why::TunedNear([m, n, k]) => {
                write!(
                    f,
                    "fastest when {m}x{n}x{k} was tuned, near by the model too"
                )
            }
            Why::Model => write!(f, "fastest by the model"),
            Why::Number(number) => write!(f, "number {number} of those that can compute it"),
        }
    }
}

/// A plan, and why it is that one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    /// The kernel and its grid.
    pub plan: Plan,
    /// Why.
    pub why: Why,
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.plan, self.why)
    }
}

/// What two products have in common whose times compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Class {
    element_bytes: [usize; 2],
    is_mn_major: [bool; 2],
    precision: Precision,
    /// Rows begin anywhere.
    is_loose: bool,
}

impl Class {
    fn of(need: &Need) -> Class {
        Class {
            element_bytes: need.element_bytes,
            is_mn_major: need.is_mn_major,
            precision: need.precision,
            is_loose: need.loose.is_some(),
        }
    }
}

/// What records hold for. The emulator is of a kind without records.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Kind {
    /// As the driver names it.
    name: String,
    multiprocessors: u32,
}

impl Kind {
    fn is(&self, name: &str, multiprocessors: u32) -> bool {
        self.name == name && self.multiprocessors == multiprocessors
    }
}

/// The records that ship, of all kinds of GPU.
fn shipped() -> impl Iterator<Item = Tuned> {
    let files = RECORDS.into_iter();
    files.flat_map(|text| Tuned::read(text).unwrap_or_default())
}

/// The records of one kind of GPU, and of others for sizes that have none.
#[derive(Debug, Default)]
pub struct Dispatch {
    exact: HashMap<(Class, [usize; 3]), Instance>,
    /// Those of other kinds.
    elsewhere: HashMap<(Class, [usize; 3]), Instance>,
    /// What a program has said, instead of a record.
    set: HashMap<(Class, [usize; 3]), Instance>,
    /// Those of each class.
    near: HashMap<Class, Vec<Near>>,
    /// Which of all plans is taken, whatever else is known.
    number: Option<usize>,
}

impl Dispatch {
    /// That of a device, by the records of its kind, of which there may be none, and of others. On the emulator the model alone chooses.
    pub fn of(device: &Device) -> Arc<Dispatch> {
        // Of every kind of GPU that the process has asked for; a machine has one kind, or two.
        static KNOWN: Mutex<Vec<(Kind, Arc<Dispatch>)>> = Mutex::new(Vec::new());
        let facts = device.facts();
        let (name, multiprocessors) = (facts.name.as_str(), facts.multiprocessors);
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, dispatch)) = known
            .iter()
            .find(|(kind, _)| kind.is(name, multiprocessors))
        {
            return Arc::clone(dispatch);
        }
        // The emulator has as many multiprocessors as the machine has processors, which may be those of a GPU.
        let dispatch = Arc::new(if device.is_cuda() {
            Dispatch::of_gpu(name, multiprocessors)
        } else {
            Dispatch::default()
        });
        let kind = Kind {
            name: name.to_owned(),
            multiprocessors,
        };
        known.push((kind, Arc::clone(&dispatch)));
        dispatch
    }

    /// The records that ship with this crate for the GPU of this name with so many multiprocessors; it may be another than that of this machine. Waves depend on the multiprocessors, so that records of another
    /// number of them do not count.
    pub fn of_gpu(name: &str, multiprocessors: u32) -> Dispatch {
        let mut dispatch = Dispatch::default();
        for tuned in shipped().filter(|tuned| tuned.machine.multiprocessors == multiprocessors) {
            if tuned.machine.gpu == name {
                dispatch.add(&tuned);
            } else if let Some((class, size, instance)) = entry_of(&tuned) {
                dispatch.elsewhere.insert((class, size), instance);
            }
        }
        dispatch
    }

    /// By which plan `number` of [all](Plan::all) that can compute a product does, modulo their number: so that instances are tested that no size is planned for.
    pub fn by_number(number: usize) -> Dispatch {
        Dispatch {
            number: Some(number),
            ..Dispatch::default()
        }
    }

    /// Adds a record of one of the cases of this crate, in the place of one of the same size; says whether it is one, of an instance that there is.
    pub fn add(&mut self, tuned: &Tuned) -> bool {
        let Some((class, size, instance)) = entry_of(tuned) else {
            return false;
        };
        let before = self.exact.insert((class, size), instance);
        let near = self.near.entry(class).or_default();
        if before.is_some() {
            near.retain(|known| !known.is_of(size));
        }
        near.push(Near::new(size, instance));
        true
    }

    /// Has this instance compute products of a need's size, element types and order, where it can, as if it had been tuned so, behind copies where matrices need them; sizes near by do not follow.
    pub fn set(&mut self, need: &Need, instance: Instance) {
        for is_loose in [false, true] {
            let class = Class {
                is_loose,
                ..Class::of(need)
            };
            self.set.insert((class, need.size), instance);
        }
    }

    /// How many sizes have a record of this kind.
    pub fn len(&self) -> usize {
        self.exact.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.exact.is_empty()
    }

    /// The choice for what is needed; none where there is no [plan](Plan::best).
    pub fn choose(&self, need: &Need) -> Option<Choice> {
        if let Some(number) = self.number {
            let plans = Plan::all(need);
            let number = number.checked_rem(plans.len())?;
            return Some(Choice {
                plan: plans[number],
                why: Why::Number(number),
            });
        }
        let class = Class::of(need);
        let size = (class, need.size);
        // Records are of products alone.
        let is_alone = need.finishing <= Finishing::Scale;
        let is_one = need.batches == 1 && is_alone;
        let set = self.set.get(&size).filter(|_| need.batches == 1);
        let of_kind = set.or_else(|| self.exact.get(&size).filter(|_| is_one));
        if let Some(plan) = of_kind.and_then(|&instance| Plan::able(instance, need)) {
            return Some(Choice {
                plan,
                why: Why::Tuned,
            });
        }
        let best = Plan::best(need)?;
        let elsewhere = self.elsewhere.get(&size).filter(|_| is_one);
        let elsewhere = elsewhere.and_then(|&instance| Plan::able(instance, need));
        if let Some(plan) = elsewhere.filter(|plan| is_confirmed_elsewhere(plan, &best)) {
            return Some(Choice {
                plan,
                why: Why::TunedElsewhere,
            });
        }
        // The model knows what copies take, and confirms a record without them or does not.
        let mapped = Class {
            is_loose: false,
            ..class
        };
        let near = self.near.get(&mapped).filter(|_| is_one);
        let near = near.and_then(|near| nearby(near, need, &best));
        Some(near.unwrap_or(Choice {
            plan: best,
            why: Why::Model,
        }))
    }
}

/// What a record is of: cases of `tuned_cases`.
fn entry_of(tuned: &Tuned) -> Option<(Class, [usize; 3], Instance)> {
    let name = tuned
        .case
        .strip_prefix("tilekit_kernels::products::tuned_cases::")?;
    let element_bytes = match name {
        "tuned_bf16" | "tuned_major_bf16" => [2, 2],
        "tuned_e4m3_bf16" => [1, 2],
        _ => return None,
    };
    let size = |name: &str| tuned.sizes.get(name).copied();
    let is_along = |name: &str| size(name) == Some(1);
    let sizes = [size("m")?, size("n")?, size("k")?];
    let mut instances = INSTANCES.into_iter();
    let listed = instances.find(|instance| instance.to_string() == tuned.candidate);
    let instance = listed.or_else(|| even_tiles::named(&tuned.candidate, sizes))?;
    let class = Class {
        element_bytes,
        is_mn_major: [is_along("along_m"), is_along("along_n")],
        precision: Precision::Tf32,
        is_loose: false,
    };
    Some((class, sizes, instance))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tuned(size: [usize; 3], candidate: &str) -> Tuned {
        let [m, n, k] = size;
        let text = format!(
            r#"{{"case":"tilekit_kernels::products::tuned_cases::tuned_bf16","sizes":{{"m":{m},"n":{n},"k":{k}}},
            "candidate":"{candidate}","machine":{{"gpu":"G","multiprocessors":132,"power_limit_watts":null,"driver":""}},
            "digest":"","single_us":1,"back_to_back_us":1,"predicted_us":null,"timed":3}}"#
        );
        let mut read = Tuned::read(&text.replace('\n', "")).expect("a record");
        read.remove(0)
    }

    #[track_caller]
    fn chosen(dispatch: &Dispatch, need: &Need) -> Choice {
        dispatch.choose(need).expect("a call may need it")
    }

    #[track_caller]
    fn check(dispatch: &Dispatch, size: [usize; 3], expected: &str) {
        let choice = chosen(dispatch, &Need::of_16_bits(size)).to_string();
        assert!(choice.contains(expected), "{size:?}: {choice}");
    }

    #[test]
    fn a_record_wins_at_its_size_and_near_it_where_the_model_agrees() {
        let mut dispatch = Dispatch::default();
        check(&dispatch, [4096, 4096, 4096], "fastest by the model");
        assert!(dispatch.add(&tuned([4096, 4096, 4096], "192x192")));
        check(&dispatch, [4096, 4096, 4096], "192x192, ");
        check(&dispatch, [4096, 4096, 4096], "; fastest when tuned");
        // The model puts 192x192 several percent behind.
        check(&dispatch, [4096, 4096, 4160], "; fastest by the model");
        assert!(dispatch.add(&tuned([4096, 4096, 4032], "128x256")));
        check(
            &dispatch,
            [4096, 4096, 4160],
            "; fastest when 4096x4096x4032 was tuned",
        );
        // The nearest has a wave more than others, and the next one not.
        let turns = "128x184 in turns, A and B exchanged";
        let mut of_two = Dispatch::default();
        assert!(of_two.add(&tuned([4416, 4096, 4096], "128x256")));
        assert!(of_two.add(&tuned([4400, 4096, 4096], turns)));
        check(
            &of_two,
            [4416, 4096, 4032],
            "; fastest when 4400x4096x4096 was tuned",
        );
        // Far away.
        check(&dispatch, [256, 256, 4000], "; fastest by the model");
        assert_eq!(dispatch.len(), 2);
        let mut of_one = Dispatch::default();
        assert!(of_one.add(&tuned([4096, 4096, 4096], "128x256")));
        check(&of_one, [4096, 4064, 4096], "128x256, 128 CTAs, ");
        check(&of_one, [4096, 4064, 4096], "; fastest when 4096x4096x4096");
        // The fifth wave begins.
        check(&of_one, [4352, 4096, 4096], "; fastest by the model");
        // Of two records of a size the later one holds near by too.
        assert!(of_one.add(&tuned([4096, 4096, 4096], "192x192")));
        assert_eq!(of_one.len(), 1);
        check(&of_one, [4096, 4064, 4096], "; fastest by the model");
    }

    #[test]
    fn records_of_other_classes_and_of_no_instance_do_not_count() {
        let mut dispatch = Dispatch::default();
        assert!(!dispatch.add(&tuned([8, 8, 8], "7x7")));
        let other = Tuned {
            case: "mine::case".to_string(),
            ..tuned([8, 8, 8], "128x256")
        };
        assert!(!dispatch.add(&other));
        assert!(dispatch.is_empty());
        assert!(dispatch.add(&tuned([512, 512, 512], "128x256")));
        let need = Need::of_16_bits([512, 512, 512]);
        assert_eq!(chosen(&dispatch, &need).why, Why::Tuned);
        let wide = Need {
            element_bytes: [2, 4],
            ..need
        };
        assert_eq!(chosen(&dispatch, &wide).why, Why::Model);
        let batched = Need { batches: 2, ..need };
        assert_eq!(chosen(&dispatch, &batched).why, Why::Model);
    }

    #[test]
    fn what_no_call_needs_has_no_choice() {
        let need = Need::of_16_bits([1 << 31; 3]);
        for dispatch in [Dispatch::default(), Dispatch::by_number(3)] {
            assert_eq!(dispatch.choose(&need), None);
        }
    }

    #[test]
    fn what_is_set_holds_at_its_size_alone() {
        let mut dispatch = Dispatch::default();
        let need = Need::of_16_bits([4096, 4096, 4096]);
        let other = Plan::all(&need)[1];
        dispatch.set(&need, other.instance);
        let choice = chosen(&dispatch, &need);
        assert_eq!((choice.plan, choice.why), (other, Why::Tuned));
        check(&dispatch, [4096, 4096, 4160], "; fastest by the model");
    }

    #[test]
    fn every_record_that_ships_is_of_an_instance() {
        for text in RECORDS {
            assert!(!Tuned::read(text).expect("records").is_empty());
        }
        let mut kinds: Vec<Kind> = Vec::new();
        for tuned in shipped() {
            assert!(entry_of(&tuned).is_some(), "{tuned:?}");
            let kind = Kind {
                name: tuned.machine.gpu,
                multiprocessors: tuned.machine.multiprocessors,
            };
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        let of_kind = |kind: &Kind| Dispatch::of_gpu(&kind.name, kind.multiprocessors).len();
        let all: usize = kinds.iter().map(of_kind).sum();
        assert_eq!(all, shipped().count());
        assert!(Dispatch::of_gpu("NVIDIA H200", 78).is_empty());
    }

    #[test]
    fn a_record_of_another_kind_counts_at_its_size_where_there_is_none_of_this_kind() {
        let need = Need::of_16_bits([1000, 1000, 1000]);
        let of_h200 = chosen(&Dispatch::of_gpu("NVIDIA H200", 132), &need);
        assert_eq!(of_h200.why, Why::Tuned);
        let mut dispatch = Dispatch::of_gpu("G", 132);
        assert!(dispatch.is_empty());
        let choice = chosen(&dispatch, &need);
        assert_eq!(
            (choice.plan, choice.why),
            (of_h200.plan, Why::TunedElsewhere)
        );
        check(&dispatch, [1000, 1000, 1064], "; fastest by the model");
        // The model puts 64x16 by one CTA far behind.
        let far = entry_of(&tuned([1000, 1000, 1000], "64x16 by 1 CTAs along K"));
        let (class, size, instance) = far.expect("a record");
        dispatch.elsewhere.insert((class, size), instance);
        assert_eq!(chosen(&dispatch, &need).why, Why::Model);
        let of_fewer = chosen(&Dispatch::of_gpu("G", 78), &need);
        assert_eq!(of_fewer.why, Why::Model);
        assert!(dispatch.add(&tuned([1000, 1000, 1000], "192x192")));
        check(&dispatch, [1000, 1000, 1000], "192x192, ");
        check(&dispatch, [1000, 1000, 1000], "; fastest when tuned");
    }

    #[test]
    fn a_kind_of_gpu_is_read_once_and_the_emulator_has_no_records() {
        let device = Device::emulator();
        let dispatch = Dispatch::of(&device);
        assert!(dispatch.is_empty());
        assert!(Arc::ptr_eq(&dispatch, &Dispatch::of(&device)));
    }
}
