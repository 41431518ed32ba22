//! A store for several reads that belong together: each value is opened once, and each part of
//! it is read once, whoever asks first.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::{
    fork, Decoded, Exchange, How, Listing, Made, Need, Object, Store, Updater, Version, Want, REPLACED,
};
use crate::error::Result;

/// Larger parts are read by each who asks.
const PART_BYTES: usize = 4 << 20;

type Part = Arc<OnceLock<Result<Vec<u8>>>>;
type Slot = Arc<OnceLock<Result<Option<Arc<Opened>>>>>;

/// Remembers, as long as it lives, what another store answered.
#[derive(Debug)]
pub struct SharedStore {
    inner: Arc<dyn Store>,
    slots: Arc<Mutex<HashMap<String, Slot>>>,
}

struct Opened {
    object: Box<dyn Object>,
    parts: Mutex<HashMap<(u64, usize), Part>>,
}

impl std::fmt::Debug for Opened {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Opened")
    }
}

fn with<T, R>(mutex: &Mutex<T>, work: impl FnOnce(&mut T) -> R) -> R {
    let _gate = fork::gate();
    let mut guard = mutex.lock().unwrap_or_else(PoisonError::into_inner);
    work(&mut guard)
}

impl SharedStore {
    /// Remembers answers of `inner`.
    pub fn new(inner: Arc<dyn Store>) -> Self {
        fork::register();
        SharedStore { inner, slots: Arc::default() }
    }

    fn forget(&self) {
        let old = with(&self.slots, std::mem::take);
        drop(old);
    }
}

impl Store for SharedStore {
    fn inner(&self) -> Option<&dyn Store> {
        Some(&*self.inner)
    }

    fn open(&self, key: &str, want: Want) -> Result<Option<Box<dyn Object>>> {
        self.keys().check(key)?;
        let slot = with(&self.slots, |slots| slots.entry(key.to_owned()).or_default().clone());
        let opened = slot.get_or_init(|| {
            let object = self.inner.open(key, want)?;
            Ok(object.map(|object| Arc::new(Opened { object, parts: Mutex::default() })))
        });
        let Some(opened) = opened.clone()? else { return Ok(None) };
        Ok(Some(Box::new(SharedObject { key: key.to_owned(), opened, slots: self.slots.clone() })))
    }

    fn update<'a>(&self, key: &str, need: Need, updater: &mut Updater<'_, 'a>) -> Result<Made<'a>> {
        let change = self.inner.update(key, need, updater);
        self.forget();
        change
    }

    fn hold(&self, key: &str, work: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        self.inner.hold(key, work)
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>> {
        self.inner.list(prefix)
    }

    fn list_dir(&self, prefix: &str) -> Result<Listing> {
        self.inner.list_dir(prefix)
    }

    fn delete_prefix(&self, prefix: &str) -> Result<()> {
        let done = self.inner.delete_prefix(prefix);
        self.forget();
        done
    }

    fn clear_prefix(&self, prefix: &str) -> Result<()> {
        let done = self.inner.clear_prefix(prefix);
        self.forget();
        done
    }

    fn exchange(&self, changes: &[Exchange]) -> Result<Option<bool>> {
        let done = self.inner.exchange(changes);
        self.forget();
        done
    }
}

struct SharedObject {
    key: String,
    opened: Arc<Opened>,
    slots: Arc<Mutex<HashMap<String, Slot>>>,
}

impl Object for SharedObject {
    fn size(&self) -> u64 {
        self.opened.object.size()
    }

    fn version(&self) -> Option<Version> {
        self.opened.object.version()
    }

    fn state(&self) -> Option<Version> {
        self.opened.object.state()
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.read(offset, out, |object, out| object.read_at(offset, out))
    }

    fn read_as(&self, offset: u64, out: &mut [u8], how: How) -> Result<()> {
        self.read(offset, out, |object, out| object.read_as(offset, out, how))
    }

    fn remembers(&self, offset: u64, count: u64) -> bool {
        self.opened.object.remembers(offset, count)
    }

    fn decoded(&self) -> Option<&dyn Decoded> {
        self.opened.object.decoded()
    }

    fn bytes(&self) -> Option<&[u8]> {
        self.opened.object.bytes()
    }
}

impl SharedObject {
    /// Reads once what several read at a time.
    fn read(
        &self,
        offset: u64,
        out: &mut [u8],
        read: impl Fn(&dyn Object, &mut [u8]) -> Result<()>,
    ) -> Result<()> {
        let object = &*self.opened.object;
        let done = if out.len() > PART_BYTES {
            read(object, out)
        } else {
            let place = (offset, out.len());
            let part = with(&self.opened.parts, |parts| parts.entry(place).or_default().clone());
            let read = part.get_or_init(|| {
                let mut bytes = super::room_for(out.len() as u64)?;
                bytes.resize(out.len(), 0);
                read(object, &mut bytes).map(|()| bytes)
            });
            read.as_ref().map(|bytes| out.copy_from_slice(bytes)).map_err(Clone::clone)
        };
        if done.as_ref().is_err_and(|error| error.code == Some(REPLACED)) {
            // Who opens it again gets what is there now.
            let old = with(&self.slots, |slots| slots.remove(&self.key));
            drop(old);
        }
        done
    }
}
