//! Which keys of the whole sequence the queries of a rank see, on the host.

use crate::attention::options::Options;
use crate::attention::plan::FAR;

use super::super::options::RingOptions;
use super::super::plan::Need;

/// Contiguous queries of a rank, and the keys that any of them sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    /// The first query among the tokens of the rank, and how many there are.
    pub(super) first: usize,
    pub(super) queries: usize,
    /// The first key, and the one behind the last.
    pub(super) keys: [usize; 2],
    /// How many keys before and behind its own position a query sees, where the last query has the position of the last key.
    pub(super) window: [Option<usize>; 2],
}

/// A distance as kernels take it.
pub(super) fn distance(keys: Option<usize>) -> i32 {
    keys.and_then(|keys| i32::try_from(keys).ok())
        .map_or(FAR, |keys| keys.min(FAR))
}

/// How many keys before and behind its own position a query sees.
pub(super) fn window_of(options: &RingOptions<'_>) -> [Option<usize>; 2] {
    let [left, right] = options.window;
    [left, if options.causal { Some(0) } else { right }]
}

impl Span {
    /// Those of each chunk of a rank.
    pub(super) fn of_rank(need: &Need, options: &RingOptions<'_>, rank: usize) -> Vec<Span> {
        let tokens = need.sizes.keys / need.chunks;
        let all = need.ranks * need.sizes.keys;
        let [left, right] = window_of(options);
        let of_chunk = |chunk: usize| {
            let place = if chunk == 0 {
                rank
            } else {
                2 * need.ranks - 1 - rank
            };
            let begin = place * tokens;
            let end = begin + tokens;
            let behind = right.unwrap_or(all).min(all - end);
            Span {
                first: chunk * tokens,
                queries: tokens,
                keys: [begin.saturating_sub(left.unwrap_or(all)), end + behind],
                window: [
                    left.map(|left| left.saturating_add(behind)),
                    right.map(|right| right - behind),
                ],
            }
        };
        (0..need.chunks).map(of_chunk).collect()
    }

    /// What attention of these queries and keys takes.
    pub(super) fn options<'a>(&self, options: &RingOptions<'a>, rank: usize) -> Options<'a> {
        let [left, right] = self.window;
        let is_causal = right == Some(0);
        Options {
            causal: is_causal,
            window: [left, right.filter(|_| !is_causal)],
            scale: options.scale,
            softcap: options.softcap,
            sinks: options.sinks.map(|sinks| sinks[rank]),
            deterministic: options.deterministic,
            ..Options::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::options::Placement;
    use super::*;
    use crate::attention::plan::Sizes;

    /// Every query of every rank against the positions themselves.
    #[test]
    fn spans_are_the_keys_that_queries_see() {
        let (ranks, tokens) = (4, 6);
        for chunks in [1, 2] {
            for window in [
                [None, None],
                [Some(3), None],
                [Some(20), Some(2)],
                [None, Some(5)],
            ] {
                for causal in [false, true] {
                    let options = RingOptions {
                        causal,
                        window: if causal { [window[0], None] } else { window },
                        placement: if chunks == 2 {
                            Placement::ZigZag
                        } else {
                            Placement::Contiguous
                        },
                        ..RingOptions::default()
                    };
                    let sizes = Sizes {
                        batch: 1,
                        heads: 1,
                        kv_heads: 1,
                        queries: tokens,
                        keys: tokens,
                        depths: [64, 64],
                    };
                    let need = Need {
                        sizes,
                        ranks,
                        chunks,
                        is_causal: causal,
                        element_bytes: 2,
                    };
                    for rank in 0..ranks {
                        for (chunk, span) in
                            Span::of_rank(&need, &options, rank).into_iter().enumerate()
                        {
                            let place = if chunk == 0 {
                                rank
                            } else {
                                2 * ranks - 1 - rank
                            };
                            let [first, end] = span.keys;
                            for query in 0..span.queries {
                                let own = place * span.queries + query;
                                // As attention counts: the last query has the position of the last key.
                                let counted = (query + end - first - span.queries) as i64;
                                let [left, right] = window_of(&options);
                                for key in 0..ranks * tokens {
                                    let sees = left.is_none_or(|left| key + left >= own)
                                        && right.is_none_or(|right| key <= own + right);
                                    let [left, right] = span.window;
                                    let key = key as i64 - first as i64;
                                    let is_there = key >= 0 && key < (end - first) as i64;
                                    let does = is_there
                                        && left.is_none_or(|left| key + left as i64 >= counted)
                                        && right.is_none_or(|right| key <= counted + right as i64);
                                    assert_eq!(
                                        sees, does,
                                        "{window:?} {causal} {rank} {chunk} {query} {key}"
                                    );
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}
