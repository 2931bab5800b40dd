//! Where warps wait: samples of program counters, with the reason why the warp did not issue.

#![allow(unsafe_code, reason = "foreign functions of CUPTI")]

use std::ffi::{CStr, c_char, c_int};

use super::parameters::{
    SampledData, SampledPc, SampledReason, SamplingAttribute, SamplingConfigure, SamplingContext,
    SamplingData, StallCount, StallNames,
};
use super::{Cupti, Failure};
use crate::driver::Context;

/// One place of a kernel, with how often a warp was found there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sampled {
    /// The entry.
    pub function: String,
    /// Bytes from its beginning.
    pub offset: u64,
    /// Reasons by NVIDIA's names, with the samples of each.
    pub reasons: Vec<(String, u32)>,
}

/// What was sampled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Samples {
    /// Places, in no order.
    pub places: Vec<Sampled>,
    /// Samples that the hardware had no room for.
    pub dropped: u64,
}

/// `CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_COLLECTION_MODE`, and its value: kernels are not serialized.
const COLLECTION_MODE: c_int = 5;
const CONTINUOUS: u64 = 1;
/// `CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_ENABLE_START_STOP_CONTROL`
const START_STOP: c_int = 6;
/// `CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_SAMPLING_DATA_BUFFER`
const DATA_BUFFER: c_int = 8;

/// Places that one transfer holds; a kernel has some thousand instructions.
const PLACES: usize = 8192;
/// `CUPTI_STALL_REASON_STRING_SIZE`
const REASON_LETTERS: usize = 128;

/// Samples while `work` runs on the GPU of this context, which `work` waits for.
///
/// # Errors
/// A refusal of CUPTI, or what `work` ended with.
pub fn sample<E: From<Failure>>(
    cupti: &Cupti,
    context: &Context,
    work: impl FnOnce() -> Result<(), E>,
) -> Result<Samples, E> {
    let mut sampler = Sampler::new(cupti, context)?;
    let reasons = sampler.reasons()?;
    sampler.configure(Buffer::new(reasons.len()))?;
    sampler.call_with_context(|functions| &functions.sampling_start)?;
    let worked = work();
    sampler.call_with_context(|functions| &functions.sampling_stop)?;
    worked?;
    // What was sampled is in the buffer that CUPTI was given, and comes out of it by transfers.
    let mut samples = Samples::default();
    loop {
        let mut next = Buffer::new(reasons.len());
        sampler.transfer(&mut next)?;
        if next.data.count == 0 {
            return Ok(samples);
        }
        samples.add(&next, &reasons);
    }
}

/// Sampling of a context, until it is dropped.
struct Sampler<'c> {
    cupti: &'c Cupti,
    context: &'c Context,
    /// CUPTI's for as long as it samples.
    kept: Option<Buffer>,
}

