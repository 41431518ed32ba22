//! The HTTP transport of a process: a few threads send all requests.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use hyper::body::Incoming;
use hyper::header::PROXY_AUTHORIZATION;
use hyper::{Response, Uri};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::connect::Connect;
use hyper_util::client::legacy::{Client, Error};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use object_store::client::HttpRequest;
use tokio::runtime::{Handle, Runtime};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;

use super::dial::{ConnectionSettings, Dialer};
use super::upload::{Progress, Upload};
use crate::pool;
use crate::store::{fork, interruptible_wait};

/// The maximum number of threads that send requests and receive responses.
const MAX_THREADS: usize = 4;

/// The maximum number of concurrent requests, each of which may have a connection. Three quarters
/// may go to one server, so that a server that does not respond does not block the others.
const MAX_REQUESTS: usize = 512;

/// How many idle connections to a server stay open, and for how long.
const MAX_IDLE: usize = 256;
const IDLE_TIMEOUT: Duration = Duration::from_secs(15);

/// How long a service with credentials that did not respond counts as absent, so that not every store
/// of a process waits for it.
const ABSENCE_TTL: Duration = Duration::from_secs(60);

/// Sends requests.
pub(super) struct Transport {
    runtime: Runtime,
    permits: Arc<Semaphore>,
    /// The permits of each server, and how many each has.
    permits_by_server: (usize, Mutex<HashMap<String, Arc<Semaphore>>>),
    /// The senders with each of the settings.
    senders: Mutex<Vec<(ConnectionSettings, Arc<Senders>)>>,
    /// Services with credentials: when they did not respond, or None if they have responded.
    metadata: Mutex<HashMap<String, Option<Instant>>>,
}

/// The transport of a process; None if it can create no threads.
#[derive(Default)]
struct PerProcessTransport(OnceLock<Option<Transport>>);

impl Transport {
    /// Return the transport of this process: a forked child has its own connections.
    pub(super) fn get() -> Option<&'static Transport> {
        static TRANSPORT: OnceLock<fork::PerProcess<PerProcessTransport>> = OnceLock::new();
        let transport = TRANSPORT.get_or_init(fork::PerProcess::new).get();
        transport.0.get_or_init(|| pool::guarded(|| Ok(Transport::new())).ok().flatten()).as_ref()
    }

    fn new() -> Option<Transport> {
        // The runtime panics if it cannot create threads.
        std::thread::Builder::new().spawn(|| {}).ok()?.join().ok()?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(pool::threads().clamp(1, MAX_THREADS))
            .max_blocking_threads(MAX_REQUESTS)
            .thread_name("tessarr-web")
            .enable_all()
            .build()
            .ok()?;
        let count = limited_by_files(MAX_REQUESTS, 4);
        let permits_by_server = (count - count / 4, Mutex::default());
        let permits = Arc::new(Semaphore::new(count));
        Some(Transport {
            runtime,
            permits,
            permits_by_server,
            senders: Mutex::default(),
            metadata: Mutex::default(),
        })
    }

    /// Run an asynchronous operation.
    pub(super) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
        self.runtime.spawn(work)
    }

    /// Return the senders with these settings, which stores share.
    pub(super) fn senders(&self, settings: &ConnectionSettings) -> Arc<Senders> {
        let mut all = self.senders.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, senders)) = all.iter().find(|(other, _)| other == settings) {
            return senders.clone();
        }
        let senders = Arc::new(Senders::new(settings));
        all.push((settings.clone(), senders.clone()));
        senders
    }

    /// Return whether a service with credentials may exist: it has responded, or not been tried lately.
    pub(super) fn may_exist(&self, server: &str) -> bool {
        let metadata = self.metadata.lock().unwrap_or_else(PoisonError::into_inner);
        let failed = metadata.get(server).copied().flatten();
        failed.is_none_or(|time| time.elapsed() > ABSENCE_TTL)
    }

    /// Record whether a service with credentials responded.
    pub(super) fn record(&self, server: String, responded: bool) {
        let mut metadata = self.metadata.lock().unwrap_or_else(PoisonError::into_inner);
        let state = metadata.entry(server).or_insert_with(|| Some(Instant::now()));
        if responded {
            *state = None;
        } else if state.is_some() {
            *state = Some(Instant::now());
        }
    }

    /// Wait for a permit to send a request to a server. None: the process ends.
    pub(super) async fn acquire(&self, url: &Uri) -> Option<Permit> {
        let (most, permits_by_server) = &self.permits_by_server;
        let server = url.authority().map(ToString::to_string).unwrap_or_default();
        let permits = {
            let mut permits_by_server = permits_by_server.lock().unwrap_or_else(PoisonError::into_inner);
            permits_by_server.entry(server).or_insert_with(|| Arc::new(Semaphore::new(*most))).clone()
        };
        let of_server = permits.acquire_owned().await.ok()?;
        Some(Permit { _of_server: of_server, _of_all: self.permits.clone().acquire_owned().await.ok()? })
    }
}

