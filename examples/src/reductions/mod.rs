//! Reductions of rows, columns and whole arrays.

pub mod cluster_sum;
pub mod column_sum;
pub mod csr_rows;
pub mod histogram;
pub mod prefix_sum;
pub mod row_sum;
pub mod sum_all;
