//! What commands ask of an honest server.
//!
//! A behaviour that bears on one method only never comes to bear on a command without this method, which then sees an
//! honest server. Each command runs once against one, and not again for each such behaviour.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock, Mutex},
};

use servers::behaviours::ALL;
use tokio::{sync::OnceCell, time::timeout};

use crate::{
    PATIENCE,
    commands::Command,
    scene::{Scene, Setting},
};

type Asked = Arc<OnceCell<Vec<&'static str>>>;

/// By validators and command: those methods on which some behaviour bears.
static ASKED: LazyLock<Mutex<HashMap<(usize, &'static str), Asked>>> = LazyLock::new(Mutex::default);

/// Whether a command asks with this method.
pub(crate) async fn asks(validators: usize, command: &Command, method: &str) -> bool {
    let asked = Arc::clone(ASKED.lock().unwrap().entry((validators, command.name)).or_default());
    let asked = asked.get_or_init(|| async {
        let scene = Scene::new(&Setting { entry: &ALL[0], validators, seed: 0 }).await;
        let _ = timeout(PATIENCE, (command.run)(&scene)).await;
        ALL.iter().filter_map(|entry| entry.method).filter(|method| scene.double.has_received(method)).collect()
    });
    asked.await.contains(&method)
}
