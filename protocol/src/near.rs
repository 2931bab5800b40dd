//! The nearest of some names to one that is none of them.

/// The name that has most in common with `wanted`, if any has enough in common to be meant.
pub fn nearest<'n>(wanted: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let scored = names
        .into_iter()
        .map(|name| (similarity(wanted, name), name));
    let best = scored.max_by(|a, b| a.0.total_cmp(&b.0));
    best.filter(|(score, _)| *score >= 0.4)
        .map(|(_, name)| name)
}

/// The share of letter pairs that two names have in common (Dice's coefficient).
pub fn similarity(a: &str, b: &str) -> f64 {
    let pairs =
        |text: &str| -> Vec<(char, char)> { text.chars().zip(text.chars().skip(1)).collect() };
    let (a, mut b) = (pairs(a), pairs(b));
    let total = a.len() + b.len();
    let shared = a.iter().filter(|pair| {
        let found = b.iter().position(|other| other == *pair);
        found.map(|at| b.swap_remove(at)).is_some()
    });
    2.0 * shared.count() as f64 / total.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::{nearest, similarity};

    #[test]
    fn misspelt_names_are_near() {
        assert!(similarity("softmx", "softmax") > similarity("softmx", "copy_1d"));
        assert!(similarity("", "x") < 0.1);
        let names = ["registers", "shared-bytes", "stack-bytes"];
        assert_eq!(nearest("register", names), Some("registers"));
        assert_eq!(nearest("shard-byte", names), Some("shared-bytes"));
        assert_eq!(nearest("device", names), None);
    }
}
