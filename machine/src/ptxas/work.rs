//! What an instruction of machine code works at.

use std::fmt;

/// Kinds of machine instructions, by the unit that is busy with them or the memory that they go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Work {
    /// Products of the tensor cores.
    Tensor,
    /// Loads, stores and atomics of global memory, by threads.
    Global,
    /// Loads, stores and atomics of shared memory, by threads.
    Shared,
    /// Loads and stores of local memory: spills, and arrays of a thread.
    Local,
    /// Copies by the TMA unit, and by `cp.async`.
    Copy,
    /// Barriers, fences and waits.
    Sync,
    /// Shuffles, votes and reductions among lanes.
    Lanes,
    /// Exponentials, reciprocals and others of the special function unit.
    Special,
    /// Arithmetic of floats.
    Float,
    /// Conversions between types.
    Convert,
    /// Arithmetic and logic of integers, comparisons and addresses.
    Integer,
    /// Moves, selections and constants.
    Move,
    /// Branches.
    Branch,
    /// Anything else.
    Other,
}

impl Work {
    /// All kinds, those that decide most often how fast a kernel is first.
    pub const ALL: [Work; 14] = [
        Work::Tensor,
        Work::Global,
        Work::Shared,
        Work::Local,
        Work::Copy,
        Work::Sync,
        Work::Lanes,
        Work::Special,
        Work::Float,
        Work::Convert,
        Work::Integer,
        Work::Move,
        Work::Branch,
        Work::Other,
    ];

    /// The name of the kind.
    pub const fn name(self) -> &'static str {
        match self {
            Work::Tensor => "tensor",
            Work::Global => "global",
            Work::Shared => "shared",
            Work::Local => "local",
            Work::Copy => "copy",
            Work::Sync => "sync",
            Work::Lanes => "lanes",
            Work::Special => "special",
            Work::Float => "float",
            Work::Convert => "convert",
            Work::Integer => "integer",
            Work::Move => "move",
            Work::Branch => "branch",
            Work::Other => "other",
        }
    }

    /// The kind of an instruction, such as `@P0 LDG.E.128 R4, desc[UR8][R2.64]`.
    pub fn of(text: &str) -> Work {
        let words = text.split_whitespace();
        let mut words = words.skip_while(|word| word.starts_with('@'));
        let opcode = words.next().unwrap_or_default();
        let root = opcode.split('.').next().unwrap_or_default();
        let is = |names: &[&str]| names.contains(&root);
        let begins = |names: &[&str]| names.iter().any(|name| root.starts_with(name));
        if is(&[
            "HGMMA", "IGMMA", "QGMMA", "BGMMA", "HMMA", "IMMA", "DMMA", "BMMA",
        ]) {
            Work::Tensor
        } else if is(&["LDGSTS", "LDGDEPBAR"]) || begins(&["UTMA", "UBLK"]) {
            Work::Copy
        } else if is(&[
            "LDG", "STG", "RED", "REDG", "ATOM", "ATOMG", "LD", "ST", "CCTL",
        ]) {
            Work::Global
        } else if is(&["LDS", "STS", "LDSM", "STSM", "ATOMS", "STAS", "REDAS"]) {
            Work::Shared
        } else if is(&["LDL", "STL"]) {
            Work::Local
        } else if begins(&[
            "BAR",
            "SYNCS",
            "MEMBAR",
            "FENCE",
            "WARPGROUP",
            "DEPBAR",
            "ERRBAR",
            "UCGABAR",
        ]) || is(&[
            "WARPSYNC",
            "ACQBULK",
            "NANOSLEEP",
            "B2R",
            "GRIDDEPCONTROL",
            "USETMAXREG",
        ]) {
            Work::Sync
        } else if is(&["SHFL", "VOTE", "VOTEU", "MATCH", "REDUX", "ELECT"]) {
            Work::Lanes
        } else if is(&["MUFU"]) {
            Work::Special
        } else if begins(&["F2", "I2", "FRND"]) {
            Work::Convert
        } else if is(&[
            "BRA", "BRX", "EXIT", "BSSY", "BSYNC", "CALL", "RET", "JMP", "BREAK", "WARPCALL",
            "KILL", "BPT",
        ]) {
            Work::Branch
        } else if is(&[
            "MOV", "UMOV", "SEL", "USEL", "PRMT", "UPRMT", "R2UR", "S2R", "S2UR", "CS2R", "LDC",
            "ULDC", "P2R", "R2P", "UP2UR", "FSEL", "MOVM",
        ]) {
            Work::Move
        } else if is(&["NOP", "YIELD", "PMTRIG"]) {
            Work::Other
        } else if begins(&[
            "FADD", "FMUL", "FFMA", "FMNMX", "FSET", "FCHK", "FSWZ", "HADD", "HMUL", "HFMA",
            "HMNMX", "HSET", "DADD", "DMUL", "DFMA", "DSET",
        ]) {
            Work::Float
        } else if begins(&[
            "I", "UI", "LOP", "ULOP", "SHF", "USHF", "LEA", "ULEA", "PLOP", "UPLOP", "POPC",
            "UPOPC", "FLO", "UFLO", "BREV", "UBREV", "SGXT", "USGXT", "BMSK", "UBMSK", "VI",
        ]) {
            Work::Integer
        } else {
            Work::Other
        }
    }
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::Work;

    #[test]
    fn an_instruction_is_of_one_kind() {
        for (text, expected) in [
            (
                "HGMMA.64x128x16.F32.BF16 R24, gdesc[UR8], R24",
                Work::Tensor,
            ),
            ("@P0 LDG.E.128 R4, desc[UR8][R2.64]", Work::Global),
            ("@!UPT STS.128 [R2], R4", Work::Shared),
            ("STL [R1+0x4], R7", Work::Local),
            ("UTMALDG.2D [UR8], [UR4]", Work::Copy),
            ("LDGSTS.E.BYPASS.128 [R2], desc[UR4][R4.64]", Work::Copy),
            ("SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [R2], R3", Work::Sync),
            ("WARPGROUP.DEPBAR.LE gsb0, 0x0", Work::Sync),
            ("MUFU.EX2 R66, R66", Work::Special),
            ("FFMA.FTZ R1, R2, R3, R4", Work::Float),
            ("F2FP.BF16.F32.PACK_AB R5, R5, R4", Work::Convert),
            ("IMAD.MOV.U32 R4, RZ, RZ, R2", Work::Integer),
            (
                "@P5 LOP3.LUT R3, R3, 0x80000000, RZ, 0xfc, !PT",
                Work::Integer,
            ),
            ("BRA `(.L_x_0)", Work::Branch),
            ("S2R R2, SR_TID.X", Work::Move),
            ("SHFL.BFLY PT, R4, R5, 0x1, 0x1f", Work::Lanes),
            ("NOP", Work::Other),
            ("", Work::Other),
        ] {
            assert_eq!(Work::of(text), expected, "{text}");
        }
    }

    #[test]
    fn every_kind_has_a_name_of_its_own() {
        let mut names: Vec<&str> = Work::ALL.iter().map(|work| work.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Work::ALL.len());
    }
}