impl<'c> Sampler<'c> {
    fn new(cupti: &'c Cupti, context: &'c Context) -> Result<Sampler<'c>, Failure> {
        let sampler = Sampler {
            cupti,
            context,
            kept: None,
        };
        match sampler.call_with_context(|functions| &functions.sampling_enable) {
            Ok(()) => Ok(sampler),
            Err(failure) => {
                // Nothing to be disabled.
                std::mem::forget(sampler);
                Err(failure)
            }
        }
    }

    fn call_with_context(
        &self,
        function: fn(&super::functions::Functions) -> &super::functions::Function<SamplingContext>,
    ) -> Result<(), Failure> {
        let mut parameters = SamplingContext::new();
        parameters.context = self.context.handle();
        // SAFETY: the context is retained while `self` lives.
        unsafe {
            self.cupti
                .call(function(&self.cupti.functions), &mut parameters)
        }
    }

    /// The names of reasons, by their numbers.
    fn reasons(&self) -> Result<Vec<(u32, String)>, Failure> {
        let functions = &self.cupti.functions;
        let mut count = 0;
        let mut number = StallCount::new();
        (number.context, number.count) = (self.context.handle(), &raw mut count);
        // SAFETY: writes one number.
        unsafe { self.cupti.call(&functions.stall_count, &mut number) }?;
        let mut texts = vec![[0 as c_char; REASON_LETTERS]; count];
        let mut pointers: Vec<*mut c_char> =
            texts.iter_mut().map(|text| text.as_mut_ptr()).collect();
        let mut indices = vec![0; count];
        let mut names = StallNames::new();
        names.context = self.context.handle();
        (names.count, names.indices, names.names) =
            (count, indices.as_mut_ptr(), pointers.as_mut_ptr());
        // SAFETY: there is room for so many numbers and names of the most letters.
        unsafe { self.cupti.call(&functions.stall_names, &mut names) }?;
        let name = |text: &[c_char; REASON_LETTERS]| {
            let bytes: Vec<u8> = text.iter().map(|letter| *letter as u8).collect();
            let text = CStr::from_bytes_until_nul(&bytes).unwrap_or_default();
            text.to_string_lossy().into_owned()
        };
        Ok(indices.into_iter().zip(texts.iter().map(name)).collect())
    }

    fn configure(&mut self, kept: Buffer) -> Result<(), Failure> {
        let kept = self.kept.insert(kept);
        let data = &raw mut *kept.data as u64;
        let mut attributes = [
            SamplingAttribute::new(COLLECTION_MODE, CONTINUOUS),
            SamplingAttribute::new(START_STOP, 1),
            SamplingAttribute::new(DATA_BUFFER, data),
        ];
        let mut configure = SamplingConfigure::new();
        configure.context = self.context.handle();
        (configure.count, configure.attributes) = (attributes.len(), attributes.as_mut_ptr());
        let functions = &self.cupti.functions;
        // SAFETY: the attributes outlive the call, and the buffer the sampling.
        unsafe {
            self.cupti
                .call(&functions.sampling_configure, &mut configure)
        }
    }

    fn transfer(&self, to: &mut Buffer) -> Result<(), Failure> {
        let mut data = SamplingData::new();
        (data.context, data.data) = (self.context.handle(), &raw mut *to.data);
        let functions = &self.cupti.functions;
        // SAFETY: the buffer has the room that it says, and outlives the call.
        unsafe { self.cupti.call(&functions.sampling_data, &mut data) }
    }
}

impl Drop for Sampler<'_> {
    fn drop(&mut self) {
        // A failure would leave sampling enabled, which the end of the process ends.
        let _ = self.call_with_context(|functions| &functions.sampling_disable);
    }
}

/// Room for samples.
struct Buffer {
    data: Box<SampledData>,
    places: Vec<SampledPc>,
    /// Those of each place, which places point into.
    reasons: Vec<SampledReason>,
}

impl Buffer {
    fn new(reasons: usize) -> Buffer {
        let mut buffer = Buffer {
            data: Box::new(SampledData::new()),
            places: (0..PLACES).map(|_| SampledPc::new()).collect(),
            reasons: vec![SampledReason::default(); PLACES * reasons],
        };
        for (place, own) in buffer
            .places
            .iter_mut()
            .zip(buffer.reasons.chunks_mut(reasons.max(1)))
        {
            place.reason = own.as_mut_ptr();
        }
        buffer.data.most = PLACES;
        buffer.data.places = buffer.places.as_mut_ptr();
        buffer
    }
}

impl Samples {
    /// Adds what a buffer holds. Names of functions are CUPTI's, and shared among its records: they are not freed.
    fn add(&mut self, buffer: &Buffer, names: &[(u32, String)]) {
        self.dropped += buffer.data.dropped;
        let count = buffer.data.count.min(buffer.places.len());
        for place in &buffer.places[..count] {
            // SAFETY: CUPTI has written so many reasons behind the pointer, which has room for all there are.
            let reasons = unsafe { std::slice::from_raw_parts(place.reason, place.reasons) };
            let named = reasons.iter().map(|reason| {
                let known = names.iter().find(|(index, _)| *index == reason.index);
                (
                    known.map_or_else(String::new, |(_, name)| name.clone()),
                    reason.samples,
                )
            });
            let function = if place.function.is_null() {
                String::new()
            } else {
                // SAFETY: a text of CUPTI's that ends with a zero.
                let text = unsafe { CStr::from_ptr(place.function) };
                text.to_string_lossy().into_owned()
            };
            self.places.push(Sampled {
                function,
                offset: place.offset,
                reasons: named.collect(),
            });
        }
    }
}
