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
use tokio::sync::{Mutex as Turn, Semaphore};
use tower_service::Service;

use crate::pool;
use crate::store::fork;

/// The maximum number of threads that send requests and receive responses.
const THREADS: usize = 4;

/// The maximum number of concurrent requests, each of which may have a connection. Three quarters
/// may go to one server, so that a server that does not respond does not block the others.
pub(super) const REQUESTS: usize = 512;

/// The time limit of connecting.
const CONNECTED: Duration = Duration::from_secs(30);

/// How many idle connections to a server stay open, and for how long.
const IDLE: usize = 256;
const IDLE_TIME: Duration = Duration::from_secs(15);

/// How long a host address stays cached, and a failed lookup.
const REMEMBERED: Duration = Duration::from_secs(10);
const NOWHERE: Duration = Duration::from_secs(1);

type Asked = Request<Full<Bytes>>;

/// A sender that reuses connections, and one that opens a new one for each request.
type Senders<C> = [Sender<C, Full<Bytes>>; 2];

type Plain = HttpConnector<Names>;

type Secure = HttpsConnector<Plain>;

/// Sends requests.
pub(super) struct Client {
    runtime: Runtime,
    turns: Semaphore,
    /// The permits of each server, and how many each has.
    theirs: (usize, Mutex<HashMap<String, Arc<Semaphore>>>),
    plain: Senders<Plain>,
    /// None: the system has no certificates.
    secure: OnceLock<Option<Senders<Secure>>>,
}

/// The transport of a process; None if it can create no threads.
#[derive(Default)]
struct Own(OnceLock<Option<Client>>);

impl Client {
    /// The transport of this process: a forked child has its own connections.
    pub(super) fn get() -> Option<&'static Client> {
        static CLIENT: OnceLock<fork::Own<Own>> = OnceLock::new();
        let own = CLIENT.get_or_init(fork::Own::new).get();
        own.0.get_or_init(|| pool::guarded(|| Ok(Client::new())).ok().flatten()).as_ref()
    }

    fn new() -> Option<Client> {
        // The runtime panics if it cannot create threads.
        std::thread::Builder::new().spawn(|| {}).ok()?.join().ok()?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(pool::threads().clamp(1, THREADS))
            .max_blocking_threads(REQUESTS)
            .thread_name("tessarr-web")
            .enable_all()
            .build()
            .ok()?;
        let count = at_most(REQUESTS, 4);
        let (turns, theirs) = (Semaphore::new(count), (count - count / 4, Mutex::default()));
        Some(Client { runtime, turns, theirs, plain: senders(connector()), secure: OnceLock::new() })
    }

    /// Run an asynchronous operation.
    pub(super) fn begin(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(work);
    }

    /// Wait for a permit to send a request to a server.
    pub(super) async fn turn(&self, url: &Uri) -> impl Sized + use<'_> {
        let (most, theirs) = &self.theirs;
        let server = url.authority().map(ToString::to_string).unwrap_or_default();
        let own = {
            let mut theirs = theirs.lock().unwrap_or_else(PoisonError::into_inner);
            theirs.entry(server).or_insert_with(|| Semaphore::new(*most).into()).clone()
        };
        (own.acquire_owned().await, self.turns.acquire().await)
    }

    /// Send a request, by a new connection or by any. None: the scheme is not supported.
    pub(super) async fn send(&self, request: Asked, anew: bool) -> Option<Result<Response<Incoming>, Error>> {
        let which = usize::from(anew);
        match request.uri().scheme_str()? {
            "http" => Some(self.plain[which].request(request).await),
            "https" => Some(self.secure.get_or_init(secure).as_ref()?[which].request(request).await),
            _ => None,
        }
    }
}

/// Run work that waits for other responses or for Python; other threads serve responses meanwhile.
pub fn aside<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current() {
        Ok(_) => tokio::task::block_in_place(work),
        Err(_) => work(),
    }
}

/// Limit `count` to a fraction of the files that the process may open.
fn at_most(count: usize, part: usize) -> usize {
    // SAFETY: `rlimit` consists of numbers, for which zero is valid; the call writes into it.
    let files = unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
        limit.rlim_cur
    };
    usize::try_from(files).map_or(count, |files| count.min(files / part)).max(1)
}

fn senders<C: Connect + Clone>(connector: C) -> Senders<C> {
    let sender = |idle: usize| {
        let mut builder = Sender::builder(TokioExecutor::new());
        builder.pool_timer(TokioTimer::new()).pool_max_idle_per_host(idle).pool_idle_timeout(IDLE_TIME);
        builder.build(connector.clone())
    };
    [sender(at_most(IDLE, 8)), sender(0)]
}

fn connector() -> HttpConnector<Names> {
    let mut connector = HttpConnector::new_with_resolver(Names::default());
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(CONNECTED));
    connector.enforce_http(false);
    connector
}

/// Senders for HTTPS; the certificates are read from files on first use.
fn secure() -> Option<Senders<Secure>> {
    let verified = HttpsConnectorBuilder::new().try_with_platform_verifier().ok()?;
    Some(senders(verified.https_only().enable_http1().wrap_connector(connector())))
}

/// A cache of host addresses: connections are often opened at the same time.
#[derive(Clone, Default)]
struct Names(Arc<Mutex<HashMap<String, Arc<Turn<Known>>>>>);

/// The addresses or an error, and when the lookup ran.
type Known = Option<(Instant, Result<Vec<SocketAddr>, String>)>;

impl Service<Name> for Names {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = std::io::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let known = {
            let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            all.entry(name.as_str().to_owned()).or_default().clone()
        };
        Box::pin(async move {
            let mut known = known.lock().await;
            let is_fresh = |since: &Instant, found: &Result<_, _>| {
                since.elapsed() < if found.is_ok() { REMEMBERED } else { NOWHERE }
            };
            let found = match known.as_ref().filter(|(since, found)| is_fresh(since, found)) {
                Some((_, found)) => found.clone(),
                None => {
                    let found = tokio::net::lookup_host((name.as_str(), 0)).await;
                    let found = found.map(Iterator::collect).map_err(|error| error.to_string());
                    known.insert((Instant::now(), found)).1.clone()
                }
            };
            found.map(Vec::into_iter).map_err(std::io::Error::other)
        })
    }
}
