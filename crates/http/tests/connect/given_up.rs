//! What is given up does not arrive late.

use std::{io::ErrorKind, time::Duration};

use haul_http::{Body, Client, Settings, Timeouts, credentials::Authenticator};
use http::Request;
use tokio::{io::AsyncReadExt, sync::mpsc, time::timeout};

use crate::doubles::{AMPLE, origin, serve};

/// The server reads nothing until the client has given its upload up, and then finds a reset rather than what the
/// kernels held of it and a good end.
#[tokio::test]
async fn an_upload_that_is_given_up_is_taken_out_of_the_kernels_hands() {
    let (tell, mut told) = mpsc::unbounded_channel();
    let (let_read, may_read) = tokio::sync::watch::channel(false);
    let address = serve(move |mut stream| {
        let (tell, mut may_read) = (tell.clone(), may_read.clone());
        async move {
            let _ = may_read.wait_for(|may| *may).await;
            let mut buffer = vec![0; 64 * 1024];
            let end = loop {
                match stream.read(&mut buffer).await {
                    Ok(1..) => {}
                    Ok(0) => break None,
                    Err(error) => break Some(error.kind()),
                }
            };
            let _ = tell.send(end);
        }
    })
    .await;
    let brief = Duration::from_millis(300);
    let timeouts = Timeouts { first_byte: brief, stall: brief, ..Timeouts::default() };
    let settings = Settings { timeouts, connections: 1, ..Settings::default() };
    let client = Client::new(settings, Authenticator::default()).unwrap();
    let request = Request::put(format!("{}/file", origin("http", address)));
    let outcome = client.send(request.body(Body::from(vec![7; 32 << 20])).unwrap()).await;
    assert!(outcome.is_err());
    let_read.send(true).unwrap();
    let end = timeout(AMPLE, told.recv()).await.unwrap().unwrap();
    assert_eq!(end, Some(ErrorKind::ConnectionReset));
}
