//! What all rows say together.

use std::fmt;

use crate::row::Row;
use crate::shapes::Kind;

/// A row below this loses.
const GOAL: f32 = 0.97;
/// How many of the worst are listed.
const WORST: usize = 30;

#[derive(Default)]
pub(crate) struct Summary {
    rows: Vec<Row>,
}

impl Summary {
    pub(crate) fn add(&mut self, row: Row) {
        self.rows.push(row);
    }
}

fn geometric_mean(of: impl Iterator<Item = f32>) -> f32 {
    let (count, sum) = of.fold((0_u32, 0.0_f64), |(count, sum), x| {
        (count + 1, sum + f64::from(x).ln())
    });
    (sum / f64::from(count.max(1))).exp() as f32
}

fn write_group(f: &mut fmt::Formatter<'_>, name: &str, of: &[&Row]) -> fmt::Result {
    let ratios: Vec<[f32; 2]> = of.iter().filter_map(|row| row.ratios()).collect();
    let of_mode = |mode: usize| {
        let all = || ratios.iter().map(move |ratios| ratios[mode]);
        let least = all().fold(f32::INFINITY, f32::min);
        let below = all().filter(|ratio| *ratio < GOAL).count();
        (geometric_mean(all()), least, below)
    };
    let [single, many] = [of_mode(0), of_mode(1)];
    let count = ratios.len();
    writeln!(
        f,
        "{name:16} {count:3} shapes: {:.3} {:.3}, least {:.3} {:.3}, below {GOAL} {} {}",
        single.0, many.0, single.1, many.1, single.2, many.2
    )
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows: Vec<&Row> = self.rows.iter().collect();
        let select = |keep: &dyn Fn(&Row) -> bool| -> Vec<&Row> {
            rows.iter().copied().filter(|row| keep(row)).collect()
        };
        let wrong = rows.iter().filter(|row| !row.is_right()).count();
        writeln!(
            f,
            "\ncublasLt over ours, geometric means, single and back to back; {wrong} shapes with wrong results"
        )?;
        write_group(f, "all", &rows)?;
        for kind in [Kind::Whole, Kind::Aligned, Kind::Ragged] {
            write_group(f, &kind.to_string(), &select(&|row| row.shape.kind == kind))?;
        }
        write_group(f, "M to 256", &select(&|row| row.shape.size[0] <= 256))?;
        write_group(f, "M above", &select(&|row| row.shape.size[0] > 256))?;
        if rows.iter().any(|row| row.ours.len() > 1) {
            let shares: Vec<f32> = rows.iter().map(|row| row.fastest().1).collect();
            let least = shares.iter().copied().fold(f32::INFINITY, f32::min);
            let mean = geometric_mean(shares.into_iter());
            writeln!(
                f,
                "fastest instance over the chosen one: {mean:.3}, least {least:.3}"
            )?;
        }
        let worse = |row: &Row| row.ratios().map_or(f32::INFINITY, |[x, y]| x.min(y));
        let mut worst = rows;
        worst.sort_by(|x, y| worse(x).total_cmp(&worse(y)));
        writeln!(f, "the worst:")?;
        let mut worst = worst.into_iter().take(WORST);
        worst.try_for_each(|row| writeln!(f, "{row}"))
    }
}
