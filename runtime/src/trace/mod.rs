//! Timelines of launches: what a traced kernel recorded, put in order, summarised and written for viewers.

pub(crate) mod names;
pub(crate) mod page;
pub(crate) mod perfetto;
pub(crate) mod picture;
mod recording;
pub(crate) mod summary;
pub(crate) mod timeline;

pub(crate) use recording::TraceBuffer;
pub use recording::{CtaRecords, Record, Recording, TrackRecords};
