//! What a plan says of how a convolution, or the gradient of an image, is computed.

use super::call_plan::CallPlan;
use super::patches::Patches;
use super::shape::UNIT;
use super::ways::{Algorithm, Loaded, Way};

fn text_of_patches(patches: &Patches) -> String {
    let row = patches.row;
    format!("what lies under the filters, {row} numbers a pixel")
}

impl Way {
    pub(super) fn plan(&self) -> CallPlan {
        let mut copies = self.copies_of_inputs();
        copies.extend(self.copies_of_result());
        CallPlan {
            kernel: Some(self.text()),
            copies,
        }
    }

    /// What is loaded of a copy of the image.
    fn copy_of_image(&self) -> Option<String> {
        let [loaded, _] = self.channels();
        match &self.algorithm {
            Algorithm::Implicit { loaded: way, .. } => match way {
                Loaded::InPlace => None,
                Loaded::Padded => Some(format!(
                    "{loaded} channels, where {} are taken",
                    loaded.next_multiple_of(UNIT)
                )),
                Loaded::Lines { channels, .. } => Some(format!(
                    "{loaded} channels, where the {} of a line of taps of {channels} are taken",
                    self.asked.along[2].taps * channels
                )),
            },
            Algorithm::Depthwise { .. } => None,
            Algorithm::Product { .. } if self.is_gradient => None,
            Algorithm::Product { patches, .. } => patches.as_ref().map(text_of_patches),
        }
    }

    fn copies_of_inputs(&self) -> Vec<String> {
        let x = if self.is_gradient { "dy" } else { "x" };
        let mut copies = Vec::new();
        match (
            self.copy_of_image(),
            self.copies.filters && self.merged == 1,
        ) {
            (Some(text), true) => copies.push(format!("`{x}` and `filters` copied: {text}")),
            (Some(text), false) => copies.push(format!("`{x}` copied: {text}")),
            (None, true) => copies.push(format!(
                "`filters` copied: {} channels, where multiples of {UNIT} are taken",
                self.asked.channels
            )),
            (None, false) => {}
        }
        if self.merged > 1 {
            copies.push(format!(
                "`filters` copied: {} groups are one, with zeros for the channels of the others",
                self.merged
            ));
        }
        copies
    }

    fn copies_of_result(&self) -> Vec<String> {
        let [_, stored] = self.channels();
        let (y, what) = if self.is_gradient {
            ("dx", "channels")
        } else {
            ("y", "filters")
        };
        let mut copies = Vec::new();
        if let Algorithm::Product {
            patches: Some(patches),
            ..
        } = &self.algorithm
            && self.is_gradient
        {
            copies.push(format!("`{y}` copied: {}", text_of_patches(patches)));
        }
        if self.copies.zeros {
            copies.push(format!("`{y}` filled with zeros, which no tap reaches"));
        }
        if self.copies.result {
            copies.push(format!(
                "`{y}` copied: {stored} {what}, where multiples of {UNIT} are stored"
            ));
        }
        copies
    }

    fn text(&self) -> String {
        match &self.algorithm {
            Algorithm::Depthwise { launches } => {
                let programs = launches.iter().map(|(_, launch)| launch.programs);
                let text = match launches.len() {
                    0 | 1 => "channels one by one".to_owned(),
                    count => format!("{count} launches of channels one by one"),
                };
                format!(
                    "{text}, {} CTAs, {:.1} us",
                    programs.max().unwrap_or(0),
                    self.microseconds
                )
            }
            Algorithm::Implicit { launches, .. } => {
                let mut texts = launches.iter().map(|(_, tiled)| tiled.to_string());
                let first = texts.next().unwrap_or_else(|| "zeros".to_owned());
                match launches.len() {
                    0 | 1 => first,
                    count => {
                        format!("{count} launches for pixels a stride apart, the first {first}")
                    }
                }
            }
            Algorithm::Product {
                size: [m, n, k], ..
            } => {
                format!("a product of {m} x {n} x {k}, {:.1} us", self.microseconds)
            }
        }
    }
}
