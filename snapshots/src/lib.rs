//! Golden files and the tests that compare them.
