//! What an SM holds, what keeps it from more, and what would hold one CTA more.

use target::Target;

use super::sheet::Occupancy;

/// The occupancy of CTAs of `threads` threads.
pub(super) fn of(target: &Target, threads: u32, registers: u32, shared_bytes: u32) -> Occupancy {
    let found = target.occupancy(threads, registers, shared_bytes);
    Occupancy {
        ctas: found.ctas,
        warps: found.warps,
        most_warps: found.most_warps,
        limiter: found.limiter.text(),
        one_more: one_more(target, threads, registers, shared_bytes),
    }
}

/// `at most 80 registers a thread`: what of registers and shared memory would have to shrink, and to how much; none where threads or
/// CTAs are the limit.
fn one_more(target: &Target, threads: u32, registers: u32, shared_bytes: u32) -> Option<String> {
    let wanted = target.occupancy(threads, registers, shared_bytes).ctas + 1;
    let fits = |registers, bytes| target.occupancy(threads, registers, bytes).ctas >= wanted;
    if !fits(1, 0) {
        return None;
    }
    let mut wishes = Vec::new();
    if !fits(registers, 0) {
        let most = most_below(registers, |count| fits(count, 0));
        wishes.push(format!("at most {most} registers a thread"));
    }
    if !fits(1, shared_bytes) {
        let most = most_below(shared_bytes, |bytes| fits(1, bytes));
        wishes.push(format!("at most {most} bytes of shared memory"));
    }
    Some(wishes.join(" and "))
}

/// The greatest number below `too_many` that fits; 0 does, and what is less than a number that fits does.
fn most_below(too_many: u32, fits: impl Fn(u32) -> bool) -> u32 {
    let (mut good, mut bad) = (0, too_many);
    while good + 1 < bad {
        let middle = good.midpoint(bad);
        *if fits(middle) { &mut good } else { &mut bad } = middle;
    }
    good
}

#[cfg(test)]
mod tests {
    use super::*;
    use target::SM_90A;

    #[test]
    fn what_stands_in_the_way_of_one_more_cta_is_named_with_its_bound() {
        let check = |threads, registers, shared_bytes, expected: Option<&str>| {
            let found = one_more(&SM_90A, threads, registers, shared_bytes);
            assert_eq!(
                found.as_deref(),
                expected,
                "{threads} {registers} {shared_bytes}"
            );
        };
        check(384, 168, 82064, Some("at most 80 registers a thread"));
        check(128, 32, 0, None);
        check(
            384,
            168,
            200_000,
            Some("at most 80 registers a thread and at most 115712 bytes of shared memory"),
        );
        let bound = 115_712;
        assert_eq!(SM_90A.occupancy(384, 80, bound).ctas, 2);
        assert_eq!(SM_90A.occupancy(384, 80, bound + 1).ctas, 1);
        assert_eq!(SM_90A.occupancy(384, 81, bound).ctas, 1);
    }
}
