//! The few things asked of rtnetlink(7), always for the namespace of the calling thread.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use futures_util::TryStreamExt;
use rtnetlink::{
    Handle, LinkUnspec, RouteMessageBuilder,
    packet_route::{
        link::{LinkAttribute, LinkMessage},
        route::{RouteAttribute, RouteHeader, RouteMessage, RouteMetric, RouteType},
    },
};

/// A connection to the kernel.
pub(crate) struct Net(Handle);

/// Runs `f` to its end with a connection to the kernel.
pub(crate) fn run<T, F: Future<Output = io::Result<T>>>(f: impl FnOnce(Net) -> F) -> io::Result<T> {
    tokio::runtime::Builder::new_current_thread().enable_io().build()?.block_on(async {
        let (connection, handle, _) = rtnetlink::new_connection()?;
        tokio::spawn(connection);
        f(Net(handle)).await
    })
}

fn failed(error: rtnetlink::Error) -> io::Error {
    match error {
        rtnetlink::Error::NetlinkError(message) => message.to_io(),
        other => io::Error::other(other),
    }
}

impl Net {
    /// The device called `name`.
    async fn link(&self, name: &str) -> io::Result<LinkMessage> {
        let mut links = self.0.link().get().match_name(name.to_owned()).execute();
        let link = links.try_next().await.map_err(failed)?;
        link.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("no device {name}")))
    }

    /// The index of the device called `name`.
    pub(crate) async fn index(&self, name: &str) -> io::Result<u32> {
        Ok(self.link(name).await?.header.index)
    }

    /// How many packets the device dropped that its host sent (`tx_dropped`).
    pub(crate) async fn dropped(&self, name: &str) -> io::Result<u64> {
        let counters = self.link(name).await?.attributes.into_iter().find_map(|attribute| match attribute {
            LinkAttribute::Stats64(counters) => Some(counters.tx_dropped),
            _ => None,
        });
        counters.ok_or_else(|| io::Error::other(format!("the kernel says nothing of what {name} dropped")))
    }

    /// Switches a device on.
    pub(crate) async fn up(&self, name: &str) -> io::Result<()> {
        let index = self.index(name).await?;
        self.0.link().set(LinkUnspec::new_with_index(index).up().build()).execute().await.map_err(failed)
    }

    /// Switches a device on, with this MTU and so many packets of queue.
    pub(crate) async fn set_up(&self, index: u32, mtu: u32, queue: u32) -> io::Result<()> {
        let link = LinkUnspec::new_with_index(index).mtu(mtu).txqueuelen(queue).up().build();
        self.0.link().set(link).execute().await.map_err(failed)
    }

    /// Gives a device an address.
    pub(crate) async fn address(&self, index: u32, address: IpAddr, prefix: u8) -> io::Result<()> {
        self.0.address().add(index, address, prefix).execute().await.map_err(failed)
    }

    /// Sends everything that has no other route out of a device; of IPv6 only where there is any.
    pub(crate) async fn default_route(&self, index: u32, v6: bool) -> io::Result<()> {
        self.add(RouteMessageBuilder::<Ipv4Addr>::new().output_interface(index).build()).await?;
        if v6 {
            self.add(RouteMessageBuilder::<Ipv6Addr>::new().output_interface(index).build()).await?;
        }
        Ok(())
    }

    /// Sends what goes to a network to a neighbour.
    pub(crate) async fn route(&self, network: IpAddr, prefix: u8, gateway: IpAddr) -> io::Result<()> {
        let message = match (network, gateway) {
            (IpAddr::V4(network), IpAddr::V4(gateway)) => {
                RouteMessageBuilder::<Ipv4Addr>::new().destination_prefix(network, prefix).gateway(gateway).build()
            }
            (IpAddr::V6(network), IpAddr::V6(gateway)) => {
                RouteMessageBuilder::<Ipv6Addr>::new().destination_prefix(network, prefix).gateway(gateway).build()
            }
            _ => return Err(io::Error::new(io::ErrorKind::InvalidInput, "the gateway is of another address family")),
        };
        self.add(message).await
    }

    /// Has every connection that begins here, on whatever route, begin with a congestion window of so many
    /// segments.
    pub(crate) async fn initial_window(&self, segments: u32) -> io::Result<()> {
        for any in [RouteMessageBuilder::<Ipv4Addr>::new().build(), RouteMessageBuilder::<Ipv6Addr>::new().build()] {
            let routes: Vec<RouteMessage> = self.0.route().get(any).execute().try_collect().await.map_err(failed)?;
            let ours = |route: &RouteMessage| {
                route.header.table == RouteHeader::RT_TABLE_MAIN && route.header.kind == RouteType::Unicast
            };
            for mut route in routes.into_iter().filter(ours) {
                route.attributes.retain(|attribute| {
                    !matches!(attribute, RouteAttribute::Metrics(_) | RouteAttribute::CacheInfo(_))
                });
                route.attributes.push(RouteAttribute::Metrics(vec![RouteMetric::InitCwnd(segments)]));
                self.add(route).await?;
            }
        }
        Ok(())
    }

    async fn add(&self, message: RouteMessage) -> io::Result<()> {
        self.0.route().add(message).replace().execute().await.map_err(failed)
    }
}
