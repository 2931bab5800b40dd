//! Registers of a thread when its kernel starts (PTX ISA 9.7.19.5).

use ptx::Directives;
use target::Target;

/// Registers of a thread at entry: an equal share of the SM's for the CTAs that must fit, or fewer where the kernel says so.
pub(crate) fn registers_at_entry(target: &Target, threads: u32, directives: &Directives) -> u32 {
    let share = target.registers_of_thread(threads, directives.minnctapersm.unwrap_or(1));
    let unit = target.registers.unit;
    let cap = directives.maxnreg;
    cap.map_or(share, |most| {
        most.min(share).next_multiple_of(unit).min(share)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(threads: u32, minnctapersm: Option<u32>, maxnreg: Option<u32>, expected: u32) {
        let directives = Directives {
            minnctapersm,
            maxnreg,
            ..Directives::default()
        };
        assert_eq!(
            registers_at_entry(&target::SM_90A, threads, &directives),
            expected
        );
    }

    #[test]
    fn threads_start_with_what_ptxas_gives_them() {
        check(384, None, None, 168);
        check(128, None, None, 255);
        check(256, None, Some(40), 40);
        // Two CTAs that must fit leave each half of the file, whatever `.maxnreg` says.
        check(256, Some(2), Some(248), 128);
        check(256, Some(3), None, 80);
        check(384, None, Some(u32::MAX), 168);
        check(128, None, Some(u32::MAX), 255);
    }
}