/// The permit to send one request and to receive its response.
#[derive(Debug)]
pub(super) struct Permit {
    _of_server: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

/// A sender that reuses connections, and one that opens a new one for each request.
type Clients<C> = [Client<C, Upload>; 2];

/// Sends requests with some settings.
pub(super) struct Senders {
    settings: ConnectionSettings,
    dialer: Dialer,
    plain: Clients<Dialer>,
    /// The certificates are read from files on first use. None: they cannot be read.
    encrypted: OnceLock<Option<Clients<HttpsConnector<Dialer>>>>,
}

impl Senders {
    fn new(settings: &ConnectionSettings) -> Self {
        let dialer = settings.dialer();
        let plain = clients(&dialer);
        Senders { settings: settings.clone(), dialer, plain, encrypted: OnceLock::new() }
    }

    /// Send a request, by a new connection or by any. None: the certificates cannot be read.
    pub(super) async fn send(
        &self,
        request: HttpRequest,
        progress: &Arc<Progress>,
        new_connection: bool,
    ) -> Option<Result<Response<Incoming>, Error>> {
        let index = usize::from(new_connection);
        let mut request = request.map(|body| Upload::new(body, progress.clone()));
        if request.uri().scheme_str() == Some("https") {
            let connect =
                || self.settings.encrypted(self.dialer.clone()).map(|connector| clients(&connector));
            let clients = self.encrypted.get_or_init(connect).as_ref()?;
            return Some(clients[index].request(request).await);
        }
        let proxy = self.dialer.proxies.intercept(request.uri());
        if let Some(credentials) = proxy.as_ref().and_then(|proxy| proxy.basic_auth()) {
            request.headers_mut().insert(PROXY_AUTHORIZATION, credentials.clone());
        }
        Some(self.plain[index].request(request).await)
    }
}

fn clients<C: Connect + Clone>(connector: &C) -> Clients<C> {
    [limited_by_files(MAX_IDLE, 8), 0].map(|idle| {
        let mut builder = Client::builder(TokioExecutor::new());
        builder.pool_timer(TokioTimer::new()).pool_max_idle_per_host(idle).pool_idle_timeout(IDLE_TIMEOUT);
        builder.build(connector.clone())
    })
}

/// Run work that waits for other responses or for Python, while other threads serve responses.
pub fn run_blocking<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current() {
        Ok(_) => tokio::task::block_in_place(work),
        Err(_) => work(),
    }
}

/// Wait for `future` as long as `is_active` returns true, which is checked each `interval`.
pub(super) async fn while_active<T>(
    future: impl Future<Output = T>,
    is_active: impl Fn() -> bool,
    interval: Duration,
) -> Option<T> {
    let mut future = std::pin::pin!(future);
    loop {
        match tokio::time::timeout(interval, future.as_mut()).await {
            Ok(result) => return Some(result),
            Err(_) if is_active() => {}
            Err(_) => return None,
        }
    }
}

/// Run `work` after `delay`, unless `is_active` returns false before: then it is dropped soon. If no
/// thread can be created, it runs now.
pub(in crate::store) fn run_after(
    delay: Duration,
    is_active: impl Fn() -> bool + Send + 'static,
    work: impl FnOnce() + Send + 'static,
) {
    let Some(transport) = Transport::get() else { return work() };
    transport.spawn(async move {
        if while_active(tokio::time::sleep(delay), is_active, interruptible_wait::CHECK_INTERVAL)
            .await
            .is_some()
        {
            run_blocking(work);
        }
    });
}

/// Limit `count` to a fraction of the files that the process may open.
fn limited_by_files(count: usize, fraction: usize) -> usize {
    // SAFETY: `rlimit` consists of numbers, for which zero is valid; the call writes into it.
    let files = unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
        limit.rlim_cur
    };
    usize::try_from(files).map_or(count, |files| count.min(files / fraction)).max(1)
}
