//! How much space there is on the server (RFC 4331).
//!
//! Samba and file managers ask whenever they open a folder. The server's answer is believed for as long as a listing is.

use std::time::Duration;

use dav::PropertySet;
use tokio::time::Instant;

use super::Share;

/// Total and free bytes.
type Space = (u64, u64);

/// What the server has said, and when. It may not tell.
#[derive(Debug, Clone, Copy)]
pub(super) struct Quota {
    space: Option<Space>,
    asked: Instant,
}

impl Quota {
    fn is_fresh(&self, fresh: Duration, now: Instant) -> bool {
        now.saturating_duration_since(self.asked) < fresh
    }
}

impl Share {
    /// Total and free bytes, if the server says, by one request for all who ask.
    pub(crate) async fn quota(&self) -> Option<Space> {
        let mut known = self.quota.lock().await;
        let asked = Instant::now();
        if let Some(quota) = known.filter(|quota| quota.is_fresh(self.options.fresh, asked)) {
            return quota.space;
        }
        let path = self.tree().path(crate::tree::Tree::ROOT)?;
        // Without an answer, the next one who asks tries again.
        let properties = self.dav.stat(&path, PropertySet::CAPABILITIES).await.ok()??.properties;
        let free = properties.quota_available;
        let space = free.map(|free| (free.saturating_add(properties.quota_used.unwrap_or(0)), free));
        *known = Some(Quota { space, asked });
        space
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quota_is_believed_as_long_as_a_listing() {
        let (asked, fresh) = (Instant::now(), Duration::from_secs(10));
        let quota = Quota { space: None, asked };
        assert!(quota.is_fresh(fresh, asked + fresh / 2));
        assert!(!quota.is_fresh(fresh, asked + fresh));
        assert!(!quota.is_fresh(Duration::ZERO, asked), "nothing is believed");
    }
}
