"""How the three launches of a call for gradients of attention divide it: what `part.rs`, `sections.rs` and `beside.rs` of kernels/src/attention/backward say, with
which a test there compares it. Nothing here needs torch."""

from __future__ import annotations

import math
from typing import NamedTuple

_SECTION_BYTES, _MOST_HEADS, _SMS = 32 << 20, 8, 132
#: CTAs of a cluster at depth 256, which exchange dS.
_PAIR = 2
#: Blocks of keys from which on sections of groups in a fixed order do not overlap.
_LONG = 16
#: Depths whose main loop has the passes of most heads.
_WITH_PASSES = (64, 128)
#: Halves of a block of queries, of which each has a CTA of the last kernel.
GROUPS = 2


class Plan(NamedTuple):
    """Blocks of queries and of keys of a head, and what the launches are told."""

    #: Queries of a block, blocks of a head, and CTAs of a head, of which each has a block of keys.
    queries: int
    blocks: int
    key_blocks: int
    #: Heads of a section, blocks of keys (of a cluster) that one has begun when the next one begins, and heads of K and V in front of the main loop and behind it.
    section: int
    lead: int
    ahead: int
    #: Lines of the first and the last kernel, and the first one of the last kernel.
    lines: tuple[int, int]
    first_line: int


def plan(batch: int, heads: int, kv_heads: int, tokens: int, depths: tuple[int, int], is_causal: bool, is_ordered: bool = False) -> Plan:
    """That of a call of 16-bit floats with as many keys as queries, which a causal mask hides or none."""
    depth, values = depths
    queries = 128 if depth <= 64 else 64
    keys = 128 if depth <= 128 else 96 if depth <= 192 else 80
    ctas = _PAIR if depth == 256 else 1
    blocks, clusters = -(-tokens // queries), -(-tokens // (ctas * keys))
    key_blocks = clusters * ctas
    group, every = heads // kv_heads, batch * kv_heads
    most_heads = min(_MOST_HEADS, -(-_SMS // clusters)) if is_ordered and is_causal and depth >= 256 else _MOST_HEADS
    head_bytes = group * tokens * (2 * (depth + values) + 4 * depth)
    wave = 1 << max(0, round(math.log2(_SMS / clusters)))
    is_chain = is_ordered and is_causal and group > 1 and depth != 192
    if is_chain:
        section = min(every, wave if clusters < _LONG else 2 * wave)
    elif is_ordered:
        section = max(1, min(most_heads, every, _SECTION_BYTES // head_bytes))
    else:
        section = min(every, wave) if is_causal else 1
    overlaps = is_ordered and is_causal and not (is_chain and clusters >= _LONG)
    lead = -(-clusters // 2) if overlaps else clusters
    overlapping = 2 if lead < clusters else 1
    ahead = min(every, overlapping * section + max(1, _SMS // key_blocks)) if depth in _WITH_PASSES else every
    if ahead == every:
        return Plan(queries, blocks, key_blocks, section, lead, ahead, (heads, batch), 0)
    return Plan(queries, blocks, key_blocks, section, lead, ahead, (group, ahead), (every - ahead) * group)
