//! A sink as a connector serves it: Hello and Welcome.

use std::sync::Arc;

use futures_util::stream::poll_fn;
use tokio::sync::mpsc;
use tonic::transport::Channel;
use tracing::Instrument as _;

use super::kind::Kind;
use super::session::{Answers, serve};
use super::{IdempotentSink, Sink, TwoPhaseSink};
use crate::call::{Finish, PROTOCOL_VERSION, Task, sdk};
use crate::connect::Target;
use crate::connector::Connector;
use crate::error::Error;
use crate::names::check_sink_name;
use crate::protocol as pb;
use crate::protocol::sink_service_attach_request::Message as Request;
use crate::protocol::sink_service_attach_response::Message as Response;
use crate::protocol::sink_service_client::SinkServiceClient;
use crate::served::{Attempt, Close, Served, begin, next, no_welcome};

/// How many messages may wait for the transport.
const OUTGOING: usize = 64;

impl Connector {
    /// A connector for a sink that writes at least once.
    pub fn sink(sink: impl Sink) -> Self {
        Self::of(Box::new(ServedSink { kind: Arc::new(super::at_least_once::AtLeastOnce::new(sink)) }))
    }

    /// A connector for a sink that writes each transaction only once, atomically with its id.
    pub fn idempotent_sink(sink: impl IdempotentSink) -> Self {
        Self::of(Box::new(ServedSink { kind: Arc::new(super::idempotent::Idempotent::new(sink)) }))
    }

    /// A connector for a sink that stages, votes and commits.
    pub fn two_phase_sink(sink: impl TwoPhaseSink) -> Self {
        Self::of(Box::new(ServedSink { kind: Arc::new(super::two_phase::TwoPhase::new(sink)) }))
    }
}

struct ServedSink<K> {
    kind: Arc<K>,
}

impl<K: Kind> Served for ServedSink<K> {
    fn kind(&self) -> &'static str {
        "sink"
    }

    fn name(&self) -> &str {
        self.kind.name()
    }

    fn check(&self) -> Result<(), Error> {
        check_sink_name(self.kind.name())
    }

    fn is_idle(&self) -> bool {
        Arc::strong_count(&self.kind) == 1
    }

    fn close(&self) -> Close {
        let kind = Arc::clone(&self.kind);
        Box::pin(async move { kind.close().await })
    }

    fn attempt<'a>(&'a mut self, task: &'a Task, target: &'a Target, channel: Channel) -> Attempt<'a> {
        Box::pin(async move {
            let name = self.kind.name().to_owned();
            let recovered = self.kind.recover(&task.calls).await.map_err(|cause| Error::Sink {
                sink: name.clone(),
                doing: "could not tell what it has stored".to_owned(),
                cause,
            })?;
            task.health.answered();
            let (requests, mut outgoing) = mpsc::channel(OUTGOING);
            let transactions = |all: Vec<super::Transaction>| all.into_iter().map(pb::Transaction::from).collect();
            let hello = pb::SinkHello {
                protocol_version: PROTOCOL_VERSION,
                connector: name.clone(),
                connector_version: self.kind.version().to_owned(),
                sink: name.clone(),
                instance: task.instance.clone(),
                mode: K::MODE.into(),
                staged: recovered.staged.into_iter().map(pb::Part::from).collect(),
                prepared: transactions(recovered.prepared),
                committed: transactions(recovered.committed),
                capabilities: vec![pb::Capability::Heartbeat.into()],
                sdk: Some(sdk()),
            };
            // There is room: nothing else was sent.
            let _ = requests.try_send(pb::SinkServiceAttachRequest { message: Some(Request::Hello(hello)) });
            let mut client = SinkServiceClient::new(channel).max_decoding_message_size(task.settings.max_message_bytes);
            let request = target.request(poll_fn(move |context| outgoing.poll_recv(context)))?;
            let call = async {
                let mut responses = client.attach(request).await?.into_inner();
                let first = next(&mut responses).await?.message;
                Ok((responses, first))
            };
            let Some((responses, first)) = begin(task, call).await? else { return Ok(Finish::Stopped) };
            let Some(Response::Welcome(welcome)) = first else { return Err(no_welcome(task)) };
            tracing::info!(gateway = task.gateway, version = welcome.gateway_version, session = welcome.session, "connected");
            task.metrics.connected();
            let session = tracing::error_span!("session", session = welcome.session);
            let answers = Answers::new(name, requests, task);
            let serving = async {
                let mode = self.kind.begin(answers.clone(), task);
                serve(task, mode, answers, welcome, responses).await
            };
            serving.instrument(session).await
        })
    }
}
