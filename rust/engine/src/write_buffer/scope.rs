//! Blocks of buffered writes: arrays collect parts of chunks, and store each chunk once.
//!
//! While a [`BufferScope`] is active, the arrays of its store below its prefix write parts of
//! chunks to write buffers, which share the memory of the scope. Whole chunks go to the store. If
//! the memory is full, the scope stores chunks: complete ones first, then those whose last write
//! is oldest. The end of the scope stores the rest.
//!
//! All objects of an array share its buffer if they use the same store object. An array object
//! with other codecs, another data type or another store object for the same location stores the
//! buffered chunks before it reads or writes. A forked child neither sees nor stores the elements
//! in the buffers of its parent.
//!
//! An ended scope *drains*: its buffers take no more elements, and reads use them until all chunks
//! are stored. Chunks that could not be stored remain for another attempt.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::buffered_array::{ArrayAccess, BufferedArray};
use super::eviction;
use super::failures::Failures;
use super::memory::BufferMemory;
use super::{lock, WriteBuffer};
use crate::error::Result;
use crate::pipeline::operation::Interrupt;
use crate::store::{fork, Store};

/// The scopes with buffers, in the order of their starts.
static SCOPES: Mutex<Vec<Arc<BufferScope>>> = Mutex::new(Vec::new());

/// The number of these scopes.
static ACTIVE: AtomicUsize = AtomicUsize::new(0);

/// The arrays of a store below a prefix, which buffer parts of chunks.
pub struct BufferScope {
    store: Arc<dyn Store>,
    /// The location of the prefix, see [`Store::location`].
    location: Box<str>,
    memory: Arc<BufferMemory>,
    /// The fork generation of the process that started the scope.
    generation: u64,
    arrays: Mutex<ScopeArrays>,
}

#[derive(Default)]
struct ScopeArrays {
    arrays: Vec<Arc<BufferedArray>>,
    /// The scope has ended: no array is added.
    is_draining: bool,
}

/// Return whether any scope has buffers.
pub fn is_active() -> bool {
    ACTIVE.load(Ordering::Acquire) > 0
}

/// Return the scopes that this process started.
fn scopes() -> Vec<Arc<BufferScope>> {
    if !is_active() {
        return Vec::new();
    }
    let _gate = fork::gate();
    let scopes = lock(&SCOPES);
    scopes.iter().filter(|scope| scope.is_own()).cloned().collect()
}

/// Return the scopes that contain `location`.
pub(super) fn scopes_at(location: &str) -> Vec<Arc<BufferScope>> {
    let mut scopes = scopes();
    scopes.retain(|scope| location.starts_with(&*scope.location));
    scopes
}

/// Return whether a scope contains `location`.
pub fn contains(location: &str) -> bool {
    !scopes_at(location).is_empty()
}

pub(super) fn arrays_where(condition: impl Fn(&str) -> bool) -> Vec<Arc<BufferedArray>> {
    scopes().iter().flat_map(|scope| scope.arrays_where(&condition)).collect()
}

/// Store all buffered chunks below `location`, or of an array around it.
///
/// # Errors
/// As for [`crate::write::write`]. Chunks that cannot be stored do not prevent others.
pub fn store_below(location: &str, interrupt: Option<Interrupt<'_>>) -> Result<()> {
    store_all(&arrays_where(|array| array.starts_with(location) || location.starts_with(array)), interrupt)
}

/// Store all buffered chunks of an array around `location`, or at it.
///
/// # Errors
/// As for [`store_below`].
pub fn store_around(location: &str, interrupt: Option<Interrupt<'_>>) -> Result<()> {
    store_all(&arrays_where(|array| location.starts_with(array)), interrupt)
}

/// Store all buffered chunks of an array around `location`, but not at it.
///
/// # Errors
/// As for [`store_below`].
pub fn store_inside(location: &str, interrupt: Option<Interrupt<'_>>) -> Result<()> {
    store_all(&arrays_where(|array| location.starts_with(array) && location != array), interrupt)
}

/// Discard all buffered chunks of arrays below `location`.
///
/// # Errors
/// If the user interrupts the wait for a chunk that another thread stores.
pub fn discard_below(location: &str) -> Result<()> {
    let arrays = arrays_where(|array| array.starts_with(location));
    arrays.iter().try_for_each(|buffered| buffered.buffer.discard_all())?;
    remove_finished();
    Ok(())
}

/// End all scopes.
///
/// # Errors
/// As for [`store_below`].
pub fn end_all(interrupt: Option<Interrupt<'_>>) -> Result<()> {
    scopes().iter().for_each(|scope| scope.drain());
    remove_finished();
    store_and_report(&arrays_where(|_| true), interrupt)
}

/// Store the buffered chunks of all `arrays`. The elements of a deleted or replaced array are
/// discarded without an error, because the operation concerns what is stored there now.
pub(super) fn store_all(arrays: &[Arc<BufferedArray>], interrupt: Option<Interrupt<'_>>) -> Result<()> {
    if arrays.is_empty() {
        return Ok(());
    }
    let failures = Failures::default();
    let result = arrays.iter().try_for_each(|buffered| buffered.store(interrupt, &failures));
    remove_finished();
    result.and_then(|()| failures.result())
}

/// Store the buffered chunks of all `arrays`, for a flush or the end of a scope.
fn store_and_report(arrays: &[Arc<BufferedArray>], interrupt: Option<Interrupt<'_>>) -> Result<()> {
    let failures = Failures::default();
    let result = arrays.iter().try_for_each(|buffered| {
        buffered.store(interrupt, &failures)?;
        buffered.report_gone(&failures);
        Ok(())
    });
    remove_finished();
    result.and_then(|()| failures.result())
}

