//! How much a session, or one stream, may still send.

/// Credit in bytes and messages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Credit {
    pub(super) bytes: u64,
    pub(super) messages: u64,
}

impl Credit {
    pub(super) fn add(&mut self, other: Credit) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.messages = self.messages.saturating_add(other.messages);
    }

    pub(super) fn spend(&mut self, cost: Credit) {
        self.bytes = self.bytes.saturating_sub(cost.bytes);
        self.messages = self.messages.saturating_sub(cost.messages);
    }

    /// Removes and returns all of it.
    pub(super) fn take(&mut self) -> Credit {
        std::mem::take(self)
    }
}

impl From<&crate::protocol::Credit> for Credit {
    fn from(credit: &crate::protocol::Credit) -> Self {
        Self { bytes: credit.bytes, messages: credit.messages }
    }
}
