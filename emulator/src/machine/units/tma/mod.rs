//! TMA and bulk copies (PTX ISA 9.7.9.25 to 9.7.9.28): [`copy`] issues them, [`pieces`] says which bytes a box moves.

pub(crate) mod copy;
pub(crate) mod groups;
pub(crate) mod map;
pub(crate) mod pieces;
pub(crate) mod remote_store;
pub(crate) mod spot;
pub(crate) mod written_map;
