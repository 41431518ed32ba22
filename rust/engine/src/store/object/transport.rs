//! The HTTP transport of a process: a few threads send all requests.

use std::collections::HashMap;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response, Uri};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::dns::Name;
use hyper_util::client::legacy::connect::{Connect, HttpConnector};
use hyper_util::client::legacy::Client as Sender;
pub(super) use hyper_util::client::legacy::Error;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::runtime::{Handle, Runtime};
use tokio::sync::{Mutex as Lock, Semaphore};
use tower_service::Service;

use crate::pool;
use crate::store::fork;

/// The maximum number of threads that send requests and receive responses.
const MAX_THREADS: usize = 4;

/// The maximum number of concurrent requests, each of which may have a connection. Three quarters
/// may go to one server, so that a server that does not respond does not block the others.
pub(super) const MAX_REQUESTS: usize = 512;

/// The time limit of connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// How many idle connections to a server stay open, and for how long.
const MAX_IDLE: usize = 256;
const IDLE_TIMEOUT: Duration = Duration::from_secs(15);

/// How long a host address stays cached, and a failed lookup.
const ADDRESS_TTL: Duration = Duration::from_secs(10);
const FAILURE_TTL: Duration = Duration::from_secs(1);

type OutgoingRequest = Request<Full<Bytes>>;

/// A sender that reuses connections, and one that opens a new one for each request.
type Senders<C> = [Sender<C, Full<Bytes>>; 2];

type HttpOnly = HttpConnector<Resolver>;

type Https = HttpsConnector<HttpOnly>;

/// Sends requests.
pub(super) struct Transport {
    runtime: Runtime,
    permits: Semaphore,
    /// The permits of each server, and how many each has.
    permits_by_server: (usize, Mutex<HashMap<String, Arc<Semaphore>>>),
    http: Senders<HttpOnly>,
    /// None: the system has no certificates.
    https: OnceLock<Option<Senders<Https>>>,
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
        let (permits, permits_by_server) = (Semaphore::new(count), (count - count / 4, Mutex::default()));
        Some(Transport {
            runtime,
            permits,
            permits_by_server,
            http: senders(connector()),
            https: OnceLock::new(),
        })
    }

    /// Run an asynchronous operation.
    pub(super) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(work);
    }

    /// Wait for a permit to send a request to a server.
    pub(super) async fn acquire(&self, url: &Uri) -> impl Sized + use<'_> {
        let (most, permits_by_server) = &self.permits_by_server;
        let server = url.authority().map(ToString::to_string).unwrap_or_default();
        let transport = {
            let mut permits_by_server = permits_by_server.lock().unwrap_or_else(PoisonError::into_inner);
            permits_by_server.entry(server).or_insert_with(|| Semaphore::new(*most).into()).clone()
        };
        (transport.acquire_owned().await, self.permits.acquire().await)
    }

    /// Send a request, by a new connection or by any. None: the scheme is not supported.
    pub(super) async fn send(
        &self,
        request: OutgoingRequest,
        new_connection: bool,
    ) -> Option<Result<Response<Incoming>, Error>> {
        let index = usize::from(new_connection);
        match request.uri().scheme_str()? {
            "http" => Some(self.http[index].request(request).await),
            "https" => Some(self.https.get_or_init(https).as_ref()?[index].request(request).await),
            _ => None,
        }
    }
}

/// Run work that waits for other responses or for Python, while other threads serve responses.
pub fn run_blocking<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current() {
        Ok(_) => tokio::task::block_in_place(work),
        Err(_) => work(),
    }
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

fn senders<C: Connect + Clone>(connector: C) -> Senders<C> {
    let sender = |idle: usize| {
        let mut builder = Sender::builder(TokioExecutor::new());
        builder.pool_timer(TokioTimer::new()).pool_max_idle_per_host(idle).pool_idle_timeout(IDLE_TIMEOUT);
        builder.build(connector.clone())
    };
    [sender(limited_by_files(MAX_IDLE, 8)), sender(0)]
}

fn connector() -> HttpConnector<Resolver> {
    let mut connector = HttpConnector::new_with_resolver(Resolver::default());
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
    connector.enforce_http(false);
    connector
}

/// Senders for HTTPS; the certificates are read from files on first use.
fn https() -> Option<Senders<Https>> {
    let verified = HttpsConnectorBuilder::new().try_with_platform_verifier().ok()?;
    Some(senders(verified.https_only().enable_http1().wrap_connector(connector())))
}

/// A cache of host addresses: connections are often opened at the same time.
#[derive(Clone, Default)]
struct Resolver(Arc<Mutex<HashMap<String, Arc<Lock<CachedLookup>>>>>);

/// The addresses or an error, and when the lookup ran.
type CachedLookup = Option<(Instant, Result<Vec<SocketAddr>, String>)>;

impl Service<Name> for Resolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = std::io::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let cached = {
            let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            all.entry(name.as_str().to_owned()).or_default().clone()
        };
        Box::pin(async move {
            let mut cached = cached.lock().await;
            let is_fresh = |since: &Instant, addresses: &Result<_, _>| {
                since.elapsed() < if addresses.is_ok() { ADDRESS_TTL } else { FAILURE_TTL }
            };
            let addresses = match cached.as_ref().filter(|(since, addresses)| is_fresh(since, addresses)) {
                Some((_, addresses)) => addresses.clone(),
                None => {
                    let addresses = tokio::net::lookup_host((name.as_str(), 0)).await;
                    let addresses = addresses.map(Iterator::collect).map_err(|error| error.to_string());
                    cached.insert((Instant::now(), addresses)).1.clone()
                }
            };
            addresses.map(Vec::into_iter).map_err(std::io::Error::other)
        })
    }
}
