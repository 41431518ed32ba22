//! Stores that change one aspect of another store.

mod coalescing;
pub(super) mod counting;
mod instrumented;
mod limits;
mod prefix;
pub(super) mod read_only;
mod retry;
pub(super) mod split;

pub use coalescing::{read_hint_of, CoalescingStore, Span};
pub use counting::{CountingStore, Counts};
pub use instrumented::{Call, CallReport, InstrumentedStore, Latency, StoreObserver};
pub use limits::{Limits, OnPermit, OwnedPermit, Permit, RateLimiter};
pub use prefix::PrefixStore;
pub use read_only::ReadOnlyStore;
pub use retry::{RetryPolicy, RetryingStore, Transience};
pub use split::SplitStore;
