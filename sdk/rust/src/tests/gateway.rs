//! A gateway that does what a test tells it to.

use std::time::Duration;

use futures_util::stream::{Stream, poll_fn};
use std::pin::Pin;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tonic::transport::Server;
use tonic::transport::server::{Connected, TcpIncoming};
use tonic::{Request, Response, Status, Streaming};

use crate::protocol as pb;
use crate::protocol::services::{sink_service_server, source_service_server};

const DEADLINE: Duration = Duration::from_secs(60);

/// One session: what the connector sends, and where to answer.
pub(super) struct Call<Q, A> {
    requests: Streaming<Q>,
    answers: Option<mpsc::Sender<Result<A, Status>>>,
    pub(super) authorization: Option<String>,
}

pub(super) type SourceCall = Call<pb::IngestRequest, pb::IngestResponse>;
pub(super) type SinkCall = Call<pb::SinkServiceAttachRequest, pb::SinkServiceAttachResponse>;

/// A gateway on a free port, which hands every call to the test.
pub(super) struct Gateway {
    pub(super) address: String,
    pub(super) sources: mpsc::Receiver<SourceCall>,
    pub(super) sinks: mpsc::Receiver<SinkCall>,
    server: JoinHandle<()>,
}

impl Gateway {
    pub(super) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address").to_string();
        Self::serving(address, TcpIncoming::from(listener))
    }

    /// A gateway that serves connections.
    pub(super) fn serving<C>(address: String, incoming: impl Stream<Item = std::io::Result<C>> + Send + 'static) -> Self
    where
        C: AsyncRead + AsyncWrite + Connected + Unpin + Send + 'static,
    {
        let (source, sources) = mpsc::channel(8);
        let (sink, sinks) = mpsc::channel(8);
        let router = Server::builder()
            .add_service(source_service_server::SourceServiceServer::new(Sources(source)))
            .add_service(sink_service_server::SinkServiceServer::new(Sinks(sink)));
        let server = tokio::spawn(async move {
            let _ = router.serve_with_incoming(incoming).await;
        });
        Self { address, sources, sinks, server }
    }

    /// Waits for a session of a source.
    pub(super) async fn source(&mut self) -> SourceCall {
        within(self.sources.recv()).await.expect("a session")
    }

    /// Waits for a session of a sink.
    pub(super) async fn sink(&mut self) -> SinkCall {
        within(self.sinks.recv()).await.expect("a session")
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl<Q, A> Call<Q, A> {
    /// Waits for the connector's next message; `None` if it has ended the call.
    pub(super) async fn next(&mut self) -> Option<Q> {
        within(self.requests.message()).await.ok().flatten()
    }

    pub(super) async fn send(&mut self, answer: A) {
        let answers = self.answers.as_ref().expect("the call is open");
        let _ = answers.send(Ok(answer)).await;
    }

    /// Ends the call with OK.
    pub(super) fn end(&mut self) {
        self.answers = None;
    }

    /// Ends the call with a status.
    pub(super) async fn fail(&mut self, status: Status) {
        let answers = self.answers.take().expect("the call is open");
        let _ = answers.send(Err(status)).await;
    }
}

/// Waits for something that must happen soon.
pub(super) async fn within<T>(future: impl Future<Output = T>) -> T {
    timeout(DEADLINE, future).await.expect("it does not happen in time")
}

type Answers<A> = Pin<Box<dyn Stream<Item = Result<A, Status>> + Send>>;

async fn accept<Q, A: Send + 'static>(
    calls: &mpsc::Sender<Call<Q, A>>,
    request: Request<Streaming<Q>>,
) -> Result<Response<Answers<A>>, Status> {
    let authorization = request.metadata().get("authorization").and_then(|value| value.to_str().ok()).map(str::to_owned);
    let (answers, mut outgoing) = mpsc::channel(64);
    let call = Call { requests: request.into_inner(), answers: Some(answers), authorization };
    calls.send(call).await.map_err(|_| Status::unavailable("the test is over"))?;
    Ok(Response::new(Box::pin(poll_fn(move |context| outgoing.poll_recv(context)))))
}

struct Sources(mpsc::Sender<SourceCall>);

#[tonic::async_trait]
impl source_service_server::SourceService for Sources {
    type IngestStream = Answers<pb::IngestResponse>;

    async fn ingest(&self, request: Request<Streaming<pb::IngestRequest>>) -> Result<Response<Self::IngestStream>, Status> {
        accept(&self.0, request).await
    }
}

struct Sinks(mpsc::Sender<SinkCall>);

#[tonic::async_trait]
impl sink_service_server::SinkService for Sinks {
    type AttachStream = Answers<pb::SinkServiceAttachResponse>;

    async fn attach(
        &self,
        request: Request<Streaming<pb::SinkServiceAttachRequest>>,
    ) -> Result<Response<Self::AttachStream>, Status> {
        accept(&self.0, request).await
    }
}
