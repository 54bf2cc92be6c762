// Numbers for people, with their units: as many digits as mean something. No number is shown but through here.

/** A space that keeps a number with its unit. */
const NB = "\u00a0";

function digits(value: number, most = 3): string {
  const size = Math.abs(value);
  const decimals = size === 0 || size >= 100 ? 0 : size >= 10 ? Math.min(1, most) : size >= 1 ? Math.min(2, most) : most;
  return value.toFixed(decimals);
}

/** A length of time given in seconds: `12.3 ms`, `4.56 s`, `2 min 05 s`. */
export function time(seconds: number): string {
  const size = Math.abs(seconds);
  if (size === 0) return `0${NB}s`;
  if (size < 1e-6) return `${digits(seconds * 1e9)}${NB}ns`;
  if (size < 1e-3) return `${digits(seconds * 1e6)}${NB}µs`;
  if (size < 1) return `${digits(seconds * 1e3)}${NB}ms`;
  if (size < 99.95) return `${digits(seconds)}${NB}s`;
  const whole = Math.round(size);
  const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  const sign = seconds < 0 ? "−" : "";
  if (hours > 0) return `${sign}${hours}${NB}h${NB}${String(minutes).padStart(2, "0")}${NB}min`;
  return minutes > 0 ? `${sign}${minutes}${NB}min${NB}${String(rest).padStart(2, "0")}${NB}s` : `${sign}${rest}${NB}s`;
}

/** A range of times, in the unit of its upper end. */
export function times(low: number, high: number): string {
  const [a, b] = [time(low), time(high)];
  const unit = (text: string) => text.slice(text.lastIndexOf(NB));
  return a.split(NB).length === 2 && b.split(NB).length === 2 && unit(a) === unit(b)
    ? `${a.slice(0, -unit(a).length)}–${b}`
    : `${a} – ${b}`;
}

/** A factor: `1.04×`, `26.4×`, `1240×`. */
export function factor(value: number): string {
  return `${plain(value)}×`;
}

/** The factors that bound another: `1.04–1.21×`. */
export function factors(low: number, high: number): string {
  return `${plain(low)}–${plain(high)}×`;
}

function plain(value: number): string {
  return value.toFixed(value < 9.995 ? 2 : value < 99.95 ? 1 : 0);
}

/** A share of a whole: `71 %`, `0.4 %`. */
export function share(part: number): string {
  const percent = 100 * part;
  return `${percent > 0 && percent < 0.95 ? percent.toFixed(1) : percent.toFixed(0)}${NB}%`;
}

/** A number of things, with thin gaps: `12 345`. */
export function count(value: number): string {
  return Math.round(value).toString().replace(/\B(?=(\d{3})+$)/g, "\u202f");
}

/** A number of things with its noun: `1 request`, `8 requests`. */
export function counted(value: number, one: string, many = `${one}s`): string {
  return `${count(value)}${NB}${value === 1 ? one : many}`;
}

/** A size in bytes: `512 B`, `10.0 KiB`, `20.4 MiB`. */
export function bytes(value: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  let size = value;
  while (size >= 1024 && unit < units.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return unit === 0 ? `${count(size)}${NB}B` : `${digits(size, 2)}${NB}${units[unit]}`;
}

/** A rate in bits a second: `94.1 Mbit/s`. */
export function rate(bitsPerSecond: number): string {
  const units = ["bit/s", "kbit/s", "Mbit/s", "Gbit/s"];
  let unit = 0;
  let value = bitsPerSecond;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${digits(value, 1)}${NB}${units[unit]}`;
}

// The browser knows them too, but to ask it for the first time takes longer than to draw a table.
const MONTHS = ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"];

/** A moment, in UTC: `21 November 2026, 20:42 UTC`. */
export function moment(rfc3339: string): string {
  const at = new Date(rfc3339);
  if (Number.isNaN(at.getTime())) return rfc3339;
  return `${at.getUTCDate()} ${MONTHS[at.getUTCMonth()] ?? ""} ${at.getUTCFullYear()}, ${at.toISOString().slice(11, 16)} UTC`;
}

/** A sentence that was made elsewhere, its numbers kept with their signs. */
export function unbroken(text: string): string {
  return text.replace(/(\d) %/g, `$1${NB}%`);
}

/** A list as it is spoken: `a, b and c`. */
export function spoken(names: string[]): string {
  return names.length < 2 ? (names[0] ?? "") : `${names.slice(0, -1).join(", ")} and ${names[names.length - 1]}`;
}

/** Round values for the ticks of an axis from 0 (or `low`) to `high`, about `wanted` of them. */
export function ticks(low: number, high: number, wanted: number): number[] {
  const rough = (high - low) / Math.max(1, wanted);
  if (!(rough > 0) || !Number.isFinite(rough)) return [low];
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = ([1, 2, 5, 10].find((each) => each * power >= rough * 0.999) ?? 10) * power;
  const first = Math.ceil(low / step - 1e-9);
  const last = Math.floor(high / step + 1e-9);
  return Array.from({ length: last - first + 1 }, (_, i) => (first + i) * step);
}
