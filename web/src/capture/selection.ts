// The selected transfer, and perhaps a packet of its connection. All views share it.

import type { Capture } from "./model";
import type { Transfer } from "./schema";
import type { Trace } from "./trace";

export class Selection {
  transfer: Transfer | null;
  trace: Trace | null;
  packet: number | null = null;
  private readonly listeners: ((changed: { transfer: boolean }) => void)[] = [];

  constructor(private readonly capture: Capture) {
    this.transfer = capture.data.transfers[0] ?? null;
    this.trace = this.transfer ? capture.trace(this.transfer.connection) : null;
  }

  listen(changed: (changed: { transfer: boolean }) => void): void {
    this.listeners.push(changed);
  }

  chooseTransfer(transfer: Transfer): void {
    if (transfer === this.transfer) return;
    this.transfer = transfer;
    this.trace = this.capture.trace(transfer.connection);
    this.packet = null;
    this.notify(true);
  }

  choosePacket(packet: number | null): void {
    if (packet === this.packet) return;
    this.packet = packet;
    this.notify(false);
  }

  /** Selects the next or previous packet that matches. */
  step(by: 1 | -1, matches: (packet: number) => boolean = () => true): void {
    const count = this.trace?.count ?? 0;
    const start = this.packet ?? (by > 0 ? this.first() - 1 : this.first());
    for (let next = start + by; next >= 0 && next < count; next += by) {
      if (matches(next)) {
        this.choosePacket(next);
        return;
      }
    }
  }

  /** The first packet of the transfer. */
  private first(): number {
    const time = this.trace?.packets.time;
    const start = this.transfer?.start_s ?? 0;
    const index = time?.findIndex((each) => each >= start - 1e-6) ?? -1;
    return Math.max(0, index);
  }

  private notify(transfer: boolean): void {
    for (const listener of this.listeners) listener({ transfer });
  }
}
