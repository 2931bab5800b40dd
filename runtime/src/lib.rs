//! TileKit for a kernel author.
