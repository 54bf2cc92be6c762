//! Configuration of network devices and routes by rtnetlink(7), in the network namespace of the calling thread.

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

/// A netlink socket.
pub(crate) struct Net(Handle);

/// Runs `f` with a netlink socket.
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

    /// Number of packets from its host that the device dropped (`tx_dropped`).
    pub(crate) async fn dropped(&self, name: &str) -> io::Result<u64> {
        let counters = self.link(name).await?.attributes.into_iter().find_map(|attribute| match attribute {
            LinkAttribute::Stats64(counters) => Some(counters.tx_dropped),
            _ => None,
        });
        counters.ok_or_else(|| io::Error::other(format!("the kernel has no counters for {name}")))
    }

    /// Sets a device up.
    pub(crate) async fn up(&self, name: &str) -> io::Result<()> {
        let index = self.index(name).await?;
        self.0.link().set(LinkUnspec::new_with_index(index).up().build()).execute().await.map_err(failed)
    }

    /// Sets a device up, with this MTU and a transmit queue of `queue` packets.
    pub(crate) async fn set_up(&self, index: u32, mtu: u32, queue: u32) -> io::Result<()> {
        let link = LinkUnspec::new_with_index(index).mtu(mtu).txqueuelen(queue).up().build();
        self.0.link().set(link).execute().await.map_err(failed)
    }

    /// Adds an address to a device.
    pub(crate) async fn address(&self, index: u32, address: IpAddr, prefix: u8) -> io::Result<()> {
        self.0.address().add(index, address, prefix).execute().await.map_err(failed)
    }

    /// Adds a default route through a device for IPv4, and for IPv6 if `v6`.
    pub(crate) async fn default_route(&self, index: u32, v6: bool) -> io::Result<()> {
        self.add(RouteMessageBuilder::<Ipv4Addr>::new().output_interface(index).build()).await?;
        if v6 {
            self.add(RouteMessageBuilder::<Ipv6Addr>::new().output_interface(index).build()).await?;
        }
        Ok(())
    }

    /// Adds a route to a network through a gateway.
    pub(crate) async fn route(&self, network: IpAddr, prefix: u8, gateway: IpAddr) -> io::Result<()> {
        let message = match (network, gateway) {
            (IpAddr::V4(network), IpAddr::V4(gateway)) => {
                RouteMessageBuilder::<Ipv4Addr>::new().destination_prefix(network, prefix).gateway(gateway).build()
            }
            (IpAddr::V6(network), IpAddr::V6(gateway)) => {
                RouteMessageBuilder::<Ipv6Addr>::new().destination_prefix(network, prefix).gateway(gateway).build()
            }
            _ => {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    "the gateway has another address family than the network",
                ));
            }
        };
        self.add(message).await
    }

    /// Sets the initial congestion window (`initcwnd`) of all routes, in segments.
    pub(crate) async fn initial_window(&self, segments: u32) -> io::Result<()> {
        for any in [RouteMessageBuilder::<Ipv4Addr>::new().build(), RouteMessageBuilder::<Ipv6Addr>::new().build()] {
            let routes: Vec<RouteMessage> = self.0.route().get(any).execute().try_collect().await.map_err(failed)?;
            let is_main = |route: &RouteMessage| {
                route.header.table == RouteHeader::RT_TABLE_MAIN && route.header.kind == RouteType::Unicast
            };
            for mut route in routes.into_iter().filter(is_main) {
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
