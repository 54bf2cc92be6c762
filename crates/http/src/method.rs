//! Properties of methods, from IANA's registry (RFC 9110 §16.1). An unlisted method has none of them.

use http::Method;

/// Whether the method is safe: it only reads (RFC 9110 §9.2.1).
pub fn is_safe(method: &Method) -> bool {
    matches!(method.as_str(), "GET" | "HEAD" | "OPTIONS" | "TRACE" | "PROPFIND" | "REPORT" | "SEARCH" | "QUERY")
}

/// Whether the method is idempotent: sent twice, it has the effect of once (RFC 9110 §9.2.2).
pub fn is_idempotent(method: &Method) -> bool {
    is_safe(method)
        || matches!(
            method.as_str(),
            "PUT" | "DELETE" | "PROPPATCH" | "MKCOL" | "COPY" | "MOVE" | "UNLOCK" | "BIND" | "UNBIND" | "ACL"
        )
}

/// Whether a success is answered by `207 Multi-Status` (RFC 4918 §9.1, RFC 3253 §3.6): safe methods whose answers name
/// the paths that they are about.
pub(crate) fn is_multi_status(method: &Method) -> bool {
    matches!(method.as_str(), "PROPFIND" | "REPORT")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registered_methods_have_their_properties() {
        let method = |name: &str| Method::from_bytes(name.as_bytes()).unwrap();
        assert!(["GET", "PROPFIND", "REPORT"].map(method).iter().all(is_safe));
        assert!(["PUT", "MKCOL", "MOVE", "UNLOCK"].map(method).iter().all(|m| is_idempotent(m) && !is_safe(m)));
        assert!(!["POST", "LOCK", "PATCH", "get", "X-NEW"].map(method).iter().any(is_idempotent));
    }
}
