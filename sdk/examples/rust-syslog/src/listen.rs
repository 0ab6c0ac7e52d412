//! Receives messages: datagrams over UDP, and streams over TCP.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::{Bytes, BytesMut};
use headrace::Message;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::buffer::{Buffer, Counters, Held};
use crate::framing;
use crate::record::{Format, parse};

/// The largest datagram that there is.
const DATAGRAM_BYTES: usize = 65_536;
/// How much is read from a client at once, at most, while its messages are not larger.
const READ_BYTES: usize = 16 << 10;
/// How long to wait after an error of a socket, which may come again at once.
const PAUSE: Duration = Duration::from_millis(100);

/// The state that the listeners share.
#[derive(Clone)]
pub struct Receiver {
    pub buffer: Arc<Buffer>,
    /// The largest message of a TCP stream, in bytes.
    pub max_message_bytes: usize,
    /// How many clients may be connected at the same time.
    pub clients: Arc<Semaphore>,
    /// The zone of times that have none, in seconds east of UTC.
    pub offset: i64,
}

impl Receiver {
    /// Receives datagrams, until it is dropped. There is nobody to tell to wait: without room, they are dropped.
    pub async fn datagrams(self, socket: UdpSocket) {
        let mut datagram = vec![0; DATAGRAM_BYTES];
        loop {
            match socket.recv_from(&mut datagram).await {
                Ok((size, peer)) => {
                    let payload = framing::trimmed(Bytes::copy_from_slice(&datagram[..size]));
                    self.buffer.put_or_drop(self.message(&payload, peer.ip()));
                }
                Err(error) => {
                    tracing::warn!(%error, "a datagram cannot be received");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    /// Accepts clients, until it is dropped. Beyond the limit, they wait until another one has left.
    pub async fn clients(self, listener: TcpListener) {
        let mut connected = JoinSet::new();
        loop {
            let Ok(place) = Arc::clone(&self.clients).acquire_owned().await else { return };
            while connected.try_join_next().is_some() {}
            match listener.accept().await {
                Ok((stream, peer)) => {
                    let receiver = self.clone();
                    connected.spawn(async move {
                        receiver.stream(stream, peer).await;
                        drop(place);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "a client cannot be accepted");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    /// Receives the messages of a client. Without room it is not read, and TCP makes it wait.
    async fn stream(&self, mut stream: TcpStream, peer: SocketAddr) {
        let mut arrived = BytesMut::new();
        loop {
            loop {
                match framing::next(&mut arrived, self.max_message_bytes) {
                    Ok(Some(payload)) if payload.is_empty() => {}
                    Ok(Some(payload)) => self.buffer.put(self.message(&payload, peer.ip())).await,
                    Ok(None) => break,
                    Err(error) => {
                        tracing::warn!(%peer, %error, "a client is disconnected");
                        return Counters::add(&self.buffer.counters.oversized);
                    }
                }
            }
            arrived.reserve(READ_BYTES);
            match stream.read_buf(&mut arrived).await {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) => {
                    tracing::info!(%peer, %error, "a client is lost");
                    return;
                }
            }
        }
        if let Some(payload) = framing::last(arrived) {
            self.buffer.put(self.message(&payload, peer.ip())).await;
        }
    }

    /// A message for Headrace: the text as its value, the host as its key, the rest as headers.
    fn message(&self, payload: &Bytes, peer: IpAddr) -> Held {
        let received = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let received = i64::try_from(received.as_micros()).unwrap_or(i64::MAX);
        let record = parse(payload, received, self.offset);
        if record.format == Format::Unknown {
            Counters::add(&self.buffer.counters.unparsed);
        }
        let peer = peer.to_canonical().to_string();
        let mut message = Message::new(record.message)
            .event_time(record.time.unwrap_or(received))
            .key(record.host.clone().unwrap_or_else(|| peer.clone()))
            .header("facility", record.facility)
            .header("severity", record.severity)
            .header("peer", peer);
        let optional = [
            ("host", record.host),
            ("app", record.app),
            ("process", record.process),
            ("kind", record.kind),
            ("data", record.data),
        ];
        for (name, value) in optional {
            if let Some(value) = value {
                message = message.header(name, value);
            }
        }
        message
    }
}
