//! Settings of the gateway in the environment of the process, as `headrace connector run` sets it.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::error::Error;

/// The settings in the environment. Those of the [`Connector`](crate::Connector) win over them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Environment {
    pub(crate) gateway: Option<String>,
    pub(crate) token: Option<String>,
    /// The file of the token, which precedes `token`.
    pub(crate) token_file: Option<PathBuf>,
    pub(crate) instance: Option<String>,
    /// Present if the connection must use TLS.
    pub(crate) tls: Option<TlsFiles>,
}

/// Files in PEM. Without an authority, the system's are trusted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TlsFiles {
    pub(crate) ca: Option<PathBuf>,
    /// The certificate chain of the connector, and its key.
    pub(crate) identity: Option<(PathBuf, PathBuf)>,
}

impl Environment {
    /// Reads the variables of this process.
    pub(crate) fn of_process() -> Result<Self, Error> {
        Self::read(|name| std::env::var_os(name))
    }

    /// Reads variables; empty ones count as absent.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] names the variable whose value is not allowed.
    pub(crate) fn read(variable: impl Fn(&str) -> Option<OsString>) -> Result<Self, Error> {
        let value = |name: &str| variable(name).filter(|value| !value.is_empty());
        let text = |name: &str| {
            let text = value(name).map(OsString::into_string).transpose();
            text.map_err(|_| Error::Invalid(format!("{name} is not valid UTF-8")))
        };
        let ca = value("HEADRACE_TLS_CA").map(PathBuf::from);
        let identity = match (value("HEADRACE_TLS_CERT"), value("HEADRACE_TLS_KEY")) {
            (Some(certificate), Some(key)) => Some((certificate.into(), key.into())),
            (None, None) => None,
            (Some(_), None) => return Err(missing("HEADRACE_TLS_KEY", "HEADRACE_TLS_CERT")),
            (None, Some(_)) => return Err(missing("HEADRACE_TLS_CERT", "HEADRACE_TLS_KEY")),
        };
        let is_wanted = match text("HEADRACE_TLS")?.map(|value| value.to_ascii_lowercase()).as_deref() {
            None | Some("0" | "false" | "no" | "off") => false,
            Some("1" | "true" | "yes" | "on") => true,
            Some(other) => return Err(Error::Invalid(format!("HEADRACE_TLS is {other:?}: want 1, or 0"))),
        };
        Ok(Self {
            gateway: text("HEADRACE_GATEWAY")?,
            token: text("HEADRACE_TOKEN")?,
            token_file: value("HEADRACE_TOKEN_FILE").map(PathBuf::from),
            instance: text("HEADRACE_INSTANCE")?,
            // A file means that TLS is wanted, as it does for the command line: what is meant to be secured never goes in the clear.
            tls: (is_wanted || ca.is_some() || identity.is_some()).then_some(TlsFiles { ca, identity }),
        })
    }
}

fn missing(name: &str, other: &str) -> Error {
    Error::Invalid(format!("{other} is set, but {name} is not: a certificate needs its key"))
}
