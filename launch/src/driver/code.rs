//! Code in a context: modules, and functions made ready to be launched.

#![allow(unsafe_code, reason = "foreign functions of the driver")]

use std::ffi::{CStr, c_int, c_void};

use super::numbers::{
    JIT_ERROR_LOG, JIT_ERROR_LOG_BYTES, JIT_INFO_LOG, JIT_INFO_LOG_BYTES, JIT_LOG_VERBOSE,
    MAX_DYNAMIC_SHARED_BYTES, NON_PORTABLE_CLUSTER,
};
use super::{Driver, Failure, FunctionHandle, ModuleHandle};

/// Bytes of each text that the driver's compiler may write.
const LOG_BYTES: usize = 16 << 10;

/// What the driver's compiler writes about PTX that it is given.
pub struct JitLog {
    notes: Vec<u8>,
    errors: Vec<u8>,
}

impl JitLog {
    /// Nothing yet.
    #[allow(
        clippy::new_without_default,
        reason = "two buffers of 16 KiB are no default"
    )]
    pub fn new() -> JitLog {
        JitLog {
            notes: vec![0; LOG_BYTES],
            errors: vec![0; LOG_BYTES],
        }
    }

    /// What it noted, one message a line; empty for a cubin.
    pub fn notes(&self) -> Vec<String> {
        lines(&self.notes)
    }

    /// Why it rejected the code, one message a line.
    pub fn errors(&self) -> Vec<String> {
        lines(&self.errors)
    }

    /// The options that name the buffers, in the driver's form: sizes and flags travel as pointer-sized integers.
    fn options(&mut self) -> [(u32, *mut c_void); 5] {
        let size = std::ptr::without_provenance_mut(LOG_BYTES);
        [
            (JIT_INFO_LOG, self.notes.as_mut_ptr().cast()),
            (JIT_INFO_LOG_BYTES, size),
            (JIT_ERROR_LOG, self.errors.as_mut_ptr().cast()),
            (JIT_ERROR_LOG_BYTES, size),
            (JIT_LOG_VERBOSE, std::ptr::without_provenance_mut(1)),
        ]
    }
}

fn lines(log: &[u8]) -> Vec<String> {
    let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
    String::from_utf8_lossy(&log[..end])
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .map(str::to_owned)
        .collect()
}

impl Driver {
    /// Loads a cubin, or PTX text, which the driver compiles, into the current context. Unloading it is the caller's.
    ///
    /// The link functions (`cuLink*`) are never used: they compile relocatable code, for which `setmaxnreg` is ignored (C7504)
    /// and `wgmma` kernels spill.
    ///
    /// # Errors
    /// What the driver refuses; `log` says why it rejects PTX.
    ///
    /// # Safety
    /// `image` is a whole cubin, at a multiple of 16 bytes, or text that ends with a null. A context is current.
    pub unsafe fn load_module(
        &self,
        image: &[u8],
        log: Option<&mut JitLog>,
    ) -> Result<ModuleHandle, Failure> {
        let options = log.map(JitLog::options);
        let count = options.map_or(0, |options| options.len());
        let options = options.unwrap_or([(0, std::ptr::null_mut()); 5]);
        let (mut numbers, mut values) = (options.map(|(n, _)| n), options.map(|(_, v)| v));
        let mut module = ModuleHandle::NULL;
        // SAFETY: the image is the caller's word; there are `count` options, whose buffers live in `log`; writes one handle.
        let code = unsafe {
            (self.functions.cuModuleLoadDataEx)(
                &raw mut module,
                image.as_ptr().cast(),
                count as u32,
                numbers.as_mut_ptr(),
                values.as_mut_ptr(),
            )
        };
        self.check("cuModuleLoadDataEx", code)?;
        Ok(module)
    }

    /// The function `name` of a module.
    ///
    /// # Errors
    /// What the driver refuses; code 500 where there is none of this name.
    ///
    /// # Safety
    /// `module` lives, in the current context.
    pub unsafe fn function(
        &self,
        module: ModuleHandle,
        name: &CStr,
    ) -> Result<FunctionHandle, Failure> {
        let mut function = FunctionHandle::NULL;
        // SAFETY: writes one handle; the module lives by the caller's word, and the name ends with a null.
        let code = unsafe {
            (self.functions.cuModuleGetFunction)(&raw mut function, module, name.as_ptr())
        };
        self.check("cuModuleGetFunction", code)?;
        Ok(function)
    }

    /// Allows a function so much dynamic shared memory of a CTA. Asked for every size: how much a function has without it is the
    /// GPU's affair.
    ///
    /// # Errors
    /// What the driver refuses.
    ///
    /// # Safety
    /// `function` is a handle of the current context.
    pub unsafe fn allow_shared_bytes(
        &self,
        function: FunctionHandle,
        bytes: u32,
    ) -> Result<(), Failure> {
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: the caller's word.
        unsafe { self.set_attribute(function, MAX_DYNAMIC_SHARED_BYTES, bytes) }
    }

    /// Allows a function clusters of this size, also one that not every GPU with clusters can place.
    ///
    /// # Errors
    /// What the driver refuses.
    ///
    /// # Safety
    /// As for [`allow_shared_bytes`](Driver::allow_shared_bytes).
    pub unsafe fn allow_cluster(
        &self,
        function: FunctionHandle,
        cluster: [u32; 3],
    ) -> Result<(), Failure> {
        if cluster == [1; 3] {
            return Ok(());
        }
        // SAFETY: the caller's word.
        unsafe { self.set_attribute(function, NON_PORTABLE_CLUSTER, 1) }
    }

    unsafe fn set_attribute(
        &self,
        function: FunctionHandle,
        attribute: u32,
        value: u32,
    ) -> Result<(), Failure> {
        // SAFETY: the function is of the current context, by the caller's word.
        let code =
            unsafe { (self.functions.cuFuncSetAttribute)(function, attribute, value as c_int) };
        self.check("cuFuncSetAttribute", code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_ends_at_its_null_and_has_no_empty_lines() {
        assert_eq!(lines(b" one \n\n two\0three"), ["one", "two"]);
        assert!(JitLog::new().errors().is_empty());
    }
}
