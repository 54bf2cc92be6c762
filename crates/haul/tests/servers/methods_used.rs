//! The methods that each command uses with an honest server.
//!
//! Some behaviours affect one method only. A command that does not use this method sees an honest server, so it is run
//! only once, and not for each such behaviour.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock, Mutex},
};

use servers::behaviours::ALL;
use tokio::{sync::OnceCell, time::timeout};

use crate::{
    PATIENCE,
    commands::Command,
    fixture::{Fixture, Setting},
};

type Methods = Arc<OnceCell<Vec<&'static str>>>;

/// By validators and command: the methods used, of those that some behaviour affects.
static METHODS: LazyLock<Mutex<HashMap<(usize, &'static str), Methods>>> = LazyLock::new(Mutex::default);

/// Whether a command uses this method.
pub(crate) async fn uses(validators: usize, command: &Command, method: &str) -> bool {
    let methods = Arc::clone(METHODS.lock().unwrap().entry((validators, command.name)).or_default());
    let methods = methods.get_or_init(|| async {
        let fixture = Fixture::new(&Setting { entry: &ALL[0], validators, seed: 0 }).await;
        let _ = timeout(PATIENCE, (command.run)(&fixture)).await;
        ALL.iter().filter_map(|entry| entry.method).filter(|method| fixture.double.has_received(method)).collect()
    });
    methods.await.contains(&method)
}
