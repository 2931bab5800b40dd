//! What the scalars that only a run knows turn out to be, the same for all partitions.
//!
//! Answers are given when a partition asks first, and kept for those that follow until all have passed. Loops of one class are
//! one stream of iterations; the answers that hold for one iteration, and the streams of the loops in it, hang on it.

use smallvec::SmallVec;

use crate::classes::Class;

/// Which of the values of a class: the indices of the fixed loops around it.
pub(crate) type Question = (Class, SmallVec<[i64; 2]>);

/// Which loop, and which of its runs within an iteration of the loop around it.
pub(crate) type Run = (Class, u16);

/// One iteration, or the whole kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Node {
    pub(crate) answers: Vec<(Question, bool)>,
    pub(crate) streams: Vec<(Run, Stream)>,
}

/// The iterations of one run of a loop that some partition has yet to pass.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Stream {
    pub(crate) nodes: Vec<Node>,
    /// No more follow.
    pub(crate) is_over: bool,
    /// An iteration has been decided.
    pub(crate) has_begun: bool,
}

/// A way to an iteration: runs of loops, and the iteration of each.
pub(crate) type Way = SmallVec<[(Run, u32); 3]>;

/// Something to be decided.
#[derive(Clone, Debug)]
pub(crate) enum Ask {
    Value(Way, Question),
    /// Does another iteration follow?
    More(Way, Run),
    /// The first iteration of a run follows, or does not, as is known from elsewhere.
    First(Way, Run, bool),
}

impl Ask {
    /// What is decided; none where it is known.
    pub(crate) fn class(&self) -> Option<Class> {
        match self {
            Ask::Value(_, (class, _)) | Ask::More(_, (class, _)) => Some(*class),
            Ask::First(..) => None,
        }
    }
}

/// Iterations between the first and the last partition beyond which nothing is decided.
pub(crate) const MOST_LEAD: usize = 48;

impl Node {
    pub(crate) fn at(&self, way: &[((Class, u16), u32)]) -> Option<&Node> {
        let Some(((run, at), rest)) = way.split_first() else {
            return Some(self);
        };
        let stream = self.streams.iter().find(|(r, _)| r == run)?;
        stream.1.nodes.get(*at as usize)?.at(rest)
    }

    pub(crate) fn at_mut(&mut self, way: &[((Class, u16), u32)]) -> Option<&mut Node> {
        let Some(((run, at), rest)) = way.split_first() else {
            return Some(self);
        };
        let stream = self.streams.iter_mut().find(|(r, _)| r == run)?;
        stream.1.nodes.get_mut(*at as usize)?.at_mut(rest)
    }

    pub(crate) fn stream(&self, run: Run) -> Option<&Stream> {
        self.streams.iter().find(|(r, _)| *r == run).map(|(_, s)| s)
    }

    pub(crate) fn stream_mut(&mut self, run: Run) -> &mut Stream {
        let known = self.streams.iter().position(|(r, _)| *r == run);
        let at = known.unwrap_or_else(|| {
            let at = self.streams.partition_point(|(r, _)| *r < run);
            self.streams.insert(at, (run, Stream::default()));
            at
        });
        &mut self.streams[at].1
    }

    pub(crate) fn answer(&self, question: &Question) -> Option<bool> {
        let found = self.answers.iter().find(|(q, _)| q == question);
        found.map(|(_, answer)| *answer)
    }

    /// Decides.
    pub(crate) fn decide(&mut self, ask: &Ask, answer: bool) {
        match ask {
            Ask::First(way, run, is_any) => {
                self.decide(&Ask::More(way.clone(), *run), *is_any);
            }
            Ask::Value(way, question) => {
                if let Some(node) = self.at_mut(way) {
                    let at = node.answers.partition_point(|(q, _)| q < question);
                    node.answers.insert(at, (question.clone(), answer));
                }
            }
            Ask::More(way, run) => {
                if let Some(node) = self.at_mut(way) {
                    let stream = node.stream_mut(*run);
                    stream.has_begun = true;
                    if answer {
                        stream.nodes.push(Node::default());
                    } else {
                        stream.is_over = true;
                    }
                }
            }
        }
    }
}
