//! How a call would be computed, as a program may ask.

use std::fmt;

/// How a call computes its convolution.
#[derive(Clone, Debug, PartialEq)]
pub struct CallPlan {
    /// The kernel's tile and its CTAs; none where there is nothing to compute.
    pub kernel: Option<String>,
    /// What is copied, and why.
    pub copies: Vec<String>,
}

impl CallPlan {
    /// Of empty results.
    pub(super) const NOTHING: CallPlan = CallPlan {
        kernel: None,
        copies: Vec::new(),
    };
}

impl fmt::Display for CallPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kernel {
            Some(kernel) => write!(f, "{kernel}")?,
            None => write!(f, "nothing")?,
        }
        self.copies
            .iter()
            .try_for_each(|copy| write!(f, "; {copy}"))
    }
}
