(start, url) => {
  const RealDate = Date;
  const began = performance.now();
  const STEP = 10_000;
  let readings = 0;
  const now = () => start + readings++ + Math.floor((performance.now() - began) / STEP) * STEP;
  const Clock = new Proxy(RealDate, {
    apply: () => new RealDate(now()).toString(),
    construct: (target, args, made) => Reflect.construct(target, args.length > 0 ? args : [now()], made),
  });
  RealDate.now = now;
  RealDate.prototype.constructor = Clock;
  Object.defineProperty(globalThis, "Date", { value: Clock, writable: true, configurable: true });

  // FNV-1a of the URL, without the scheme, which a replay may change, seeds a counter, which is then scrambled as in the
  // finalizer of MurmurHash3.
  let state = 0x811c9dc5;
  for (const letter of (url ?? String(globalThis.location)).replace(/^https?:/, "")) {
    state = Math.imul(state ^ letter.codePointAt(0), 0x01000193);
  }
  const bits = () => {
    state = (state + 0x9e3779b9) | 0;
    let z = Math.imul(state ^ (state >>> 16), 0x85ebca6b);
    z = Math.imul(z ^ (z >>> 13), 0xc2b2ae35);
    return (z ^ (z >>> 16)) >>> 0;
  };
  Math.random = () => ((bits() >>> 5) * 2 ** 26 + (bits() >>> 6)) / 2 ** 53;
};
