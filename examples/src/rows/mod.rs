//! Norms, softmax, scans and sorts along the rows of a matrix.

mod row_case;

pub mod cluster_norm;
pub mod cluster_order;
pub mod cross_entropy;
pub mod cumsum_rows;
pub mod fused_l2norm;
pub mod layernorm;
pub mod recurrence;
pub mod rmsnorm;
pub mod sample_rows;
pub mod short_rows;
pub mod softmax;
pub mod softmax_bulk;
pub mod softmax_cluster;
pub mod softmax_cluster_persistent;
pub mod softmax_long;
pub mod top_k;