/// Remove scopes that have ended and stored everything.
pub(super) fn remove_finished() {
    // A scope that drains takes no more chunks.
    let mut finished = scopes();
    finished.retain(|scope| scope.is_finished());
    if finished.is_empty() {
        return;
    }
    let _gate = fork::gate();
    let mut scopes = lock(&SCOPES);
    let count = scopes.len();
    scopes.retain(|scope| !finished.iter().any(|other| Arc::ptr_eq(scope, other)));
    ACTIVE.fetch_sub(count - scopes.len(), Ordering::Release);
}

impl BufferScope {
    /// Start to buffer at most `limit` bytes of writes to the arrays of `store` below `prefix`.
    pub fn start(store: Arc<dyn Store>, prefix: &str, limit: usize) -> Arc<BufferScope> {
        fork::register();
        let scope = Arc::new(BufferScope {
            location: store.location(prefix).into(),
            store,
            memory: Arc::new(BufferMemory::new(limit)),
            generation: fork::generation(),
            arrays: Mutex::default(),
        });
        let _gate = fork::gate();
        let mut scopes = lock(&SCOPES);
        scopes.push(scope.clone());
        ACTIVE.fetch_add(1, Ordering::Release);
        scope
    }

    /// Return the number of buffered bytes.
    pub fn used(&self) -> usize {
        self.memory.used()
    }

    /// Return whether the scope still takes elements in this process.
    pub fn is_open(&self) -> bool {
        let _gate = fork::gate();
        let arrays = lock(&self.arrays);
        self.is_own() && !arrays.is_draining
    }

    /// Store all buffered chunks of the arrays of the scope, also those in the buffers of other
    /// scopes.
    ///
    /// # Errors
    /// As for [`crate::write::write`]. Chunks that are not stored stay in the buffer.
    pub fn store(&self, interrupt: Option<Interrupt<'_>>) -> Result<()> {
        match self.is_own() {
            true => store_and_report(&arrays_where(|array| array.starts_with(&*self.location)), interrupt),
            false => Ok(()),
        }
    }

    /// Store all buffered chunks, and end the scope. A second call tries again to store chunks that
    /// are left.
    ///
    /// # Errors
    /// As for [`crate::write::write`]. Chunks that are not stored stay in the buffer, and reads use
    /// them.
    pub fn end(&self, interrupt: Option<Interrupt<'_>>) -> Result<()> {
        self.drain();
        let result = self.store(interrupt);
        remove_finished();
        result
    }

    /// End the scope without storing its chunks: reads use them, and a later attempt stores them.
    pub fn abandon(&self) {
        self.drain();
        remove_finished();
    }

    /// Discard all chunks in the buffers of the scope.
    ///
    /// # Errors
    /// As for [`discard_below`].
    pub fn discard(&self) -> Result<()> {
        self.arrays_where(|_| true).iter().try_for_each(|buffered| buffered.buffer.discard_all())?;
        remove_finished();
        Ok(())
    }

    /// Let the buffers take no more elements.
    fn drain(&self) {
        let arrays = {
            let _gate = fork::gate();
            let mut arrays = lock(&self.arrays);
            arrays.is_draining = true;
            arrays.arrays.clone()
        };
        arrays.iter().for_each(|buffered| buffered.buffer.drain());
    }

    fn is_finished(&self) -> bool {
        !self.is_open() && self.arrays_where(|_| true).iter().all(|buffered| buffered.is_finished())
    }

    fn is_own(&self) -> bool {
        self.generation == fork::generation()
    }

    pub(super) fn memory(&self) -> &BufferMemory {
        &self.memory
    }

    /// Return the arrays whose location fulfils `condition`.
    pub(super) fn arrays_where(&self, condition: impl Fn(&str) -> bool) -> Vec<Arc<BufferedArray>> {
        let _gate = fork::gate();
        let arrays = lock(&self.arrays);
        arrays.arrays.iter().filter(|buffered| condition(&buffered.location)).cloned().collect()
    }

    /// Return the buffer of an array, which is created if it is missing; None: the scope has ended,
    /// or belongs to another store object.
    pub(super) fn find_or_add(&self, location: &str, access: &ArrayAccess) -> Option<Arc<BufferedArray>> {
        if !std::ptr::addr_eq(Arc::as_ptr(&self.store), Arc::as_ptr(&access.store)) {
            return None;
        }
        let _gate = fork::gate();
        let mut arrays = lock(&self.arrays);
        if arrays.is_draining {
            return None;
        }
        let is_same = |buffered: &&Arc<BufferedArray>| {
            *buffered.location == *location && buffered.is_shared_with(access)
        };
        if let Some(buffered) = arrays.arrays.iter().find(is_same) {
            return Some(buffered.clone());
        }
        let buffer = WriteBuffer::new(self.memory.clone());
        let buffered = Arc::new(BufferedArray::new(access.clone(), location, buffer));
        arrays.arrays.push(buffered.clone());
        Some(buffered)
    }

    /// Store chunks to free memory, see [`eviction::make_room`].
    pub(super) fn make_room(
        &self,
        bytes: usize,
        may_store_parts: bool,
        interrupt: Option<Interrupt<'_>>,
    ) -> Result<()> {
        eviction::make_room(&self.memory, &self.arrays_where(|_| true), bytes, may_store_parts, interrupt)
    }
}
