//! Tile IR to PTX.
