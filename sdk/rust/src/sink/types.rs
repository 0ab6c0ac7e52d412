//! Transactions, parts and outcomes.

use crate::protocol as pb;

/// Everything that one micro-batch of one pipeline writes to one sink.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Transaction {
    /// The id of the pipeline's query, which its checkpoint keeps.
    pub pipeline: String,
    /// The micro-batch, counted from 0.
    pub batch: u64,
}

/// The rows that one Spark task writes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Part {
    /// The transaction that it belongs to.
    pub transaction: Transaction,
    /// The task's partition, counted from 0.
    pub partition: u32,
    /// The name of this attempt to deliver the partition; only one attempt will count. It contains a `/`.
    pub attempt: String,
}

/// The transactions that a two-phase sink has stored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Every staged part, including the parts of prepared transactions.
    pub staged: Vec<Part>,
    /// Every transaction that is prepared and neither committed nor aborted.
    pub prepared: Vec<Transaction>,
    /// The last committed transaction of each pipeline. Transactions of a pipeline that is missing here count as lost.
    pub committed: Vec<Transaction>,
}

/// A message that the sink will never accept. It becomes a dead letter, and must not be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The place of the message in its part: [`Row::sequence`](crate::Row::sequence).
    pub sequence: u64,
    /// Why, for humans.
    pub reason: String,
}

/// What became of messages: all are written, or staged, except single refused ones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[must_use]
pub struct Outcomes {
    refused: Vec<Refused>,
}

impl Outcomes {
    /// Every message is written.
    pub fn all_written() -> Self {
        Self::default()
    }

    /// Refuses a message permanently, by its place in its part.
    pub fn refuse(&mut self, sequence: u64, reason: impl Into<String>) {
        self.refused.push(Refused { sequence, reason: reason.into() });
    }

    /// The messages that are refused, in the order in which they were.
    pub fn refused(&self) -> &[Refused] {
        &self.refused
    }

    /// Adds the outcomes of messages that follow.
    pub(super) fn extend(&mut self, more: Outcomes) {
        self.refused.extend(more.refused);
    }

    /// Checks that the refused messages exist, and returns them by ascending sequence (SNK-15).
    pub(super) fn checked(mut self, first: u64, end: u64) -> Result<Self, String> {
        self.refused.sort_by_key(|refused| refused.sequence);
        let doubled = self.refused.windows(2).find(|pair| pair[0].sequence == pair[1].sequence);
        let strange = self.refused.iter().find(|refused| !(first..end).contains(&refused.sequence));
        match (doubled, strange) {
            (Some(pair), _) => Err(format!("message {} was refused twice", pair[0].sequence)),
            (_, Some(refused)) => {
                Err(format!("message {} was refused, but there are {first} to {end}, exclusive", refused.sequence))
            }
            _ => Ok(self),
        }
    }
}

impl From<Outcomes> for Vec<pb::staged::Refused> {
    fn from(outcomes: Outcomes) -> Self {
        let refused = |refused: Refused| pb::staged::Refused { sequence: refused.sequence, reason: refused.reason };
        outcomes.refused.into_iter().map(refused).collect()
    }
}

impl From<Transaction> for pb::Transaction {
    fn from(transaction: Transaction) -> Self {
        // A sink without CAPABILITY_RUNS names no runs.
        Self { pipeline: transaction.pipeline, batch: transaction.batch, run: String::new() }
    }
}

impl From<pb::Transaction> for Transaction {
    fn from(transaction: pb::Transaction) -> Self {
        Self { pipeline: transaction.pipeline, batch: transaction.batch }
    }
}

impl From<Part> for pb::Part {
    fn from(part: Part) -> Self {
        Self { transaction: Some(part.transaction.into()), partition: part.partition, attempt: part.attempt }
    }
}

impl From<pb::Part> for Part {
    fn from(part: pb::Part) -> Self {
        let transaction = part.transaction.unwrap_or_default().into();
        Self { transaction, partition: part.partition, attempt: part.attempt }
    }
}
