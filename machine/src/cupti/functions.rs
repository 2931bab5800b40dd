//! CUPTI's library and its functions.

#![allow(unsafe_code, reason = "foreign functions of CUPTI")]

use std::ffi::{CStr, c_char, c_int};
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use libloading::Library;

use super::Failure;
use super::parameters::{
    AddMetrics, Availability, ChipName, ConfigImage, ConfigSize, DecodeData, Disable, Enable,
    Evaluate, HostDeinitialize, HostInitialize, ImageInfo, ImageInitialize, ImageSize, Nothing,
    PassCount, SamplingConfigure, SamplingContext, SamplingData, SetConfig, SourceLine, StallCount,
    StallNames, Start, Stop,
};
use crate::library::{first, open};
use crate::ptxas::Environment;

/// The environment variable that names the file of CUPTI, in place of those that are looked for.
pub const LIBRARY_VARIABLE: &str = "TILEKIT_LIBCUPTI";

/// Releases that are understood, the preferred first: the functions used here are the same in both.
const MAJORS: [u32; 2] = [13, 12];

/// Libraries that CUPTI opens by their names alone, which finds them where they are open already.
const COMPANIONS: [&str; 2] = ["libnvperf_host.so", "libnvperf_target.so"];

/// A function with its structure of parameters, and its name for failures.
pub(super) struct Function<P> {
    name: &'static str,
    pointer: unsafe extern "C" fn(*mut P) -> c_int,
}

macro_rules! functions {
    ($($field:ident = $symbol:literal ($parameters:ty);)*) => {
        /// CUPTI's functions.
        #[allow(non_snake_case, reason = "the names of CUPTI's headers")]
        pub(super) struct Functions { $(pub(super) $field: Function<$parameters>,)* }

        impl Functions {
            fn of(library: &Library) -> Result<Functions, String> {
                Ok(Functions { $($field: Function {
                    name: $symbol,
                    // SAFETY: the signature is that of CUPTI's headers.
                    pointer: *unsafe { library.get($symbol.as_bytes()) }.map_err(|_| {
                        concat!("it has no `", $symbol, "`, which CUPTI has from CUDA 12.6 on").to_string()
                    })?,
                },)* })
            }
        }
    };
}

functions! {
    initialize = "cuptiProfilerInitialize" (Nothing);
    deinitialize = "cuptiProfilerDeInitialize" (Nothing);
    counter_availability = "cuptiProfilerGetCounterAvailability" (Availability);
    chip_name = "cuptiDeviceGetChipName" (ChipName);
    host_initialize = "cuptiProfilerHostInitialize" (HostInitialize);
    host_deinitialize = "cuptiProfilerHostDeinitialize" (HostDeinitialize);
    add_metrics = "cuptiProfilerHostConfigAddMetrics" (AddMetrics);
    config_size = "cuptiProfilerHostGetConfigImageSize" (ConfigSize);
    config_image = "cuptiProfilerHostGetConfigImage" (ConfigImage);
    passes = "cuptiProfilerHostGetNumOfPasses" (PassCount);
    evaluate = "cuptiProfilerHostEvaluateToGpuValues" (Evaluate);
    enable = "cuptiRangeProfilerEnable" (Enable);
    disable = "cuptiRangeProfilerDisable" (Disable);
    image_size = "cuptiRangeProfilerGetCounterDataSize" (ImageSize);
    image_initialize = "cuptiRangeProfilerCounterDataImageInitialize" (ImageInitialize);
    set_config = "cuptiRangeProfilerSetConfig" (SetConfig);
    start = "cuptiRangeProfilerStart" (Start);
    stop = "cuptiRangeProfilerStop" (Stop);
    decode_data = "cuptiRangeProfilerDecodeData" (DecodeData);
    image_info = "cuptiRangeProfilerGetCounterDataInfo" (ImageInfo);
    sampling_enable = "cuptiPCSamplingEnable" (SamplingContext);
    sampling_disable = "cuptiPCSamplingDisable" (SamplingContext);
    sampling_configure = "cuptiPCSamplingSetConfigurationAttribute" (SamplingConfigure);
    sampling_start = "cuptiPCSamplingStart" (SamplingContext);
    sampling_stop = "cuptiPCSamplingStop" (SamplingContext);
    sampling_data = "cuptiPCSamplingGetData" (SamplingData);
    stall_count = "cuptiPCSamplingGetNumStallReasons" (StallCount);
    stall_names = "cuptiPCSamplingGetStallReasons" (StallNames);
    source_line = "cuptiGetSassToSourceCorrelation" (SourceLine);
}

/// CUPTI, open.
pub struct Cupti {
    pub(super) functions: Functions,
    result_string: unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int,
    /// Where it was found.
    pub file: PathBuf,
}

