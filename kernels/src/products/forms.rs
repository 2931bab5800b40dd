//! Tiles of no list of each form, whatever the choice says of them: what a survey times, so that a fit sees more than what the one before chose.

use std::collections::HashMap;

use super::even_tiles;
use super::instances::Instance;
use super::need::Need;
use super::plan::Plan;
use super::residual::corrected;

/// Times of the fastest listed plan beyond which a tile says little about a choice.
const TELLING: f64 = 1.4;

/// Clusters of one tile among those of a form, at most.
const MOST_CLUSTERS: usize = 2;

impl Plan {
    /// Tiles of no list, at most so many of each form, those with the least time first. Forms differ in kernel, warpgroups, instructions of one, and whether tiles are of every other row.
    pub fn of_each_form(need: &Need, count: usize) -> Vec<(Instance, Plan)> {
        let fastest = Plan::all(need).first().map(|plan| plan.microseconds);
        let most = TELLING * fastest.unwrap_or(f64::INFINITY);
        let plans = even_tiles::by_model(need).map(|plan| corrected(plan, need));
        let mut plans: Vec<Plan> = plans.filter(|plan| plan.microseconds < most).collect();
        plans.sort_by(|x, y| x.microseconds.total_cmp(&y.microseconds));
        let (mut of_forms, mut of_tiles) = (HashMap::new(), HashMap::new());
        plans.retain(|plan| {
            let Some(tile) = Tile::of(plan.instance) else {
                return false;
            };
            let of_form: &mut usize = of_forms.entry(tile.form).or_default();
            let of_tile: &mut usize = of_tiles.entry(tile).or_default();
            let is_taken = *of_form < count && *of_tile < MOST_CLUSTERS;
            *of_form += usize::from(is_taken);
            *of_tile += usize::from(is_taken);
            is_taken
        });
        plans
            .into_iter()
            .map(|plan| (plan.instance, plan))
            .collect()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Form {
    Cluster {
        groups: usize,
    },
    Split {
        groups: usize,
    },
    Persistent {
        groups: usize,
        instructions: usize,
        every_other_row: bool,
    },
}

/// A tile, whatever its clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Tile {
    form: Form,
    columns: usize,
    turned: bool,
}

impl Tile {
    fn of(instance: Instance) -> Option<Tile> {
        let (form, columns, turned) = match instance {
            Instance::Persistent(tile) => {
                let form = Form::Persistent {
                    groups: tile.groups,
                    instructions: tile.instructions,
                    every_other_row: tile.every_other_row,
                };
                (form, tile.columns, tile.turned)
            }
            Instance::Cluster(tile) => {
                let groups = tile.groups;
                (Form::Cluster { groups }, tile.columns, tile.turned)
            }
            Instance::Split(tile) => {
                let groups = tile.groups;
                (Form::Split { groups }, tile.columns, tile.turned)
            }
            _ => return None,
        };
        Some(Tile {
            form,
            columns,
            turned,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_has_as_many_tiles_as_are_asked_for() {
        let need = Need::of_16_bits([2032, 4368, 10424]);
        let forms = |count| {
            let mut forms = HashMap::<_, usize>::new();
            for (instance, _) in Plan::of_each_form(&need, count) {
                let tile = Tile::of(instance).expect("a tile of no list has a form");
                *forms.entry(tile.form).or_default() += 1;
            }
            forms
        };
        let [none, one, three] = [0, 1, 3].map(forms);
        assert!(none.is_empty());
        assert!(one.values().all(|&count| count == 1));
        assert!(three.values().all(|count| (1..=3).contains(count)));
        assert_eq!(one.len(), three.len());
        // One warpgroup, two and three of persistent kernels, and clusters.
        assert!(one.len() >= 5, "{one:?}");
    }
}
