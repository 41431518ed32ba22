//! Asynchronous reads of several ranges of one value.

use crate::error::Result;
use crate::pipeline::fetch_queue::{self, Request};
use crate::pipeline::operation::{Executor, Interrupt, Operation};
use crate::pipeline::source::{RemoteRange, Source};
use crate::pool;
use crate::scratch::Scratch;
use crate::store::{replaced, Call, ReadHint, StartRequest, ValueReader};

/// Processes a part from a source that contains it.
type ProcessPart<'w> = &'w (dyn Fn(usize, Source<'_>, &mut Scratch) -> Result<()> + Sync);

/// A value whose ranges are read asynchronously.
pub(super) struct AsyncParts<'a> {
    start: StartRequest,
    source: Source<'a>,
    range: RemoteRange<'a>,
    /// The maximum number of concurrent requests.
    max_in_flight: usize,
    /// The number of threads that process them.
    threads: usize,
    interrupt: Option<Interrupt<'a>>,
}

impl<'a> AsyncParts<'a> {
    /// None: reads of `source` do not block, or its store has no asynchronous reads. `spread`: no
    /// other work uses the workers.
    pub(super) fn new(
        operation: Operation<'a>,
        source: Source<'a>,
        run: Executor,
        spread: bool,
    ) -> Option<Self> {
        let Executor::Blocking(max_in_flight) = run else { return None };
        let threads = if spread { pool::threads() } else { 1 };
        let (range, start) = (source.remote_range()?, operation.store.async_requests(Call::Open)?);
        Some(AsyncParts { start, source, range, max_in_flight, threads, interrupt: operation.interrupt })
    }

    /// Return the request for a range; None: it needs no request, or more than one.
    pub(super) fn request(&self, offset: u64, count: u64) -> Option<Request> {
        let offset = self.range.offset + offset;
        let needs_request = self.range.object.needs_request(offset, count);
        needs_request.then(|| (self.range.key.to_owned(), ReadHint::Range { offset, count }))
    }

    /// Run `work` for each request, in the order of the responses.
    pub(super) fn each(&self, requests: &[Option<Request>], work: ProcessPart<'_>) -> Result<()> {
        let AsyncParts { source, range, max_in_flight, threads, interrupt, .. } = self;
        let request = |number: usize, _: &mut Scratch| Ok(requests[number].clone());
        fetch_queue::run(
            self.start.clone(),
            requests.len(),
            *max_in_flight,
            *threads,
            *interrupt,
            &request,
            &|number, opened, scratch| match opened.transpose()? {
                None => work(number, *source, scratch),
                Some(Some(part)) if self.is_same_value(&*part) => {
                    work(number, Source::of(&*part).part(range.offset, source.size())?, scratch)
                }
                Some(_) => Err(replaced(range.key)),
            },
        )
    }

    /// Return whether a part belongs to the value that was opened first.
    fn is_same_value(&self, part: &dyn ValueReader) -> bool {
        let first = self.range.object;
        part.size() == first.size() && part.state() == first.state()
    }
}
