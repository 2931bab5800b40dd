//! The state of decoding one entry, and the steps that it appends.

use super::frame::{Frame, Location};
use super::uses::{Noted, Uses};
use crate::program::source::place;
use crate::program::{Constant, File, FileSizes, InlinedCall, LoadError, NONE, Op, Site, Step};
use ptx::{Entry, Instruction, Module};
use std::collections::HashMap;
use target::{SM_90A, Target};

/// The state of decoding one entry.
pub(crate) struct Decoder<'m> {
    pub(crate) module: &'m Module,
    /// The target of the module.
    pub(crate) machine: &'static Target,
    pub(crate) entry: &'m Entry,
    pub(crate) steps: Vec<Step>,
    pub(crate) sites: Vec<Site>,
    pub(crate) uses: Vec<Uses>,
    /// Operations on integers of which addresses may be made.
    pub(crate) linears: Vec<Noted>,
    pub(crate) calls: Vec<InlinedCall>,
    pub(crate) files: FileSizes,
    /// Registers of all bodies that were entered.
    pub(crate) register_count: u32,
    pub(crate) constants: HashMap<(File, Constant), u32>,
    /// Step of every label; inlined functions have labels of their own.
    pub(crate) labels: Vec<u32>,
    pub(crate) frames: Vec<Frame<'m>>,
    pub(crate) shared_bytes: u32,
    pub(crate) dynamic_shared_align: u32,
    pub(crate) local_bytes: u32,
    pub(crate) const_image: Vec<u8>,
    /// Places of variables of the module that were used.
    pub(crate) globals: HashMap<u32, Location>,
    /// The current instruction.
    pub(crate) statement: u32,
    pub(crate) guard: (u32, u32),
    pub(crate) is_lead: bool,
}

/// The result of decoding an instruction; an error is a sentence.
pub(crate) type Decoded<T = ()> = Result<T, String>;

impl<'m> Decoder<'m> {
    pub(crate) fn new(module: &'m Module, entry: &'m Entry) -> Self {
        Self {
            module,
            machine: module.target.machine().unwrap_or(&SM_90A),
            entry,
            steps: Vec::new(),
            sites: Vec::new(),
            uses: Vec::new(),
            linears: Vec::new(),
            calls: Vec::new(),
            // Predicate zero is true in every lane.
            files: FileSizes {
                words: 0,
                doubles: 0,
                predicates: 1,
            },
            register_count: 0,
            constants: HashMap::new(),
            labels: Vec::new(),
            frames: Vec::new(),
            shared_bytes: 0,
            dynamic_shared_align: 16,
            local_bytes: 0,
            const_image: Vec::new(),
            globals: HashMap::new(),
            statement: 0,
            guard: (0, 0),
            is_lead: true,
        }
    }

    pub(crate) fn simple(&mut self, op: Op) -> Decoded {
        self.push(op);
        Ok(())
    }

    pub(crate) fn nothing(&mut self) -> Decoded {
        self.push(Op::Nothing);
        Ok(())
    }

    /// Appends a step under the guard of the current instruction.
    pub(crate) fn push(&mut self, op: Op) {
        let (guard, flip) = self.guard;
        let call = self.frames.last().map_or(NONE, |frame| frame.call);
        self.steps.push(Step {
            guard,
            flip,
            watch: NONE,
            fragments: NONE,
            op,
        });
        self.sites.push(Site {
            statement: self.statement,
            call,
            is_lead: self.is_lead,
        });
        self.uses.push(Uses::default());
        self.is_lead = false;
    }

    /// Appends a step before the one that counts as the instruction.
    pub(crate) fn push_before(&mut self, op: Op) {
        self.is_lead = false;
        self.push(op);
        self.is_lead = true;
    }

    pub(crate) fn error(&self, instruction: Option<&Instruction>, message: String) -> LoadError {
        let frame = self.frames.last();
        let body = frame.map_or(&self.entry.body, |frame| frame.body);
        let params = frame.map_or(&self.entry.params[..], |frame| frame.params);
        LoadError {
            entry: self.entry.name.clone(),
            ptx: instruction
                .map(|i| i.to_text(self.module, body, params))
                .unwrap_or_default(),
            place: instruction
                .and_then(|i| place(self.module, body, i.loc))
                .map(Box::new),
            message,
        }
    }

    pub(crate) fn frame(&self) -> &Frame<'m> {
        self.frames
            .last()
            .expect("decoding starts by entering the body of the entry")
    }
}

/// Errors inside an inlined function keep their own instruction.
pub(crate) enum CallError {
    Here(String),
    Inside(Box<LoadError>),
}

impl CallError {
    pub(crate) fn into_message(self) -> String {
        match self {
            Self::Here(message) => message,
            Self::Inside(error) => format!(
                "in the function that it calls: {} ({})",
                error.message, error.ptx
            ),
        }
    }
}
