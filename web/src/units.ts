// Formats numbers with their units and significant digits, for every number on the page.

/** A no-break space between a number and its unit. */
const NBSP = "\u00a0";

function digits(value: number, max = 3): string {
  const size = Math.abs(value);
  const decimals = size === 0 || size >= 100 ? 0 : size >= 10 ? Math.min(1, max) : size >= 1 ? Math.min(2, max) : max;
  return value.toFixed(decimals);
}

/** A duration in seconds: `12.3 ms`, `4.56 s`, `2 min 05 s`. */
export function time(seconds: number): string {
  const size = Math.abs(seconds);
  if (size === 0) return `0${NBSP}s`;
  if (size < 1e-6) return `${digits(seconds * 1e9)}${NBSP}ns`;
  if (size < 1e-3) return `${digits(seconds * 1e6)}${NBSP}µs`;
  if (size < 1) return `${digits(seconds * 1e3)}${NBSP}ms`;
  if (size < 99.95) return `${digits(seconds)}${NBSP}s`;
  const whole = Math.round(size);
  const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  const sign = seconds < 0 ? "−" : "";
  if (hours > 0) return `${sign}${hours}${NBSP}h${NBSP}${String(minutes).padStart(2, "0")}${NBSP}min`;
  return minutes > 0 ? `${sign}${minutes}${NBSP}min${NBSP}${String(rest).padStart(2, "0")}${NBSP}s` : `${sign}${rest}${NBSP}s`;
}

/** A range of times, in the unit of its upper end. */
export function times(low: number, high: number): string {
  const [a, b] = [time(low), time(high)];
  const unit = (text: string) => text.slice(text.lastIndexOf(NBSP));
  return a.split(NBSP).length === 2 && b.split(NBSP).length === 2 && unit(a) === unit(b)
    ? `${a.slice(0, -unit(a).length)}–${b}`
    : `${a} – ${b}`;
}

/** A factor: `1.04×`, `26.4×`, `1240×`. */
export function factor(value: number): string {
  return `${factorDigits(value)}×`;
}

/** A range of factors: `1.04–1.21×`. */
export function factors(low: number, high: number): string {
  return `${factorDigits(low)}–${factorDigits(high)}×`;
}

function factorDigits(value: number): string {
  return value.toFixed(value < 9.995 ? 2 : value < 99.95 ? 1 : 0);
}

/** A share of a whole: `71 %`, `0.4 %`. */
export function share(part: number): string {
  const percent = 100 * part;
  return `${percent > 0 && percent < 0.95 ? percent.toFixed(1) : percent.toFixed(0)}${NBSP}%`;
}

/** A number with thin spaces: `12 345`. */
export function count(value: number): string {
  return Math.round(value).toString().replace(/\B(?=(\d{3})+$)/g, "\u202f");
}

/** A number with its noun: `1 request`, `8 requests`. */
export function counted(value: number, singular: string, plural = `${singular}s`): string {
  return `${count(value)}${NBSP}${value === 1 ? singular : plural}`;
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
  return unit === 0 ? `${count(size)}${NBSP}B` : `${digits(size, 2)}${NBSP}${units[unit]}`;
}

/** A rate in bits per second: `94.1 Mbit/s`. */
export function rate(bitsPerSecond: number): string {
  const units = ["bit/s", "kbit/s", "Mbit/s", "Gbit/s"];
  let unit = 0;
  let value = bitsPerSecond;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${digits(value, 1)}${NBSP}${units[unit]}`;
}

// The first use of the browser's own names takes longer than drawing a table.
const MONTHS = ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"];

/** A date and time in UTC: `21 November 2026, 20:42 UTC`. */
export function dateTime(rfc3339: string): string {
  const at = new Date(rfc3339);
  if (Number.isNaN(at.getTime())) return rfc3339;
  return `${at.getUTCDate()} ${MONTHS[at.getUTCMonth()] ?? ""} ${at.getUTCFullYear()}, ${at.toISOString().slice(11, 16)} UTC`;
}

/** A sentence with no-break spaces before `%`. */
export function keepPercents(text: string): string {
  return text.replace(/(\d) %/g, `$1${NBSP}%`);
}

/** A list in words: `a, b and c`. */
export function listInWords(names: string[]): string {
  return names.length < 2 ? (names[0] ?? "") : `${names.slice(0, -1).join(", ")} and ${names[names.length - 1]}`;
}

/** Round values for the ticks of an axis from 0 (or `low`) to `high`, about `wanted` of them. */
export function ticks(low: number, high: number, wanted: number): number[] {
  const minStep = (high - low) / Math.max(1, wanted);
  if (!(minStep > 0) || !Number.isFinite(minStep)) return [low];
  const power = 10 ** Math.floor(Math.log10(minStep));
  const step = ([1, 2, 5, 10].find((each) => each * power >= minStep * 0.999) ?? 10) * power;
  const first = Math.ceil(low / step - 1e-9);
  const last = Math.floor(high / step + 1e-9);
  return Array.from({ length: last - first + 1 }, (_, i) => (first + i) * step);
}
