//! Colours of equal weight for the eye.

/// A colour by what the eye sees: a hue on the circle, and how light it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Colour {
    /// Degrees on the circle of hues: 25 red, 110 yellow, 145 green, 195 cyan, 265 blue, 325 magenta.
    pub hue: u16,
    /// Per cent, 0 black, 100 white.
    pub lightness: u8,
}

impl Colour {
    /// Hue `at` of `count` around the circle, beginning at blue.
    pub(super) fn around(at: u32, count: u32, lightness: u8) -> Self {
        Self {
            hue: ((255 + 360 * at / count.max(1)) % 360) as u16,
            lightness,
        }
    }

    /// Red, green and blue, from OKLCH with a chroma that every hue has at these lightnesses.
    pub fn rgb(self) -> [u8; 3] {
        let lightness = f64::from(self.lightness) / 100.0;
        let chroma = 0.115 * (1.0 - (lightness - 0.75).abs()).max(0.2);
        let hue = f64::from(self.hue).to_radians();
        let (a, b) = (chroma * hue.cos(), chroma * hue.sin());
        // Björn Ottosson's OKLab to linear sRGB.
        let cone = |ka: f64, kb: f64| (lightness + ka * a + kb * b).powi(3);
        let long = cone(0.396_337_777_4, 0.215_803_757_3);
        let medium = cone(-0.105_561_345_8, -0.063_854_172_8);
        let short = cone(-0.089_484_177_5, -1.291_485_548);
        let linear = [
            4.076_741_662_1 * long - 3.307_711_591_3 * medium + 0.230_969_929_2 * short,
            -1.268_438_004_6 * long + 2.609_757_401_1 * medium - 0.341_319_396_5 * short,
            -0.004_196_086_3 * long - 0.703_418_614_7 * medium + 1.707_614_701 * short,
        ];
        linear.map(|value| {
            let value = value.clamp(0.0, 1.0);
            let curved = if value <= 0.003_130_8 {
                12.92 * value
            } else {
                1.055 * value.powf(1.0 / 2.4) - 0.055
            };
            (curved * 255.0).round() as u8
        })
    }

    /// `#rrggbb`.
    pub fn hex(self) -> String {
        let [red, green, blue] = self.rgb();
        format!("#{red:02x}{green:02x}{blue:02x}")
    }
}
