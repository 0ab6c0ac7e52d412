//! A source as a connector serves it: Hello and Welcome.

use std::sync::Arc;

use futures_util::stream::poll_fn;
use tokio::sync::mpsc;
use tonic::transport::Channel;
use tracing::Instrument as _;

use super::{KnownStarts, Source, serve};
use crate::call::{Finish, PROTOCOL_VERSION, Task, sdk};
use crate::connect::Target;
use crate::connector::Connector;
use crate::error::Error;
use crate::names::{check_text, stream_name};
use crate::protocol as pb;
use crate::protocol::ingest_request::Message as Request;
use crate::protocol::ingest_response::Message as Response;
use crate::protocol::source_service_client::SourceServiceClient;
use crate::served::{Attempt, Close, Served, begin, next, no_welcome};

/// How many messages may wait for the transport.
const OUTGOING: usize = 2;

impl Connector {
    /// A connector for a source.
    pub fn source(source: impl Source) -> Self {
        Self::of(Box::new(ServedSource { source: Arc::new(source), known: KnownStarts::default() }))
    }
}

struct ServedSource<S> {
    source: Arc<S>,
    known: KnownStarts,
}

impl<S: Source> Served for ServedSource<S> {
    fn kind(&self) -> &'static str {
        "source"
    }

    fn name(&self) -> &str {
        self.source.name()
    }

    fn check(&self) -> Result<(), Error> {
        stream_name(self.source.name(), "0")?;
        check_text("connector", self.source.connector())
    }

    fn is_idle(&self) -> bool {
        Arc::strong_count(&self.source) == 1
    }

    fn close(&self) -> Close {
        let source = Arc::clone(&self.source);
        Box::pin(async move { source.close().await })
    }

    fn attempt<'a>(&'a mut self, task: &'a Task, target: &'a Target, channel: Channel) -> Attempt<'a> {
        Box::pin(async move {
            let (requests, mut outgoing) = mpsc::channel(OUTGOING);
            let hello = pb::Hello {
                protocol_version: PROTOCOL_VERSION,
                connector: self.source.connector().to_owned(),
                connector_version: self.source.version().to_owned(),
                instance: task.instance.clone(),
                capabilities: [pb::Capability::Pace, pb::Capability::Heartbeat, pb::Capability::Frames, pb::Capability::Cursors]
                    .map(i32::from)
                    .to_vec(),
                sdk: Some(sdk()),
            };
            // There is room: nothing else was sent.
            let _ = requests.try_send(pb::IngestRequest { message: Some(Request::Hello(hello)) });
            let mut client = SourceServiceClient::new(channel);
            let request = target.request(poll_fn(move |context| outgoing.poll_recv(context)))?;
            let call = async {
                let mut responses = client.ingest(request).await?.into_inner();
                let first = next(&mut responses).await?.message;
                Ok((responses, first))
            };
            let Some((responses, first)) = begin(task, call).await? else { return Ok(Finish::Stopped) };
            let Some(Response::Welcome(welcome)) = first else { return Err(no_welcome(task)) };
            tracing::info!(gateway = task.gateway, version = welcome.gateway_version, session = welcome.session, "connected");
            task.metrics.connected();
            let session = tracing::error_span!("session", session = welcome.session);
            serve(task, &self.source, &mut self.known, welcome, requests, responses).instrument(session).await
        })
    }
}
