//! Parts of a value that its store is asked for together, so that no thread waits for one of them.

use std::sync::Arc;

use crate::error::Result;
use crate::pipeline::fetch_queue::{self, Request};
use crate::pipeline::operation::{Interrupt, Operation, Run};
use crate::pipeline::source::{Elsewhere, Source};
use crate::pool;
use crate::scratch::Scratch;
use crate::store::{replaced, AsyncGet, ReadHint, ValueReader};

/// Does something with a part, which `source` has.
type Work<'w> = &'w (dyn Fn(usize, Source<'_>, &mut Scratch) -> Result<()> + Sync);

/// A value whose parts may be asked for.
pub(super) struct Far<'a> {
    ask: Arc<dyn AsyncGet>,
    source: Source<'a>,
    from: Elsewhere<'a>,
    /// How many are asked for at a time.
    most: usize,
    /// How many threads work on them.
    threads: usize,
    interrupt: Option<Interrupt<'a>>,
}

impl<'a> Far<'a> {
    /// None: nobody would wait for parts of `source`, or its store cannot be asked so. `spread`: nothing else is
    /// worked on meanwhile.
    pub(super) fn of(operation: Operation<'a>, source: Source<'a>, run: Run, spread: bool) -> Option<Self> {
        let Run::Waiting(most) = run else { return None };
        let threads = if spread { pool::threads() } else { 1 };
        let (from, ask) = (source.elsewhere()?, operation.store.async_get()?);
        Some(Far { ask, source, from, most, threads, interrupt: operation.interrupt })
    }

    /// What is to be asked for a part; None: nothing, or to read it asks for something else.
    pub(super) fn request(&self, offset: u64, count: u64) -> Option<Request> {
        let offset = self.from.offset + offset;
        let asks = self.from.object.needs_request(offset, count);
        asks.then(|| (self.from.key.to_owned(), ReadHint::Range { offset, count }))
    }

    /// Do `work` for each request, in the order in which answers arrive.
    pub(super) fn each(&self, requests: &[Option<Request>], work: Work<'_>) -> Result<()> {
        let Far { source, from, most, threads, interrupt, .. } = self;
        let request = |number: usize, _: &mut Scratch| Ok(requests[number].clone());
        let ask = self.ask.clone();
        fetch_queue::each(
            ask,
            requests.len(),
            *most,
            *threads,
            *interrupt,
            &request,
            &|number, opened, scratch| match opened.transpose()? {
                None => work(number, *source, scratch),
                Some(Some(part)) if self.is_of(&*part) => {
                    work(number, Source::of(&*part).part(from.offset, source.size())?, scratch)
                }
                Some(_) => Err(replaced(from.key)),
            },
        )
    }

    /// Whether a part is of the value that was opened before.
    fn is_of(&self, part: &dyn ValueReader) -> bool {
        let before = self.from.object;
        part.size() == before.size() && part.state() == before.state()
    }
}
