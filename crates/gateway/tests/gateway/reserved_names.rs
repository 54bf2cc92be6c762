//! A server that answers 200 to the LOCK of a new name, and lists neither length nor version of anything.

use std::{
    future::ready,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use gateway::{Gateway, Settings};
use haul_http::{Body, Client};
use http::{Request, Response, StatusCode};
use serve::{Answered, Config, RequestStream, Server, Service};

use crate::{redirector::LOCK, world::FRESH};

struct Double {
    /// The status of files, for PROPFIND.
    look: u16,
    /// The status and the length of files, for HEAD.
    head: (u16, &'static str),
    log: Mutex<Vec<String>>,
}

impl Service for Double {
    fn answer(
        &self,
        _client: SocketAddr,
        request: Request<RequestStream>,
    ) -> futures_util::future::BoxFuture<'_, Answered> {
        let method = request.method().as_str().to_owned();
        let text = |properties: &str, href: &str| {
            format!(
                "<D:multistatus xmlns:D=\"DAV:\"><D:response><D:href>{href}</D:href><D:propstat><D:prop>{properties}</D:prop>\
                 <D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response></D:multistatus>"
            )
        };
        let (status, length, body) = match &*method {
            "LOCK" => (200, "", "<D:prop xmlns:D=\"DAV:\"/>".to_owned()),
            "PROPFIND" if request.uri().path().ends_with('/') => {
                (207, "", text("<D:resourcetype><D:collection/></D:resourcetype>", "/files/"))
            }
            "PROPFIND" => (self.look, "", text("<D:resourcetype/>", request.uri().path())),
            "HEAD" => (self.head.0, self.head.1, String::new()),
            _ => (204, "", String::new()),
        };
        self.log.lock().unwrap().push(method.clone());
        let mut response = Response::builder().status(status);
        if method == "LOCK" {
            response = response.header("lock-token", "<urn:uuid:1>");
        }
        if !length.is_empty() {
            response = response.header("content-length", length);
        }
        let body = if method == "HEAD" { serve::AnswerBody::default() } else { serve::whole(body) };
        Box::pin(ready(Answered { response: response.body(body).unwrap(), user: None }))
    }
}

/// The answers to the empty PUTs of two new files, and what the server has got of the first and the second.
async fn create(look: u16, head: (u16, &'static str)) -> [(StatusCode, Vec<String>); 2] {
    let config = Config { listen: vec![([127, 0, 0, 1], 0).into()], ..Config::default() };
    let double = Arc::new(Double { look, head, log: Mutex::default() });
    let server = Server::with_service(double.clone(), &config).unwrap();
    let upstream = format!("http://{}/files/", server.local_addr()).parse().unwrap();
    let settings =
        Settings { upstream, client: haul_http::Settings::default(), fresh: FRESH, write_back: None, cache: None };
    let service = Arc::new(Gateway::new(settings).unwrap());
    let front = Server::with_service(service.clone(), &config).unwrap();
    let at = front.local_addr();
    let run = |server: Server| tokio::spawn(async move { server.run(std::future::pending()).await.unwrap() });
    let running = [run(server), run(front)];
    let client = Client::new(haul_http::Settings::default(), haul_http::auth::Authenticator::default()).unwrap();
    let ask = async |method: &str, path: &str, depth: &str, body: &'static [u8]| {
        let request = Request::builder().method(method).uri(format!("http://{at}{path}"));
        let request = request.header("user-agent", "Microsoft-WebDAV-MiniRedir/10.0").header("depth", depth);
        let answer = client.exchange(request.body(Body::from(body.to_vec())).unwrap()).await.unwrap();
        answer.status()
    };
    ask("LOCK", "/files/first", "0", LOCK).await;
    ask("PROPFIND", "/files/", "1", b"").await;
    let mut created = Vec::new();
    for path in ["/files/a", "/files/b"] {
        let since = double.log.lock().unwrap().len();
        let status = ask("PUT", path, "0", b"").await;
        service.finish().await;
        created.push((status, double.log.lock().unwrap()[since..].to_vec()));
    }
    running.iter().for_each(tokio::task::JoinHandle::abort);
    created.try_into().unwrap()
}

#[tokio::test]
async fn a_file_that_is_listed_without_length_is_not_taken_for_a_reserved_name() {
    for (status, log) in create(207, (200, "5")).await {
        assert_eq!(status, StatusCode::CONFLICT, "{log:?}");
        assert_eq!(log.last().unwrap(), "UNLOCK");
        assert!(log.contains(&"HEAD".to_owned()) && !log.contains(&"PUT".to_owned()), "{log:?}");
    }
}

#[tokio::test]
async fn a_reserved_name_is_recognized_and_looked_at_once() {
    let [(first, log), (second, again)] = create(207, (404, "")).await;
    assert_eq!((first, second), (StatusCode::CREATED, StatusCode::CREATED));
    assert!(log.contains(&"HEAD".to_owned()) && !again.contains(&"HEAD".to_owned()), "{log:?} {again:?}");
}

#[tokio::test]
async fn an_empty_file_has_nothing_to_lose() {
    for (status, log) in create(207, (200, "0")).await {
        assert_eq!(status, StatusCode::CREATED, "{log:?}");
    }
}

/// Apache does so when clients lock several files at once.
#[tokio::test]
async fn a_lock_that_the_server_has_lost_is_given_up_and_the_file_created() {
    for (status, log) in create(404, (404, "")).await {
        assert_eq!(status, StatusCode::NO_CONTENT, "{log:?}");
        let unlocked = log.iter().position(|method| method == "UNLOCK").unwrap();
        assert_eq!(log.iter().position(|method| method == "PUT").unwrap(), unlocked + 1, "{log:?}");
    }
}
