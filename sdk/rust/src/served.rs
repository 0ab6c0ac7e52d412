//! The source or sink that a connector serves, and how its sessions begin.

use std::future::Future;
use std::pin::Pin;

use tokio::time::timeout;
use tonic::Streaming;
use tonic::transport::Channel;

use crate::call::{Finish, Task, stopped};
use crate::connect::{Target, unavailable};
use crate::ending::error_of;
use crate::error::{BoxError, Ending, Error};

/// The source or sink that a connector serves.
pub(crate) trait Served: Send + Sync {
    /// `source` or `sink`.
    fn kind(&self) -> &'static str;

    fn name(&self) -> &str;

    /// Checks names.
    fn check(&self) -> Result<(), Error>;

    /// Whether none of its methods runs: the task of each one shares it.
    fn is_idle(&self) -> bool;

    /// Calls its `close`. It may still run when this is gone.
    fn close(&self) -> Close;

    /// Runs one session on a channel.
    fn attempt<'a>(&'a mut self, task: &'a Task, target: &'a Target, channel: Channel) -> Attempt<'a>;
}

pub(crate) type Attempt<'a> = Pin<Box<dyn Future<Output = Result<Finish, Error>> + Send + 'a>>;

/// A call of `close`.
pub(crate) type Close = Pin<Box<dyn Future<Output = Result<(), BoxError>> + Send>>;

/// Awaits the gateway's first message, for a limited time; `None` if the connector is stopped.
pub(crate) async fn begin<T>(task: &Task, call: impl Future<Output = Result<T, tonic::Status>>) -> Result<Option<T>, Error> {
    let mut stop = task.stop.clone();
    tokio::select! {
        begun = timeout(task.settings.welcome, call) => match begun {
            Ok(Ok(begun)) => Ok(Some(begun)),
            Ok(Err(status)) => Err(error_of(&task.gateway, &status)),
            Err(_) => Err(Error::Unavailable {
                gateway: task.gateway.clone(),
                ending: unavailable("the gateway did not answer Hello in time"),
            }),
        },
        () = stopped(&mut stop) => Ok(None),
    }
}

/// Reads a message; the end of the call is an error.
pub(crate) async fn next<T>(responses: &mut Streaming<T>) -> Result<T, tonic::Status> {
    let response = responses.message().await?;
    response.ok_or_else(|| tonic::Status::unavailable("the gateway ended the call without a Goodbye"))
}

/// The error of a gateway whose first message is not Welcome.
pub(crate) fn no_welcome(task: &Task) -> Error {
    Error::Refused {
        gateway: task.gateway.clone(),
        ending: Ending {
            status: "FAILED_PRECONDITION",
            text: "the gateway did not answer Hello with Welcome".to_owned(),
            reason: None,
            metadata: Default::default(),
        },
    }
}
