//! Method and URL of a request, for errors.

use std::fmt;

use http::{Method, Request, Uri};

/// Names a request in errors: its method and its URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestLine(Box<(Method, Uri)>);

impl RequestLine {
    /// The method and URL of a request.
    pub fn of<B>(request: &Request<B>) -> Self {
        Self::new(request.method(), request.uri())
    }

    /// A method and a URL, without user and password.
    pub fn new(method: &Method, uri: &Uri) -> Self {
        let uri = crate::auth::take_userinfo(uri).map_or_else(|_| Uri::default(), |(uri, _)| uri);
        Self(Box::new((method.clone(), uri)))
    }

    /// Its method.
    pub fn method(&self) -> &Method {
        &self.0.0
    }

    /// Its URL.
    pub fn uri(&self) -> &Uri {
        &self.0.1
    }
}

impl fmt::Display for RequestLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.0.0, self.0.1)
    }
}
