//! The precondition and postcondition codes of error responses (RFC 4918 §16 and its extensions).

use crate::{
    qnames::{Element, ElementPath},
    xml::{self, Sink, XmlProblem},
};

/// A precondition or postcondition that was not met.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnmetCondition {
    /// Which one.
    pub code: ConditionCode,
    /// The hrefs that the server names, such as the roots of conflicting locks.
    pub hrefs: Vec<String>,
}

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $code:ident = $local:literal),+ $(,)?) => {
        /// The code of a precondition or postcondition.
        #[derive(Debug, Clone, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum ConditionCode {
            $($(#[doc = $doc])+ $code,)+
            /// Any other, by the name of its element.
            Other(String),
        }

        impl ConditionCode {
            fn of(local: &str) -> Self {
                match local {
                    $($local => Self::$code,)+
                    _ => Self::Other(local.to_owned()),
                }
            }
        }
    };
}

codes! {
    /// The lock token does not belong to this resource (RFC 4918 §16).
    LockTokenMatchesRequestUri = "lock-token-matches-request-uri",
    /// A lock token is required and was not submitted (RFC 4918 §16).
    LockTokenSubmitted = "lock-token-submitted",
    /// There is a conflicting lock (RFC 4918 §16).
    NoConflictingLock = "no-conflicting-lock",
    /// Live properties could not be kept by COPY or MOVE (RFC 4918 §16).
    PreservedLiveProperties = "preserved-live-properties",
    /// PROPFIND with infinite depth is not allowed (RFC 4918 §16).
    PropfindFiniteDepth = "propfind-finite-depth",
    /// Only the server sets this property (RFC 4918 §16).
    CannotModifyProtectedProperty = "cannot-modify-protected-property",
    /// The user's quota is used up (RFC 4331 §6).
    QuotaNotExceeded = "quota-not-exceeded",
    /// The disk is full (RFC 4331 §6).
    SufficientDiskSpace = "sufficient-disk-space",
    /// The sync token is too old or belongs to another folder (RFC 6578 §3.2): start again without one.
    ValidSyncToken = "valid-sync-token",
    /// The server truncated the result (RFC 5323 §5.17.2, RFC 6578 §3.6).
    NumberOfMatchesWithinLimits = "number-of-matches-within-limits",
}

impl UnmetCondition {
    pub(crate) fn new(local: &str) -> Self {
        Self { code: ConditionCode::of(local), hrefs: Vec::new() }
    }
}

/// The body of an error response: condition codes and a message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ErrorBody {
    /// The conditions that were not met.
    pub conditions: Vec<UnmetCondition>,
    /// The server's message (sent by sabre/dav, so by ownCloud and Nextcloud, and by mod_dav).
    pub message: Option<String>,
}

impl ErrorBody {
    /// Reads a response body. Many servers send HTML instead, which results in an empty value.
    pub fn read(body: &[u8]) -> Self {
        xml::read(body, Reading::default()).map(|reading| reading.refusal).unwrap_or_default()
    }
}

#[derive(Default)]
struct Reading {
    trail: ElementPath,
    refusal: ErrorBody,
}

impl Sink for Reading {
    fn open(&mut self, namespace: &str, local: &str) -> Result<(), XmlProblem> {
        let tag = Element::of(namespace, local);
        match self.trail.path.as_slice() {
            [] if tag != Element::Error => return Err(XmlProblem::Root(local.to_owned())),
            [Element::Error] if namespace == "DAV:" => self.refusal.conditions.push(UnmetCondition::new(local)),
            _ => {}
        }
        self.trail.open(tag);
        Ok(())
    }

    fn text(&mut self, text: &str) -> Result<(), XmlProblem> {
        self.trail.text(text)
    }

    fn close(&mut self) -> Result<(), XmlProblem> {
        let text = self.trail.text.trim();
        match self.trail.path.as_slice() {
            [Element::Error, _, Element::Href] => {
                self.refusal.conditions.last_mut().into_iter().for_each(|last| last.hrefs.push(text.to_owned()));
            }
            [Element::Error, Element::SabreMessage | Element::ApacheMessage] if !text.is_empty() => {
                self.refusal.message = Some(text.split_whitespace().collect::<Vec<_>>().join(" "));
            }
            _ => {}
        }
        self.trail.close();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn precondition_codes_of_several_servers_are_parsed() {
        let locked = b"<?xml version='1.0'?><D:error xmlns:D='DAV:'><D:lock-token-submitted><D:href>/a/</D:href>\
                       <D:href>/b</D:href></D:lock-token-submitted></D:error>";
        let condition =
            UnmetCondition { code: ConditionCode::LockTokenSubmitted, hrefs: vec!["/a/".into(), "/b".into()] };
        assert_eq!(ErrorBody::read(locked).conditions, [condition]);

        let sabre =
            b"<?xml version='1.0' encoding='utf-8'?>\n<d:error xmlns:d='DAV:' xmlns:s='http://sabredav.org/ns'>\n  \
                      <s:exception>OCA\\DAV\\X</s:exception>\n  <s:message>Quota\n exceeded</s:message>\n</d:error>";
        let message = Some("Quota exceeded".to_owned());
        assert_eq!(ErrorBody::read(sabre), ErrorBody { conditions: vec![], message });

        let mod_dav = b"<D:error xmlns:D='DAV:' xmlns:m='http://apache.org/dav/xmlns'><D:new-code/>\
                        <m:human-readable errcode='0'>\nNo.\n</m:human-readable></D:error>";
        let other = UnmetCondition { code: ConditionCode::Other("new-code".into()), hrefs: vec![] };
        assert_eq!(ErrorBody::read(mod_dav), ErrorBody { conditions: vec![other], message: Some("No.".into()) });
        for page in [&b"<!DOCTYPE html><html>423 Locked</html>"[..], b"", b"Locked", b"<D:error xmlns:D='DAV:'>"] {
            assert_eq!(ErrorBody::read(page), ErrorBody::default());
        }
    }
}
