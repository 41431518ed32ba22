//! Operations: one read or write of a selection, divided into tasks for the workers.

pub(crate) mod fetch_queue;
pub mod missing_array;
pub mod operation;
pub mod source;
pub(crate) mod upload_queue;
