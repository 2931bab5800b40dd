//! Exchange between the lanes of a warp, without memory.

use ir::elem::Elem;
use layout::convert::{Round, SelectStage, ShufflePlan};
use ptx::{BinaryOp, Compare, Operand, PairDest, Reg, RegClass, ShflMode, Special, Type, UnaryOp};
use smallvec::SmallVec;

use super::Emitter;
use super::code::Code;
use super::element::{Element, class};

/// What travels together: one 32-bit register, or the two halves of an element of 64 bits.
type Word = SmallVec<[Reg; 2]>;

impl Emitter<'_> {
    /// The elements that the plan leaves in a thread.
    pub(super) fn shuffle(
        &mut self,
        plan: &ShufflePlan,
        elem: Elem,
        elements: &[Element],
    ) -> Vec<Element> {
        let code = &mut self.code;
        let mut words: Vec<Word> = plan
            .src_words
            .iter()
            .map(|word| {
                let elements: Vec<Element> = word.iter().map(|&r| elements[r as usize]).collect();
                code.word(&elements, elem)
            })
            .collect();
        for stage in &plan.before {
            words = code.changed_places(stage, &words);
        }
        let got = plan.rounds.iter().map(|round| {
            let word = &words[round.word as usize];
            code.round(plan, *round, word)
        });
        let mut got: Vec<Word> = got.collect();
        for stage in &plan.after {
            got = code.changed_places(stage, &got);
        }
        let size = plan.src_words[0].len();
        got.iter()
            .flat_map(|word| code.elements_of_word(word, size, elem))
            .collect()
    }
}

impl Code {
    /// The element of the lane whose number differs in these bits.
    pub(super) fn exchange(&mut self, element: Element, elem: Elem, lanes: u32) -> Element {
        self.shuffled(element, elem, ShflMode::Bfly, Operand::from(lanes))
    }

    /// The element of another lane.
    pub(super) fn shuffled(
        &mut self,
        element: Element,
        elem: Elem,
        mode: ShflMode,
        lane: Operand,
    ) -> Element {
        if elem.bits() == 64 {
            let whole = self.whole(element, elem);
            let halves = self.unpack(Type::B64, whole);
            let halves = halves.map(|half| {
                Operand::Reg(self.shuffle_word(RegClass::B32, half.into(), mode, lane))
            });
            let word = self.pack(Type::B64, &halves);
            return if class(elem) == RegClass::F64 {
                self.mov_bits(RegClass::F64, word).into()
            } else {
                word.into()
            };
        }
        let word = self.bits32(element, elem);
        let held = if class(elem) == RegClass::F32 {
            RegClass::F32
        } else {
            RegClass::B32
        };
        let moved = self.shuffle_word(held, word, mode, lane);
        self.from_bits32(moved, elem)
    }

    fn shuffle_word(
        &mut self,
        held: RegClass,
        word: Operand,
        mode: ShflMode,
        lane: Operand,
    ) -> Reg {
        let to = self.reg(held);
        // All 32 lanes take part: segments of a whole warp, all lanes in the mask.
        self.push(ptx::Shfl::new(
            mode,
            PairDest::from(to),
            word,
            lane,
            31,
            u32::MAX,
        ));
        to
    }

    /// The registers that hold the bits of one word of elements.
    fn word(&mut self, elements: &[Element], elem: Elem) -> Word {
        if elem.bits() == 64 {
            let whole = self.whole(elements[0], elem);
            return self.unpack(Type::B64, whole).into_iter().collect();
        }
        let bits = match elements {
            [element] => self.bits32(*element, elem),
            _ => self.packed_word(elements, elem),
        };
        let reg = match bits {
            Operand::Reg(reg) if self.class(reg) == RegClass::F32 => {
                self.mov_bits(RegClass::B32, reg)
            }
            Operand::Reg(reg) => reg,
            Operand::F32(bits) => self.mov(Type::B32, bits),
            constant => self.mov(Type::B32, constant),
        };
        SmallVec::from_slice(&[reg])
    }

