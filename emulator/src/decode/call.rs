//! Calls: the body of a function is inlined; the two system functions (`vprintf`, `__assertfail`) are steps.

use super::decoder::{CallError, Decoded, Decoder};
use super::frame::{Base, Location};
use crate::program::{
    Access, AccessSpace, AddressBase, AssertFail, Constant, Extend, File, InlinedCall, Op, Print,
    Site,
};
use ptx::{Body, Call, Func, Operand, Param, Symbol, Visit};

/// The deepest nesting of calls: inlining one takes host stack.
const MAX_CALL_DEPTH: usize = 32;
/// Steps of a kernel with all calls inlined: a chain of functions that call the next one twice doubles them.
const MAX_STEPS: usize = 1 << 20;

impl Visit<Call> for Decoder<'_> {
    fn visit(&mut self, call: &Call) -> Decoded {
        self.call(call).map_err(CallError::into_message)
    }
}

impl<'m> Decoder<'m> {
    fn call(&mut self, call: &Call) -> Result<(), CallError> {
        let Symbol::Function(index) = call.function else {
            return Err(CallError::Here("a call must name a function".to_owned()));
        };
        let module = self.module;
        let function = module.functions.get(index as usize);
        let function =
            function.ok_or_else(|| CallError::Here(format!("function {index} is not declared")))?;
        self.check_call(function, call).map_err(CallError::Here)?;
        let arguments = self
            .arguments(&function.params, &call.arguments.0)
            .map_err(CallError::Here)?;
        let results = self
            .results(&function.returns, &call.returns.0)
            .map_err(CallError::Here)?;
        match &function.body {
            Some(body) => self.inline_call(index, function, body, arguments, results.clone())?,
            None => self
                .system_call(function, &arguments, &results)
                .map_err(CallError::Here)?,
        }
        self.fetch_results(function, &call.returns.0, &results)
            .map_err(CallError::Here)
    }

    fn check_call(&self, function: &Func, call: &Call) -> Decoded {
        if function.params.len() != call.arguments.0.len()
            || function.returns.len() != call.returns.0.len()
        {
            return Err(format!(
                "the call does not have the arguments and results of {}",
                function.name
            ));
        }
        if self.frames.iter().any(|frame| {
            function
                .body
                .as_ref()
                .is_some_and(|body| std::ptr::eq(frame.body, body))
        }) {
            return Err(format!(
                "{} calls itself, and the emulator has no stack",
                function.name
            ));
        }
        Ok(())
    }

    /// Places of the arguments: `.param` variables are where they are, values go to new local memory.
    fn arguments(&mut self, params: &[Param], arguments: &[Operand]) -> Decoded<Vec<Location>> {
        let mut places = Vec::new();
        for (param, &argument) in params.iter().zip(arguments) {
            if let Operand::Symbol(symbol, 0) = argument {
                places.push(self.symbol(symbol)?);
                continue;
            }
            let place = Location::local(self.new_param(param)?);
            let cell = self.cell(argument, param.ty)?;
            let access = self.whole_value(place, param, cell)?;
            self.push(Op::Store(Box::new(access)));
            places.push(place);
        }
        Ok(places)
    }

    fn results(&mut self, params: &[Param], results: &[Operand]) -> Decoded<Vec<Location>> {
        let mut places = Vec::new();
        for (param, &result) in params.iter().zip(results) {
            places.push(match result {
                Operand::Symbol(symbol, 0) => self.symbol(symbol)?,
                _ => Location::local(self.new_param(param)?),
            });
        }
        Ok(places)
    }

    /// Local memory for a parameter of a call.
    fn new_param(&mut self, param: &Param) -> Decoded<u32> {
        let bytes = u32::try_from(param.size_bytes()).unwrap_or(u32::MAX);
        self.new_local(param.align_bytes(), bytes)
    }

