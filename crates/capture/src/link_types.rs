//! Names of link types, and what to do about those that carry no IP.

use crate::LinkType;

/// What the packets of a link type are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Medium {
    /// Their IP packets are found.
    Ip,
    /// No IP, or none that can be told from other data.
    Other(&'static str),
    /// IP perhaps, behind a header that is not known here.
    Unread(&'static str),
}

/// The number, the name in the registry without `LINKTYPE_`, and the medium.
const LINK_TYPES: &[(u16, &str, Medium)] = &[
    (0, "NULL", Medium::Ip),
    (1, "ETHERNET", Medium::Ip),
    (3, "AX25", Medium::Other("amateur radio frames")),
    (6, "IEEE802_5", Medium::Unread("token ring frames")),
    (8, "SLIP", Medium::Unread("SLIP frames")),
    (9, "PPP", Medium::Ip),
    (10, "FDDI", Medium::Unread("FDDI frames")),
    (12, "RAW", Medium::Ip),
    (14, "RAW", Medium::Ip),
    (50, "PPP_HDLC", Medium::Ip),
    (51, "PPP_ETHER", Medium::Ip),
    (100, "ATM_RFC1483", Medium::Ip),
    (101, "RAW", Medium::Ip),
    (104, "C_HDLC", Medium::Ip),
    (105, "IEEE802_11", Medium::Ip),
    (107, "FRELAY", Medium::Ip),
    (108, "LOOP", Medium::Ip),
    (109, "ENC", Medium::Ip),
    (113, "LINUX_SLL", Medium::Ip),
    (117, "PFLOG", Medium::Ip),
    (119, "IEEE802_11_PRISM", Medium::Unread("802.11 frames with Prism headers")),
    (122, "IP_OVER_FC", Medium::Unread("Fibre Channel frames")),
    (127, "IEEE802_11_RADIOTAP", Medium::Ip),
    (138, "APPLE_IP_OVER_IEEE1394", Medium::Unread("FireWire frames")),
    (141, "MTP3", Medium::Other("SS7 messages")),
    (143, "DOCSIS", Medium::Unread("DOCSIS frames")),
    (163, "IEEE802_11_AVS", Medium::Unread("802.11 frames with AVS headers")),
    (166, "PPP_PPPD", Medium::Ip),
    (186, "USB_FREEBSD", Medium::Other("USB transfers")),
    (187, "BLUETOOTH_HCI_H4", Medium::Other("Bluetooth packets")),
    (189, "USB_LINUX", Medium::Other("USB transfers")),
    (190, "CAN20B", Medium::Other("CAN frames")),
    (192, "PPI", Medium::Ip),
    (195, "IEEE802_15_4_WITHFCS", Medium::Other("IEEE 802.15.4 frames (Zigbee, Thread)")),
    (197, "ERF", Medium::Unread("Endace ERF records")),
    (201, "BLUETOOTH_HCI_H4_WITH_PHDR", Medium::Other("Bluetooth packets")),
    (204, "PPP_WITH_DIR", Medium::Ip),
    (205, "C_HDLC_WITH_DIR", Medium::Ip),
    (206, "FRELAY_WITH_DIR", Medium::Ip),
    (215, "IEEE802_15_4_NONASK_PHY", Medium::Other("IEEE 802.15.4 frames (Zigbee, Thread)")),
    (219, "MPLS", Medium::Ip),
    (220, "USB_LINUX_MMAPPED", Medium::Other("USB transfers")),
    (227, "CAN_SOCKETCAN", Medium::Other("CAN frames")),
    (228, "IPV4", Medium::Ip),
    (229, "IPV6", Medium::Ip),
    (230, "IEEE802_15_4_NOFCS", Medium::Other("IEEE 802.15.4 frames (Zigbee, Thread)")),
    (231, "DBUS", Medium::Other("D-Bus messages")),
    (239, "NFLOG", Medium::Ip),
    (240, "NETANALYZER", Medium::Unread("frames of a netANALYZER")),
    (242, "IPOIB", Medium::Ip),
    (243, "MPEG_2_TS", Medium::Other("MPEG transport streams")),
    (247, "INFINIBAND", Medium::Unread("InfiniBand frames")),
    (248, "SCTP", Medium::Other("SCTP packets")),
    (249, "USBPCAP", Medium::Other("USB transfers")),
    (251, "BLUETOOTH_LE_LL", Medium::Other("Bluetooth packets")),
    (252, "WIRESHARK_UPPER_PDU", Medium::Other("messages that Wireshark exported without their TCP headers")),
    (253, "NETLINK", Medium::Other("netlink messages")),
    (254, "BLUETOOTH_LINUX_MONITOR", Medium::Other("Bluetooth packets")),
    (255, "BLUETOOTH_BREDR_BB", Medium::Other("Bluetooth packets")),
    (256, "BLUETOOTH_LE_LL_WITH_PHDR", Medium::Other("Bluetooth packets")),
    (258, "PKTAP", Medium::Ip),
    (266, "USB_DARWIN", Medium::Other("USB transfers")),
    (271, "VSOCK", Medium::Other("packets between a virtual machine and its host (vsock)")),
    (272, "NORDIC_BLE", Medium::Other("Bluetooth packets")),
    (276, "LINUX_SLL2", Medium::Ip),
    (281, "DSA_TAG_BRCM", Medium::Unread("Ethernet frames with a switch's tags")),
    (283, "IEEE802_15_4_TAP", Medium::Other("IEEE 802.15.4 frames (Zigbee, Thread)")),
    (284, "DSA_TAG_DSA", Medium::Unread("Ethernet frames with a switch's tags")),
    (285, "DSA_TAG_EDSA", Medium::Unread("Ethernet frames with a switch's tags")),
    (288, "USB_2_0", Medium::Other("USB transfers")),
    (289, "ATSC_ALP", Medium::Other("ATSC broadcasts")),
    (290, "ETW", Medium::Other("Windows events")),
];

impl LinkType {
    /// Its name in the registry, without `LINKTYPE_`; `None` for rare ones.
    pub fn name(self) -> Option<&'static str> {
        self.row().map(|(_, name, _)| *name)
    }

    /// Whether [`Packet::network`](crate::Packet::network) knows its header.
    pub fn is_readable(self) -> bool {
        matches!(self.row(), Some((_, _, Medium::Ip)))
    }

    /// Whether its packets are frames of IEEE 802.11.
    pub(crate) fn is_wireless(self) -> bool {
        matches!(self.0, 105 | 127 | 192)
    }

    fn row(self) -> Option<&'static (u16, &'static str, Medium)> {
        let at = LINK_TYPES.binary_search_by_key(&self.0, |(number, ..)| *number).ok()?;
        LINK_TYPES.get(at)
    }

    /// `USB transfers (link type USBPCAP)`.
    pub(crate) fn description(self) -> String {
        match self.row() {
            Some((_, name, Medium::Other(what) | Medium::Unread(what))) => format!("{what} (link type {name})"),
            Some((_, name, Medium::Ip)) => format!("packets of link type {name}"),
            None if (147..=162).contains(&self.0) => format!("packets of private link type USER{}", self.0 - 147),
            None => format!("packets of link type {}", self.0),
        }
    }

    /// What to do about a capture that contains nothing else.
    pub(crate) fn advice(self) -> &'static str {
        match self.row() {
            Some((_, _, Medium::Other(_))) => "capture the network interface: `tcpdump -i any -s 200 -w NEW.pcap`",
            _ => {
                "capture another interface (`tcpdump -i any -s 200 -w NEW.pcap`), or, if IP begins N bytes into each \
                 packet, remove what is before it: `editcap -C N -T rawip OLD.pcap NEW.pcap`"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_is_sorted() {
        assert!(LINK_TYPES.is_sorted_by(|a, b| a.0 < b.0));
    }

    #[test]
    fn link_types_are_named() {
        assert_eq!(
            (LinkType(249).name(), LinkType::RAW.name(), LinkType(9999).name()),
            (Some("USBPCAP"), Some("RAW"), None)
        );
        assert!(LinkType::ETHERNET.is_readable() && !LinkType(227).is_readable() && !LinkType(9999).is_readable());
        assert_eq!(LinkType(227).description(), "CAN frames (link type CAN_SOCKETCAN)");
        assert_eq!(LinkType(149).description(), "packets of private link type USER2");
    }
}
