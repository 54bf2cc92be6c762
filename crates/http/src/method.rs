//! What a method promises about being sent twice.
//!
//! From the registry of methods (RFC 9110 §16.1, as kept by IANA). A method that is not listed promises nothing.

use http::Method;

/// Whether the method asks for nothing but an answer (RFC 9110 §9.2.1).
pub fn is_safe(method: &Method) -> bool {
    matches!(method.as_str(), "GET" | "HEAD" | "OPTIONS" | "TRACE" | "PROPFIND" | "REPORT" | "SEARCH" | "QUERY")
}

/// Whether sending it twice has the effect of sending it once (RFC 9110 §9.2.2).
pub fn is_idempotent(method: &Method) -> bool {
    is_safe(method)
        || matches!(
            method.as_str(),
            "PUT" | "DELETE" | "PROPPATCH" | "MKCOL" | "COPY" | "MOVE" | "UNLOCK" | "BIND" | "UNBIND" | "ACL"
        )
}

/// Whether a success is answered by `207 Multi-Status` (RFC 4918 §9.1, RFC 3253 §3.6): safe methods whose answers name the
/// paths that they are about.
pub(crate) fn is_multi_status(method: &Method) -> bool {
    matches!(method.as_str(), "PROPFIND" | "REPORT")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_repeated() {
        let method = |name: &str| Method::from_bytes(name.as_bytes()).unwrap();
        assert!(["GET", "PROPFIND", "REPORT"].map(method).iter().all(is_safe));
        assert!(["PUT", "MKCOL", "MOVE", "UNLOCK"].map(method).iter().all(|m| is_idempotent(m) && !is_safe(m)));
        assert!(!["POST", "LOCK", "PATCH", "get", "X-NEW"].map(method).iter().any(is_idempotent));
    }
}
