//! Where partitions begin for new queries: requested once, and kept until a checkpoint contains the answer (rules SRC-18 to
//! SRC-21).

use std::collections::{HashMap, HashSet};

use super::Source;
use crate::calls::Calls;
use crate::error::Error;
use crate::frame::MAX_SEQUENCE;
use crate::message::Position;

/// The starts that no checkpoint has yet. They outlive sessions: a restarted gateway asks again, and messages that have arrived
/// since the first answer must not be skipped.
#[derive(Debug, Default)]
pub(crate) struct KnownStarts {
    starts: HashMap<String, Option<Position>>,
    listed: Option<HashSet<String>>,
}

impl KnownStarts {
    /// Notes the partitions that exist. Those that appear later begin with their first message.
    pub(super) fn listed(&mut self, partitions: &[String]) {
        let known = self.listed.is_some();
        let listed = self.listed.get_or_insert_default();
        for partition in partitions {
            if listed.insert(partition.clone()) && known {
                self.starts.insert(partition.clone(), None);
            }
        }
    }

    /// Forgets a start that a checkpoint has reached: the next new query gets another one.
    pub(super) fn acknowledged(&mut self, partition: &str, position: &Position) {
        let reached = match self.starts.get(partition) {
            Some(Some(start)) => position.sequence >= start.sequence,
            Some(None) => true,
            None => false,
        };
        if reached {
            self.starts.remove(partition);
        }
    }

    /// Returns the partitions whose start is not known.
    pub(super) fn unknown(&self, partitions: &[String]) -> Vec<String> {
        partitions.iter().filter(|partition| !self.starts.contains_key(*partition)).cloned().collect()
    }

    /// Notes the answer of the source for partitions; omitted ones begin with their first message.
    pub(super) fn learn(&mut self, asked: &[String], mut answer: HashMap<String, Position>) {
        for partition in asked {
            self.starts.insert(partition.clone(), answer.remove(partition));
        }
    }

    /// Returns the known start of a partition.
    pub(super) fn of(&self, partition: &str) -> Option<Position> {
        self.starts.get(partition).cloned().flatten()
    }
}

/// Asks the source where partitions begin.
pub(super) async fn ask<S: Source>(source: &S, calls: &Calls, asked: &[String]) -> Result<HashMap<String, Position>, Error> {
    let name = source.name();
    let answer = calls.during::<S, _>("starts", "", source.starts(asked)).await.map_err(|cause| Error::Source {
        source_name: name.to_owned(),
        doing: "starts()".to_owned(),
        cause,
    })?;
    for (partition, position) in &answer {
        if !asked.contains(partition) {
            return Err(Error::Invalid(format!(
                "source {name}: starts() names partition {partition:?}, which it was not asked for"
            )));
        }
        if position.epoch != 0 || position.sequence > MAX_SEQUENCE {
            return Err(Error::Invalid(format!(
                "source {name}: starts() gives epoch {} and sequence {} for partition {partition:?}: epoch 0 and a sequence below \
                 2^63 are allowed",
                position.epoch, position.sequence
            )));
        }
    }
    Ok(answer)
}
