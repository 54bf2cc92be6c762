// Synthetic pcap captures: one with many packets, one with hostile names.

import { Buffer } from "node:buffer";

const [FIN, SYN, PSH, ACK] = [1, 2, 8, 16];
const SEGMENT = 1448;

/** A pcap file in memory. */
class Pcap {
  /** @type {Buffer[]} */
  #parts = [];
  #micros = 0;

  constructor() {
    const head = Buffer.alloc(24);
    [0xa1b2c3d4, 0x00040002, 0, 0, 65535, 101].forEach((word, index) => head.writeUInt32LE(word >>> 0, 4 * index));
    this.#parts.push(head);
  }

  /** @param {number} micros */
  wait(micros) {
    this.#micros += micros;
  }

  /**
   * Adds a packet between the client, 192.0.2.1:40000 + n, and the server, 192.0.2.2:80, at the current time.
   * @param {{ server?: boolean, flags: number, seq: number, ack: number, length?: number, text?: string, sack?: number[], port?: number }} packet
   */
  add({ server = false, flags, seq, ack, length = 0, text = "", sack = [], port = 40000 }) {
    const payload = Buffer.from(text);
    const data = Math.max(length, payload.length);
    const options = flags & SYN ? 8 : sack.length > 0 ? 4 + 4 * sack.length : 0;
    const kept = 40 + options + payload.length;
    const bytes = Buffer.alloc(16 + kept);
    [Math.floor(this.#micros / 1e6), this.#micros % 1e6, kept, 40 + options + data].forEach((word, index) => bytes.writeUInt32LE(word, 4 * index));
    const ip = bytes.subarray(16);
    ip[0] = 0x45;
    ip.writeUInt16BE(40 + options + data, 2);
    [ip[8], ip[9]] = [64, 6];
    ip.set([192, 0, 2, server ? 2 : 1], 12);
    ip.set([192, 0, 2, server ? 1 : 2], 16);
    const tcp = ip.subarray(20);
    tcp.writeUInt16BE(server ? 80 : port, 0);
    tcp.writeUInt16BE(server ? port : 80, 2);
    tcp.writeUInt32BE(seq >>> 0, 4);
    tcp.writeUInt32BE(flags & ACK ? ack >>> 0 : 0, 8);
    tcp[12] = ((20 + options) / 4) << 4;
    tcp[13] = flags;
    tcp.writeUInt16BE(60000, 14);
    if (flags & SYN) tcp.set([2, 4, SEGMENT >> 8, SEGMENT & 255, 4, 2, 1, 1], 20);
    if (sack.length > 0) {
      tcp.set([1, 1, 5, 2 + 4 * sack.length], 20);
      sack.forEach((edge, index) => tcp.writeUInt32BE(edge >>> 0, 24 + 4 * index));
    }
    payload.copy(tcp, 20 + options);
    this.#parts.push(bytes);
  }

  bytes() {
    return Buffer.concat(this.#parts);
  }
}

/** @param {Pcap} pcap @param {number} port */
function handshake(pcap, port) {
  pcap.add({ flags: SYN, seq: 999, ack: 0, port });
  pcap.wait(20_000);
  pcap.add({ server: true, flags: SYN | ACK, seq: 4_999_999, ack: 1000, port });
  pcap.wait(100);
  pcap.add({ flags: ACK, seq: 1000, ack: 5_000_000, port });
}

/**
 * An upload with at least this many packets, captured at the sender: rounds of forty segments with an acknowledgement of
 * every second one; in each ninth round a segment is lost, reported by SACK, and retransmitted.
 * @param {number} packets
 */
export function large(packets) {
  const pcap = new Pcap();
  handshake(pcap, 40000);
  let [seq, count] = [1000, 3];
  const size = 30_000_000_000;
  const request = `PUT /large HTTP/1.1\r\nHost: example\r\nContent-Length: ${size}\r\n\r\n`;
  pcap.add({ flags: PSH | ACK, seq, ack: 5_000_000, text: request });
  seq += request.length;
  for (let round = 0; count < packets; round++) {
    const first = seq;
    for (let i = 0; i < 40; i++) {
      pcap.wait(110);
      pcap.add({ flags: ACK, seq, ack: 5_000_000, length: SEGMENT });
      seq += SEGMENT;
    }
    pcap.wait(16_000);
    const lost = round % 9 === 4 ? first + 12 * SEGMENT : null;
    for (let i = 2; i <= 40; i += 2) {
      pcap.wait(220);
      const end = first + i * SEGMENT;
      if (lost !== null && end > lost) pcap.add({ server: true, flags: ACK, seq: 5_000_000, ack: lost, sack: [lost + SEGMENT, end] });
      else pcap.add({ server: true, flags: ACK, seq: 5_000_000, ack: end });
      count += 1;
    }
    if (lost !== null) {
      pcap.wait(300);
      pcap.add({ flags: ACK, seq: lost, ack: 5_000_000, length: SEGMENT });
      pcap.wait(20_000);
      pcap.add({ server: true, flags: ACK, seq: 5_000_000, ack: seq });
      count += 2;
    }
    count += 40;
  }
  return pcap.bytes();
}

/**
 * One request for each name, each on a connection of its own, one after another.
 * @param {string[]} names
 */
export function requests(names) {
  const pcap = new Pcap();
  names.forEach((name, n) => {
    const port = 40000 + n;
    handshake(pcap, port);
    const request = `GET ${name} HTTP/1.1\r\nHost: example\r\n\r\n`;
    pcap.add({ flags: PSH | ACK, seq: 1000, ack: 5_000_000, text: request, port });
    pcap.wait(20_000 + 15_000 * n);
    const head = "HTTP/1.1 200 OK\r\nContent-Length: 2000\r\n\r\n";
    pcap.add({ server: true, flags: PSH | ACK, seq: 5_000_000, ack: 1000 + request.length, text: head, length: head.length, port });
    pcap.add({ server: true, flags: PSH | ACK, seq: 5_000_000 + head.length, ack: 1000 + request.length, length: 1448, port });
    pcap.add({ server: true, flags: PSH | FIN | ACK, seq: 5_000_000 + head.length + 1448, ack: 1000 + request.length, length: 552, port });
    pcap.wait(100);
    pcap.add({ flags: FIN | ACK, seq: 1000 + request.length, ack: 5_000_000 + head.length + 2001, port });
  });
  return pcap.bytes();
}
