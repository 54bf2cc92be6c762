//! The conditions of a request that changes something: what keeps it, or a copy of it that comes late, from going over what
//! somebody has stored since.

use crate::{Dav, ETag, Family, Fence, If, Precondition, RemotePath};

impl Dav {
    /// Whether a request that changes something can be made to fail unless a path still has this tag. `If-Match` and `If`
    /// compare strongly (RFC 9110 §13.1.1, RFC 4918 §10.4.4), but Apache's `If` compares weakly (seen with 2.4), and its tags
    /// are weak for about two seconds after a change.
    pub fn compares(&self, tag: &ETag) -> bool {
        !tag.is_weak() || self.capabilities().is_some_and(|server| server.family == Family::Apache)
    }

    /// These claims, and that `place` still has this tag, if the server compares it.
    #[must_use]
    pub fn claim_unchanged(&self, claims: &If, place: &RemotePath, tag: &ETag) -> If {
        let claims = claims.clone();
        if self.compares(tag) { claims.unchanged(place, tag.clone()) } else { claims }
    }

    /// The `If` of a request for `path` with this precondition: a weak tag has no place in `If-Match`.
    pub(crate) fn claims(&self, path: &RemotePath, precondition: &Precondition, locks: &If) -> If {
        match precondition {
            Precondition::Unchanged(tag) if tag.is_weak() => self.claim_unchanged(locks, path, tag),
            _ => locks.clone(),
        }
    }

    /// What keeps a late copy of a request for `path` from undoing what was stored since. `claims` has locks, and perhaps the
    /// version of what they have created.
    pub fn fence(&self, path: &RemotePath, precondition: &Precondition, claims: &If) -> Fence {
        let (is_locked, named) = claims.about(path);
        let precondition = match (precondition, named) {
            (Precondition::Unchanged(tag), _) if !self.compares(tag) => Precondition::None,
            (Precondition::None, Some(tag)) => Precondition::Unchanged(tag.clone()),
            (precondition, _) => precondition.clone(),
        };
        Fence::of(&precondition, is_locked)
    }
}

#[cfg(test)]
mod tests {
    use haul_http::{Client, Origin, Settings, auth::Authenticator};
    use http::HeaderMap;

    use super::*;
    use crate::Capabilities;

    #[tokio::test]
    async fn a_weak_tag_is_a_condition_at_apache_only() {
        let origin = Origin::of(&"http://dav.test/".parse().unwrap()).unwrap();
        let path = RemotePath::from_url_path("/file").unwrap();
        let condition = |family, tag: &str| {
            let dav = Dav::new(Client::new(Settings::default(), Authenticator::default()).unwrap(), origin.clone());
            dav.capabilities.set(Capabilities { family, ..Capabilities::default() }).unwrap();
            let precondition = Precondition::of(ETag::parse(tag).as_ref());
            let mut headers = HeaderMap::new();
            precondition.apply(&mut headers);
            dav.claims(&path, &precondition, &If::default()).apply(&mut headers, &origin, &path);
            let sent = headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()));
            sent.collect::<Vec<_>>().join(", ")
        };
        for family in [Family::Apache, Family::Other] {
            assert_eq!(condition(family, "\"a\""), "if-match: \"a\"");
        }
        assert_eq!(condition(Family::Apache, "W/\"a\""), "if: ([W/\"a\"])");
        assert_eq!(condition(Family::Other, "W/\"a\""), "", "it would never match");
    }
}
