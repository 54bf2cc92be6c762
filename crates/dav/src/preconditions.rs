//! Conditions under which a request takes effect.
//!
//! `If-Match` and `If-None-Match` (RFC 9110 §13.1) are about the version of the resource: they keep a newer version of
//! somebody else's from being overwritten. `If` (RFC 4918 §10.4) presents lock tokens: without it, one's own lock refuses
//! one's own request.

use std::fmt::Write;

use haul_http::Origin;
use http::{HeaderMap, HeaderName, HeaderValue, header};

use crate::{etag::ETag, lock_token::LockToken, path::RemotePath};

/// The precondition of a request on the resource that it writes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Precondition {
    /// Nothing.
    #[default]
    None,
    /// The resource does not exist (`If-None-Match: *`).
    Absent,
    /// The resource exists, in any version (`If-Match: *`).
    Present,
    /// The resource still has this entity tag (`If-Match`). A weak tag never matches there (RFC 9110 §13.1.1), so
    /// [`Dav`](crate::Dav) sends it in `If`, if the server compares it there ([`Dav::compares`](crate::Dav::compares)),
    /// or not at all.
    Unchanged(ETag),
}

impl Precondition {
    /// The precondition for a version in a listing; none without a tag. `If-Unmodified-Since` is no substitute: Apache
    /// compares it with the present time when it writes a file, and refuses.
    pub fn of(etag: Option<&ETag>) -> Self {
        etag.map_or(Self::None, |tag| Self::Unchanged(tag.clone()))
    }

    /// Adds the header, if there is one.
    pub fn apply(&self, headers: &mut HeaderMap) {
        match self {
            Self::Unchanged(tag) if !tag.is_weak() => insert(headers, header::IF_MATCH, &tag.to_string()),
            Self::None | Self::Unchanged(_) => {}
            Self::Absent => insert(headers, header::IF_NONE_MATCH, "*"),
            Self::Present => insert(headers, header::IF_MATCH, "*"),
        }
    }
}

/// The header `If`: lock tokens to present, and entity tags that must match.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct If {
    /// Paths, each with its conditions. The header holds if all conditions of at least one path do.
    claims: Vec<(RemotePath, Vec<Claim>)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Claim {
    Locked(LockToken),
    State(ETag),
}

impl If {
    /// Also presents the token of the lock on `place`.
    #[must_use]
    pub fn locked(self, place: &RemotePath, token: LockToken) -> Self {
        self.claim(place, Claim::Locked(token))
    }

    /// Also requires that `place` has this entity tag.
    #[must_use]
    pub fn unchanged(self, place: &RemotePath, tag: ETag) -> Self {
        self.claim(place, Claim::State(tag))
    }

    /// Whether it presents a lock of `place`, and the entity tag that it requires there.
    pub(crate) fn about(&self, place: &RemotePath) -> (bool, Option<&ETag>) {
        let claims = self.claims.iter().filter(|(known, _)| known.same_place(place)).flat_map(|(_, claims)| claims);
        claims.fold((false, None), |(is_locked, tag), claim| match claim {
            Claim::Locked(_) => (true, tag),
            Claim::State(tag) => (is_locked, Some(tag)),
        })
    }

    fn claim(mut self, place: &RemotePath, claim: Claim) -> Self {
        match self.claims.iter_mut().find(|(known, _)| known.same_place(place)) {
            Some((_, claims)) => claims.push(claim),
            None => self.claims.push((place.clone(), vec![claim])),
        }
        self
    }

    /// Adds the header to a request for `target`, unless it is empty. If all conditions are about the target, they need
    /// no URL, which every server understands; otherwise each list has one, because the two forms cannot be mixed.
    pub fn apply(&self, headers: &mut HeaderMap, origin: &Origin, target: &RemotePath) {
        let alone = self.claims.iter().all(|(place, _)| place.same_place(target));
        self.insert(headers, (!alone).then_some(origin));
    }

    /// Adds the header to a request that removes a name from its folder (DELETE, MOVE), unless it is empty. Each list has a
    /// URL: Apache takes one without for a condition on the folder too, and refuses (424, seen with 2.4).
    pub fn apply_to_removal(&self, headers: &mut HeaderMap, origin: &Origin) {
        self.insert(headers, Some(origin));
    }

    /// With URLs of this origin, or without any.
    fn insert(&self, headers: &mut HeaderMap, origin: Option<&Origin>) {
        let mut value = String::new();
        for (place, claims) in &self.claims {
            if let Some(origin) = origin {
                let _ = write!(value, "<{origin}{}> ", place.target());
            }
            value.push('(');
            for claim in claims {
                let _ = match claim {
                    Claim::Locked(token) => write!(value, "{token} "),
                    Claim::State(tag) => write!(value, "[{tag}] "),
                };
            }
            value.pop();
            value.push_str(") ");
        }
        if !value.is_empty() {
            insert(headers, HeaderName::from_static("if"), value.trim_end());
        }
    }
}

/// Tags, tokens and targets consist of characters that a header may hold.
fn insert(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_bytes(value.as_bytes()) {
        headers.insert(name, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(name: &str, apply: impl FnOnce(&mut HeaderMap)) -> Option<String> {
        let mut headers = HeaderMap::new();
        apply(&mut headers);
        headers.get(name).map(|value| str::from_utf8(value.as_bytes()).unwrap().to_owned())
    }

    #[test]
    fn only_strong_entity_tags_make_preconditions() {
        let unchanged = |tag| Precondition::Unchanged(ETag::parse(tag).unwrap());
        assert_eq!(value("if-match", |h| unchanged("\"a\"").apply(h)).unwrap(), "\"a\"");
        assert_eq!(value("if-match", |h| unchanged("W/\"a\"").apply(h)), None);
        assert_eq!(value("if-none-match", |h| Precondition::Absent.apply(h)).unwrap(), "*");
        assert_eq!(value("if-match", |h| Precondition::Present.apply(h)).unwrap(), "*");
    }

    #[test]
    fn if_header_names_the_resource_only_if_needed() {
        let origin = Origin::of(&"https://dav.example:8443/".parse().unwrap()).unwrap();
        let [file, folder] = ["/a%20b/c", "/a%20b/"].map(|path| RemotePath::from_url_path(path).unwrap());
        let token = |n| LockToken::parse(&format!("urn:uuid:{n}")).unwrap();
        let tag = ETag::parse("\"x\"").unwrap();
        let own = If::default().locked(&file, token(1)).unchanged(&file, tag);
        assert_eq!(value("if", |h| own.apply(h, &origin, &file)).unwrap(), "(<urn:uuid:1> [\"x\"])");
        let both = own.locked(&folder, token(2));
        assert_eq!(
            value("if", |h| both.apply(h, &origin, &file)).unwrap(),
            "<https://dav.example:8443/a%20b/c> (<urn:uuid:1> [\"x\"]) <https://dav.example:8443/a%20b/> (<urn:uuid:2>)"
        );
        let removed = If::default().locked(&file, token(1));
        assert_eq!(
            value("if", |h| removed.apply_to_removal(h, &origin)).unwrap(),
            "<https://dav.example:8443/a%20b/c> (<urn:uuid:1>)"
        );
        for empty in [
            value("if", |h| If::default().apply(h, &origin, &file)),
            value("if", |h| If::default().apply_to_removal(h, &origin)),
        ] {
            assert_eq!(empty, None);
        }
    }
}
