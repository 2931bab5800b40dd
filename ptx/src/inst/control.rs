//! Control flow (PTX ISA 9.7.12 and 9.7.19).

use super::family::family;
use crate::operand::{Arguments, Label, Symbol};

/// A call to a function of the module (PTX ISA 9.7.12.5).
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// `.uni`: no divergence.
    pub uniform: bool,
    /// `.param` variables that take the results.
    pub returns: Arguments,
    /// The function.
    pub function: Symbol,
    /// `.param` variables, registers or immediates.
    pub arguments: Arguments,
}

family! {
    /// A branch (PTX ISA 9.7.12.3).
    Bra: ["bra" uniform = "uni"] (in target: Label);

    /// Returns from a function, or ends the thread in an entry (PTX ISA 9.7.12.6).
    Ret: ["ret" uniform = "uni"] ();

    /// Ends the thread (PTX ISA 9.7.12.7).
    Exit: [; "exit"] ();

    /// Stops the kernel with an error (PTX ISA 9.7.19.2).
    Trap: [; "trap"] ();

    /// Stops for a debugger (PTX ISA 9.7.19.1).
    Brkpt: [; "brkpt"] ();
}
