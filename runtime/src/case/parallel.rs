//! Work on all cores, behind a pointer to a function: generic calls of rayon would be compiled in an author's package, anew
//! for each closure of each case, and were nearly half of what an edit of the examples compiles.

use std::sync::OnceLock;

use rayon::prelude::*;

/// `work(0)`, `work(1)`, .. `work(tasks - 1)`, in this order.
pub(crate) fn map<T: Send + Sync>(tasks: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let results: Vec<OnceLock<T>> = (0..tasks).map(|_| OnceLock::new()).collect();
    for_each(tasks, &|task| {
        results[task].get_or_init(|| work(task));
    });
    let done = |result: OnceLock<T>| result.into_inner().expect("every task has run");
    results.into_iter().map(done).collect()
}

/// Calls `work` with every number below `tasks`.
fn for_each(tasks: usize, work: &(dyn Fn(usize) + Sync)) {
    (0..tasks).into_par_iter().for_each(work);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_tasks() {
        assert_eq!(map(1000, |task| task * task)[999], 999 * 999);
        assert_eq!(map(3, |task| vec![task; task]).concat(), [1, 2, 2]);
        assert!(map(0, |task| task).is_empty());
    }
}
