//! Counting.

#![allow(unsafe_code, reason = "foreign functions of CUPTI")]

use super::parameters::{
    DecodeData, Disable, Enable, ImageInfo, ImageInitialize, ImageSize, RangeObject, SetConfig,
    Start, Stop,
};
use super::plan::pointers;
use super::{Failure, Plan};
use crate::driver::Context;

/// `CUPTI_AutoRange`: each kernel is one.
const AUTO_RANGE: i32 = 1;
/// `CUPTI_UserReplay`: the caller repeats.
const USER_REPLAY: i32 = 3;

/// Counting in a context, until it is dropped.
pub struct Session<'p> {
    plan: &'p Plan,
    /// The object is one of this context.
    _context: &'p Context,
    object: RangeObject,
    kernels: usize,
    /// Written by CUPTI for as long as the object lives: never grown.
    image: Vec<u8>,
    is_done: bool,
}

impl<'p> Session<'p> {
    /// Of at most so many kernels a pass, on the context that the plan was made for.
    ///
    /// # Errors
    /// A refusal of CUPTI.
    pub fn open(
        plan: &'p Plan,
        context: &'p Context,
        kernels: usize,
    ) -> Result<Session<'p>, Failure> {
        let cupti = plan.cupti;
        let mut enable = Enable::new();
        enable.context = context.handle();
        // SAFETY: the context is retained while this lives.
        unsafe { cupti.call(&cupti.functions.enable, &mut enable) }?;
        let mut session = Session {
            plan,
            _context: context,
            object: enable.object,
            kernels,
            image: Vec::new(),
            is_done: false,
        };
        session.image = session.empty_image()?;
        session.configure()?;
        Ok(session)
    }

    fn empty_image(&self) -> Result<Vec<u8>, Failure> {
        let cupti = self.plan.cupti;
        let names = pointers(&self.plan.names);
        let mut size = ImageSize::new();
        size.object = self.object;
        (size.names, size.count) = (names.as_ptr(), names.len());
        size.most_ranges = self.kernels;
        size.most_nodes = self.kernels as u32;
        // SAFETY: all pointers outlive the call.
        unsafe { cupti.call(&cupti.functions.image_size, &mut size) }?;
        let mut image = vec![0; size.image_bytes];
        let mut initialize = ImageInitialize::new();
        initialize.object = self.object;
        (initialize.image_bytes, initialize.image) = (image.len(), image.as_mut_ptr());
        // SAFETY: the image has the size that was asked for.
        unsafe { cupti.call(&cupti.functions.image_initialize, &mut initialize) }?;
        Ok(image)
    }

    fn configure(&mut self) -> Result<(), Failure> {
        let cupti = self.plan.cupti;
        let mut config = SetConfig::new();
        config.object = self.object;
        (config.config_bytes, config.config) = (self.plan.config.len(), self.plan.config.as_ptr());
        (config.image_bytes, config.image) = (self.image.len(), self.image.as_mut_ptr());
        (config.range, config.replay) = (AUTO_RANGE, USER_REPLAY);
        config.most_ranges = self.kernels;
        (config.levels, config.least_level, config.level) = (1, 1, 1);
        // SAFETY: both images live as long as the object, and are not moved.
        unsafe { cupti.call(&cupti.functions.set_config, &mut config) }
    }

    /// Has every pass been counted?
    pub fn is_done(&self) -> bool {
        self.is_done
    }

    /// Begins a pass.
    ///
    /// # Errors
    /// A refusal of CUPTI.
    pub fn start(&mut self) -> Result<(), Failure> {
        let mut start = Start::new();
        start.object = self.object;
        let cupti = self.plan.cupti;
        // SAFETY: the object is enabled and configured.
        unsafe { cupti.call(&cupti.functions.start, &mut start) }
    }

    /// Ends a pass, when the GPU has done all of it.
    ///
    /// # Errors
    /// A refusal of CUPTI.
    pub fn stop(&mut self) -> Result<(), Failure> {
        let mut stop = Stop::new();
        stop.object = self.object;
        let cupti = self.plan.cupti;
        // SAFETY: a pass was begun.
        unsafe { cupti.call(&cupti.functions.stop, &mut stop) }?;
        self.is_done = stop.is_all_submitted != 0;
        Ok(())
    }

    /// The values of each kernel of a pass, in the order of launches, each in the order of [`Plan::names`]; and how many kernels more there were.
    ///
    /// # Errors
    /// A refusal of CUPTI.
    pub fn values(&mut self) -> Result<(Vec<Vec<f64>>, usize), Failure> {
        let cupti = self.plan.cupti;
        let mut decode = DecodeData::new();
        decode.object = self.object;
        // SAFETY: what was counted goes to the image that the object was configured with.
        unsafe { cupti.call(&cupti.functions.decode_data, &mut decode) }?;
        let mut info = ImageInfo::new();
        (info.image, info.image_bytes) = (self.image.as_ptr(), self.image.len());
        // SAFETY: the image outlives the call.
        unsafe { cupti.call(&cupti.functions.image_info, &mut info) }?;
        let kernels = 0..info.ranges.min(self.kernels);
        let values = kernels.map(|kernel| self.plan.evaluate(&self.image, kernel));
        Ok((values.collect::<Result<_, _>>()?, decode.dropped))
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        let cupti = self.plan.cupti;
        let mut disable = Disable::new();
        disable.object = self.object;
        // A failure would leave counting enabled, which the end of the process ends.
        // SAFETY: enabled once, and disabled once here.
        let _ = unsafe { cupti.call(&cupti.functions.disable, &mut disable) };
    }
}