    fn fetch_results(
        &mut self,
        function: &Func,
        results: &[Operand],
        places: &[Location],
    ) -> Decoded {
        for ((param, &result), &place) in function.returns.iter().zip(results).zip(places) {
            if matches!(result, Operand::Reg(_)) {
                let cell = self.cell(result, param.ty)?;
                let access = self.whole_value(place, param, cell)?;
                self.push(Op::Load(Box::new(access)));
            }
        }
        Ok(())
    }

    fn whole_value(
        &mut self,
        place: Location,
        param: &Param,
        cell: crate::program::Cell,
    ) -> Decoded<Access> {
        let bytes = param.ty.bytes();
        if bytes == 0 || bytes > 8 {
            return Err(format!(
                "parameter {} cannot be passed in a register",
                param.name
            ));
        }
        let slot = self.constant(File::Double, Self::place_constant(place, 0));
        Ok(Access {
            space: place.space,
            base: AddressBase {
                file: File::Double,
                slot,
                offset: 0,
            },
            element: bytes,
            bytes,
            strong: None,
            extend: Extend::Zero,
            cells: smallvec::smallvec![cell],
        })
    }

    fn inline_call(
        &mut self,
        function_index: u32,
        function: &'m Func,
        body: &'m Body,
        arguments: Vec<Location>,
        results: Vec<Location>,
    ) -> Result<(), CallError> {
        if self.frames.len() > MAX_CALL_DEPTH || self.steps.len() > MAX_STEPS {
            let message = format!(
                "calls are inlined, and with {} this exceeds {MAX_CALL_DEPTH} calls inside each other or {MAX_STEPS} steps",
                function.name
            );
            return Err(CallError::Here(message));
        }
        let (statement, guard) = (self.statement, self.guard);
        if guard != (0, 0) {
            return Err(CallError::Here(
                "a call under a guard; branch around it instead".to_owned(),
            ));
        }
        let outer = self.frame().call;
        let site = Site {
            statement,
            call: outer,
            is_lead: true,
        };
        self.calls.push(InlinedCall {
            function: function_index,
            site,
        });
        let call = self.calls.len() as u32 - 1;
        self.enter(body, &function.params, arguments, results, call)
            .map_err(CallError::Here)?;
        let end = self.frame().end_label;
        self.body(body)
            .map_err(|error| CallError::Inside(Box::new(error)))?;
        self.labels[end as usize] = self.steps.len() as u32;
        self.frames.pop();
        self.statement = statement;
        self.guard = guard;
        self.is_lead = true;
        self.nothing().map_err(CallError::Here)
    }

    fn system_call(
        &mut self,
        function: &Func,
        arguments: &[Location],
        results: &[Location],
    ) -> Decoded {
        let offsets: Vec<u32> = arguments.iter().map(local_offset).collect::<Decoded<_>>()?;
        match (function.name.as_str(), &offsets[..]) {
            ("vprintf", &[format, arguments]) => {
                let result = results.first().map(local_offset).transpose()?;
                self.push(Op::Print(Box::new(Print {
                    format,
                    arguments,
                    result,
                })));
                Ok(())
            }
            ("__assertfail", &[message, file, line, function, _]) => {
                self.push(Op::Assert(Box::new(AssertFail {
                    message,
                    file,
                    line,
                    function,
                })));
                Ok(())
            }
            (name, _) => Err(format!(
                "{name} has no body, and the emulator knows only vprintf and __assertfail"
            )),
        }
    }
}

fn local_offset(place: &Location) -> Decoded<u32> {
    match (place.space, place.base) {
        (AccessSpace::Local, Base::Offset(offset)) => Ok(offset as u32),
        _ => Err("arguments of a call must be .param variables of the body".to_owned()),
    }
}

impl Decoder<'_> {
    /// The address of a place as a constant register.
    pub(crate) fn place_slot(&mut self, place: Location, offset: i64) -> u32 {
        let constant: Constant = Self::place_constant(place, offset);
        self.constant(File::Double, constant)
    }
}
