//! What sends the requests of a process to web servers: few threads for however many requests.

use std::collections::HashMap;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use http_body_util::Empty;
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::dns::Name;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{Builder, Client as Sender, Error};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::runtime::{Handle, Runtime};
use tokio::sync::{Mutex as Turn, Semaphore};
use tower_service::Service;

use crate::pool;
use crate::store::fork;

/// The most threads that send requests and take answers.
const THREADS: usize = 4;

/// So many requests are under way at most: each may have a connection of its own.
const REQUESTS: usize = 512;

/// How long it takes at most until there is a connection.
const CONNECTED: Duration = Duration::from_secs(30);

/// So many connections to a server stay open while nothing is asked for, and so long.
const IDLE: usize = 256;
const IDLE_TIME: Duration = Duration::from_secs(60);

/// So long it is remembered where a server is.
const REMEMBERED: Duration = Duration::from_secs(10);

type Asked = Request<Empty<Bytes>>;

type Secure = Sender<HttpsConnector<HttpConnector<Names>>, Empty<Bytes>>;

/// Sends requests.
pub(super) struct Client {
    runtime: Runtime,
    pub(super) turns: Semaphore,
    plain: Sender<HttpConnector<Names>, Empty<Bytes>>,
    /// None: no certificates are known here.
    secure: OnceLock<Option<Secure>>,
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
        let plain = sender().build(connector());
        Some(Client { runtime, turns: Semaphore::new(REQUESTS), plain, secure: OnceLock::new() })
    }

    /// Do something that waits for answers.
    pub(super) fn begin(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(work);
    }

    /// Send a request; None: nothing can be sent there.
    pub(super) async fn send(&self, request: Asked) -> Option<Result<Response<Incoming>, Error>> {
        match request.uri().scheme_str()? {
            "http" => Some(self.plain.request(request).await),
            "https" => Some(self.secure.get_or_init(secure).as_ref()?.request(request).await),
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

fn sender() -> Builder {
    let mut builder = Sender::builder(TokioExecutor::new());
    builder.pool_timer(TokioTimer::new()).pool_max_idle_per_host(IDLE).pool_idle_timeout(IDLE_TIME);
    builder
}

fn connector() -> HttpConnector<Names> {
    let mut connector = HttpConnector::new_with_resolver(Names::default());
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(CONNECTED));
    connector.enforce_http(false);
    connector
}

/// What asks for certificates, which are read from files when they are first needed.
fn secure() -> Option<Secure> {
    let verified = HttpsConnectorBuilder::new().try_with_platform_verifier().ok()?;
    Some(sender().build(verified.https_only().enable_http1().wrap_connector(connector())))
}

/// Where servers are, which is remembered for some seconds: connections are often made at the same time.
#[derive(Clone, Default)]
struct Names(Arc<Mutex<HashMap<String, Arc<Turn<Known>>>>>);

/// Where one is, and since when that is known.
type Known = Option<(Instant, Vec<SocketAddr>)>;

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
            if let Some((_, found)) = known.as_ref().filter(|(since, _)| since.elapsed() < REMEMBERED) {
                return Ok(found.clone().into_iter());
            }
            let found: Vec<_> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            *known = Some((Instant::now(), found.clone()));
            Ok(found.into_iter())
        })
    }
}
