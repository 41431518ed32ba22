//! Opens connections: host addresses, proxies and certificates.

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper::Uri;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::dns::Name;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::client::proxy::matcher::Matcher;
use hyper_util::rt::TokioIo;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{ring, verify_tls12_signature, verify_tls13_signature, CryptoProvider};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use rustls_platform_verifier::Verifier;
use tokio::net::TcpStream;
use tokio::sync::Mutex as Lock;
use tower_service::Service;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// How long a host address stays cached, and a failed lookup.
const ADDRESS_TTL: Duration = Duration::from_secs(10);
const FAILURE_TTL: Duration = Duration::from_secs(1);

/// How connections are opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionSettings {
    /// The limit of opening one.
    pub connect_timeout: Duration,
    /// Certificates in PEM that are trusted beside those of the system.
    pub ca_certificates: Vec<u8>,
    /// Whether the certificates of servers are verified.
    pub verify: bool,
    /// The proxy, and the hosts that need none; None: those of the environment.
    pub proxy: Option<(String, String)>,
}

impl ConnectionSettings {
    fn proxies(&self) -> Matcher {
        match &self.proxy {
            None => Matcher::from_env(),
            Some((proxy, direct)) => Matcher::builder().all(proxy.as_str()).no(direct.as_str()).build(),
        }
    }

    /// Return the connector for URLs without encryption.
    pub(super) fn dialer(&self) -> Dialer {
        let mut tcp = HttpConnector::new_with_resolver(Resolver::default());
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(self.connect_timeout));
        tcp.enforce_http(false);
        Dialer { tcp, proxies: Arc::new(self.proxies()) }
    }

    /// Return the connector for encrypted connections. None: the certificates cannot be read.
    pub(super) fn encrypted(&self, dialer: Dialer) -> Option<HttpsConnector<Dialer>> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone());
        let builder = builder.with_safe_default_protocol_versions().ok()?.dangerous();
        let verifier: Arc<dyn ServerCertVerifier> = match self.verify {
            true => {
                let roots = CertificateDer::pem_slice_iter(&self.ca_certificates);
                let roots = roots.collect::<Result<Vec<_>, _>>().ok()?;
                Arc::new(Verifier::new_with_extra_roots(roots, provider).ok()?)
            }
            false => Arc::new(Unverified(provider)),
        };
        let config = builder.with_custom_certificate_verifier(verifier).with_no_client_auth();
        let builder = HttpsConnectorBuilder::new().with_tls_config(config).https_or_http();
        Some(builder.enable_http1().wrap_connector(dialer))
    }
}

/// Opens connections, directly or by a proxy.
#[derive(Clone)]
pub(super) struct Dialer {
    tcp: HttpConnector<Resolver>,
    pub(super) proxies: Arc<Matcher>,
}

impl Service<Uri> for Dialer {
    type Response = Stream;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Stream, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.tcp.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, url: Uri) -> Self::Future {
        let Some(proxy) = self.proxies.intercept(&url) else {
            let connecting = self.tcp.call(url);
            return Box::pin(async { Ok(Stream { stream: connecting.await?, absolute: false }) });
        };
        if url.scheme_str() == Some("http") {
            let connecting = self.tcp.call(proxy.uri().clone());
            return Box::pin(async { Ok(Stream { stream: connecting.await?, absolute: true }) });
        }
        let mut tunnel = Tunnel::new(proxy.uri().clone(), self.tcp.clone());
        if let Some(credentials) = proxy.basic_auth() {
            tunnel = tunnel.with_auth(credentials.clone());
        }
        let connecting = tunnel.call(url);
        Box::pin(async { Ok(Stream { stream: connecting.await?, absolute: false }) })
    }
}

/// A connection; one to a proxy needs the whole URL in requests.
pub(super) struct Stream {
    stream: TokioIo<TcpStream>,
    absolute: bool,
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        self.stream.inner().connected().proxy(self.absolute)
    }
}

impl Read for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl Write for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, buffers)
    }
}

/// Accepts every certificate, as the user asked for.
#[derive(Debug)]
struct Unverified(Arc<CryptoProvider>);

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// A cache of host addresses: connections are often opened at the same time.
#[derive(Clone, Default)]
pub(super) struct Resolver(Arc<Mutex<HashMap<String, Arc<Lock<CachedLookup>>>>>);

/// The addresses or an error, and when the lookup ran.
type CachedLookup = Option<(Instant, Result<Vec<SocketAddr>, String>)>;

impl Service<Name> for Resolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = io::Error;
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
            addresses.map(Vec::into_iter).map_err(io::Error::other)
        })
    }
}

impl Default for ConnectionSettings {
    fn default() -> Self {
        let connect_timeout = Duration::from_secs(10);
        ConnectionSettings { connect_timeout, ca_certificates: Vec::new(), verify: true, proxy: None }
    }
}
