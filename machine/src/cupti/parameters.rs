//! Parameters of CUPTI's functions, as its headers declare them: `cupti_profiler_target.h`, `cupti_target.h`, `cupti_profiler_host.h` and
//! `cupti_range_profiler.h` of CUDA 12.6 and later.
//!
//! Each begins with its size up to the end of its last field. A library that knows more fields takes those for zero.

#![allow(unsafe_code, reason = "structures of zeros")]

use std::ffi::{CStr, c_char, c_int, c_void};

use launch::driver::ContextHandle;

/// Defines structures of parameters, with their sizes as CUPTI counts them: without the padding behind the last field.
macro_rules! parameters {
    ($($(#[$about:meta])* $name:ident { $($field:ident: $type:ty,)* ; $last:ident: $last_type:ty })*) => {
        $(
            $(#[$about])*
            #[repr(C)]
            pub(super) struct $name {
                bytes: usize,
                private: *mut c_void,
                $(pub(super) $field: $type,)*
                pub(super) $last: $last_type,
            }

            impl $name {
                /// All zeros, but for the size.
                pub(super) fn new() -> $name {
                    // SAFETY: every field is a number or a pointer, for which zero is a value.
                    let mut zeros: $name = unsafe { std::mem::zeroed() };
                    zeros.bytes = std::mem::offset_of!($name, $last) + size_of::<$last_type>();
                    zeros
                }
            }
        )*
    };
}

/// `CUpti_Profiler_Initialize_Params`, `CUpti_Profiler_DeInitialize_Params`
#[repr(C)]
pub(super) struct Nothing {
    bytes: usize,
    private: *mut c_void,
}

impl Nothing {
    pub(super) fn new() -> Nothing {
        Nothing {
            bytes: size_of::<Nothing>(),
            private: std::ptr::null_mut(),
        }
    }
}

/// `CUpti_Profiler_Host_Object *`
pub(super) type HostObject = *mut c_void;
/// `CUpti_RangeProfiler_Object *`
pub(super) type RangeObject = *mut c_void;

parameters! {
    /// `CUpti_Device_GetChipName_Params`
    ChipName { ordinal: usize, ; name: *const c_char }
    /// `CUpti_Profiler_GetCounterAvailability_Params`
    Availability { context: ContextHandle, image_bytes: usize, ; image: *mut u8 }
    /// `CUpti_Profiler_Host_Initialize_Params`
    HostInitialize { kind: c_int, chip: *const c_char, availability: *const u8, ; object: HostObject }
    /// `CUpti_Profiler_Host_Deinitialize_Params`
    HostDeinitialize { ; object: HostObject }
    /// `CUpti_Profiler_Host_ConfigAddMetrics_Params`
    AddMetrics { object: HostObject, names: *const *const c_char, ; count: usize }
    /// `CUpti_Profiler_Host_GetConfigImageSize_Params`
    ConfigSize { object: HostObject, ; config_bytes: usize }
    /// `CUpti_Profiler_Host_GetConfigImage_Params`
    ConfigImage { object: HostObject, config_bytes: usize, ; config: *mut u8 }
    /// `CUpti_Profiler_Host_GetNumOfPasses_Params`
    PassCount { config_bytes: usize, config: *const u8, ; passes: usize }
    /// `CUpti_Profiler_Host_EvaluateToGpuValues_Params`
    Evaluate {
        object: HostObject, image: *const u8, image_bytes: usize, range: usize, names: *const *const c_char, count: usize, ;
        values: *mut f64
    }
    /// `CUpti_RangeProfiler_Enable_Params`
    Enable { context: ContextHandle, ; object: RangeObject }
    /// `CUpti_RangeProfiler_Disable_Params`
    Disable { ; object: RangeObject }
    /// `CUpti_RangeProfiler_GetCounterDataSize_Params`
    ImageSize { object: RangeObject, names: *const *const c_char, count: usize, most_ranges: usize, most_nodes: u32, ; image_bytes: usize }
    /// `CUpti_RangeProfiler_CounterDataImage_Initialize_Params`
    ImageInitialize { object: RangeObject, image_bytes: usize, ; image: *mut u8 }
    /// `CUpti_RangeProfiler_SetConfig_Params`
    SetConfig {
        object: RangeObject, config_bytes: usize, config: *const u8, image_bytes: usize, image: *mut u8, range: c_int, replay: c_int,
        most_ranges: usize, levels: u16, least_level: u16, pass: usize, ; level: u16
    }
    /// `CUpti_RangeProfiler_Start_Params`
    Start { ; object: RangeObject }
    /// `CUpti_RangeProfiler_Stop_Params`
    Stop { object: RangeObject, pass: usize, level: usize, ; is_all_submitted: u8 }
    /// `CUpti_RangeProfiler_DecodeData_Params`
    DecodeData { object: RangeObject, ; dropped: usize }
    /// `CUpti_RangeProfiler_GetCounterDataInfo_Params`
    ImageInfo { image: *const u8, image_bytes: usize, ; ranges: usize }
    /// `CUpti_PCSamplingEnableParams`, and those of disabling, starting and stopping
    SamplingContext { ; context: ContextHandle }
    /// `CUpti_PCSamplingConfigurationInfoParams`
    SamplingConfigure { context: ContextHandle, count: usize, ; attributes: *mut SamplingAttribute }
    /// `CUpti_PCSamplingGetDataParams`
    SamplingData { context: ContextHandle, ; data: *mut SampledData }
    /// `CUpti_PCSamplingGetNumStallReasonsParams`
    StallCount { context: ContextHandle, ; count: *mut usize }
    /// `CUpti_PCSamplingGetStallReasonsParams`
    StallNames { context: ContextHandle, count: usize, indices: *mut u32, ; names: *mut *mut c_char }
}

/// `CUpti_PCSamplingConfigurationInfo`
#[repr(C)]
pub(super) struct SamplingAttribute {
    kind: c_int,
    status: c_int,
    /// A number, or an address, at the beginning of the union.
    data: [u64; 3],
}

impl SamplingAttribute {
    pub(super) fn new(kind: c_int, value: u64) -> SamplingAttribute {
        SamplingAttribute {
            kind,
            status: 0,
            data: [value, 0, 0],
        }
    }
}

/// `CUpti_PCSamplingStallReason`
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(super) struct SampledReason {
    pub(super) index: u32,
    pub(super) samples: u32,
}

/// `CUpti_PCSamplingPCData`
#[repr(C)]
pub(super) struct SampledPc {
    bytes: usize,
    cubin_crc: u64,
    pub(super) offset: u64,
    function_index: u32,
    padding: u32,
    pub(super) function: *mut c_char,
    /// How many there are behind `reason`.
    pub(super) reasons: usize,
    pub(super) reason: *mut SampledReason,
    correlation: u32,
}

impl SampledPc {
    pub(super) fn new() -> SampledPc {
        SampledPc {
            bytes: size_of::<SampledPc>(),
            cubin_crc: 0,
            offset: 0,
            function_index: 0,
            padding: 0,
            function: std::ptr::null_mut(),
            reasons: 0,
            reason: std::ptr::null_mut(),
            correlation: 0,
        }
    }
}

/// `CUpti_PCSamplingData`
#[repr(C)]
pub(super) struct SampledData {
    bytes: usize,
    /// Places that there is room for.
    pub(super) most: usize,
    total: u64,
    pub(super) dropped: u64,
    /// Places that were written.
    pub(super) count: usize,
    remaining: usize,
    range: u64,
    pub(super) places: *mut SampledPc,
    total_of_others: u64,
    is_hardware_full: u8,
}

impl SampledData {
    pub(super) fn new() -> SampledData {
        SampledData {
            bytes: size_of::<SampledData>(),
            most: 0,
            total: 0,
            dropped: 0,
            count: 0,
            remaining: 0,
            range: 0,
            places: std::ptr::null_mut(),
            total_of_others: 0,
            is_hardware_full: 0,
        }
    }
}

/// `CUpti_GetSassToSourceCorrelationParams`
#[repr(C)]
pub(super) struct SourceLine {
    bytes: usize,
    cubin: *const u8,
    entry: *const c_char,
    cubin_bytes: usize,
    pub(super) line: u32,
    pub(super) offset: u64,
    pub(super) file: *mut c_char,
    pub(super) folder: *mut c_char,
}

impl SourceLine {
    pub(super) fn new(cubin: &[u8], entry: &CStr) -> SourceLine {
        SourceLine {
            bytes: size_of::<SourceLine>(),
            cubin: cubin.as_ptr(),
            entry: entry.as_ptr(),
            cubin_bytes: cubin.len(),
            line: 0,
            offset: 0,
            file: std::ptr::null_mut(),
            folder: std::ptr::null_mut(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sizes and offsets that a C compiler gives for the headers of CUPTI 13.0.
    #[test]
    fn layouts_are_those_of_the_headers() {
        assert_eq!(Nothing::new().bytes, 16);
        assert_eq!(ChipName::new().bytes, 32);
        assert_eq!(Availability::new().bytes, 40);
        assert_eq!(HostInitialize::new().bytes, 48);
        assert_eq!(HostDeinitialize::new().bytes, 24);
        assert_eq!(AddMetrics::new().bytes, 40);
        assert_eq!(ConfigSize::new().bytes, 32);
        assert_eq!(ConfigImage::new().bytes, 40);
        assert_eq!(PassCount::new().bytes, 40);
        assert_eq!(Evaluate::new().bytes, 72);
        assert_eq!(Enable::new().bytes, 32);
        assert_eq!(Disable::new().bytes, 24);
        assert_eq!(ImageSize::new().bytes, 64);
        assert_eq!(ImageInitialize::new().bytes, 40);
        assert_eq!(SetConfig::new().bytes, 90);
        assert_eq!(Start::new().bytes, 24);
        assert_eq!(Stop::new().bytes, 41);
        assert_eq!(DecodeData::new().bytes, 32);
        assert_eq!(ImageInfo::new().bytes, 40);
        let sampling = [
            SamplingContext::new().bytes,
            SamplingConfigure::new().bytes,
            SamplingData::new().bytes,
            StallCount::new().bytes,
            StallNames::new().bytes,
            size_of::<SamplingAttribute>(),
            size_of::<SampledReason>(),
            size_of::<SampledPc>(),
            size_of::<SampledData>(),
            size_of::<SourceLine>(),
        ];
        assert_eq!(sampling, [24, 40, 32, 32, 48, 32, 8, 64, 80, 64]);
        let offsets = [
            std::mem::offset_of!(SetConfig, range),
            std::mem::offset_of!(SetConfig, most_ranges),
            std::mem::offset_of!(SetConfig, levels),
            std::mem::offset_of!(SetConfig, pass),
            std::mem::offset_of!(HostInitialize, chip),
            std::mem::offset_of!(ImageSize, image_bytes),
        ];
        assert_eq!(offsets, [56, 64, 72, 80, 24, 56]);
    }
}
