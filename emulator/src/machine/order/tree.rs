//! The clocks of many clusters, in a persistent tree: unchanged subtrees are shared.
//!
//! After a grid barrier each warp has clocks of all clusters. A map per warp would take time and memory quadratic in the number of clusters;
//! here all warps share nodes, and an arrival adds only those on the path to its own cluster.

use std::sync::Arc;

/// Bits of a cluster's index that one level of the tree selects by.
const BITS: u32 = 4;
const CHILDREN: usize = 1 << BITS;

/// A join-semilattice.
pub(super) trait Lattice: Clone {
    /// Is `self` at least `other`?
    fn covers(&self, other: &Self) -> bool;

    /// The least upper bound of both.
    fn join(&mut self, other: &Self);
}

/// A value for each cluster; clusters without one are bottom.
#[derive(Clone, Debug)]
pub(super) struct Tree<T> {
    root: Option<Arc<Node<T>>>,
    /// Levels between the root and the clusters.
    levels: u32,
}

#[derive(Debug)]
enum Node<T> {
    Inner(Children<T>),
    Cluster(T),
}

type Children<T> = [Option<Arc<Node<T>>>; CHILDREN];

impl<T> Default for Tree<T> {
    fn default() -> Self {
        Self {
            root: None,
            levels: 0,
        }
    }
}

impl<T: Lattice> Tree<T> {
    /// The clock of a cluster.
    #[inline]
    pub(super) fn get(&self, cluster: u32) -> Option<&T> {
        let mut node = self.root.as_deref()?;
        if !is_below(cluster, self.levels) {
            return None;
        }
        let mut level = self.levels;
        loop {
            match node {
                Node::Cluster(of_cluster) => return Some(of_cluster),
                Node::Inner(children) => {
                    level -= 1;
                    node = children[child(cluster, level)].as_deref()?;
                }
            }
        }
    }

    /// The tree with another value for a cluster.
    pub(super) fn with(&self, cluster: u32, of_cluster: T) -> Self {
        let mut levels = self.levels;
        while !is_below(cluster, levels) {
            levels += 1;
        }
        let root = self.raised(levels);
        Self {
            root: Some(replaced(root.as_ref(), levels, cluster, of_cluster)),
            levels,
        }
    }

    /// The least upper bound of both.
    pub(super) fn join(&mut self, other: &Self) {
        let levels = self.levels.max(other.levels);
        self.root = match (self.raised(levels), other.raised(levels)) {
            (Some(mine), Some(theirs)) => Some(joined(&mine, &theirs)),
            (mine, theirs) => mine.or(theirs),
        };
        self.levels = levels;
    }

    /// Are the two the same tree in memory? Equal trees may not be.
    #[cfg(test)]
    pub(super) fn is_shared_with(&self, other: &Self) -> bool {
        match (&self.root, &other.root) {
            (Some(mine), Some(theirs)) => Arc::ptr_eq(mine, theirs),
            (mine, theirs) => mine.is_none() && theirs.is_none(),
        }
    }

    /// The root of a tree with the same clusters and `levels` levels.
    fn raised(&self, levels: u32) -> Option<Arc<Node<T>>> {
        let mut root = Arc::clone(self.root.as_ref()?);
        for _ in self.levels..levels {
            let mut children = [const { None }; CHILDREN];
            children[0] = Some(root);
            root = Arc::new(Node::Inner(children));
        }
        Some(root)
    }
}

/// Is the cluster's index within a tree of so many levels?
fn is_below(cluster: u32, levels: u32) -> bool {
    u64::from(cluster) >> (levels * BITS) == 0
}

/// The child of a node at `level` that leads to the cluster.
fn child(cluster: u32, level: u32) -> usize {
    (cluster >> (level * BITS)) as usize % CHILDREN
}