    /// Two or four elements of 16 or 8 bits in one word; two of 8 bits fill its lower half.
    fn packed_word(&mut self, elements: &[Element], elem: Elem) -> Operand {
        let full = 4 / elem.bytes() as usize;
        let padding = std::iter::repeat_n(Element::int(0), full - elements.len());
        let padded: Vec<Element> = elements.iter().copied().chain(padding).collect();
        self.pack_words(&padded, elem)[0]
    }

    /// In threads where the stage says so, words change places.
    fn changed_places(&mut self, stage: &SelectStage, words: &[Word]) -> Vec<Word> {
        let swaps = self.swaps(stage);
        let pick = |code: &mut Code, at: usize| -> Word {
            let other = &words[at ^ stage.xor as usize];
            let pairs = other.iter().zip(&words[at]);
            pairs
                .map(|(&yes, &no)| code.selp(Type::B32, yes, no, swaps))
                .collect()
        };
        (0..words.len()).map(|at| pick(self, at)).collect()
    }

    /// A predicate: an odd number of the stage's bits is set in this thread.
    fn swaps(&mut self, stage: &SelectStage) -> Reg {
        let of_thread = stage.lane_mask | stage.warp_mask << 5;
        self.in_prologue(|code| {
            let thread = code.thread();
            let mut bits = code.binary(BinaryOp::And, Type::B32, thread, of_thread);
            if of_thread.is_power_of_two() && stage.block_mask == 0 {
                return code.setp(Compare::Ne, Type::U32, bits, 0_u32);
            }
            bits = code.unary(UnaryOp::Popc, Type::B32, bits);
            if stage.block_mask != 0 {
                let rank = code.mov(Type::U32, Special::ClusterCtaRank);
                let of_rank = code.binary(BinaryOp::And, Type::B32, rank, stage.block_mask);
                let of_rank = code.unary(UnaryOp::Popc, Type::B32, of_rank);
                bits = code.binary(BinaryOp::Add, Type::U32, bits, of_rank);
            }
            let odd = code.binary(BinaryOp::And, Type::B32, bits, 1_u32);
            code.setp(Compare::Ne, Type::U32, odd, 0_u32)
        })
    }

    /// Every lane reads the word of another one.
    fn round(&mut self, plan: &ShufflePlan, round: Round, word: &Word) -> Word {
        if plan.stays(&round) {
            return word.clone();
        }
        let (mode, lane) = if plan.source_lane.is_lane() {
            (ShflMode::Bfly, Operand::from(round.lane_xor))
        } else {
            let lane = self.per_thread(&plan.source_lane);
            (ShflMode::Idx, self.flipped(lane, round.lane_xor))
        };
        word.iter()
            .map(|&half| {
                let to = self.reg(RegClass::B32);
                let from = Operand::Reg(half);
                // All 32 lanes take part: segments of a whole warp, all lanes in the mask.
                self.push(ptx::Shfl::new(
                    mode,
                    PairDest::from(to),
                    from,
                    lane,
                    31,
                    u32::MAX,
                ));
                to
            })
            .collect()
    }

    /// The `count` elements that a word holds, lowest bits first.
    fn elements_of_word(&mut self, word: &Word, count: usize, elem: Elem) -> Vec<Element> {
        if let [low, high] = word[..] {
            let whole = self.pack(Type::B64, &[low.into(), high.into()]);
            return match class(elem) {
                RegClass::F64 => vec![self.mov_bits(RegClass::F64, whole).into()],
                _ => vec![whole.into()],
            };
        }
        if count == 1 {
            return vec![self.from_bits32(word[0], elem)];
        }
        let step = 8 * elem.bytes() as usize;
        (0..count)
            .map(|at| Element::Part(word[0], (at * step) as u8))
            .collect()
    }
}