impl Cupti {
    /// The CUPTI of this machine: the file that `$TILEKIT_LIBCUPTI` names, else the first in NVIDIA's toolkits, by the loader, or in Python's packages. The
    /// answer is kept for the process.
    ///
    /// # Errors
    /// Why there is none, with a help.
    pub fn get() -> Result<&'static Cupti, String> {
        static FOUND: OnceLock<Result<Cupti, String>> = OnceLock::new();
        FOUND.get_or_init(search).as_ref().map_err(Clone::clone)
    }

    fn load(file: &Path) -> Result<Cupti, String> {
        let folder = file
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        let companions = COMPANIONS.iter().filter_map(|name| {
            let beside = folder.map_or(PathBuf::from(name), |folder| folder.join(name));
            // What CUPTI lacks it says itself.
            open(&beside).ok()
        });
        // None is ever closed, also where this CUPTI cannot be used: they have exit handlers of their own.
        companions.for_each(std::mem::forget);
        let library = ManuallyDrop::new(open(file)?);
        let functions = Functions::of(&library)?;
        // SAFETY: the signature is that of `cupti_result.h`.
        let result_string = *unsafe { library.get(b"cuptiGetResultString\0") }
            .map_err(|_| "it has no `cuptiGetResultString`".to_string())?;
        Ok(Cupti {
            functions,
            result_string,
            file: file.to_path_buf(),
        })
    }

    /// Calls a function.
    ///
    /// # Safety
    /// What the parameters point to is what the function wants, and outlives the call or what the function says.
    pub(super) unsafe fn call<P>(
        &self,
        function: &Function<P>,
        parameters: &mut P,
    ) -> Result<(), Failure> {
        // SAFETY: the structure is that of the function; the rest is the caller's word.
        let code = unsafe { (function.pointer)(parameters) };
        if code == 0 {
            return Ok(());
        }
        Err(Failure {
            call: function.name,
            code,
            text: self.text(code),
        })
    }

    fn text(&self, code: c_int) -> String {
        let mut text = std::ptr::null();
        // SAFETY: writes one pointer, to a text that is CUPTI's for ever.
        let known = unsafe { (self.result_string)(code, &raw mut text) };
        if known != 0 || text.is_null() {
            return "an unknown error".to_string();
        }
        // SAFETY: a string that ends with a zero, as said above.
        let text = unsafe { CStr::from_ptr(text) };
        text.to_string_lossy().into_owned()
    }
}

/// Place of the CUPTI that `bench --counters` would use on this machine.
///
/// # Errors
/// Why there is none.
pub fn find() -> Result<String, String> {
    Cupti::get().map(|cupti| cupti.file.display().to_string())
}

fn search() -> Result<Cupti, String> {
    if let Some(named) = std::env::var_os(LIBRARY_VARIABLE).filter(|name| !name.is_empty()) {
        let named = PathBuf::from(named);
        return Cupti::load(&named)
            .map_err(|why| format!("${LIBRARY_VARIABLE} names {}: {why}", named.display()));
    }
    search_in(Environment::of_process().library_folders())
}

fn search_in(folders: impl Iterator<Item = Option<PathBuf>>) -> Result<Cupti, String> {
    let names = MAJORS.map(|major| format!("libcupti.so.{major}"));
    // A toolkit has it in a folder of its own.
    let folders = folders.flat_map(|folder| {
        let of_toolkit = folder
            .as_ref()
            .and_then(|folder| folder.parent())
            .map(|home| Some(home.join("extras/CUPTI/lib64")));
        [Some(folder), of_toolkit].into_iter().flatten()
    });
    let lack = "no CUPTI was found in $CUDA_HOME, $CUDA_PATH, by the loader (LD_LIBRARY_PATH), in /usr/local/cuda* or in Python's packages; \
                `pip install nvidia-cuda-cupti`, or set TILEKIT_LIBCUPTI to its file";
    first(folders, &names, lack, Cupti::load)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_that_finds_nothing_gives_a_help_and_names_what_is_no_library() {
        let folder = tempfile::tempdir().expect("a folder");
        let lib = folder.path().join("lib64");
        let why = |folder: &Path| {
            let folders = [Some(folder.to_path_buf())].into_iter();
            search_in(folders).err().expect("no CUPTI")
        };
        assert!(why(&lib).contains("pip install nvidia-cuda-cupti"));
        let of_toolkit = folder.path().join("extras/CUPTI/lib64");
        std::fs::create_dir_all(&of_toolkit).expect("a folder");
        let file = of_toolkit.join("libcupti.so.13");
        std::fs::write(&file, "text").expect("a file");
        let why = why(&lib);
        assert!(why.contains(&file.display().to_string()), "{why}");
    }
}
