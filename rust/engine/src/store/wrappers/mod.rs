//! Stores that change one aspect of another store.

mod coalescing;
pub(super) mod counting;
mod instrumented;
mod limits;
mod prefix;
pub(super) mod read_only;
mod retry;
pub(super) mod split;

pub use coalescing::{want_of, SharedStore, Span};
pub use counting::{CountingStore, Counts};
pub use instrumented::{Call, Done, Latency, Looked, Watch, WatchedStore};
pub use limits::{Enter, Limited, Limits, Place, Rate, Turn};
pub use prefix::PrefixStore;
pub use read_only::ReadOnlyStore;
pub use retry::{Passes, Retries, RetryingStore};
pub use split::SplitStore;
