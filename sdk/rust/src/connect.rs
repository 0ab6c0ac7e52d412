//! Opens a channel to the gateway, and calls on it.

#[cfg(feature = "tls")]
use std::path::Path;
use std::time::Duration;

use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};

use crate::address::leads_here;
#[cfg(feature = "tls")]
use crate::environment::TlsFiles;
use crate::error::{Ending, Error};
use crate::proxy::Proxy;
use crate::token_file::TokenFile;

const KEEPALIVE: Duration = Duration::from_secs(20);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);
/// How much of what the gateway sends may wait on the connection, in bytes. A sink that does not read slows the gateway down.
const WINDOW_BYTES: u32 = 1 << 20;

/// TLS settings. Needs the feature `tls`.
#[cfg(feature = "tls")]
#[derive(Debug, Clone, Default)]
pub struct Tls {
    /// The certificates to trust, in PEM; `None` trusts the system's.
    pub ca: Option<Vec<u8>>,
    /// This connector's certificate chain and its private key, in PEM, for mutual TLS.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
    /// The name that the gateway's certificate must have, if it differs from the address.
    pub server_name: Option<String>,
}

#[cfg(feature = "tls")]
impl Tls {
    /// Reads the files that the environment names.
    pub(crate) fn read(files: &TlsFiles) -> Result<Self, Error> {
        let read = |name: &str, path: &Path| {
            std::fs::read(path).map_err(|error| Error::Invalid(format!("{name}: {}: {error}", path.display())))
        };
        let identity = match &files.identity {
            Some((certificate, key)) => Some((read("HEADRACE_TLS_CERT", certificate)?, read("HEADRACE_TLS_KEY", key)?)),
            None => None,
        };
        Ok(Self { ca: files.ca.as_deref().map(|path| read("HEADRACE_TLS_CA", path)).transpose()?, identity, server_name: None })
    }
}

/// Where the gateway is, and how to identify to it.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) gateway: String,
    pub(crate) token: Option<String>,
    /// The file of `token`, if it is from one.
    pub(crate) token_file: Option<TokenFile>,
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<Tls>,
    /// The files of `tls`, if it comes from the environment.
    #[cfg(feature = "tls")]
    pub(crate) files: Option<TlsFiles>,
}

impl Target {
    /// Takes the token that its file contains now, and returns whether it is another one.
    pub(crate) fn refresh_token(&mut self) -> bool {
        match self.token_file.as_mut().and_then(TokenFile::refresh) {
            Some(token) if self.token.as_ref() != Some(&token) => {
                self.token = Some(token);
                true
            }
            _ => false,
        }
    }

    /// Connects to the gateway.
    pub(crate) async fn connect(&self, limit: Duration) -> Result<Channel, Error> {
        let endpoint = self.current_endpoint(limit)?;
        let unavailable = |text: String| Error::Unavailable { gateway: self.gateway.clone(), ending: unavailable(&text) };
        match Proxy::of(&self.gateway, |name| std::env::var(name).ok()) {
            Some(proxy) => {
                let opened = endpoint.connect_with_connector(proxy.connector()).await;
                opened.map_err(|error| unavailable(format!("through {proxy}: {}", root_cause(&error))))
            }
            None => endpoint.connect().await.map_err(|error| unavailable(root_cause(&error))),
        }
    }

    /// Returns the endpoint, with what the files of TLS contain now. If they cannot be used, for instance because they are being
    /// replaced, what was read at first stays in force.
    #[cfg(feature = "tls")]
    fn current_endpoint(&self, limit: Duration) -> Result<Endpoint, Error> {
        if let Some(files) = &self.files {
            let fresh = Tls::read(files).and_then(|tls| Self { tls: Some(tls), files: None, ..self.clone() }.endpoint(limit));
            match fresh {
                Ok(endpoint) => return Ok(endpoint),
                Err(error) => tracing::warn!(%error, "the TLS files cannot be used; the first ones stay in force"),
            }
        }
        self.endpoint(limit)
    }

    #[cfg(not(feature = "tls"))]
    fn current_endpoint(&self, limit: Duration) -> Result<Endpoint, Error> {
        self.endpoint(limit)
    }

    /// Returns the endpoint.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] if the address or a setting of TLS is invalid.
    pub(crate) fn endpoint(&self, limit: Duration) -> Result<Endpoint, Error> {
        let invalid = |error: tonic::transport::Error| {
            Error::Invalid(format!("gateway {:?}: {}: want host:port, or unix:PATH", self.gateway, root_cause(&error)))
        };
        let address = match (self.is_socket(), self.uses_tls()) {
            (true, _) => self.gateway.clone(),
            (false, true) => format!("https://{}", self.gateway),
            (false, false) => format!("http://{}", self.gateway),
        };
        let endpoint = Endpoint::from_shared(address)
            .map_err(invalid)?
            .connect_timeout(limit)
            .http2_keep_alive_interval(KEEPALIVE)
            .keep_alive_timeout(KEEPALIVE_TIMEOUT)
            .keep_alive_while_idle(true)
            .initial_stream_window_size(WINDOW_BYTES)
            .initial_connection_window_size(WINDOW_BYTES);
        self.secured(endpoint)
    }

    /// Returns a request with the token.
    pub(crate) fn request<T>(&self, body: T) -> Result<Request<T>, Error> {
        let mut request = Request::new(body);
        if let Some(token) = &self.token {
            let value: MetadataValue<Ascii> = format!("Bearer {token}")
                .parse()
                .map_err(|_| Error::Invalid("the token has characters that are not allowed: want visible ASCII".to_owned()))?;
            request.metadata_mut().insert("authorization", value);
        }
        Ok(request)
    }

    /// Whether the token goes over a network in the clear.
    pub(crate) fn shows_token(&self) -> bool {
        self.token.is_some() && !self.uses_tls() && !leads_here(&self.gateway)
    }

    /// Whether the gateway listens on a Unix socket.
    fn is_socket(&self) -> bool {
        self.gateway.starts_with("unix:")
    }

    #[cfg(not(feature = "tls"))]
    fn uses_tls(&self) -> bool {
        false
    }

    #[cfg(not(feature = "tls"))]
    fn secured(&self, endpoint: Endpoint) -> Result<Endpoint, Error> {
        Ok(endpoint)
    }

    #[cfg(feature = "tls")]
    fn uses_tls(&self) -> bool {
        self.tls.is_some()
    }

    #[cfg(feature = "tls")]
    fn secured(&self, endpoint: Endpoint) -> Result<Endpoint, Error> {
        use tonic::transport::{Certificate, ClientTlsConfig, Identity};

        let Some(tls) = &self.tls else { return Ok(endpoint) };
        let mut config = match &tls.ca {
            Some(ca) => ClientTlsConfig::new().ca_certificate(Certificate::from_pem(ca)),
            None => ClientTlsConfig::new().with_native_roots(),
        };
        if let Some((certificate, key)) = &tls.identity {
            config = config.identity(Identity::from_pem(certificate, key));
        }
        if let Some(name) = &tls.server_name {
            config = config.domain_name(name);
        }
        endpoint.tls_config(config).map_err(|error| Error::Invalid(format!("TLS: {}", root_cause(&error))))
    }
}

/// The ending of an attempt that did not reach the gateway.
pub(crate) fn unavailable(text: &str) -> Ending {
    crate::ending::ending_of(&Status::unavailable(text))
}

/// The text of the innermost cause, which says what went wrong.
fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}
