//! What sends the requests of a process to web servers: few threads for however many requests.

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

/// The most threads that send requests and take answers.
const THREADS: usize = 4;

/// So many requests are under way at most: each may have a connection of its own. Of four, three may be of one
/// server: who asks another one does not wait for one that does not answer.
pub(super) const REQUESTS: usize = 512;

/// How long it takes at most until there is a connection.
const CONNECTED: Duration = Duration::from_secs(30);

/// So many connections to a server stay open while nothing is asked for, and so long.
const IDLE: usize = 256;
const IDLE_TIME: Duration = Duration::from_secs(15);

/// So long it is remembered where a server is, or that nobody knows.
const REMEMBERED: Duration = Duration::from_secs(10);
const NOWHERE: Duration = Duration::from_secs(1);

type Asked = Request<Full<Bytes>>;

/// What uses connections again, and what makes a new one for each request.
type Senders<C> = [Sender<C, Full<Bytes>>; 2];

type Plain = HttpConnector<Names>;

type Secure = HttpsConnector<Plain>;

/// Sends requests.
pub(super) struct Client {
    runtime: Runtime,
    turns: Semaphore,
    /// Of each server, and how many these are.
    theirs: (usize, Mutex<HashMap<String, Arc<Semaphore>>>),
    plain: Senders<Plain>,
    /// None: no certificates are known here.
    secure: OnceLock<Option<Senders<Secure>>>,
}

/// That of a process: none where it can have no threads.
#[derive(Default)]
struct Own(OnceLock<Option<Client>>);

impl Client {
    /// That of this process: a forked child has connections of its own.
    pub(super) fn get() -> Option<&'static Client> {
        static CLIENT: OnceLock<fork::Own<Own>> = OnceLock::new();
        let own = CLIENT.get_or_init(fork::Own::new).get();
        own.0.get_or_init(|| pool::guarded(|| Ok(Client::new())).ok().flatten()).as_ref()
    }

    fn new() -> Option<Client> {
        // Where no thread can be made a runtime panics.
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

    /// Do something that waits for answers.
    pub(super) fn begin(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(work);
    }

    /// Wait until there may be one more request.
    pub(super) async fn turn(&self, url: &Uri) -> impl Sized + use<'_> {
        let (most, theirs) = &self.theirs;
        let server = url.authority().map(ToString::to_string).unwrap_or_default();
        let own = {
            let mut theirs = theirs.lock().unwrap_or_else(PoisonError::into_inner);
            theirs.entry(server).or_insert_with(|| Semaphore::new(*most).into()).clone()
        };
        (own.acquire_owned().await, self.turns.acquire().await)
    }

    /// Send a request, by a new connection or by any; None: nothing can be sent there.
    pub(super) async fn send(&self, request: Asked, anew: bool) -> Option<Result<Response<Incoming>, Error>> {
        let which = usize::from(anew);
        match request.uri().scheme_str()? {
            "http" => Some(self.plain[which].request(request).await),
            "https" => Some(self.secure.get_or_init(secure).as_ref()?[which].request(request).await),
            _ => None,
        }
    }
}

/// Do what waits for other answers, or for Python, so that those come meanwhile.
pub fn aside<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current() {
        Ok(_) => tokio::task::block_in_place(work),
        Err(_) => work(),
    }
}

/// Less, where the process may open few files, of which others need some, too: that part of them.
fn at_most(count: usize, part: usize) -> usize {
    // SAFETY: numbers, all of which may be zero; they are written to what is their place.
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

/// What asks for certificates, which are read from files when they are first needed.
fn secure() -> Option<Senders<Secure>> {
    let verified = HttpsConnectorBuilder::new().try_with_platform_verifier().ok()?;
    Some(senders(verified.https_only().enable_http1().wrap_connector(connector())))
}

/// Where servers are, which is remembered for some seconds: connections are often made at the same time.
#[derive(Clone, Default)]
struct Names(Arc<Mutex<HashMap<String, Arc<Turn<Known>>>>>);

/// Where one is, or why not, and since when that is known.
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
