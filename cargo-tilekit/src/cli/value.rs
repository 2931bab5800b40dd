//! What may stand behind a flag, and what is said of a value that may not.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use super::words::words;

/// A shape such as `32x64`, `32,64` or `[32, 64]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TensorShape(pub(crate) Vec<u32>);

impl FromStr for TensorShape {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let list = text.trim();
        let list = match list.strip_prefix('[') {
            Some(rest) => rest
                .strip_suffix(']')
                .ok_or("`[` is not closed; write [32, 64] or 32x64")?,
            None => list,
        };
        let sizes = list.split(['x', ',']).enumerate();
        let sizes = sizes.map(|(dim, size)| extent(dim, size.trim()));
        sizes.collect::<Result<_, _>>().map(TensorShape)
    }
}

/// One size of a shape, or what is wrong with it.
fn extent(dim: usize, text: &str) -> Result<u32, String> {
    let is_number = !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
    let size: u32 = text.parse().map_err(|_| {
        if is_number {
            format!("dimension {dim} is {text}, and 2147483648 is the largest size")
        } else {
            format!("dimension {dim} is `{text}`, which is no number; write sizes such as 32x64")
        }
    })?;
    match size {
        0 => Err(format!("dimension {dim} is 0, and 1 is the smallest size")),
        1..=0x8000_0000 => Ok(size),
        _ => Err(format!(
            "dimension {dim} is {size}, and 2147483648 is the largest size"
        )),
    }
}

pub(super) fn element_bits(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(bits @ (8 | 16 | 32 | 64)) => Ok(bits),
        _ => Err("an element has 8, 16, 32 or 64 bits".to_string()),
    }
}

/// A time in seconds, such as `1.5`.
pub(super) fn seconds_of_minute(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text
        .parse()
        .map_err(|_| "not a number of seconds".to_string())?;
    let is_sensible = (0.001..=60.0).contains(&seconds);
    is_sensible
        .then(|| Duration::from_secs_f64(seconds))
        .ok_or_else(|| "write 0.001 to 60 seconds".to_string())
}

/// A name that a file can have: letters, digits and `-_.`, the first no dot.
pub(super) fn file_name(text: &str) -> Result<String, String> {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if text.is_empty() || text.starts_with('.') || !text.chars().all(is_letter) {
        return Err("write letters, digits and `-_.`, such as before-tuning".to_string());
    }
    Ok(text.to_string())
}

/// The words of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Words(pub(crate) Vec<String>);

/// A command with its arguments.
pub(super) fn command(text: &str) -> Result<Words, String> {
    let words = words(text)?;
    if words.is_empty() {
        return Err("write a command, such as 'cuda-gdb --args'".to_string());
    }
    Ok(Words(words))
}

/// A file for a picture: without its ending, the name of a kernel that stands behind the flag would be taken for one.
pub(super) fn svg_file(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    match path.extension() {
        Some(ending) if ending.eq_ignore_ascii_case("svg") => Ok(path),
        _ => Err("write the name of an SVG file, such as roofline.svg".to_string()),
    }
}

/// A number of processes, such as `4`.
pub(super) fn processes(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(jobs @ 1..=256) => Ok(jobs),
        _ => Err("write a number of processes, 1 to 256".to_string()),
    }
}

/// `--records`.
pub(super) fn records(text: &str) -> Result<u32, String> {
    let number: Option<u32> = text.replace('_', "").parse().ok();
    let is_ring = |n: &u32| n.is_power_of_two() && (8..=1 << 20).contains(n);
    number.filter(is_ring).ok_or_else(|| {
        format!(
            "`{text}` is no number of records: write a power of two from 8 to 1048576, such as 4096"
        )
    })
}

/// `--between`: `2000..6000`.
pub(super) fn times(text: &str) -> Result<[u64; 2], String> {
    let ends = text.split_once("..");
    let ends = ends.and_then(|(from, to)| Some([from.parse().ok()?, to.parse().ok()?]));
    ends.filter(|[from, to]| from < to)
        .ok_or_else(|| "write two numbers of ns, such as 2000..6000".to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_is_a_list_of_sizes() {
        for text in ["32x64", "32,64", "[32, 64]"] {
            assert_eq!(text.parse(), Ok(TensorShape(vec![32, 64])), "{text}");
        }
        assert_eq!("64x176".parse(), Ok(TensorShape(vec![64, 176])));
        for (wrong, wanted) in [
            ("", "no number"),
            ("32x", "no number"),
            ("[32x64", "is not closed"),
            ("32x64]", "no number"),
            ("0x4", "1 is the smallest"),
            ("2147483649", "2147483648 is the largest"),
            ("4294967296", "2147483648 is the largest"),
        ] {
            let said = wrong.parse::<TensorShape>().expect_err(wrong);
            assert!(said.contains(wanted), "{said}");
        }
    }

    #[test]
    fn processes_are_counted_from_one() {
        assert_eq!(processes("8"), Ok(8));
        for wrong in ["0", "257", "-1", "many"] {
            assert!(processes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn times_are_two_numbers() {
        assert_eq!(times("2000..6000"), Ok([2000, 6000]));
        for wrong in ["2000", "6..2", "a..b", "-1..4", "3..3"] {
            assert!(times(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_time_is_in_seconds_and_sensible() {
        assert_eq!(seconds_of_minute("1.5"), Ok(Duration::from_millis(1500)));
        for wrong in ["0", "-1", "1e9", "NaN", "long"] {
            assert!(seconds_of_minute(wrong).is_err(), "{wrong}");
        }
    }
}