fn replaced<T>(
    node: Option<&Arc<Node<T>>>,
    levels: u32,
    cluster: u32,
    of_cluster: T,
) -> Arc<Node<T>> {
    let Some(level) = levels.checked_sub(1) else {
        return Arc::new(Node::Cluster(of_cluster));
    };
    let mut children = match node.map(Arc::as_ref) {
        Some(Node::Inner(children)) => children.clone(),
        _ => [const { None }; CHILDREN],
    };
    let place = &mut children[child(cluster, level)];
    *place = Some(replaced(place.as_ref(), level, cluster, of_cluster));
    Arc::new(Node::Inner(children))
}

/// The least upper bound of two nodes of one level; one of the two itself where it is the bound.
fn joined<T: Lattice>(mine: &Arc<Node<T>>, theirs: &Arc<Node<T>>) -> Arc<Node<T>> {
    if Arc::ptr_eq(mine, theirs) {
        return Arc::clone(mine);
    }
    match (&**mine, &**theirs) {
        (Node::Cluster(first), Node::Cluster(second)) => {
            if first.covers(second) {
                Arc::clone(mine)
            } else if second.covers(first) {
                Arc::clone(theirs)
            } else {
                let mut both = first.clone();
                both.join(second);
                Arc::new(Node::Cluster(both))
            }
        }
        (Node::Inner(first), Node::Inner(second)) => {
            let children: Children<T> = std::array::from_fn(|at| match (&first[at], &second[at]) {
                (Some(mine), Some(theirs)) => Some(joined(mine, theirs)),
                (mine, theirs) => mine.as_ref().or(theirs.as_ref()).cloned(),
            });
            if are_same(&children, first) {
                Arc::clone(mine)
            } else if are_same(&children, second) {
                Arc::clone(theirs)
            } else {
                Arc::new(Node::Inner(children))
            }
        }
        _ => unreachable!("trees are raised to equal levels before they are joined"),
    }
}

fn are_same<T>(first: &Children<T>, second: &Children<T>) -> bool {
    let mut pairs = first.iter().zip(second);
    pairs.all(|pair| match pair {
        (Some(first), Some(second)) => Arc::ptr_eq(first, second),
        (None, None) => true,
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// The maximum of each component.
    type Epochs = [u32; 3];

    impl Lattice for Epochs {
        fn covers(&self, other: &Self) -> bool {
            self.iter().zip(other).all(|(mine, theirs)| mine >= theirs)
        }

        fn join(&mut self, other: &Self) {
            let pairs = self.iter_mut().zip(other);
            pairs.for_each(|(mine, theirs)| *mine = (*mine).max(*theirs));
        }
    }

    /// Indices at the edges of levels, and some between.
    const CLUSTERS: [u32; 9] = [0, 1, 15, 16, 17, 255, 256, 70_000, u32::MAX];

    #[test]
    fn trees_join_as_maps_do() {
        let mut random = 1_u64;
        let mut below = |limit: u64| {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (random >> 33) % limit
        };
        for _ in 0..300 {
            let mut trees: [Tree<Epochs>; 2] = Default::default();
            let mut maps: [BTreeMap<u32, Epochs>; 2] = Default::default();
            for _ in 0..below(12) {
                let side = below(2) as usize;
                let cluster = CLUSTERS[below(9) as usize];
                let epochs = [below(3) as u32, below(3) as u32, below(3) as u32];
                trees[side] = trees[side].with(cluster, epochs);
                maps[side].insert(cluster, epochs);
            }
            let [mut tree, other] = trees;
            tree.join(&other);
            let [mut map, other] = maps;
            for (cluster, epochs) in other {
                map.entry(cluster).or_default().join(&epochs);
            }
            for cluster in CLUSTERS {
                assert_eq!(tree.get(cluster), map.get(&cluster), "{cluster}");
            }
        }
    }

    #[test]
    fn a_join_with_what_is_known_already_changes_nothing() {
        let old = (0..100).fold(Tree::default(), |tree, cluster| tree.with(cluster, [3; 3]));
        let new = old.with(40, [5; 3]);
        for (mut first, second) in [(old.clone(), &new), (new.clone(), &old)] {
            first.join(second);
            assert!(first.is_shared_with(&new));
        }
    }
}
