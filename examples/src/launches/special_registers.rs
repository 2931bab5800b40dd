//! What the language has no name for is one line of PTX away: the SM that a program runs on, read from a special register.

use tilekit::prelude::*;

/// `out[program, 0]` says on which SM the program ran, and `out[program, 1]` how many there are.
#[kernel(warps = 1)]
pub fn special_registers(out: Ptr<i32>, in_range: Ptr<i32>) {
    let sm: Scalar<i32> = inline_ptx("mov.u32 $0, %smid;", ());
    let sms: Scalar<i32> = inline_ptx("mov.u32 $0, %nsmid;", ());
    let program = program_id(0);
    out.at(program * 2).store(sm);
    out.at(program * 2 + 1).store(sms);
    let is_one = (sm >= 0) & (sm < sms);
    in_range.at(program).store(is_one.cast::<i32>());
}

#[case(sizes(programs = [1, 7, 1000]))]
fn special_registers_case(case: &mut Case) -> CaseResult {
    let programs = case.size("programs");
    let out = case.output::<i32>("out", [programs, 2]);
    let in_range = case.output::<i32>("in_range", [programs]);
    case.launch(special_registers, grid(programs), (&out, &in_range))?;
    // Which SM it was is the machine's to choose; that there is one of this number is not.
    case.expect(&in_range, |[_]| 1, Exactly)?;
    Ok(())
}
