//! Bodies of requests, which record their progress: a slow upload is not a server that hangs.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Body, Bytes, Frame, SizeHint};
use object_store::client::{HttpError, HttpRequestBody};
use tokio::time::Instant;

/// How many bytes of a body are handed to the connection at a time.
const PIECE_BYTES: usize = 256 << 10;

/// The time of the last progress of an upload.
#[derive(Debug)]
pub(super) struct Progress {
    started: Instant,
    milliseconds: AtomicU64,
}

impl Progress {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Progress { started: Instant::now(), milliseconds: AtomicU64::new(0) })
    }

    /// Return the time of the last progress.
    pub(super) fn last(&self) -> Instant {
        self.started + Duration::from_millis(self.milliseconds.load(Ordering::Relaxed))
    }

    fn record(&self) {
        let elapsed = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.milliseconds.store(elapsed, Ordering::Relaxed);
    }
}

/// The body of a request.
pub(super) struct Upload {
    body: HttpRequestBody,
    /// The rest of a frame.
    rest: Bytes,
    progress: Arc<Progress>,
}

impl Upload {
    pub(super) fn new(body: HttpRequestBody, progress: Arc<Progress>) -> Self {
        Upload { body, rest: Bytes::new(), progress }
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        let this = self.get_mut();
        this.progress.record();
        if this.rest.is_empty() {
            match std::task::ready!(Pin::new(&mut this.body).poll_frame(context)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => this.rest = data,
                    Err(frame) => return Poll::Ready(Some(Ok(frame))),
                },
                end => return Poll::Ready(end),
            }
        }
        let piece = this.rest.split_to(this.rest.len().min(PIECE_BYTES));
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let rest = self.rest.len() as u64;
        let body = self.body.size_hint();
        match body.exact() {
            Some(exact) => SizeHint::with_exact(exact.saturating_add(rest)),
            None => body,
        }
    }
}
